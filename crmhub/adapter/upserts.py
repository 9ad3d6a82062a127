"""Finds the contacts that leads mean in an adapter's CRM, and writes to them.

`matching` decides which contact a lead means; here is what is looked for, in which order it is
written, and what happens when the CRM knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from crmhub.adapter.contract import (
    Adapter,
    AdapterError,
    Changes,
    Conflict,
    Contact,
    ContactWrite,
    NotFound,
    Problem,
    Rejected,
    Saved,
    Unavailable,
    hold_back_create,
    hold_back_update,
)
from crmhub.adapter.matching import Duplicate, Found, Lead, Match, decide, is_another_persons

_PHONES = ("phone", "mobilephone")


@dataclass(frozen=True, slots=True)
class SavedLead(Saved):
    """What became of a lead: `values` are those that its contact has now."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    duplicate: Duplicate | None = None


Approve = Callable[[Lead, str, Mapping[str, str]], Mapping[str, str]]
"""Called before a contact (its id) is updated; returns the properties that may be written."""


def _approve_all(lead: Lead, contact_id: str, properties: Mapping[str, str]) -> Mapping[str, str]:
    return properties


# --- finding -----------------------------------------------------------------------------------


def find(adapter: Adapter, lead: Lead) -> Found:
    """Return the contacts that a lead's email, conversation and phone lead to.

    A contact that would not be needed for the decision is not looked for.
    """
    by_email = _of_email(adapter, lead) if lead.email else None
    return _find(adapter, lead, by_email)


def _find(adapter: Adapter, lead: Lead, by_email: Contact | None) -> Found:
    """Return the contacts that a lead leads to, given the one of its email."""
    in_conversation = None
    if by_email is None:
        in_conversation = _of_conversation(adapter, lead) or _written_before(adapter, lead)
        if lead.email and in_conversation and adapter.has_email(in_conversation, lead.email):
            by_email, in_conversation = in_conversation, None
    known = by_email or in_conversation
    if known is not None and known is in_conversation and is_another_persons(lead, known):
        known = None
    if known is not None and lead.phone and adapter.has_phone(known, lead.phone):
        of_phone = known if lead.phone_identifies else None
    else:
        of_phone = _of_phone(adapter, lead) if lead.phone else None
    return Found(by_email, in_conversation, of_phone)


def _names(lead: Lead, *more: str) -> tuple[str, ...]:
    """Return the properties to read of a contact: the lead's, and what decides."""
    phone = ("phone",) if lead.phone else ()
    return tuple(dict.fromkeys((*lead.properties, "email", *phone, *more)))


def _of_email(adapter: Adapter, lead: Lead) -> Contact | None:
    found = adapter.find_contact(email=lead.email, names=_names(lead))
    if found is not None or not lead.email_id:
        return found
    known = _get(adapter, lead.email_id, _names(lead, *adapter.email_names))
    # Otherwise its address was corrected since, and may be somebody else's.
    return known if known is not None and adapter.has_email(known, lead.email) else None


def _of_conversation(adapter: Adapter, lead: Lead) -> Contact | None:
    """Return the conversation's contact, None where it was deleted in the CRM since."""
    if not lead.contact_id:
        return None
    return _get(adapter, lead.contact_id, _names(lead, *adapter.email_names))


def _of_phone(adapter: Adapter, lead: Lead) -> Contact | None:
    if lead.phone_id:
        known = _get(adapter, lead.phone_id, _names(lead, *_PHONES))
        if known is not None and adapter.has_phone(known, lead.phone):
            return known
    return adapter.find_contact(phone=lead.phone, names=_names(lead))


def _written_before(adapter: Adapter, lead: Lead) -> Contact | None:
    """Return what an earlier attempt of this lead made, which no lookup by email shows."""
    if not lead.tried_ms or not adapter.can("find_marked"):
        return None
    made = adapter.find_marked(
        "contacts", "", lead.mark, sent=lead.properties, since_ms=lead.tried_ms
    )
    return _get(adapter, made.id, _names(lead)) if made is not None else None


def _get(adapter: Adapter, contact_id: str, names: Sequence[str]) -> Contact | None:
    try:
        return adapter.get_contact(contact_id, names)
    except NotFound:
        return None


