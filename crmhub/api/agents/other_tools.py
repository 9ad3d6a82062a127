"""The tools link_records, pick_agent and get_action."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from crmhub.adapter import Problem
from crmhub.api.agents import schemas as s
from crmhub.api.agents.agent import Agent
from crmhub.api.agents.ids import elsewhere, own_id
from crmhub.api.agents.tool import Answer, Arguments, Tool
from crmhub.api.agents.write_tools import WINDOW_MS, derived_key, refused_shown
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


def _link_records(agent: Agent, arguments: Arguments) -> Answer:
    kind, to = KINDS[arguments["resource"]], KINDS[arguments["toResource"]]
    id, to_id = (
        own_id(agent, kind, arguments["id"], "id"),
        own_id(agent, to, arguments["toId"], "toId"),
    )
    if (kind, id) == (to, to_id):
        raise Semantic(f"toId: {kind.singular} {id} cannot be linked to itself.")
    for one, number, where in ((kind, id, "id"), (to, to_id, "toId")):
        if not agent.hub.records.stored(agent.account, one, [number]):
            words = elsewhere(agent, one) or " search_records finds ids."
            raise NotFound(f"{where}: {missing(one, str(number))}{words}")
    [record] = agent.hub.records.stored(agent.account, kind, [id])
    linked = to_id in record.associations.get(to.name, ())
    shown = {"id": str(id), "toId": str(to_id)}
    if arguments.get("dryRun"):
        would = (
            "change nothing" if linked else f"link {kind.singular} {id} to {to.singular} {to_id}"
        )
        message = "Dry run: nothing was written."
        return {"status": "dryRun", "message": message, "wouldBe": would, **shown}
    agent_writes.link(agent.hub, agent.account, kind, id, to, to_id, by=agent.author)
    status = "unchanged" if linked else "updated"
    return {"status": status, "message": "They were linked already." if linked else "", **shown}


LINK_RECORDS = Tool(
    name="link_records",
    title="Link two records",
    description=(
        "Link two of the hub's own records, such as a deal and a company; the link is seen from"
        " both ends. Use it when both records exist and you know their ids. Deals and tickets are"
        " linked to their contact when they are created: no need to repeat that. It cannot remove a"
        " link, and it does not reach records that exist only in another CRM. The same call again"
        " answers unchanged."
    ),
    takes=s.takes(
        ("resource", "id", "toResource", "toId"),
        resource=s.resource(description="The kind of the first record."),
        id=s.record_id("The first record's id."),
        toResource=s.resource(description="The kind of the other record."),
        toId=s.record_id("The other record's id."),
        dryRun=s.DRY_RUN,
    ),
    answers=s.written(id={"type": "string"}, toId={"type": "string"}),
    run=_link_records,
    kinds=s.RESOURCES,
    rights=("write",),
    chooses=True,
    idempotent=True,
)


def _pick_agent(agent: Agent, arguments: Arguments) -> Answer:
    smallest, largest = arguments["min"], arguments["max"]
    contact_id = str(arguments.get("contactId", "")).strip()
    random_int.check_range(agent.account, smallest=smallest, largest=largest)
    if arguments.get("dryRun"):
        return {
            "status": "dryRun",
            "message": "Dry run: no number was drawn.",
            "wouldBe": f"draw a number from {smallest} to {largest}",
        }
    value, again = agent_writes.pick(
        agent.hub,
        agent.account,
        smallest=smallest,
        largest=largest,
        contact_id=contact_id,
        key=_pick_key(agent, arguments),
        by=agent.author,
    )
    return {
        "status": "unchanged" if again else "ok",
        "message": "The number that the same call got before." if again else "",
        "value": value,
        "text": str(value),
    }


def _pick_key(agent: Agent, arguments: Arguments) -> str:
    """Return the caller's key; for a contact, one that is the same for ten minutes of the clock."""
    if arguments.get("idempotencyKey"):
        return derived_key(agent, "pick_agent", arguments)
    if not arguments.get("contactId"):
        return ""
    window = int(time.time() * 1000) // WINDOW_MS
    return derived_key(agent, "pick_agent", {**arguments, "window": window})


_BOUND: s.Shape = {"type": "integer", "minimum": -random_int.LARGEST, "maximum": random_int.LARGEST}
PICK_AGENT = Tool(
    name="pick_agent",
    title="Pick one of several people",
    description=(
        "Draw a whole number from min to max by the account's rotation, to pick the person who"
        " takes a lead: number your agents and send their range. Answers the number. Use it once"
        " for each lead, with its contactId: within the same ten minutes the same contact gets the"
        " same number, and always if the account's rotation is sticky. Without contactId each call"
        " draws the next number. It assigns nothing by itself: write the result with"
        " set_properties. Do not use it as a random source for anything else, since each call moves"
        " the rotation on."
    ),
    takes=s.takes(
        ("min", "max"),
        min={**_BOUND, "description": "The smallest number.", "examples": [1]},
        max={**_BOUND, "description": "The largest number.", "examples": [3]},
        contactId=s.record_id("The contact for whom somebody is picked."),
        dryRun=s.DRY_RUN,
        idempotencyKey=s.KEY,
    ),
    answers=s.written(value={"type": "integer"}, text={"type": "string"}),
    run=_pick_agent,
    kinds=("contacts",),
    rights=("write",),
)

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


def _get_action(agent: Agent, arguments: Arguments) -> Answer:
    action_id = arguments["actionId"].strip()
    if not is_id(action_id):
        raise BadRequest(
            "actionId: this is not the id of an action; send the actionId that a writing tool"
            " answered, such as act-0mwvlbwdp03a4x8qmqdb8w4u."
        )
    action = action_queries.shown(agent.hub.database, action_id, agent.account)
    summary, result = action.summary, action.result or {}
    GET_ACTION.require(agent, [_KINDS_OF_ACTIONS.get(summary.kind, "contacts")])
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


_ACTION: Mapping[str, s.Shape] = {
    "actionId": {"type": "string"},
    "helper": {"type": "string"},
    "state": {"type": "string", "enum": list(_MEANINGS)},
    "message": {"type": "string", "description": "What the state means, and what to do."},
    "reason": {"type": "string", "description": "What went wrong last."},
    "contactId": {"type": "string"},
    "recordId": {"type": "string", "description": "The deal or ticket that was created."},
    "url": {"type": "string"},
    "refused": {"type": "array", "items": {"type": "object"}},
    "attempts": {"type": "integer"},
    "acceptedAt": {"type": "string"},
    "nextAttemptAt": {"type": "string"},
    "endedAt": {"type": "string"},
}
GET_ACTION = Tool(
    name="get_action",
    title="Look up an action",
    description=(
        "Say what has become of a call that answered with an actionId: create_or_update_lead,"
        " set_properties of a contact, create_deal or create_ticket. Use it after a call answered"
        " queued; some seconds between two look-ups are enough. Answers the state, what to do"
        " about it, and the ids that the CRM has given. It changes nothing and does not hurry the"
        " action."
    ),
    takes=s.takes(
        ("actionId",),
        actionId=s.text(
            "As the writing tool answered it.", "act-0mwvlbwdp03a4x8qmqdb8w4u", maxLength=60
        ),
    ),
    answers=s.answer(["actionId", "helper", "state", "message", "refused"], **_ACTION),
    run=_get_action,
    kinds=("contacts", "deals", "tickets"),
    rights=("read", "write"),
)
