"""Which contact each call means: the rules of docs/bot-builder.md as a small program.

`benchmarks.identity` replays here what its callers have sent, and compares the CRM with the result.
A lead means the first contact of this table that there is:

| | Contact | What happens to its email | What happens to its phone |
| --- | --- | --- | --- |
| 1 | the one with this email, primary or secondary | stays as it is | see below |
| 2 | of this conversation (a) | is corrected to the lead's | see below |
| 3 | the oldest one with this phone (b) | becomes the lead's | is the same |
| 4 | a new one | is the lead's | see below |

(a) Not one with another email where the conversation has never said an email: its phone alone led
to that contact, and the phone may be shared.
(b) Only where that contact or the lead has no email. Where `phone_identifies` is on, this line goes
before the second, for any contact with this phone: a different email stays, and the lead's is
refused by name.

A phone that another contact has, too, is taken where the contact has none, and the pair is told or
listed as a possible duplicate; where the contact has another phone, that stays, and the lead's is
refused by name. A phone that nobody has replaces the former one. A blank value changes nothing.
An unfilled contactToken, contactId, email or name is an error; any other unfilled value is refused
by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_FEW = 3


class Junk(str):
    """A text that a builder sends for an empty variable; `rest` is the usable part of a name."""

    rest: str

    def __new__(cls, text: str, *, rest: str = "") -> Junk:
        """Return the text as the builder sends it."""
        junk = super().__new__(cls, text)
        junk.rest = rest
        return junk


# --- What happens -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entered:
    """A colleague enters a contact in the CRM by hand."""

    person: int
    properties: Mapping[str, str]
    secondary_email: str = ""


@dataclass(frozen=True, slots=True)
class Edited:
    """A colleague changes the contact with this email by hand; without properties, deletes it."""

    person: int
    email: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Lead:
    """A call of createLead, sent while `person` is talking."""

    person: int
    token: str
    name: str
    email: str = ""
    phone: str = ""


@dataclass(frozen=True, slots=True)
class SetProperties:
    """A call of setProperties."""

    person: int
    token: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CreateDeal:
    """A call of createDeal with an id that the builder did not fill in."""

    person: int
    contact_id: Junk


Call = Entered | Edited | Lead | SetProperties | CreateDeal
Step = Call | tuple[Call, ...]
"""A call, or several that are sent at the same moment."""


# --- What it leads to -------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Contact:
    """A contact as the CRM must contain it; `people` are the persons who have written to it."""

    email: str = ""
    secondary_email: str = ""
    phone: str = ""
    values: dict[str, str] = field(default_factory=dict)
    people: set[int] = field(default_factory=set)

    @property
    def properties(self) -> dict[str, str]:
        """Every property with its required value, "" for none."""
        names = dict.fromkeys(("firstname", "lastname", "city"), "")
        return {"email": self.email, "phone": self.phone, **names, **self.values}

    def has_email(self, email: str) -> bool:
        """Return whether this is the contact's primary or secondary email."""
        return email in (self.email, self.secondary_email) and email != ""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected effect of a call.

    `errors` are keys; a 422 must name one of them with its `value`, and then nothing is written.
    `refused` are properties that the answer must name. `shares_phone_with` are the contacts that
    have had this phone before.
    """

    contact: Contact | None = None
    errors: tuple[str, ...] = ()
    value: str = ""
    refused: frozenset[str] = frozenset()
    shares_phone_with: tuple[Contact, ...] = ()

    @property
    def is_clash(self) -> bool:
        """Whether the caller or the operator must be informed."""
        return bool(self.errors or self.refused or self.shares_phone_with)

    def __str__(self) -> str:
        parts = [f"422 that names {' or '.join(self.errors)} and {self.value!r}"] * bool(
            self.errors
        )
        parts += [f"{name} in refused" for name in sorted(self.refused)]
        parts += ["that others have this phone"] * bool(self.shares_phone_with)
        return " and ".join(parts)


@dataclass(slots=True)
class Oracle:
    """Carries out calls one by one, as the rules demand; the oldest contact comes first."""

    email_required: bool = True
    phone_identifies: bool = False
    contacts: list[Contact] = field(default_factory=list)
    conversations: dict[str, Contact] = field(default_factory=dict)
    with_email: set[str] = field(default_factory=set)
    """The conversations that have given an email."""

    def expect(self, call: Call) -> Expected:
        """Carry a call out and return its expected effect."""
        match call:
            case Entered():
                return self._enter(call)
            case Edited():
                return self._edit(call)
            case Lead():
                return self._lead(call)
            case SetProperties():
                return self._set(call)
            case CreateDeal():
                return Expected(errors=("contactId",), value=call.contact_id)

    def _enter(self, call: Entered) -> Expected:
        values = dict(call.properties)
        email, phone = values.pop("email", ""), values.pop("phone", "")
        contact = Contact(email, call.secondary_email, phone, values, {call.person})
        self.contacts.append(contact)
        return Expected(contact)

    def _edit(self, call: Edited) -> Expected:
        [contact] = (one for one in self.contacts if one.has_email(call.email))
        if not call.properties:
            self.contacts.remove(contact)
            kept = {token: one for token, one in self.conversations.items() if one is not contact}
            self.conversations = kept
            return Expected()
        contact.email = call.properties.get("email", contact.email)
        contact.phone = call.properties.get("phone", contact.phone)
        return Expected(contact)

    def _lead(self, call: Lead) -> Expected:
        for key, text in self._required(call).items():
            if not text or (isinstance(text, Junk) and not text.rest):
                return Expected(errors=(key,), value=text)
        refused = {"phone"} if isinstance(call.phone, Junk) else set()
        phone = "" if refused else call.phone
        if not (call.email or phone):
            return Expected(errors=("phone", "email"), value=call.phone)
        contact = self._contact_of(call, phone)
        if not self._take_email(contact, call):
            refused.add("email")
        holders = self._with_phone(phone, other_than=contact)
        shares: tuple[Contact, ...] = ()
        if phone and holders and contact.phone not in ("", phone):
            refused.add("phone")
        elif phone and contact.phone != phone:
            contact.phone, shares = phone, holders
        contact.values |= _name_of(call)
        contact.people.add(call.person)
        self.conversations[call.token] = contact
        if call.email:
            self.with_email.add(call.token)
        return Expected(contact, refused=frozenset(refused), shares_phone_with=shares)

    def _required(self, call: Lead) -> dict[str, str]:
        """Return the texts that must not be empty, by their key."""
        texts = {"contactToken": call.token, "name": call.name, "email": call.email}
        if not self.email_required:
            # A phone is enough; what is sent beside it must be filled all the same.
            texts = {key: text for key, text in texts.items() if text}
        return texts

    def _contact_of(self, call: Lead, phone: str) -> Contact:
        """Return the contact that the lead means, by the table in this module's docstring."""
        with_email = [one for one in self.contacts if one.has_email(call.email)]
        conversation = self.conversations.get(call.token)
        with_phone = self._with_phone(phone)
        if with_email:
            return with_email[0]
        if with_phone and self.phone_identifies:
            return with_phone[0]
        if conversation and not self._is_of_phone_alone(call, conversation):
            return conversation
        if with_phone and not (call.email and with_phone[0].email):
            return with_phone[0]
        self.contacts.append(Contact())
        return self.contacts[-1]

    def _is_of_phone_alone(self, call: Lead, conversation: Contact) -> bool:
        return bool(call.email and conversation.email) and call.token not in self.with_email

    def _take_email(self, contact: Contact, call: Lead) -> bool:
        """Store the lead's email if the rules allow it; return False if it is refused."""
        if not call.email or contact.has_email(call.email):
            return True
        by_phone = self.phone_identifies and call.phone and contact.phone == call.phone
        if contact.email and by_phone:
            return False
        contact.email = call.email
        return True

    def _with_phone(self, phone: str, other_than: Contact | None = None) -> tuple[Contact, ...]:
        return tuple(
            one for one in self.contacts if phone and one.phone == phone and one is not other_than
        )

    def _set(self, call: SetProperties) -> Expected:
        if isinstance(call.token, Junk):
            return Expected(errors=("contactToken",), value=call.token)
        contact = self.conversations[call.token]
        refused = {name for name, value in call.values.items() if isinstance(value, Junk)}
        if any(one.has_email(call.values.get("email", "")) for one in self.contacts):
            refused.add("email")
        contact.values |= {n: value for n, value in call.values.items() if n not in refused}
        contact.people.add(call.person)
        return Expected(contact, refused=frozenset(refused))


def _name_of(call: Lead) -> dict[str, str]:
    """Return firstname and lastname without blank values."""
    name = call.name.rest if isinstance(call.name, Junk) else call.name
    first, _, last = name.partition(" ")
    return {n: value for n, value in {"firstname": first, "lastname": last}.items() if value}


def orders(steps: Sequence[Step]) -> Iterator[list[Call]]:
    """Yield the orders in which the steps may have been carried out.

    The calls of one step are sent at the same moment. If a step has many calls, only the choice of
    the first one matters.
    """
    together = [step if isinstance(step, tuple) else (step,) for step in steps]
    for chosen in itertools.product(*(_orders_of(calls) for calls in together)):
        yield [call for calls in chosen for call in calls]


def _orders_of(calls: tuple[Call, ...]) -> Iterable[tuple[Call, ...]]:
    if len(calls) <= _FEW:
        return itertools.permutations(calls)
    return (calls[first:] + calls[:first] for first in range(len(calls)))
