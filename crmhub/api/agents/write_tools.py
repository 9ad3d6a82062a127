"""The tools that write to the account's CRM, as the webhook helpers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from crmhub.adapter import Problem
from crmhub.api.agents import dry_runs
from crmhub.api.agents.answers import Written, digest, refused_shown
from crmhub.api.agents.tool import (
    RESOURCE,
    Agent,
    Answer,
    PropertyValues,
    RecordId,
    Resource,
    Tool,
    Writing,
)
from crmhub.errors import BadRequest, Semantic, listed
from crmhub.helpers import dispatch
from crmhub.helpers.attempts import Action, Done
from crmhub.helpers.contact_properties import SetProperties
from crmhub.helpers.create_lead import CreateLead, demand
from crmhub.helpers.create_linked import CreateDeal, CreateForContact, CreateTicket
from crmhub.helpers.crm_records import Deferred
from crmhub.helpers.inputs import filled
from crmhub.operators import agent_writes
from crmhub.properties.kinds import CONTACTS, KINDS, Kind
from crmhub.queue.schedule import KEY_MS

WINDOW_MS = 10 * 60_000
"""For so long, an equal call without an idempotency key is answered with the first result."""
_KEY_PREFIX = "agent:"
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
_SHOWN = 20
Email = Annotated[
    str,
    Field(
        min_length=1,
        max_length=320,
        description="The person's email address.",
        examples=["ada@example.com"],
    ),
]


def derived_key(agent: Agent, tool: str, given: Writing, **more: Any) -> str:
    """The caller's key, or one derived from the input."""
    if given.idempotency_key:
        return f"{_KEY_PREFIX}{given.idempotency_key}"
    call = [agent.account.connection.id, tool, given.model_dump(), more]
    return f"{_KEY_PREFIX}{digest(call)[:40]}"


def run_action(agent: Agent, action: Action, given: Writing, *, once: str = "") -> Done:
    """`once`: the tool's name for the derived key; "" for an action that may be repeated."""
    own = bool(given.idempotency_key)
    return dispatch.run(
        agent.hub,
        agent.account,
        action,
        key=derived_key(agent, once, given) if own or once else "",
        key_ms=KEY_MS if own else WINDOW_MS,
        author=agent.author.id or agent.author.name,
        counted=agent.counted,
    )


def queued(exc: Deferred, **own: str) -> Answer:
    """The answer for a write that a worker finishes in the CRM."""
    shown = {"status": "queued", "message": _QUEUED, "actionId": exc.action_ids[0]}
    return {**shown, **own, "refused": []}


def answer_for(done: Done, refused: Sequence[Problem], **own: str) -> Answer:
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
    return {**shown, "url": done.url} if done.url else shown


def split_known(
    agent: Agent, kind: Kind, sent: Mapping[str, str]
) -> tuple[dict[str, str], list[Problem]]:
    """Return the values of known properties, and the problems of the others.

    A bot's unknown property is defined as it comes; a model may have made the name up, so an
    agent's is refused with the names that are meant. Another CRM checks its properties itself.
    Raises Semantic with all problems if the account's switch `strict` is on.
    """
    if agent.is_remote and kind.name != "companies":
        return dict(sent), []
    catalogue = agent.hub.records.catalogue(agent.account, kind)
    # Helpers split the whole name.
    extra = {"name"} if kind is CONTACTS else set()
    known, refused = {}, []
    for name, value in sent.items():
        if (
            agent.account.switches.auto_define_properties
            or name in extra
            or catalogue.get(name) is not None
        ):
            known[name] = value
        else:
            near = " or ".join(catalogue.nearest(name))
            meant = f"did you mean {near}? " if near else ""
            words = f"{kind.name} have no such property; {meant}list_properties names them all"
            refused.append(Problem(name, words))
    if refused and agent.account.switches.strict:
        raise Semantic(listed(dry_runs.pairs(refused)))
    return known, refused


# Of an account that does not require an email.
class LeadByPhone(Writing):
    name: str = Field(
        min_length=1,
        max_length=500,
        description="The person's full name.",
        examples=["Ada Lovelace"],
    )
    email: Email = ""
    phone: str = Field(
        "", max_length=60, description="With country code.", examples=["+12025550123"]
    )
    properties: PropertyValues = {}


