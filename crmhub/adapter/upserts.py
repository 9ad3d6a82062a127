"""Create or update the contacts that leads belong to in a CRM.

`matching` decides which contact a lead belongs to. This module sends the lookups and the writes in
the right order, and resolves the conflicts that the CRM reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

from crmhub.adapter.contract import Adapter, hold_back_create, hold_back_update
from crmhub.adapter.errors import Conflict, NotFound, Rejected, Unavailable
from crmhub.adapter.matching import (
    Duplicate,
    Found,
    Lead,
    Match,
    contact_of,
    decide,
    is_another_persons,
    phone_of_another,
)
from crmhub.adapter.values import Changes, Contact, Saved


@dataclass(frozen=True, slots=True)
class SavedLead(Saved):
    """The result of an upsert: the lead's values that the contact has, and a second contact."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    duplicate: Duplicate | None = None


Approve = Callable[[Lead, str, Mapping[str, str]], Mapping[str, str]]
"""Function that gets a lead, its contact's id and properties; returns the properties to write."""


def approve_all(lead: Lead, contact_id: str, properties: Mapping[str, str]) -> Mapping[str, str]:
    return properties


def upsert_contact(adapter: Adapter, lead: Lead, *, approve: Approve = approve_all) -> SavedLead:
    """Create or update the lead's contact; `unchanged` if it had all values.

    `approve` is called before an update, and returns the properties to write. Raises its errors and
    the adapter's, Rejected for a strict lead that would lose a property, and NotYet while an
    earlier write may take effect.
    """
    try:
        return _upsert(adapter, lead, approve)
    except NotFound:
        # The contact was deleted after the lookup; nothing was written, so look up again.
        return _upsert(adapter, lead, approve)


def _upsert(adapter: Adapter, lead: Lead, approve: Approve) -> SavedLead:
    lookup = _Lookup(adapter, lead)
    match = lookup.match_by_phone()
    looked_up = match is None
    if match is None:
        match = decide(lead, lookup.find(lookup.find_by_email()))
    try:
        return _save(adapter, lead, match, approve)
    except Conflict as clash:
        # The lookup missed a contact; the CRM's conflict names its owner.
        new_match = lookup.match_after_clash(match, clash)
        if new_match is None:
            raise
    except Rejected:
        # A new contact may need values that an update does not: the email may be somebody's.
        by_email = None if looked_up else lookup.find_by_email()
        if by_email is None:
            raise
        new_match = decide(lead, lookup.find(by_email))
    return _save(adapter, lead, new_match, approve)


def names_to_read(adapter: Adapter, lead: Lead) -> tuple[str, ...]:
    phones = ("phone", *adapter.phone_names) if lead.phone else ()
    return tuple(dict.fromkeys((*lead.properties, "email", *phones)))


