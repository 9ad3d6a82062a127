"""The tools that write to the account's CRM, as the webhook helpers do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crmhub.adapter import Problem
from crmhub.api.agents import dry_runs
from crmhub.api.agents import schemas as s
from crmhub.api.agents.agent import Agent
from crmhub.api.agents.cursors import digest
from crmhub.api.agents.ids import elsewhere, own_id
from crmhub.api.agents.tool import Answer, Arguments, Tool
from crmhub.api.agents.written_values import Sent, check_stage, split_known
from crmhub.errors import BadRequest, NotFound, Semantic, listed
from crmhub.helpers import dispatch, read_crm
from crmhub.helpers.attempts import Action, Done
from crmhub.helpers.contact_properties import SetProperties
from crmhub.helpers.create_lead import CreateLead, demand
from crmhub.helpers.create_linked import CreateDeal, CreateForContact, CreateTicket
from crmhub.helpers.inputs import filled
from crmhub.operators import agent_writes
from crmhub.properties.kinds import CONTACTS, KINDS
from crmhub.properties.values import from_json
from crmhub.queue.schedule import KEY_MS

WINDOW_MS = 10 * 60_000
"""For so long, an equal call without an idempotency key is answered with the first result."""
KEY_PREFIX = "agent:"
_QUEUED = (
    "The CRM does not have this yet; the hub keeps trying and loses nothing. Do not send it again:"
    " call get_action with this actionId to see whether it is done. The contactId can be used at"
    " once."
)
_AGAIN = (
    "Nothing was written: the same call was made before, and this is its result."
    " If a second one is wanted, send another idempotencyKey."
)
_OWN = {"firstname": "name", "lastname": "name", "name": "name", "email": "email", "phone": "phone"}


def derived_key(agent: Agent, tool: str, arguments: Arguments) -> str:
    """The caller's key, or one derived from the input."""
    if sent := arguments.get("idempotencyKey"):
        return f"{KEY_PREFIX}{sent}"
    return f"{KEY_PREFIX}{digest([agent.account.connection.id, tool, arguments])[:40]}"


def _lead(agent: Agent, arguments: Arguments) -> Answer:
    account = agent.account
    sent = texts_of(arguments.get("properties", {}))
    if own := [name for name in sent if name in _OWN]:
        raise BadRequest(f"properties.{own[0]}: send it as the argument {_OWN[own[0]]} instead.")
    values = split_known(agent, CONTACTS, sent)
    lead = CreateLead(
        "",
        arguments["name"].strip(),
        arguments.get("email", "").strip(),
        arguments.get("phone", "").strip(),
        properties=values.known,
    )
    demand(account, lead)
    if arguments.get("dryRun"):
        return dry_runs.lead(agent, lead, values.refused)
    done = _run(agent, lead, arguments, derive="")
    return _answer(done, values.refused, contactId=done.contact_id)


def texts_of(given: Mapping[str, Any]) -> Sent:
    return {name: from_json(value) for name, value in given.items()}


def _run(agent: Agent, action: Action, arguments: Arguments, *, derive: str) -> Done:
    """`derive`: the tool's name for the derived key; "" for an action that may be repeated."""
    own = bool(arguments.get("idempotencyKey"))
    key = derived_key(agent, derive, arguments) if own or derive else ""
    return dispatch.run(
        agent.hub,
        agent.account,
        action,
        key=key,
        key_ms=KEY_MS if own else WINDOW_MS,
        author=agent.action_author,
        counted=agent.counted,
    )


def _answer(done: Done, refused: Sequence[Problem], **own: str) -> Answer:
    status, words = done.status, [done.message]
    if status == "queued":
        words = [_QUEUED]
    elif done.replayed:
        status, words = "unchanged", [_AGAIN]
    problems = [*refused, *done.refused]
    if problems:
        words.append("Not everything was stored: see refused.")
    shown: Answer = {
        "status": status,
        "message": " ".join(filter(None, words)),
        "actionId": done.action_id,
        **{name: text for name, text in own.items() if text},
        "refused": refused_shown(problems),
    }
    return shown if not done.url else {**shown, "url": done.url}