class Lead(LeadByPhone):
    email: Email


class LeadWritten(Written):
    contact_id: str = ""


@Tool(
    "Create or update a lead",
    answers=LeadWritten,
    kinds=["contacts"],
    rights=("write",),
    takes_for=lambda of: Lead if of.switches.lead_requires == "email" else LeadByPhone,
    destructive=True,
    idempotent=True,
)
def create_or_update_lead(agent: Agent, given: LeadByPhone) -> Answer:
    """Store a person in the account's CRM: updates the contact with this email, or creates one. Use
    it for every new person, and to add a phone or properties to a known one; you need not look for
    the contact first. Do not use it to change a contact's email, or without a real name and email
    (or phone, where email is not required): ask the user for them. A property that cannot be stored
    does not sink the lead: refused names it with the reason. The same call again changes nothing
    and answers unchanged. Answers the contactId that create_deal, create_ticket, set_properties and
    get_record take; queued means that the hub finishes it: see get_action."""
    if own := [name for name in given.properties if name in _OWN]:
        raise BadRequest(f"properties.{own[0]}: send it as the argument {_OWN[own[0]]} instead.")
    known, refused = split_known(agent, CONTACTS, given.properties)
    lead = CreateLead(
        "", given.name.strip(), given.email.strip(), given.phone.strip(), properties=known
    )
    demand(agent.account, lead)
    if given.dry_run:
        return dry_runs.lead(agent, lead, refused)
    done = run_action(agent, lead, given)
    return answer_for(done, refused, contactId=done.contact_id)


class SetPropertiesOf(Writing):
    resource: Resource = Field("contacts", description=RESOURCE)
    id: RecordId = Field(description="The record's id; of a contact the contactId.")
    properties: PropertyValues


class RecordWritten(Written):
    id: str = ""


@Tool(
    "Set properties",
    answers=RecordWritten,
    kinds=list(KINDS),
    rights=("write",),
    destructive=True,
    idempotent=True,
)
def set_properties(agent: Agent, given: SetPropertiesOf) -> Answer:
    """Change properties of one record whose id you know; the others stay, and an empty text clears
    a value. Use it to correct or complete a contact, or to move a deal or ticket to another stage
    (resource deals: dealstage, and pipeline with it if it changes). Do not use it to create a
    person (create_or_update_lead) or to link records (link_records). Contacts are changed in the
    account's CRM; other records, too, unless the hub has no copy of them: then it is refused. The
    same call again changes nothing and answers unchanged. Overwrites the former values: use dryRun
    when in doubt."""
    kind = KINDS[given.resource]
    if not given.properties:
        raise Semantic("properties: it is empty; name at least one property and its new value")
    known, refused = split_known(agent, kind, given.properties)
    if not known:
        raise Semantic(listed(dry_runs.pairs(refused)))
    if kind is not CONTACTS:
        return _change_own(agent, kind, given)
    contact_id = filled(given.id, "id")
    agent.known_contact(contact_id, "id")
    action = SetProperties("", known, contact_id)
    if given.dry_run:
        return dry_runs.properties(agent, action, refused)
    done = run_action(agent, action, given)
    return answer_for(done, refused, id=done.contact_id)


def _change_own(agent: Agent, kind: Kind, given: SetPropertiesOf) -> Answer:
    agent.reach(kind, "change")
    record = agent.find(kind, given.id, "id").record()
    if given.dry_run:
        return dry_runs.own_record(agent, kind, record, given.properties)
    try:
        _, changed = agent_writes.change(
            agent.hub, agent.account, kind, record.id, given.properties, by=agent.author
        )
    except Deferred as exc:
        return queued(exc, id=given.id)
    status = "updated" if changed else "unchanged"
    return {"status": status, "message": "", "id": given.id, "refused": []}


# Deals and tickets


class ForContact(Writing):
    contact_id: RecordId = Field(
        description="As create_or_update_lead or find_contacts answered it."
    )
    properties: PropertyValues


def _requires(name: str, description: str, example: str) -> dict[str, Any]:
    value = {"type": "string", "minLength": 1, "description": description, "examples": [example]}
    return {"properties": {name: value}, "required": [name]}


_DEAL = ("dealname", "Website for Ada")
_TICKET = ("subject", "Cannot sign in")


