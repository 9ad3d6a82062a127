"""Create or update the contacts of several leads, in batches where the CRM has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crmhub.adapter.contract import Adapter
from crmhub.adapter.errors import AdapterError, Conflict, NotFound, Rejected
from crmhub.adapter.matching import Found, Lead, Match, decide
from crmhub.adapter.upserts import (
    Approve,
    SavedLead,
    approve_all,
    approved_changes,
    names_to_read,
    saved_lead,
    upsert_contact,
)
from crmhub.adapter.values import Contact, ContactWrite, Saved


def upsert_contacts(
    adapter: Adapter, leads: Sequence[Lead], *, approve: Approve = approve_all
) -> list[SavedLead | AdapterError]:
    """Return a result or error per lead, in order; `approve` is called as in `upsert_contact`."""
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
    """Return results by index in `leads`; a lead without one must be sent alone."""
    chosen = _first_of_each_person(leads)
    outcomes: dict[int, SavedLead | AdapterError] = {}
    try:
        matches = _match_together(adapter, {index: leads[index] for index in chosen})
    except (Conflict, NotFound, Rejected):
        # A refusal of the whole batch does not tell which lead caused it.
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
            matches[index], changes = approved_changes(adapter, lead, match, contact, approve)
        except AdapterError as exc:
            outcomes[index] = exc
            continue
        if changes.properties:
            writes[index] = ContactWrite(contact.id, changes.properties)
        else:
            same = Saved(contact.id, "unchanged", contact.url)
            outcomes[index] = saved_lead(lead, matches[index], same)
    answered = adapter.write_contacts(list(writes.values())) if writes else []
    for index, answer in zip(writes, answered, strict=True):
        if isinstance(answer, Saved):
            outcomes[index] = saved_lead(leads[index], matches[index], answer)
        elif answer is not None:
            outcomes[index] = answer
    return outcomes


def _first_of_each_person(leads: Sequence[Lead]) -> list[int]:
    """Return the leads with email, no Uncertain attempt, and no value of an earlier one."""
    chosen, seen = [], set[str]()
    for index, lead in enumerate(leads):
        identifiers = {value for value in (lead.email, lead.phone, lead.contact_id) if value}
        if lead.email and not identifiers & seen and not lead.tried_ms:
            chosen.append(index)
        seen |= identifiers
    return chosen


def _match_together(adapter: Adapter, leads: Mapping[int, Lead]) -> dict[int, Match]:
    """Leave out leads that `decide` rejects, or that need other lookups than email and phone."""
    names = sorted({name for lead in leads.values() for name in names_to_read(adapter, lead)})
    of_email = adapter.find_contacts(emails=[lead.email for lead in leads.values()], names=names)
    decidable = {
        index: lead
        for index, lead in leads.items()
        if _needs_no_lookup(adapter, lead, of_email.get(lead.email))
    }
    phones = set[str]()
    for lead in decidable.values():
        contact = of_email.get(lead.email)
        if lead.phone and (contact is None or contact.properties.get("phone") != lead.phone):
            phones.add(lead.phone)
    of_phone = adapter.find_contacts(phones=sorted(phones), names=names) if phones else {}
    matches: dict[int, Match] = {}
    for index, lead in decidable.items():
        found = Found(of_email.get(lead.email), None, of_phone.get(lead.phone))
        try:
            matches[index] = decide(lead, found)
        except Rejected:
            # The lead is rejected again when it is sent alone.
            continue
    return matches


def _needs_no_lookup(adapter: Adapter, lead: Lead, of_email: Contact | None) -> bool:
    if of_email is None:
        return not (lead.contact_id or lead.email_id or lead.phone_id)
    return lead.phone_id in ("", of_email.id) or adapter.has_phone(of_email, lead.phone)
