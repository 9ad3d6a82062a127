"""Create or update the contacts that leads belong to in a CRM.

`matching` decides which contact a lead belongs to. This module sends the lookups and the writes in
the right order, and resolves the conflicts that the CRM reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache

from crmhub.adapter.contract import Adapter, hold_back_create, hold_back_update
from crmhub.adapter.errors import Conflict, NotFound, Problem, Rejected, Unavailable
from crmhub.adapter.matching import (
    Duplicate,
    Found,
    Lead,
    Match,
    contact_of,
    decide,
    is_another_persons,
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


def find(adapter: Adapter, lead: Lead) -> Found:
    return _find(adapter, lead, _of_email(adapter, lead), _phone_lookup(adapter, lead))


_PhoneLookup = Callable[[], Contact | None]
"""Function that returns the contact with a lead's phone; only its first call asks the CRM."""


def _phone_lookup(adapter: Adapter, lead: Lead) -> _PhoneLookup:
    return cache(lambda: _of_phone(adapter, lead))


def _find(
    adapter: Adapter, lead: Lead, by_email: Contact | None, find_by_phone: _PhoneLookup
) -> Found:
    by_conversation = None
    if by_email is None:
        by_conversation = _of_conversation(adapter, lead) or _written_before(adapter, lead)
        if lead.email and by_conversation and adapter.has_email(by_conversation, lead.email):
            by_email, by_conversation = by_conversation, None
    contact = by_email or by_conversation
    if contact is not None and contact is by_conversation and is_another_persons(lead, contact):
        contact = None
    if contact is not None and lead.phone and adapter.has_phone(contact, lead.phone):
        by_phone = contact if lead.phone_identifies else None
    elif contact is not None and lead.phone and contact.id == lead.phone_id:
        # The contact that the hub remembers for this phone has just been read, without the phone.
        by_phone = _searched_by_phone(adapter, lead)
    else:
        by_phone = find_by_phone()
    return Found(by_email, by_conversation, by_phone)


def names_to_read(adapter: Adapter, lead: Lead, *more: str) -> tuple[str, ...]:
    phones = ("phone", *adapter.phone_names) if lead.phone else ()
    return tuple(dict.fromkeys((*lead.properties, "email", *phones, *more)))


def _of_email(adapter: Adapter, lead: Lead) -> Contact | None:
    if not lead.email:
        return None
    lookups = [_search_by_email, _remembered_for_email]
    for look_up in reversed(lookups) if adapter.remembered_first else lookups:
        contact = look_up(adapter, lead)
        if contact is not None:
            return contact
    return None


def _search_by_email(adapter: Adapter, lead: Lead) -> Contact | None:
    return adapter.find_contact(email=lead.email, names=names_to_read(adapter, lead))


def _remembered_for_email(adapter: Adapter, lead: Lead) -> Contact | None:
    """Return it only if it still has the email, which may be another person's since."""
    ids = (lead.email_id, lead.contact_id if adapter.remembered_first else "")
    for contact_id in dict.fromkeys(filter(None, ids)):
        contact = _get(adapter, contact_id, names_to_read(adapter, lead, *adapter.email_names))
        if contact is not None and adapter.has_email(contact, lead.email):
            return contact
    return None


def _of_conversation(adapter: Adapter, lead: Lead) -> Contact | None:
    if not lead.contact_id:
        return None
    return _get(adapter, lead.contact_id, names_to_read(adapter, lead, *adapter.email_names))


def _of_phone(adapter: Adapter, lead: Lead) -> Contact | None:
    if not lead.phone:
        return None
    if lead.phone_id:
        remembered = _get(adapter, lead.phone_id, names_to_read(adapter, lead))
        if remembered is not None and adapter.has_phone(remembered, lead.phone):
            return remembered
    return _searched_by_phone(adapter, lead)


def _searched_by_phone(adapter: Adapter, lead: Lead) -> Contact | None:
    return adapter.find_contact(
        phone=lead.phone, names=names_to_read(adapter, lead, *adapter.email_names)
    )


def _written_before(adapter: Adapter, lead: Lead) -> Contact | None:
    if not lead.tried_ms or not adapter.can("find_marked"):
        return None
    record = adapter.find_marked(
        "contacts", "", lead.mark, sent=lead.properties, since_ms=lead.tried_ms
    )
    return _get(adapter, record.id, names_to_read(adapter, lead)) if record is not None else None