# --- one lead ----------------------------------------------------------------------------------


def upsert_contact(adapter: Adapter, lead: Lead, *, approve: Approve = _approve_all) -> SavedLead:
    """Create or update the contact that a lead means; `unchanged` when it had every value.

    `approve` is asked before a contact is updated. Raises what it raises and the adapter's errors,
    Rejected for a strict lead of which something would be left out. A contact that is deleted
    before it is written to is made anew.
    """
    try:
        return _upsert(adapter, lead, approve)
    except NotFound:
        # Deleted since it was found: nothing was written, and another lookup finds it no more.
        return _upsert(adapter, lead, approve)


def _upsert(adapter: Adapter, lead: Lead, approve: Approve) -> SavedLead:
    match = decide(lead, find(adapter, lead))
    try:
        return _save(adapter, lead, match, approve)
    except Conflict as clash:
        # Made meanwhile, or hidden from the lookup: the CRM knows whose email or phone it is.
        again = _after_clash(adapter, lead, match, clash)
        if again is None:
            raise
        return _save(adapter, lead, again, approve)


def _after_clash(adapter: Adapter, lead: Lead, match: Match, clash: Conflict) -> Match | None:
    """Return the new decision, given whose email or phone it is; None where that is not known."""
    name = clash.name or "email"
    if name == "email" and lead.email:
        holder = _holder_of_email(adapter, lead, clash.existing_id)
        return None if holder is None else decide(lead, _find(adapter, lead, holder))
    if name != "phone" or not clash.existing_id:
        return None
    holder = _get(adapter, clash.existing_id, _names(lead))
    if holder is None:
        return None
    again = decide(lead, Found(None, match.contact, holder))
    if "phone" not in again.properties or again.contact is holder:
        return again
    # This CRM takes a phone once: it stays with whom it belongs to.
    refused = Problem("phone", f"this number belongs to another contact, {holder.id}")
    if lead.strict:
        raise Rejected([refused])
    properties = {name: value for name, value in again.properties.items() if name != "phone"}
    return replace(again, properties=properties, refused=(*again.refused, refused))


def _holder_of_email(adapter: Adapter, lead: Lead, existing_id: str) -> Contact | None:
    if existing_id:
        return _get(adapter, existing_id, _names(lead))
    # No id was given: a contact that was made since the first lookup is found by another one.
    return adapter.find_contact(email=lead.email, names=_names(lead))


def _save(adapter: Adapter, lead: Lead, match: Match, approve: Approve) -> SavedLead:
    """Write what differs, to the contact that was found or to a new one.

    Raises NotYet while an earlier write of the lead may still take effect.
    """
    contact = match.contact
    if contact is None:
        hold_back_create(adapter, "contacts", match.properties, lead.written_ms)
        return _saved(lead, match, _create(adapter, match.properties, lead.mark))
    match, changes = _changes(adapter, lead, match, contact, approve)
    if not changes.properties:
        return _saved(lead, match, Saved(contact.id, "unchanged", contact.url))
    hold_back_update(adapter, lead.written_ms)
    return _saved(lead, match, adapter.update_contact(contact.id, changes.properties))


def _changes(
    adapter: Adapter, lead: Lead, match: Match, contact: Contact, approve: Approve
) -> tuple[Match, Changes]:
    """Return the match with what may be written, and what of that must be."""
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
        # No record was named: what does not exist is the address where contacts are made.
        error = Unavailable(f"{adapter.title} takes no contacts at its address: {exc.message}.")
        error.correlation_id = exc.correlation_id
        raise error from exc


def _saved(lead: Lead, match: Match, saved: Saved) -> SavedLead:
    refused = (*match.refused, *saved.refused)
    names = {problem.name for problem in refused}
    values = {name: value for name, value in match.properties.items() if name not in names}
    if match.contact and match.contact.properties.get("email", "").lower() == lead.email != "":
        values["email"] = lead.email
    said = {one.name: getattr(saved, one.name) for one in fields(Saved)} | {"refused": refused}
    return SavedLead(**said, values=values, duplicate=match.duplicate)


# --- several leads -----------------------------------------------------------------------------


