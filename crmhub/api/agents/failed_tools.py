"""The tools get_action and list_failed, which show what has become of writing calls."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from crmhub.adapter import Problem
from crmhub.api.agents.answers import (
    FRAME,
    ROOM,
    Page,
    count_fitting,
    page,
    refused_shown,
    seal,
    state_of,
)
from crmhub.api.agents.tool import Agent, Answer, Arguments, Paged, Shown, Text, Tool
from crmhub.api.public.actions import MEANINGS, resource_of
from crmhub.errors import BadRequest, Semantic
from crmhub.helpers.create_lead import CreateLead
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.action_queries import Full, Wanted
from crmhub.properties import values
from crmhub.properties.kinds import KINDS
from crmhub.queue.models import State, is_id
from crmhub.records.search.filters import iso


class GetAction(Arguments):
    action_id: Text = Field(
        max_length=60,
        description="As the writing tool answered it.",
        examples=["act-0mwvlbwdp03a4x8qmqdb8w4u"],
    )


class ActionShown(Shown):
    action_id: str
    helper: str
    state: State
    message: str = Field(description="What the state means, and what to do.")
    reason: str = Field("", description="What went wrong last.")
    contact_id: str = ""
    record_id: str = Field("", description="The deal or ticket that was created.")
    url: str = ""
    refused: list[dict[str, str]]
    attempts: int = 0
    accepted_at: str = ""
    next_attempt_at: str = ""
    ended_at: str = ""


@Tool(
    "Look up an action",
    answers=ActionShown,
    kinds=list(KINDS),
    rights=("read", "write"),
)
def get_action(agent: Agent, given: GetAction) -> Answer:
    """Say what has become of a call that answered with an actionId: create_or_update_lead,
    set_properties of a contact, create_deal or create_ticket. Use it after a call answered queued;
    some seconds between two look-ups are enough. Answers the state, what to do about it, and the
    ids that the CRM has given. It changes nothing and does not hurry the action."""
    if not is_id(given.action_id):
        raise BadRequest(
            "actionId: this is not the id of an action; send the actionId that a writing tool"
            " answered, such as act-0mwvlbwdp03a4x8qmqdb8w4u."
        )
    action = action_queries.shown(agent.hub.database, given.action_id, agent.account)
    summary, result = action.summary, action.result or {}
    get_action.require(agent, [resource_of(summary.kind)])
    is_lead = summary.kind == CreateLead.kind
    waits = summary.state in ("running", "queued")
    shown: dict[str, Any] = {
        "actionId": summary.id,
        "helper": summary.kind,
        "state": summary.state,
        "message": MEANINGS[summary.state],
        "reason": summary.reason,
        "contactId": result.get("contact_id") or summary.hub_id,
        "recordId": "" if is_lead else result.get("record_id", ""),
        "url": result.get("url") or "",
        "refused": refused_shown(Problem(**one) for one in result.get("refused", ())),
        "attempts": summary.attempts,
        "acceptedAt": iso(summary.created_at),
        "nextAttemptAt": iso(summary.run_at) if waits else "",
        "endedAt": iso(summary.finished_at) if summary.finished_at else "",
    }
    return {name: value for name, value in shown.items() if value != ""}


_WAITING: tuple[State, ...] = ("running", "queued")
_STOPPED: tuple[State, ...] = ("dead", "parked", "refused")
_MOST_ACTIONS = 50
_MOST_VALUES, _LONGEST_VALUE = 12, 100
Moment = Annotated[Text, Field(max_length=40, examples=["2026-11-27", "2026-11-27T09:30:00Z"])]


class ListFailed(Paged):
    since: Moment = Field("", description="Only calls since this day or time, in UTC.")
    until: Moment = Field("", description="Only calls before this day or time, in UTC.")
    states: list[Literal["dead", "parked", "refused", "queued"]] = Field(
        ["dead", "parked"],
        min_length=1,
        max_length=4,
        description="dead: failed; parked: blocked by a failed call; refused: at once, its caller"
        " knows; queued: waits for the CRM.",
    )


class ActionFailed(Shown):
    action_id: str
    helper: str
    state: State
    reason: str
    message: str = Field(description="What to do.")
    contact_id: str
    accepted_at: str
    behind: str = Field("", description="The failed action that blocks it.")
    sent: dict[str, str] = {}


class ActionsFailed(Page):
    results: list[ActionFailed]
    counts: dict[str, int] = Field(description="Calls of this time in each of the states.")


@Tool(
    "List failed actions",
    answers=ActionsFailed,
    kinds=list(KINDS),
    rights=("read", "write"),
)
def list_failed(agent: Agent, given: ListFailed) -> Answer:
    """List the writing calls of bots and agents that did not reach the account's CRM, the newest
    first, with the reason and what to do. Use it when somebody asks what failed, or what is
    missing in the CRM. By default these are the failed calls, and those that a failed one blocks;
    counts says how many more were refused or still wait, which states lists. Do not use it for one
    call whose actionId you have: use get_action. Answers what was sent, too, if the key may read
    it. It changes nothing: an operator fixes and retries failed calls."""
    kinds = [
        kind
        for kind in action_queries.KINDS
        if resource_of(kind) in list_failed.kinds_for(agent.scopes)
    ]
    window = (_ms(given.since, "since"), _ms(given.until, "until"))
    wanted = Wanted(account=agent.account, kinds=kinds, accepted=window)
    counts = {"dead": 0, "parked": 0, "refused": 0, "queued": 0}
    # Each group of states has an index of its own.
    for states in (_STOPPED, _WAITING):
        found = replace(wanted, states=states)
        for state, n in action_queries.count_by_state(agent.hub.database, found).items():
            counts["queued" if state in _WAITING else state] += n
    stopped = tuple(one for one in _STOPPED if one in given.states)
    actions: list[Full] = []
    for group in (stopped, _WAITING if "queued" in given.states else ()):
        if group:
            found = replace(wanted, states=group, after=state_of(agent, given) or "")
            actions += action_queries.listed_whole(
                agent.hub.database, found, limit=_MOST_ACTIONS + 1
            )
    actions.sort(key=lambda one: one.summary.id, reverse=True)
    shown = [_failed(agent, one) for one in actions[:_MOST_ACTIONS]]
    n = max(1, count_fitting(shown, ROOM - FRAME))
    more = len(actions) > n
    cursor = seal(agent, given, shown[n - 1]["actionId"]) if more else ""
    return {**page(shown[:n], cursor, {"source": "hub"}), "counts": counts}


def _failed(agent: Agent, action: Full) -> Answer:
    summary, request = action.summary, action.request
    shown = {
        "actionId": summary.id,
        "helper": summary.kind,
        "state": summary.state,
        "reason": summary.reason[:500],
        "message": MEANINGS[summary.state],
        "contactId": summary.hub_id,
        "acceptedAt": iso(summary.created_at),
    }
    if summary.behind:
        shown["behind"] = summary.behind
    if f"{resource_of(summary.kind)}:read" in agent.scopes:
        sent = {**request, **request.get("properties", {})}
        texts = [(key, text) for key, text in sent.items() if isinstance(text, str) and text]
        shown["sent"] = {key[:100]: text[:_LONGEST_VALUE] for key, text in texts[:_MOST_VALUES]}
    return shown


def _ms(text: str, where: str) -> int:
    """Return the time in ms since 1970, 0 for none; raises Semantic."""
    try:
        moment = values.canonical("datetime", text) if text else ""
    except values.InvalidValue as exc:
        raise Semantic(f"{where}: {exc}") from None
    return int(datetime.fromisoformat(moment).timestamp() * 1000) if moment else 0
