"""Decide which of a CRM's contacts a lead belongs to, and which of its values are written.

This module sends no requests; `upserts` looks the contacts up. The first matching row decides:

| The contact found                    | The lead means | Its email             | Its phone  |
| ------------------------------------ | -------------- | --------------------- | ---------- |
| by email, also by a secondary one    | that contact   | stays as it is        | see below  |
| by conversation (1)                  | that contact   | corrected by the lead | see below  |
| by phone, and it has no email        | that contact   | taken from the lead   | the same   |
| by phone, and the lead has no email  | that contact   | stays as it is        | the same   |
| none, or by phone with another email | a new contact  | of the lead           | of the lead |

(1) Unless the contact has an email, the lead has another one, and the conversation has never given
an email before: then only the phone led the conversation to this contact, and two people may share
the phone.

If several contacts have the phone, the oldest counts. If the account sets `phone_identifies`, the
contact with the phone goes before the contact of the conversation; if that contact has another
email, its email stays, and the lead's email is refused.

If the phone belongs to another contact than the one that the lead means, and the lead's contact has
a phone, that phone stays, and the lead's phone is refused. If it has no phone, or is new, it gets
the lead's phone, and the two contacts are reported as possible duplicates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crmhub.adapter.errors import Problem, Rejected
from crmhub.adapter.phones import PHONES, is_no_change, same
from crmhub.adapter.values import Contact
from crmhub.translatable import translatable

_NAMES = ("name", "firstname", "lastname")


@dataclass(frozen=True, slots=True)
class Lead:
    """A human being whom a chatbot describes, with the values that find this person's contact.

    - `properties`: all values to store; none is blank.
    - `contact_id`: the contact of the conversation's earlier leads.
    - `email_id`, `phone_id`: the contacts that last had this email or phone, as the hub remembers;
      the CRM's search may not show them yet.
    - `strict`: a refused property raises Rejected instead of being left out.
    - `tried_ms`: when the first Uncertain attempt began (milliseconds since 1970), or 0.
    - `written_ms`: the latest time at which an Uncertain attempt may have sent a write, or 0.
    - `initial`: names of properties to write only if the contact has no value for them.
    - `by_phone_alone`: a lead without an email may match by phone a contact with an email.
    - `phone_identifies`: a contact found by phone goes before the conversation's.
    - `talked_by_phone`: the conversation has given a phone but never an email.
    - `spellings`: the phones as the chatbot wrote them, by property name.
    """

    properties: Mapping[str, str]
    email: str = ""
    phone: str = ""
    contact_id: str = ""
    email_id: str = ""
    phone_id: str = ""
    strict: bool = False
    mark: str = ""
    tried_ms: int = 0
    written_ms: int = 0
    initial: frozenset[str] = frozenset()
    by_phone_alone: bool = True
    phone_identifies: bool = False
    talked_by_phone: bool = False
    spellings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    by_email: Contact | None = None
    by_conversation: Contact | None = None
    by_phone: Contact | None = None


@dataclass(frozen=True, slots=True)
class Duplicate:
    """`shares` names the values in common: `phone`, or `phone` and `name`."""

    contact_id: str
    shares: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Match:
    contact: Contact | None
    properties: Mapping[str, str]
    refused: tuple[Problem, ...] = ()
    duplicate: Duplicate | None = None


def phone_of_another(contact_id: str) -> Problem:
    reason = translatable("this number belongs to another contact, %(id)s", id=contact_id)
    return Problem("phone", reason)


def decide(lead: Lead, found: Found) -> Match:
    """Raises Rejected if the lead is strict and one of its properties would be left out."""
    contact = contact_of(lead, found)
    properties, refused = dict(lead.properties), list[Problem]()
    duplicate = None
    if contact is not None:
        for name in lead.initial & properties.keys():
            if contact.properties.get(name):
                del properties[name]
        properties = keep_phones(contact.properties, properties, lead.spellings)
        keeps_email = contact is found.by_phone and contact.properties.get("email")
        if contact is found.by_email or keeps_email:
            email = properties.pop("email", None)
            if email and contact is not found.by_email:
                refused.append(
                    Problem("email", translatable("the contact of this phone has another email"))
                )
    other = found.by_phone
    if other is not None and (contact is None or contact.id != other.id):
        current_phone = contact.properties.get("phone", "") if contact is not None else ""
        if current_phone and not same(lead.phone, current_phone):
            properties.pop("phone", None)
            refused.append(phone_of_another(other.id))
        elif "phone" in properties:
            duplicate = Duplicate(other.id, shared(lead.properties, other.properties))
    if refused and lead.strict:
        raise Rejected(refused)
    return Match(contact, properties, tuple(refused), duplicate)


def contact_of(lead: Lead, found: Found) -> Contact | None:
    by_phone = found.by_phone
    if found.by_email is not None:
        return found.by_email
    if lead.phone_identifies and by_phone is not None:
        return by_phone
    by_conversation = found.by_conversation
    if by_conversation is not None and not is_another_persons(lead, by_conversation):
        return by_conversation
    if by_phone is None or not by_phone.properties.get("email"):
        return by_phone
    return by_phone if lead.by_phone_alone and not lead.email else None


def is_another_persons(lead: Lead, contact: Contact) -> bool:
    """Return whether both have an email, but only the phone led the conversation here."""
    return bool(lead.talked_by_phone and lead.email and contact.properties.get("email"))


def keep_phones(
    stored: Mapping[str, str], properties: Mapping[str, str], spellings: Mapping[str, str]
) -> dict[str, str]:
    """Return phones as the contact already has them; `spellings` are phones as they were sent."""
    kept = dict(properties)
    for name in PHONES:
        present, sent = stored.get(name, ""), properties.get(name, "")
        if sent and any(is_no_change(present, one) for one in (sent, spellings.get(name, ""))):
            kept[name] = present
    return kept


def shared(values: Mapping[str, str], others: Mapping[str, str]) -> tuple[str, ...]:
    """Return `phone`, and `name` if each of `values` has the same text in `others`, in any case."""
    names = [name for name in _NAMES if values.get(name)]
    same = all(values[name].casefold() == others.get(name, "").casefold() for name in names)
    return ("phone", "name") if names and same else ("phone",)