def refused_shown(problems: Iterable[Problem]) -> list[dict[str, str]]:
    reasons = {one.name: one.reason for one in problems}
    return [{"name": name[:100], "reason": reason[:300]} for name, reason in reasons.items()][:20]


LEAD = Tool(
    name="create_or_update_lead",
    title="Create or update a lead",
    description=(
        "Store a person in the account's CRM: updates the contact with this email, or creates one."
        " Use it for every new person, and to add a phone or properties to a known one; you need"
        " not look for the contact first. Do not use it to change a contact's email, or without a"
        " real name and email (or phone, where email is not required): ask the user for them. A"
        " property that cannot be stored does not sink the lead: refused names it with the reason."
        " The same call again changes nothing and answers unchanged. Answers the contactId that"
        " create_deal, create_ticket, set_properties and get_record take; queued means that the hub"
        " finishes it: see get_action."
    ),
    takes=s.takes(
        ("name",),
        name=s.text("The person's full name.", "Ada Lovelace", minLength=1, maxLength=500),
        email=s.text("The person's email address.", "ada@example.com", minLength=1, maxLength=320),
        phone=s.text("With country code.", "+12025550123", maxLength=60),
        properties=s.PROPERTIES,
        dryRun=s.DRY_RUN,
        idempotencyKey=s.KEY,
    ),
    answers=s.written(contactId={"type": "string"}),
    run=_lead,
    demands=lambda account: ("email",) if account.switches.lead_requires == "email" else (),
    kinds=("contacts",),
    rights=("write",),
    destructive=True,
    idempotent=True,
)


def _set_properties(agent: Agent, arguments: Arguments) -> Answer:
    kind = KINDS[arguments.get("resource", "contacts")]
    sent = texts_of(arguments["properties"])
    if not sent:
        raise Semantic("properties: it is empty; name at least one property and its new value")
    id = str(arguments["id"]).strip()
    values = split_known(agent, kind, sent)
    if not values.known:
        raise Semantic(listed([(f"properties.{one.name}", one.reason) for one in values.refused]))
    if kind is not CONTACTS:
        return _change_own(agent, arguments, sent)
    contact_id = filled(id, "contactId")
    read_crm.find_known(agent.hub, agent.account, contact_id)
    action = SetProperties("", values.known, contact_id)
    if arguments.get("dryRun"):
        return dry_runs.properties(agent, action, values.refused)
    done = _run(agent, action, arguments, derive="")
    return _answer(done, values.refused, id=done.contact_id)


def _change_own(agent: Agent, arguments: Arguments, sent: Sent) -> Answer:
    kind = KINDS[arguments["resource"]]
    record_id = own_id(agent, kind, arguments["id"], "id")
    texts = {name: text or "" for name, text in sent.items()}
    try:
        if arguments.get("dryRun"):
            return dry_runs.own_record(agent, kind, record_id, texts)
        record, changed = agent_writes.change(
            agent.hub, agent.account, kind, record_id, texts, by=agent.author
        )
    except NotFound as exc:
        raise NotFound(f"{exc.message}{elsewhere(agent, kind)}") from None
    return {
        "status": "updated" if changed else "unchanged",
        "message": "",
        "id": str(record.id),
        "refused": [],
    }


SET_PROPERTIES = Tool(
    name="set_properties",
    title="Set properties",
    description=(
        "Change properties of one record whose id you know; the others stay, and an empty text"
        " clears a value. Use it to correct or complete a contact, or to move a deal or ticket to"
        " another stage (resource deals: dealstage, and pipeline with it if it changes). Do not use"
        " it to create a person (create_or_update_lead) or to link records (link_records). Contacts"
        " are changed in the account's CRM; deals, companies and tickets are the hub's own. The"
        " same call again changes nothing and answers unchanged. Overwrites the former values: use"
        " dryRun when in doubt."
    ),
    takes=s.takes(
        ("id", "properties"),
        resource={**s.resource(), "default": "contacts"},
        id=s.record_id("The record's id; of a contact the contactId."),
        properties=s.PROPERTIES,
        dryRun=s.DRY_RUN,
        idempotencyKey=s.KEY,
    ),
    answers=s.written(id={"type": "string"}),
    run=_set_properties,
    kinds=s.RESOURCES,
    rights=("write",),
    chooses=True,
    default="contacts",
    destructive=True,
    idempotent=True,
)


