"""The helper createLead: create or update the contact of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar

from crmhub.accounts.accounts import Account
from crmhub.accounts.field_maps import WHOLE_NAME
from crmhub.adapter import Conflict, Problem, Rejected, Written
from crmhub.adapter.matching import Lead
from crmhub.adapter.phone_reading import line_of
from crmhub.adapter.phones import identity_of
from crmhub.adapter.reading import read_email
from crmhub.adapter.upserts import SavedLead, upsert_contact
from crmhub.crm.connection import lease
from crmhub.database.connection import Connection
from crmhub.errors import HubError, Semantic, listed
from crmhub.helpers import dispatch
from crmhub.helpers.assign_owner import AssignOwner, assignment_of
from crmhub.helpers.attempts import Action, Attempt, Done, Mapped, newest, with_constants
from crmhub.helpers.inputs import (
    PHONE_FAULTS,
    Sent,
    filled,
    key_fault,
    name_fault,
    name_properties,
    phone_fault,
    phones_of,
    usable,
    whole_name_fault,
)
from crmhub.helpers.notes import AddNote
from crmhub.helpers.partial_writes import PartialWrite, refusal, with_held, without_added
from crmhub.hub import Hub
from crmhub.identity import bindings, resolution
from crmhub.properties import values
from crmhub.queue.models import New
from crmhub.teams.choosing import Assignment
from crmhub.translatable import join_texts, translatable


@dataclass(frozen=True, slots=True)
class LeadResult:
    """`note_id`: "" while it is queued. `owner`: None for nobody yet; see `lead.refused`."""

    lead: Done
    note_id: str = ""
    owner: Assignment | None = None


def create_lead(
    hub: Hub,
    account: Account,
    *,
    contact_token: str,
    name: str,
    email: str,
    phone: str | None,
    note: AddNote | Problem | None = None,
    team: str | Problem | None = None,
    key: str = "",
) -> LeadResult:
    """Blank values change nothing; `phone` is None for an array or an object.

    `note` is added to the lead's contact, and then `team` gives it an owner. What cannot be done of
    these is refused by name, and does not concern the lead, except in a strict account, where such
    a value raises Semantic. Raises Semantic if a required value is blank or an unreplaced variable,
    or none can be stored.
    """
    token = filled(contact_token, "contactToken")
    lead = CreateLead(token, name.strip(), email.strip(), phone and phone.strip())
    demand(account, lead)
    problems = [one for one in (note, team) if isinstance(one, Problem)]
    if account.switches.strict and problems:
        faults = [(one.name, one.reason) for one in problems]
        raise Semantic(listed(faults), fields=faults)
    then: dict[str, Callable[[str], Action]] = {}
    if isinstance(note, AddNote):
        then["note"] = lambda hub_id: replace(note, record_id=hub_id)
    if isinstance(team, str):
        then["team"] = lambda hub_id: AssignOwner(hub_id, team)
    done = dispatch.run(hub, account, lead, key=key, then=[*then.values()])
    results = dict(zip(then, done.then, strict=True))
    problems += [
        Problem(name, one.message) for name, one in results.items() if isinstance(one, HubError)
    ]
    good = {name: one for name, one in results.items() if isinstance(one, Done)}
    problems += [each for one in good.values() for each in one.refused]
    owner = None
    if "team" in good:
        asked = AssignOwner(good["team"].contact_id, str(team))
        owner = assignment_of(hub, account, asked, good["team"])
    queued = [name for name, one in good.items() if one.status == "queued"]
    message = done.message
    if queued and done.status != "queued":
        rest = translatable("Queued: %(names)s.", names=", ".join(queued))
        message = join_texts(" ", filter(None, (message, rest)))
    done = replace(done, refused=(*done.refused, *problems), message=message, then=())
    return LeadResult(done, good["note"].record_id if "note" in good else "", owner)


def demand(account: Account, lead: CreateLead) -> None:
    checked = {"name": name_fault(lead.name), "email": key_fault(lead.email)}
    faults = [(where, fault) for where, fault in checked.items() if fault]
    by_phone = account.switches.lead_requires == "email_or_phone"
    phone = lead.phone if by_phone else ""
    bad_phone = phone_fault(phone) if phone else ""
    if not phone or bad_phone:
        blank_text = translatable("it is blank; send a value")
        if by_phone:
            blank_text = translatable("it is blank; send a value, or a phone")
        fields = {"name": lead.name, "email": lead.email}
        blank = [(where, blank_text) for where, text in fields.items() if not text]
        faults += [*blank, ("phone", bad_phone)] if blank and bad_phone else blank
    if faults:
        raise Semantic(listed(faults), fields=faults)


_LEASE_S = 60.0
_NO_IDENTITY = translatable("Neither email nor phone can be used.")


def lease_key(phone: str) -> str:
    return f"phone {identity_of(phone)}"


def values_to_write(at: Attempt, contact_id: str, values: Mapping[str, str]) -> dict[str, str]:
    return with_held(at.account, at.adapter, contact_id, newest(at, contact_id, values))


@dataclass(frozen=True, slots=True)
class CreateLead(Action):
    """`contact_token`: "" without a conversation. `before`: the conversation's hub id until now."""

    kind: ClassVar[str] = "createLead"
    record: ClassVar[Written] = "contacts"

    contact_token: str
    name: str
    email: str
    phone: str | None
    before: str = ""
    properties: Sent = field(default_factory=dict)

    def enter(self, tx: Connection, account: Account, mapped: Mapped | None) -> New:
        # Without email and phone nobody knows whose the lead is: the bug is the answer.
        mapped = mapped or self.mapped(account)
        email, phone = mapped.properties.get("email", ""), mapped.properties.get("phone", "")
        if not (email or phone or self.contact_token):
            raise refusal(mapped.refused, _NO_IDENTITY)
        resolved = resolution.resolve_binding(
            tx,
            account,
            token=self.contact_token,
            email=email,
            phone=phone,
            values=without_added(mapped.properties),
        )
        if not (email or phone or resolved.before):
            # Without email and phone, the name cannot be assigned to a contact.
            raise refusal(mapped.refused, _NO_IDENTITY)
        request = asdict(replace(self, before=resolved.before))
        if not self.properties:
            del request["properties"]
        return New(
            self.kind, resolved.binding.person, resolved.binding.hub_id, request, first=resolved.new
        )

    def perform(self, at: Attempt) -> Done:
        phone = at.mapped.properties.get("phone", "")
        if phone and "email" not in at.mapped.properties:
            # CRMs allow two contacts with the same phone, so parallel attempts could create both.
            at.leases.enter_context(lease(at.hub, at.account, lease_key(phone), _LEASE_S))
        lead = self.lead(at)
        partial = PartialWrite(lead.properties, at.mapped.refused, strict=lead.strict)
        while True:
            try:
                if not (lead.contact_id or partial.rest.get("email") or partial.rest.get("phone")):
                    raise Rejected([], _NO_IDENTITY)
                # The lead keeps an email or phone that the CRM refuses: it shows which contacts
                # are not meant.
                saved = upsert_contact(
                    at.adapter,
                    replace(lead, properties=partial.rest),
                    approve=lambda _, id, values: values_to_write(at, id, values),
                )
                return self.done(at, saved, [*partial.refused, *saved.refused])
            except (Rejected, Conflict) as exc:
                partial.leave_out(exc)

    def lead(self, at: Attempt) -> Lead:
        account, entry, properties = at.account, at.entry, at.mapped.properties
        phone = line_of(properties["phone"]) if "phone" in properties else ""
        with at.hub.database.reading() as connection:
            known = bindings.find_candidates(
                connection, account, before=self.before, hub_id=entry.hub_id, phone=phone
            )
        return Lead(
            properties,
            email=properties.get("email", ""),
            phone=phone,
            contact_id=known.contact_id,
            email_id=known.email_id,
            phone_id=known.phone_id,
            strict=account.switches.strict,
            mark=entry.id,
            tried_ms=entry.doubt_since,
            written_ms=entry.written_at,
            initial=at.mapped.initial,
            # A lead with an unusable email does not count as a lead by phone alone.
            by_phone_alone=not self.email and account.switches.lead_requires == "email_or_phone",
            phone_identifies=account.switches.phone_identifies,
            talked_by_phone=known.by_phone,
            spellings=phones_of({**self.properties, "phone": self.phone}),
        )

    def done(self, at: Attempt, saved: SavedLead, refused: Sequence[Problem]) -> Done:
        other, message = saved.duplicate, ""
        if other is not None:
            message = translatable(
                "The phone also belongs to contact %(id)s; both keep it.", id=other.contact_id
            )
        return Done(
            saved.outcome,
            contact_id=saved.id,
            url=saved.url if at.adapter.record_pages else None,
            refused=tuple(refused),
            message=message,
            values=without_added(saved.values),
            duplicate=other,
        )

    def mapped(self, account: Account) -> Mapped:
        properties: dict[str, str] = {}
        region, whole = account.switches.region, account.connection.field_map.whole_name
        sent = {"email": self.email, "phone": self.phone}
        said, refused = usable(sent, {"phone": phone_fault}, region=region)
        if phone := said.get("phone"):
            properties["phone"] = phone
        if email := said.get("email"):
            try:
                properties["email"] = values.canonical("email", read_email(email))
            except values.InvalidValue as exc:
                refused.append(Problem("email", str(exc)))
        named = name_properties(self.name, whole=whole)
        properties |= {name: text for name, text in named.items() if text}
        if self.properties:
            more, bad = usable(self.properties, PHONE_FAULTS, region=region)
            refused += bad
            properties |= {
                name: text for name, text in more.items() if text.strip() and name not in properties
            }
        mapped = with_constants(account, self.record, properties, refused)
        if whole and whole_name_fault(self.name):
            # A name with missing words must not replace a complete one.
            return replace(mapped, initial=mapped.initial | {WHOLE_NAME})
        return mapped
