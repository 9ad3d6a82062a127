"""The tools link_records, pick_agent and get_action."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from pydantic import Field

from crmhub.adapter import Problem
from crmhub.api.agents.answers import Written, refused_shown
from crmhub.api.agents.tool import (
    DRY_RUN,
    Agent,
    Answer,
    Arguments,
    RecordId,
    Resource,
    Shown,
    Text,
    Tool,
    Writing,
)
from crmhub.api.agents.write_tools import WINDOW_MS, derived_key
from crmhub.errors import BadRequest, NotFound, Semantic
from crmhub.helpers import random_int
from crmhub.helpers.create_lead import CreateLead
from crmhub.helpers.create_linked import CreateDeal, CreateTicket
from crmhub.operators import agent_writes
from crmhub.operators.actions import action_queries
from crmhub.properties.kinds import KINDS
from crmhub.queue.models import is_id
from crmhub.records.search.filters import iso
from crmhub.records.writing import missing


class LinkRecords(Arguments):
    resource: Resource = Field(description="The kind of the first record.")
    id: RecordId = Field(description="The first record's id.")
    to_resource: Resource = Field(description="The kind of the other record.")
    to_id: RecordId = Field(description="The other record's id.")
    dry_run: bool = Field(False, description=DRY_RUN)


class Linked(Written):
    id: str = ""
    to_id: str = ""


@Tool("Link two records", answers=Linked, kinds=list(KINDS), rights=("write",), idempotent=True)
def link_records(agent: Agent, given: LinkRecords) -> Answer:
    """Link two of the hub's own records, such as a deal and a company; the link is seen from both
    ends. Use it when both records exist and you know their ids. Deals and tickets are linked to
    their contact when they are created: no need to repeat that. It cannot remove a link, and it
    does not reach records that exist only in another CRM. The same call again answers unchanged."""
    records, account = agent.hub.records, agent.account
    account.require_own_records()
    kind, to = KINDS[given.resource], KINDS[given.to_resource]
    id, to_id = agent.own_id(kind, given.id, "id"), agent.own_id(to, given.to_id, "toId")
    if (kind, id) == (to, to_id):
        raise Semantic(f"toId: {kind.singular} {id} cannot be linked to itself.")
    first, other = records.stored(account, kind, [id]), records.stored(account, to, [to_id])
    for found, one, number, where in ((first, kind, id, "id"), (other, to, to_id, "toId")):
        if not found:
            hint = agent.elsewhere(one) or " search_records finds ids."
            raise NotFound(f"{where}: {missing(one, str(number))}{hint}")
    linked = to_id in first[0].associations.get(to.name, ())
    shown = {"id": str(id), "toId": str(to_id)}
    if given.dry_run:
        would = f"link {kind.singular} {id} to {to.singular} {to_id}"
        would = "change nothing" if linked else would
        message = "Dry run: nothing was written."
        return {"status": "dryRun", "message": message, "wouldBe": would, **shown}
    agent_writes.link(agent.hub, account, kind, id, to, to_id, by=agent.author)
    status = "unchanged" if linked else "updated"
    return {"status": status, "message": "They were linked already." if linked else "", **shown}


Bound = Annotated[int, Field(ge=-random_int.LARGEST, le=random_int.LARGEST)]


class PickAgent(Writing):
    min: Bound = Field(description="The smallest number.", examples=[1])
    max: Bound = Field(description="The largest number.", examples=[3])
    contact_id: RecordId = Field("", description="The contact for whom somebody is picked.")


class Picked(Written):
    value: int = 0
    text: str = ""


@Tool("Pick one of several people", answers=Picked, kinds=["contacts"], rights=("write",))
def pick_agent(agent: Agent, given: PickAgent) -> Answer:
    """Draw a whole number from min to max by the account's rotation, to pick the person who takes a
    lead: number your agents and send their range. Answers the number. Use it once for each lead,
    with its contactId: within the same ten minutes the same contact gets the same number, and
    always if the account's rotation is sticky. Without contactId each call draws the next number.
    It assigns nothing by itself: write the result with set_properties. Do not use it as a random
    source for anything else, since each call moves the rotation on."""
    random_int.check_range(agent.account, smallest=given.min, largest=given.max)
    if given.dry_run:
        return {
            "status": "dryRun",
            "message": "Dry run: no number was drawn.",
            "wouldBe": f"draw a number from {given.min} to {given.max}",
        }
    key = ""
    if given.idempotency_key or given.contact_id:
        # For a contact the key is the same for ten minutes of the clock.
        window = int(time.time() * 1000) // WINDOW_MS
        key = derived_key(agent, "pick_agent", given, window=window)
    value, again = agent_writes.pick(
        agent.hub,
        agent.account,
        smallest=given.min,
        largest=given.max,
        contact_id=given.contact_id,
        key=key,
        by=agent.author,
    )
    return {
        "status": "unchanged" if again else "ok",
        "message": "The number that the same call got before." if again else "",
        "value": value,
        "text": str(value),
    }


_KINDS_OF_ACTIONS = {CreateDeal.kind: "deals", CreateTicket.kind: "tickets"}
_MEANINGS = {
    "running": "It is being done now: look again in some seconds.",
    "queued": "It waits for the CRM, and the hub tries again by itself. Do not send it again.",
    "done": "It is done.",
    "refused": "It was refused: see reason. Correct the values and send a new call.",
    "dead": "It failed, and an operator has to decide. Tell the user; do not send it again.",
    "parked": "It waits behind a failed call of the same contact, on which an operator decides.",
    "discarded": "An operator discarded it: see reason.",
}


class GetAction(Arguments):
    action_id: Text = Field(
        max_length=60,
        description="As the writing tool answered it.",
        examples=["act-0mwvlbwdp03a4x8qmqdb8w4u"],
    )


class ActionShown(Shown):
    action_id: str
    helper: str
    state: Literal["running", "queued", "done", "refused", "dead", "parked", "discarded"]
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
    kinds=["contacts", "deals", "tickets"],
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
    get_action.require(agent, [_KINDS_OF_ACTIONS.get(summary.kind, "contacts")])
    is_lead = summary.kind == CreateLead.kind
    waits = summary.state in ("running", "queued")
    shown: dict[str, Any] = {
        "actionId": summary.id,
        "helper": summary.kind,
        "state": summary.state,
        "message": _MEANINGS[summary.state],
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