def _create(agent: Agent, arguments: Arguments, action_type: type[CreateForContact]) -> Answer:
    kind, tool = KINDS[action_type.linked], f"create_{KINDS[action_type.linked].singular}"
    contact_id = filled(str(arguments["contactId"]), "contactId")
    sent = texts_of(arguments["properties"])
    values = split_known(agent, kind, sent)
    check_stage(agent, kind, values.known)
    try:
        read_crm.find_known(agent.hub, agent.account, contact_id)
    except NotFound as exc:
        raise NotFound(
            f"contactId: {exc.message.removeprefix('contactId: ').rstrip('.')}; send the contactId"
            " that create_or_update_lead or find_contacts answered."
        ) from None
    action = action_type(contact_id, values.known)
    if arguments.get("dryRun"):
        return dry_runs.linked(agent, action, values.refused)
    done = _run(agent, action, arguments, derive=tool)
    own = {f"{kind.singular}Id": done.record_id, "contactId": done.contact_id}
    return _answer(done, values.refused, **own)


def _create_deal(agent: Agent, arguments: Arguments) -> Answer:
    return _create(agent, arguments, CreateDeal)


def _create_ticket(agent: Agent, arguments: Arguments) -> Answer:
    return _create(agent, arguments, CreateTicket)


_ONCE = (
    " The same call again within 10 minutes creates no second one: it answers the first result as"
    " unchanged; send another idempotencyKey where a second one is meant."
)
_CONTACT_ID = s.record_id("As create_or_update_lead or find_contacts answered it.")


def _properties_of(required: str, example: Mapping[str, str], words: str) -> s.Shape:
    value = {
        "type": "string",
        "minLength": 1,
        "description": words,
        "examples": [example[required]],
    }
    return {
        **s.PROPERTIES,
        "properties": {required: value},
        "required": [required],
        "examples": [dict(example)],
    }


CREATE_DEAL = Tool(
    name="create_deal",
    title="Create a deal",
    description=(
        "Create a deal in the account's CRM, linked to a contact. Use it when a person wants to buy"
        " something; create the person first with create_or_update_lead. Do not use it to change a"
        " deal: use set_properties. Without dealstage it starts in the first stage; a pipeline or"
        " stage that does not exist is refused, list_pipelines names them. Answers the dealId,"
        f" or queued.{_ONCE}"
    ),
    takes=s.takes(
        ("contactId", "properties"),
        contactId=_CONTACT_ID,
        properties=_properties_of(
            "dealname", {"dealname": "Website for Ada", "amount": "1200"}, "What is sold, to whom."
        ),
        dryRun=s.DRY_RUN,
        idempotencyKey=s.KEY,
    ),
    answers=s.written(dealId={"type": "string"}, contactId={"type": "string"}),
    run=_create_deal,
    kinds=("deals",),
    rights=("write",),
)
CREATE_TICKET = Tool(
    name="create_ticket",
    title="Create a ticket",
    description=(
        "Create a support ticket in the account's CRM, linked to a contact. Use it when a person"
        " has a problem or a question for the team; create the person first with"
        " create_or_update_lead. Do not use it for a sale: use create_deal. Without"
        " hs_pipeline_stage it starts in the first stage; hs_ticket_priority is LOW, MEDIUM, HIGH"
        f" or URGENT. Answers the ticketId, or queued.{_ONCE}"
    ),
    takes=s.takes(
        ("contactId", "properties"),
        contactId=_CONTACT_ID,
        properties=_properties_of(
            "subject",
            {"subject": "Cannot sign in", "content": "Since this morning"},
            "The problem in a few words.",
        ),
        dryRun=s.DRY_RUN,
        idempotencyKey=s.KEY,
    ),
    answers=s.written(ticketId={"type": "string"}, contactId={"type": "string"}),
    run=_create_ticket,
    kinds=("tickets",),
    rights=("write",),
)