def _get(adapter: Adapter, contact_id: str, names: Sequence[str]) -> Contact | None:
    try:
        return adapter.get_contact(contact_id, names)
    except NotFound:
        return None


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
    find_by_phone = _phone_lookup(adapter, lead)
    match = _match_without_email_lookup(adapter, lead, find_by_phone)
    looked_up = match is None
    if match is None:
        by_email = _of_email(adapter, lead)
        match = decide(lead, _find(adapter, lead, by_email, find_by_phone))
    try:
        return _save(adapter, lead, match, approve)
    except Conflict as clash:
        # The lookup missed a contact; the CRM's conflict names its owner.
        new_match = _after_clash(adapter, lead, match, clash, find_by_phone)
        if new_match is None:
            raise
    except Rejected:
        # A new contact may need values that an update does not: the email may be somebody's.
        by_email = None if looked_up else _of_email(adapter, lead)
        if by_email is None:
            raise
        new_match = decide(lead, _find(adapter, lead, by_email, find_by_phone))
    return _save(adapter, lead, new_match, approve)


def _match_without_email_lookup(
    adapter: Adapter, lead: Lead, find_by_phone: _PhoneLookup
) -> Match | None:
    """Return the match of a new lead by its phone alone; None if the email must be looked up.

    Where the CRM refuses a taken email, that refusal is the lookup: it writes nothing, lags less
    than any, and saves one of three calls. It is safe only if the hub knows no contact of the
    conversation or email, no earlier attempt may have written the lead, and no other contact is
    meant without the email. A contact found by phone is meant only if it has the lead's email, or
    the email is nobody's, so then the email is looked up.
    """
    known = lead.contact_id or lead.email_id or lead.tried_ms or lead.written_ms
    if not adapter.unique_emails or not lead.email or not lead.phone or known:
        return None
    if lead.properties.get("email") != lead.email:
        # Without its email, the create cannot tell whose it is.
        return None
    by_phone = find_by_phone()
    if by_phone is not None and adapter.has_email(by_phone, lead.email):
        return decide(lead, _find(adapter, lead, by_phone, find_by_phone))
    found = Found(by_phone=by_phone)
    return decide(lead, found) if contact_of(lead, found) is None else None


def _after_clash(
    adapter: Adapter, lead: Lead, match: Match, clash: Conflict, find_by_phone: _PhoneLookup
) -> Match | None:
    """Return None if the other contact is not found; Rejected if a strict lead loses its phone."""
    name = clash.name or "email"
    if name == "email" and lead.email:
        if clash.existing_id:
            holder = _get(adapter, clash.existing_id, names_to_read(adapter, lead))
        else:
            holder = _search_by_email(adapter, lead)
        if holder is None:
            return None
        return decide(lead, _find(adapter, lead, holder, find_by_phone))
    if name != "phone" or not clash.existing_id:
        return None
    holder = _get(adapter, clash.existing_id, names_to_read(adapter, lead))
    if holder is None:
        return None
    new_match = decide(lead, Found(None, match.contact, holder))
    if "phone" not in new_match.properties or new_match.contact is holder:
        return new_match
    refused = Problem("phone", f"this number belongs to another contact, {holder.id}")
    if lead.strict:
        raise Rejected([refused])
    properties = {name: value for name, value in new_match.properties.items() if name != "phone"}
    return replace(new_match, properties=properties, refused=(*new_match.refused, refused))


def _save(adapter: Adapter, lead: Lead, match: Match, approve: Approve) -> SavedLead:
    contact = match.contact
    if contact is None:
        hold_back_create(adapter, "contacts", match.properties, lead.written_ms)
        return saved_lead(lead, match, _create(adapter, match.properties, lead.mark))
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


def _create(adapter: Adapter, properties: Mapping[str, str], mark: str) -> Saved:
    try:
        return adapter.create_contact(properties, mark=mark)
    except NotFound as exc:
        # A create request names no record, so the 404 means that the URL is wrong.
        error = Unavailable(f"{adapter.title} takes no contacts at its address: {exc.message}.")
        error.correlation_id = exc.correlation_id
        raise error from exc


def saved_lead(lead: Lead, match: Match, saved: Saved) -> SavedLead:
    refused = (*match.refused, *saved.refused)
    names = {problem.name for problem in refused}
    values = {name: value for name, value in match.properties.items() if name not in names}
    if match.contact and match.contact.properties.get("email", "").lower() == lead.email != "":
        values["email"] = lead.email
    attributes = {attribute.name: getattr(saved, attribute.name) for attribute in fields(Saved)}
    attributes["refused"] = refused
    return SavedLead(**attributes, values=values, duplicate=match.duplicate)
