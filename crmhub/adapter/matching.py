"""Decide which contact a lead belongs to; adapters only find and write contacts.

The first line that applies decides:

| The contact found                    | The lead means | Its email             | Its phone  |
| ------------------------------------ | -------------- | --------------------- | ---------- |
| by email, also by a secondary one    | that contact   | stays as it is        | see below  |
| by conversation (1)                  | that contact   | corrected by the lead | see below  |
| by phone, and it has no email        | that contact   | taken from the lead   | the same   |
| by phone, and the lead has no email  | that contact   | stays as it is        | the same   |
| none, or by phone with another email | a new contact  | of the lead           | of the lead |

(1) Not a contact with another email, if the conversation has never said an email before: then its
phone alone led to that contact, and the phone may be shared.

Of several contacts with one phone the oldest counts. Where the phone is the channel's own identity
(`phone_identifies`), the phone goes before the conversation: a different email of that contact
then stays, and the lead's is refused by name.

A phone that another contact has: a contact that has a phone keeps its own, and the lead's is
refused by name. A contact without a phone, or a new one, gets it; then both are possible
duplicates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crmhub.adapter.errors import Problem, Rejected
from crmhub.adapter.values import Contact

_NAMES = ("name", "firstname", "lastname")


@dataclass(frozen=True, slots=True)
class Lead:
    """A person as a chatbot describes them, with the values that identify them.

    - `properties`: all values to store, including `email` and `phone`; none is blank.
    - `email`, `phone`: identify the person, even if they are not stored.
    - `contact_id`: the conversation's contact so far.
    - `email_id`, `phone_id`: the contacts last seen with this email or phone; the CRM's search
      may not show them yet.
    - `strict`: raise Rejected instead of leaving out a refused property.
    - `mark`: identifies this lead's write.
    - `tried_ms`: when the first attempt that ended Uncertain began (ms since 1970), or 0.
    - `written_ms`: until when the last such attempt may have sent a write, or 0.
    - `initial`: names written only if the contact has no value yet.
    - `by_phone_alone`: a lead without an email may match a contact that has one, by its phone.
    - `phone_identifies`: the phone decides before the conversation.
    - `talked_by_phone`: the conversation has never given an email.
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


@dataclass(frozen=True, slots=True)
class Found:
    """The CRM's contacts with a lead's email, of its conversation, and with its phone."""

    by_email: Contact | None = None
    by_conversation: Contact | None = None
    by_phone: Contact | None = None


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A contact that may be the same person; `shared` lists the equal values (`phone`, `name`)."""

    contact_id: str
    shares: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """The contact that a lead belongs to (None: create a contact), and the properties to write."""

    contact: Contact | None
    properties: Mapping[str, str]
    refused: tuple[Problem, ...] = ()
    duplicate: Duplicate | None = None


def decide(lead: Lead, found: Found) -> Match:
    """Return the contact that a lead belongs to, by the table of this module.

    Raises Rejected for a strict lead if one of its properties would be left out.
    """
    contact = _contact_of(lead, found)
    properties, refused = dict(lead.properties), list[Problem]()
    duplicate = None
    if contact is not None:
        properties = _without_initial(contact, lead, properties)
        if not _takes_email(contact, found):
            email = properties.pop("email", None)
            if email and contact is not found.by_email:
                refused.append(Problem("email", "the contact of this phone has another email"))
    other = found.by_phone
    if other is not None and (contact is None or contact.id != other.id):
        current_phone = contact.properties.get("phone", "") if contact is not None else ""
        if current_phone and current_phone != lead.phone:
            properties.pop("phone", None)
            refused.append(Problem("phone", f"this number belongs to another contact, {other.id}"))
        elif "phone" in properties:
            duplicate = Duplicate(other.id, shared(lead.properties, other.properties))
    if refused and lead.strict:
        raise Rejected(refused)
    return Match(contact, properties, tuple(refused), duplicate)


def _contact_of(lead: Lead, found: Found) -> Contact | None:
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
    """Return whether a shared phone led the conversation to another person's contact."""
    return bool(lead.talked_by_phone and lead.email and contact.properties.get("email"))


def _takes_email(contact: Contact, found: Found) -> bool:
    """Return whether the lead's email replaces the contact's email."""
    if contact is found.by_email:
        return False
    return contact is not found.by_phone or not contact.properties.get("email")


def _without_initial(contact: Contact, lead: Lead, properties: Mapping[str, str]) -> dict[str, str]:
    current_values = contact.properties
    return {
        n: v for n, v in properties.items() if not (n in lead.initial and current_values.get(n))
    }


def shared(values: Mapping[str, str], others: Mapping[str, str]) -> tuple[str, ...]:
    """Return which values two contacts with one phone share: `phone`, and `name` if it is equal."""
    names = [name for name in _NAMES if values.get(name)]
    same = all(values[name].casefold() == others.get(name, "").casefold() for name in names)
    return ("phone", "name") if names and same else ("phone",)