def upsert_contacts(
    adapter: Adapter, leads: Sequence[Lead], *, approve: Approve = _approve_all
) -> list[SavedLead | AdapterError]:
    """Upsert leads in few calls where the adapter can; return what became of each, in order.

    One lead's failure is no other's. Leads of one contact take effect in their order.
    """
    outcomes = _upsert_together(adapter, leads, approve) if adapter.batch_size > 1 else {}
    for index, lead in enumerate(leads):
        if index not in outcomes:
            try:
                outcomes[index] = upsert_contact(adapter, lead, approve=approve)
            except AdapterError as exc:
                outcomes[index] = exc
    return [outcomes[index] for index in range(len(leads))]


def _upsert_together(
    adapter: Adapter, leads: Sequence[Lead], approve: Approve
) -> dict[int, SavedLead | AdapterError]:
    """Upsert the leads that need no closer look; what is missing of them is left for later."""
    chosen = _first_of_each_person(leads)
    outcomes: dict[int, SavedLead | AdapterError] = {}
    try:
        matches = _match_together(adapter, {index: leads[index] for index in chosen})
    except (Conflict, NotFound, Rejected):
        # One refusal for all says nothing of any one of them.
        return {}
    except AdapterError as exc:
        return dict.fromkeys(chosen, exc)
    writes: dict[int, ContactWrite] = {}
    taken: set[str] = set()
    for index, match in matches.items():
        lead, contact = leads[index], match.contact
        if contact is None:
            writes[index] = ContactWrite("", match.properties, lead.mark)
            continue
        if contact.id in taken:
            continue
        taken.add(contact.id)
        try:
            matches[index], changes = _changes(adapter, lead, match, contact, approve)
        except AdapterError as exc:
            outcomes[index] = exc
            continue
        if changes.properties:
            writes[index] = ContactWrite(contact.id, changes.properties)
        else:
            same = Saved(contact.id, "unchanged", contact.url)
            outcomes[index] = _saved(lead, matches[index], same)
    answered = adapter.write_contacts(list(writes.values())) if writes else []
    for index, answer in zip(writes, answered, strict=True):
        if isinstance(answer, Saved):
            outcomes[index] = _saved(leads[index], matches[index], answer)
        elif answer is not None:
            outcomes[index] = answer
    return outcomes


def _first_of_each_person(leads: Sequence[Lead]) -> list[int]:
    """Return the leads that can go together: each with an email, and no value shared."""
    chosen, seen = [], set[str]()
    for index, lead in enumerate(leads):
        known = {value for value in (lead.email, lead.phone, lead.contact_id) if value}
        if lead.email and not known & seen and not lead.tried_ms:
            chosen.append(index)
        seen |= known
    return chosen


def _match_together(adapter: Adapter, leads: Mapping[int, Lead]) -> dict[int, Match]:
    """Return the matches of the leads for which email and phone are enough to decide."""
    names = sorted({name for lead in leads.values() for name in _names(lead, *_PHONES)})
    of_email = adapter.find_contacts(emails=[one.email for one in leads.values()], names=names)
    near = {
        index: lead
        for index, lead in leads.items()
        if _needs_no_lookup(adapter, lead, of_email.get(lead.email))
    }
    phones = {lead.phone for lead in near.values() if _phone_is_new(lead, of_email)}
    of_phone = adapter.find_contacts(phones=sorted(phones), names=names) if phones else {}
    matches: dict[int, Match] = {}
    for index, lead in near.items():
        found = Found(of_email.get(lead.email), None, of_phone.get(lead.phone))
        try:
            matches[index] = decide(lead, found)
        except Rejected:
            # Refused once more when it goes alone.
            continue
    return matches


def _needs_no_lookup(adapter: Adapter, lead: Lead, of_email: Contact | None) -> bool:
    if of_email is None:
        return not (lead.contact_id or lead.email_id or lead.phone_id)
    return lead.phone_id in ("", of_email.id) or adapter.has_phone(of_email, lead.phone)


def _phone_is_new(lead: Lead, of_email: Mapping[str, Contact]) -> bool:
    known = of_email.get(lead.email)
    return bool(lead.phone) and (known is None or known.properties.get("phone") != lead.phone)