def require_contact(agent: Agent, contact_id: str, where: str = "contactId") -> None:
    """Raise NotFound for a text that can be no contact's id; `where` is the argument."""
    agent.known_contact(filled(contact_id, where), where)


def _create(
    agent: Agent, given: ForContact, action_type: type[CreateForContact], title: tuple[str, str]
) -> Answer:
    kind, (required, example) = KINDS[action_type.record], title
    if not given.properties.get(required):
        raise BadRequest(f'properties.{required}: is missing; send for example "{example}"')
    contact_id = filled(given.contact_id, "contactId")
    known, refused = split_known(agent, kind, given.properties)
    _check_stage(agent, kind, known)
    require_contact(agent, contact_id)
    action = action_type(contact_id, known)
    if given.dry_run:
        return dry_runs.linked(agent, action, refused)
    done = run_action(agent, action, given, once=f"create_{kind.singular}")
    own = {f"{kind.singular}Id": done.record_id, "contactId": done.contact_id}
    return answer_for(done, refused, **own)


def _check_stage(agent: Agent, kind: Kind, sent: Mapping[str, str]) -> None:
    """Raises Semantic. Pipelines of another CRM are checked by the CRM."""
    if agent.is_remote:
        return
    catalogue = agent.hub.records.catalogue(agent.account, kind)
    pipeline, stage = sent.get(kind.pipeline, ""), sent.get(kind.stage, "")
    pipelines = [one for one in catalogue.pipelines if pipeline in ("", one.id)]
    if not pipelines:
        ids = ", ".join(f"{one.id} ({one.label})" for one in catalogue.pipelines[:_SHOWN])
        raise Semantic(
            f"properties.{kind.pipeline}: there is no pipeline {pipeline[:60]!r}; send one of {ids}"
        )
    if stage and not any(one.has(stage) for one in pipelines):
        ids = ", ".join(f"{one.id} ({one.label})" for one in pipelines[0].stages[:_SHOWN])
        raise Semantic(
            f"properties.{kind.stage}: pipeline {pipelines[0].id} has no stage {stage[:60]!r};"
            f" send one of {ids}"
        )


class DealOf(ForContact):
    properties: PropertyValues = Field(
        json_schema_extra=_requires(_DEAL[0], "What is sold, to whom.", _DEAL[1]),
        examples=[{_DEAL[0]: _DEAL[1], "amount": "1200"}],
    )


class DealWritten(LeadWritten):
    deal_id: str = ""


@Tool("Create a deal", answers=DealWritten, kinds=["deals"], rights=("write",))
def create_deal(agent: Agent, given: DealOf) -> Answer:
    """Create a deal in the account's CRM, linked to a contact. Use it when a person wants to buy
    something; create the person first with create_or_update_lead. Do not use it to change a deal:
    use set_properties. Without dealstage it starts in the first stage; a pipeline or stage that
    does not exist is refused, list_pipelines names them. Answers the dealId, or queued. The same
    call again within 10 minutes creates no second one: it answers the first result as unchanged;
    send another idempotencyKey where a second one is meant."""
    return _create(agent, given, CreateDeal, _DEAL)


class TicketOf(ForContact):
    properties: PropertyValues = Field(
        json_schema_extra=_requires(_TICKET[0], "The problem in a few words.", _TICKET[1]),
        examples=[{_TICKET[0]: _TICKET[1], "content": "Since this morning"}],
    )


class TicketWritten(LeadWritten):
    ticket_id: str = ""


@Tool("Create a ticket", answers=TicketWritten, kinds=["tickets"], rights=("write",))
def create_ticket(agent: Agent, given: TicketOf) -> Answer:
    """Create a support ticket in the account's CRM, linked to a contact. Use it when a person has a
    problem or a question for the team; create the person first with create_or_update_lead. Do not
    use it for a sale: use create_deal. Without hs_pipeline_stage it starts in the first stage;
    hs_ticket_priority is LOW, MEDIUM, HIGH or URGENT. Answers the ticketId, or queued. The same
    call again within 10 minutes creates no second one: it answers the first result as unchanged;
    send another idempotencyKey where a second one is meant."""
    return _create(agent, given, CreateTicket, _TICKET)