class _Lookup:
    """The lookups of a lead's contact; the CRM is asked for the phone once."""

    def __init__(self, adapter: Adapter, lead: Lead) -> None:
        self._adapter, self._lead = adapter, lead
        self._names = names_to_read(adapter, lead)
        self._with_emails = tuple(dict.fromkeys((*self._names, *adapter.email_names)))

    def find_by_email(self) -> Contact | None:
        adapter, lead = self._adapter, self._lead
        if not lead.email:
            return None
        first = adapter.remembered_first
        if first and (contact := self._remembered(lead.email_id, lead.contact_id)) is not None:
            return contact
        contact = adapter.find_contact(email=lead.email, names=self._names)
        return contact if contact is not None or first else self._remembered(lead.email_id)

    def _remembered(self, *contact_ids: str) -> Contact | None:
        """Return a contact only if it still has the email, which may be another person's since."""
        for contact_id in dict.fromkeys(filter(None, contact_ids)):
            contact = self._get(contact_id, self._with_emails)
            if contact is not None and self._adapter.has_email(contact, self._lead.email):
                return contact
        return None

    @cached_property
    def by_phone(self) -> Contact | None:
        if not self._lead.phone:
            return None
        if self._lead.phone_id:
            remembered = self._get(self._lead.phone_id, self._names)
            if remembered is not None and self._adapter.has_phone(remembered, self._lead.phone):
                return remembered
        return self._search_by_phone()

    def _search_by_phone(self) -> Contact | None:
        return self._adapter.find_contact(phone=self._lead.phone, names=self._with_emails)

    def find(self, by_email: Contact | None) -> Found:
        adapter, lead, by_conversation = self._adapter, self._lead, None
        if by_email is None:
            if lead.contact_id:
                by_conversation = self._get(lead.contact_id, self._with_emails)
            if by_conversation is None and lead.tried_ms and adapter.can("find_marked"):
                written = adapter.find_marked(
                    "contacts", "", lead.mark, sent=lead.properties, since_ms=lead.tried_ms
                )
                by_conversation = self._get(written.id, self._names) if written else None
            if lead.email and by_conversation and adapter.has_email(by_conversation, lead.email):
                by_email, by_conversation = by_conversation, None
        contact = by_email or by_conversation
        if contact is not None and contact is by_conversation and is_another_persons(lead, contact):
            contact = None
        if contact is not None and lead.phone and adapter.has_phone(contact, lead.phone):
            by_phone = contact if lead.phone_identifies else None
        elif contact is not None and lead.phone and contact.id == lead.phone_id:
            # The contact that the hub remembers for this phone has just been read, without it.
            by_phone = self._search_by_phone()
        else:
            by_phone = self.by_phone
        return Found(by_email, by_conversation, by_phone)

    def match_by_phone(self) -> Match | None:
        """Return the match of a new lead by its phone alone; None if the email must be looked up.

        Where the CRM refuses a taken email, that refusal is the lookup: it writes nothing, lags
        less than any, and saves one of three calls. It is safe only if the hub knows no contact of
        the conversation or email, no earlier attempt may have written the lead, and no other
        contact is meant without the email. A contact found by phone is meant only if it has the
        lead's email, or the email is nobody's, so then the email is looked up.
        """
        adapter, lead = self._adapter, self._lead
        known = lead.contact_id or lead.email_id or lead.tried_ms or lead.written_ms
        if not adapter.unique_emails or not lead.email or not lead.phone or known:
            return None
        if lead.properties.get("email") != lead.email:
            # Without its email, the create cannot tell whose it is.
            return None
        if self.by_phone is not None and adapter.has_email(self.by_phone, lead.email):
            return decide(lead, self.find(self.by_phone))
        found = Found(by_phone=self.by_phone)
        return decide(lead, found) if contact_of(lead, found) is None else None

    def match_after_clash(self, match: Match, clash: Conflict) -> Match | None:
        """Return None if the other contact is not found.

        Raises Rejected if a strict lead would lose its phone.
        """
        lead, name, holder = self._lead, clash.name or "email", None
        if clash.existing_id and (name == "phone" or (name == "email" and lead.email)):
            holder = self._get(clash.existing_id, self._names)
        elif name == "email" and lead.email:
            holder = self._adapter.find_contact(email=lead.email, names=self._names)
        if holder is None:
            return None
        if name == "email":
            return decide(lead, self.find(holder))
        new_match = decide(lead, Found(None, match.contact, holder))
        if "phone" not in new_match.properties or new_match.contact is holder:
            return new_match
        refused = phone_of_another(holder.id)
        if lead.strict:
            raise Rejected([refused])
        properties = {n: value for n, value in new_match.properties.items() if n != "phone"}
        return replace(new_match, properties=properties, refused=(*new_match.refused, refused))

    def _get(self, contact_id: str, names: Sequence[str]) -> Contact | None:
        try:
            return self._adapter.get_contact(contact_id, names)
        except NotFound:
            return None


def _save(adapter: Adapter, lead: Lead, match: Match, approve: Approve) -> SavedLead:
    contact = match.contact
    if contact is None:
        hold_back_create(adapter, "contacts", match.properties, lead.written_ms)
        try:
            created = adapter.create_contact(match.properties, mark=lead.mark)
        except NotFound as exc:
            # A create request names no record, so the 404 means that the URL is wrong.
            error = Unavailable(f"{adapter.title} takes no contacts at its address: {exc.message}.")
            error.correlation_id = exc.correlation_id
            raise error from exc
        return saved_lead(lead, match, created)
    match, changes = approved_changes(adapter, lead, match, contact, approve)
    if not changes.properties:
        return saved_lead(lead, match, Saved(contact.id, "unchanged", contact.url))
    hold_back_update(adapter, lead.written_ms)
    return saved_lead(lead, match, adapter.update_contact(contact.id, changes.properties))


def approved_changes(
    adapter: Adapter, lead: Lead, match: Match, contact: Contact, approve: Approve
) -> tuple[Match, Changes]:
    """Raises Rejected if the lead is strict and the CRM would ignore one of the changes."""
    approved = approve(lead, contact.id, match.properties)
    changes = adapter.changes(contact, approved)
    if changes.refused and lead.strict:
        raise Rejected(changes.refused)
    refused = (*match.refused, *changes.refused)
    return replace(match, properties=approved, refused=refused), changes


def saved_lead(lead: Lead, match: Match, saved: Saved) -> SavedLead:
    refused = (*match.refused, *saved.refused)
    names = {problem.name for problem in refused}
    values = {name: value for name, value in match.properties.items() if name not in names}
    if match.contact and match.contact.properties.get("email", "").lower() == lead.email != "":
        values["email"] = lead.email
    attributes = {attribute.name: getattr(saved, attribute.name) for attribute in fields(Saved)}
    attributes["refused"] = refused
    return SavedLead(**attributes, values=values, duplicate=match.duplicate)
