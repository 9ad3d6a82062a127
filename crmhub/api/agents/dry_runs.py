"""Dry runs: check a call of a tool that writes, and say what it would do, without any write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from crmhub.adapter import Problem
from crmhub.api.agents.answers import refused_shown, shorten
from crmhub.api.agents.tool import Agent, Answer
from crmhub.errors import NotFound, Semantic, Unavailable, listed
from crmhub.helpers import read_crm
from crmhub.helpers.attempts import Action
from crmhub.helpers.contact_properties import SetProperties
from crmhub.helpers.create_lead import CreateLead
from crmhub.helpers.create_linked import CreateForContact
from crmhub.helpers.partial_writes import PLACES
from crmhub.operators import agent_writes
from crmhub.operators.crm.map_fields import Preview, preview_action
from crmhub.properties.kinds import COMPANIES, KINDS, Kind
from crmhub.properties.validation import InvalidProperties, check, complete
from crmhub.properties.validation import Problem as Wrong
from crmhub.records import documents
from crmhub.records.models import Change, NewRecord, Record

_NOTHING = "Dry run: nothing was written."


def lead(agent: Agent, action: CreateLead, refused: Sequence[Problem]) -> Answer:
    preview = _preview(agent, action, refused)
    values = action.mapped(agent.account).properties
    way = "email" if values.get("email") else "phone"
    # An unusable email is no reason to take the contact of the phone.
    if not values.get(way) or (action.email and way == "phone"):
        raise Semantic(listed(pairs(preview.refused)) or "email: it cannot be used")
    note, contact_id = preview.note, ""
    try:
        found = read_crm.find_contact(agent.hub, agent.account, **{way: values[way]}, names=[])
        contact_id = "" if found is None else found.id
    except Unavailable as exc:
        note = f"{exc.message} The call would be queued."
    would = f"update contact {contact_id}" if contact_id else "create a contact"
    return _shown(preview, refused, would, note, contactId=contact_id)


def properties(agent: Agent, action: SetProperties, refused: Sequence[Problem]) -> Answer:
    preview = _preview(agent, action, refused)
    if not preview.sent or len(preview.refused) >= len(preview.sent):
        raise Semantic(listed(pairs(preview.refused)))
    note = _require_contact(agent, action.contact_id)
    would = f"change contact {action.contact_id}"
    return _shown(preview, refused, would, note or preview.note, id=action.contact_id)


def linked(agent: Agent, action: CreateForContact, refused: Sequence[Problem]) -> Answer:
    preview = _preview(agent, action, refused)
    problems = [one for one in preview.refused if one.name in PLACES]
    if not agent.is_remote:
        catalogue = agent.hub.records.catalogue(agent.account, KINDS[action.record])
        values = {one.name: one.value for one in preview.sent}
        lacking = complete(catalogue, values, of_its_own=False)
        problems += [Problem(name, reason) for name, reason in lacking]
    if problems:
        raise Semantic(listed(pairs(problems)))
    note = _require_contact(agent, action.contact_id)
    one = KINDS[action.record].singular
    would = f"create a {one} linked to contact {action.contact_id}"
    return _shown(preview, refused, would, note or preview.note, contactId=action.contact_id)


def planned(would: str) -> Answer:
    """The answer for a call whose values need no further check."""
    return {"status": "dryRun", "message": _NOTHING, "wouldBe": would}


class _Undone(Exception):
    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record


def own_record(agent: Agent, kind: Kind, record: Record, sent: Mapping[str, str]) -> Answer:
    hub, account = agent.hub, agent.account

    def change() -> Record:
        return agent_writes.change(hub, account, kind, record.id, sent, by=agent.author)[0]

    after = _attempted(agent, kind, record, sent, change)
    id = agent.shown_id(record.id, record.properties)
    return {**_changes(kind, record.properties, after, sent, id), "id": id, "refused": []}


def company(
    agent: Agent, domain: str, name: str, sent: Mapping[str, str], refused: Sequence[Problem]
) -> Answer:
    hub, account = agent.hub, agent.account

    def save() -> Record:
        return agent_writes.save_company(hub, account, domain, name, sent, by=agent.author)[0]

    held = agent_writes.find_company(hub, account, domain, name)
    problems = {"refused": refused_shown(refused)}
    if held is None:
        new = {**sent, "domain": domain} if domain else sent
        after = _attempted(agent, COMPANIES, None, new, save)
        return {**_changes(COMPANIES, {}, after, new, ""), **problems}
    after = _attempted(agent, COMPANIES, held, sent, save)
    id = agent.shown_id(held.id, held.properties)
    shown = _changes(COMPANIES, held.properties, after, sent, id)
    return {**shown, "companyId": id, **problems}


def _attempted(
    agent: Agent,
    kind: Kind,
    record: Record | None,
    sent: Mapping[str, str],
    write: Callable[[], Record],
) -> Mapping[str, str]:
    """Return the properties that a write would leave; `record`: None for a new one.

    A write of the hub's own records is made and rolled back; one of a CRM is checked by the CRM's
    definitions. Raises the errors of the record store.
    """
    hub, account = agent.hub, agent.account
    if agent.is_copied:
        catalogue = hub.records.catalogue(account, kind)
        validate = partial(check, region=account.switches.region)
        if record is None:
            new = [NewRecord(sent)]
            return documents.check_new(catalogue, new, validate, may_lack=False)[0].properties
        [change] = documents.check_changes(catalogue, [Change(record.id, sent)], validate)
        wrong: list[Wrong] = []
        after = documents.merged(catalogue, record, change, 0, wrong)
        if wrong:
            raise InvalidProperties(wrong)
        return after

    def write_and_undo(_: object) -> None:
        raise _Undone(write())

    try:
        hub.database.transact(write_and_undo)
    except _Undone as exc:
        return exc.record.properties
    raise AssertionError("the write is rolled back")


def _changes(
    kind: Kind, before: Mapping[str, str], after: Mapping[str, str], sent: Iterable[str], id: str
) -> Answer:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    would = f"change {', '.join(names)} of {kind.singular} {id}" if names else "change nothing"
    shown = {name: after.get(name, "") for name in dict.fromkeys([*sent, *names])}
    return {
        "status": "dryRun",
        "message": _NOTHING,
        "wouldBe": would if id else f"create a {kind.singular}",
        "properties": shorten({"properties": shown})["properties"],
    }


def _preview(agent: Agent, action: Action, refused: Sequence[Problem]) -> Preview:
    preview = preview_action(agent.hub, agent.account, action)
    if agent.account.switches.strict and (preview.refused or refused):
        raise Semantic(listed(pairs([*refused, *preview.refused])))
    return preview


def _require_contact(agent: Agent, contact_id: str) -> str:
    known = agent.known_contact(contact_id, "contactId")
    if not known.crm_id:
        return "The contact's lead has not reached the CRM yet; the call would be queued behind it."
    try:
        read_crm.read_contact(agent.hub, agent.account, known.crm_id, [])
    except NotFound as exc:
        raise NotFound(f"contactId: {exc.message}; find_contacts finds ids.") from None
    except Unavailable as exc:
        return f"{exc.message} The call would be queued."
    return ""


def pairs(problems: Sequence[Problem]) -> list[tuple[str, str]]:
    return [(f"properties.{one.name}", one.reason) for one in problems]


def _shown(
    preview: Preview, refused: Sequence[Problem], would: str, note: str, **own: str
) -> Answer:
    problems = [*refused, *preview.refused]
    names = {one.name for one in problems}
    values = {one.name: one.value for one in preview.sent if one.of not in names}
    return {
        "status": "dryRun",
        "message": " ".join(filter(None, [_NOTHING, note])),
        "wouldBe": would,
        **{name: text for name, text in own.items() if text},
        "properties": shorten({"properties": values})["properties"],
        "refused": refused_shown(problems),
    }
