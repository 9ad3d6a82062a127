"""Invented people, and the scenes in which their data clashes.

A scene consists of the calls that one caller sends, step by step. No two scenes share a person, an
email or a real phone. Empty variables are shared, because every builder sends the same text for an
empty variable.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice

from benchmarks.identity_oracle import (
    Call,
    CreateDeal,
    Edited,
    Entered,
    Junk,
    Lead,
    SetProperties,
    Step,
)

_FIRST_NAMES = ("Ada", "Ben", "Cleo", "Dora", "Emil", "Flora", "Gus", "Hedy", "Ivo", "Juno", "Kai")
_SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo")
# Coprime with how many phones there are, so that no two people have one.
_PHONES, _SPREAD = 10**7, 48_271

# What builders send for an empty variable, by the form in which they write a variable.
_FORMS = (
    *("{{%s}}", "{{ %s }}", "{%s}", "%%%s%%", "${%s}", "#{%s}", "@{%s}", "[[%s]]", "<<%s>>"),
    *("$contact.%s", "¿·@%s·?"),
)
_WORDS = ("undefined", "null", "None", "NaN", "[object Object]")
_NO_IDS = ("0", "-", "N/A", "@%s", "[%s]", "<%s>")
# Texts with a number (here "%s", or its digits "%d") in them that are not this number.
_MORE_THAN_PHONES = (
    *("%d@lid", "%d@g.us", "%d@newsletter", "%d@broadcast", "Mobile: %s", "%s (home)"),
    *("%s, +4930123456", "%s\n+4930123456", "%dE+1", "4,91512E+12", "https://example.com/%d"),
)
_EXTENSIONS = (" ext. ", " x", "x", ";ext=", ",,", " Ext. ", " #", " extension ")
_NO_PHONES = ("0", "00000000000", "1111111", "12345", "n/a", "+", "+49{{phone}}")


@dataclass(frozen=True, slots=True)
class Person:
    """An invented person; all values follow from the person's number and belong to nobody else."""

    number: int

    @property
    def first_name(self) -> str:
        """A first name that other persons have, too."""
        return _FIRST_NAMES[self.number % len(_FIRST_NAMES)]

    @property
    def last_name(self) -> str:
        """A last name that no other person has."""
        left, syllables = self.number + len(_SYLLABLES) ** 3, []
        while left:
            left, syllable = divmod(left, len(_SYLLABLES))
            syllables.append(_SYLLABLES[syllable])
        return "".join(syllables).title()

    @property
    def name(self) -> str:
        """The full name."""
        return f"{self.first_name} {self.last_name}"

    @property
    def city(self) -> str:
        """A city in which no other person lives."""
        return f"{self.last_name}ville"

    def email(self, which: int = 1) -> str:
        """Return the person's first, second, … email."""
        return f"{self.first_name}.{self.last_name}@mail{which}.example.com".lower()

    def phone(self, which: int = 1) -> str:
        """Return the person's first, second, … phone in E.164: a German mobile."""
        return f"+491512{(self.number * 4 + which) * _SPREAD % _PHONES:07}"

    def token(self, conversation: int = 1) -> str:
        """Return the contactToken of the person's first, second, … conversation."""
        return f"chat-{self.number}-{conversation}"

    @property
    def values(self) -> set[str]:
        """The values that distinguish this person from others."""
        emails, phones = ({of(which) for which in range(1, 4)} for of in (self.email, self.phone))
        return {self.last_name, self.city, *emails, *phones}

    # What the person sends.

    def lead(
        self,
        conversation: int = 1,
        *,
        token: str | None = None,
        name: str | None = None,
        email: str | None = None,
        phone: str = "",
    ) -> Lead:
        """Return a createLead, by default with the person's own name and first email."""
        return Lead(
            self.number,
            self.token(conversation) if token is None else token,
            self.name if name is None else name,
            self.email() if email is None else email,
            phone,
        )

    def set_city(self, conversation: int = 1, *, token: str | None = None) -> SetProperties:
        """Return a setProperties with the person's city."""
        values = {"city": self.city}
        return SetProperties(self.number, token or self.token(conversation), values)

    def entered(self, *, secondary_email: str = "", **properties: str) -> Entered:
        """Return the person's contact as entered by hand, with the person's name."""
        names = {"firstname": self.first_name, "lastname": self.last_name}
        return Entered(self.number, {**names, **properties}, secondary_email)

    def edited(self, **properties: str) -> Edited:
        """Return a change of the person's contact by hand; without properties its deletion."""
        return Edited(self.number, self.email(), properties)


def spelled(chance: random.Random, lead: Lead) -> tuple[str, str]:
    """Return the lead's email and phone in one of the notations that people use."""
    email, phone = lead.email, lead.phone
    if not isinstance(email, Junk):
        email = chance.choice((email, email, email.title(), f" {email} "))
    if phone and not isinstance(phone, Junk):
        phone, _, extension = phone.partition(_EXTENSIONS[0])
        country, carrier, line = phone[1:3], phone[3:6], phone[6:]
        forms = (phone, f"+{country} {carrier} {line}", f"00{country}{carrier}{line}")
        national = (f"0{carrier}/{line[:4]} {line[4:]}", f"whatsapp:{phone}")
        messengers = (f"{phone[1:]}@c.us", f"{phone[1:]}:7@s.whatsapp.net", f"wa.me/{phone[1:]}")
        if extension:
            phone = f"{chance.choice(forms)}{chance.choice(_EXTENSIONS)}{extension}"
        else:
            phone = chance.choice((*forms, *national, *messengers))
    return email, phone


# --- The scenes -------------------------------------------------------------------------------

Chance = random.Random
Script = Callable[[Sequence[Person], Chance], list[Step]]


def _no_clash(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    return [ann.lead(phone=ann.phone()), ann.set_city(), ann.lead(2, phone=ann.phone())]


def _phone_of_two(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben = people
    phone = ann.phone()
    later: list[Step] = [ann.lead(2, phone=phone), ben.lead(2), ben.lead(phone=phone)]
    chance.shuffle(later)
    cities = [ann.set_city(), ben.set_city()]
    return [ann.lead(phone=phone), ben.lead(phone=phone), *cities, *later]


def _phone_of_ten(people: Sequence[Person], chance: Chance) -> list[Step]:
    phone = people[0].phone()
    again = chance.sample(people, 3)
    return [
        *(one.lead(phone=phone) for one in people),
        *(one.set_city() for one in people),
        *(one.lead(2, phone=phone) for one in again),
    ]


def _phone_of_ten_at_once(people: Sequence[Person], chance: Chance) -> list[Step]:
    phone = people[0].phone()
    return [tuple(one.lead(phone=phone) for one in people), *(one.set_city() for one in people)]


def _secondary_email(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    leads: list[Step] = [ann.lead(email=ann.email(which)) for which in (1, 2, 2)]
    leads += [ann.lead(2, email=ann.email(2), phone=ann.phone())]
    chance.shuffle(leads)
    entered = ann.entered(email=ann.email(1), secondary_email=ann.email(2))
    return [entered, *leads, ann.set_city(2)]


def _secondary_email_of_another(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben = people
    return [
        ben.entered(email=ben.email(1), secondary_email=ben.email(2)),
        ann.lead(phone=ann.phone()),
        ben.lead(token=ann.token(), email=ben.email(2)),
        ben.set_city(token=ann.token()),
    ]


def _second_email_here(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    second = ann.email(2)
    return [ann.lead(), ann.set_city(), ann.lead(email=second), ann.lead(2, email=second)]


def _second_email_elsewhere(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    # Nobody can know that this is the same person, but a colleague may guess it from the phone.
    other = ann.lead(2, email=ann.email(2), phone=ann.phone())
    return [ann.lead(phone=ann.phone()), other, ann.set_city(2)]


def _corrected_email(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    wrong, phone = ann.email(3), ann.phone()
    right = ann.lead(phone=chance.choice(("", phone)))
    return [ann.lead(email=wrong, phone=phone), ann.set_city(), right, ann.lead(2, phone=phone)]


def _email_of_another(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben = people
    here, bens_phone = ann.token(), chance.choice(("", ben.phone()))
    return [
        ann.lead(phone=ann.phone()),
        ben.lead(phone=bens_phone),
        # Ben goes on at Ann's device, whose phone comes along.
        ben.lead(token=here, phone=ann.phone()),
        ben.set_city(token=here),
        ann.lead(2),
        ann.set_city(2),
    ]


def _email_of_another_set(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben = people
    values = {"email": ben.email(), "jobtitle": "Baker"}
    return [ann.lead(), ben.lead(), SetProperties(ann.number, ann.token(), values), ann.set_city()]


def _recycled_number(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben = people
    number = ann.phone()
    moved: list[Step] = [ann.lead(2, phone=ann.phone(2)), ann.set_city(2)]
    return [
        ann.lead(phone=number),
        ben.lead(phone=number),
        ben.set_city(),
        *chance.choice((moved, [ann.set_city()])),
        ben.lead(2, phone=number),
    ]


def _number_without_email(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    return [ann.entered(phone=ann.phone()), ann.lead(phone=ann.phone()), ann.set_city()]


def _email_changed_by_hand(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    second, here = ann.email(2), chance.choice((1, 2))
    return [ann.lead(), ann.edited(email=second), ann.lead(here, email=second), ann.set_city(here)]


def _phone_changed_by_hand(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben = people
    free, moved = ann.phone(1), ann.phone(2)
    return [
        ann.lead(phone=free),
        ann.edited(phone=moved),
        ben.lead(),
        ben.lead(phone=free),
        ann.lead(2),
    ]


def _deleted_by_hand(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    again = ann.lead(chance.choice((1, 2)), phone=ann.phone())
    return [ann.lead(phone=ann.phone()), ann.edited(), again]


def _junk(chance: Chance, name: str, *more: str) -> Junk:
    """Return an unfilled variable of this name, in any notation, including those in `more`."""
    form = chance.choice((*_FORMS, *_WORDS, *more))
    return Junk(form % name if form in _FORMS or "%s" in form else form)


def _junk_phone(people: Sequence[Person], chance: Chance) -> list[Step]:
    phone = _junk(chance, "phone", *_NO_PHONES)
    steps: list[Step] = [one.lead(phone=phone) for one in people]
    steps += [one.set_city() for one in people]
    return [*steps, *(one.lead(2, phone=one.phone()) for one in people[1:]), people[0].lead(2)]


def _more_than_a_phone(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben = people
    number = ann.phone()
    text = chance.choice(_MORE_THAN_PHONES).replace("%d", number[1:]).replace("%s", number)
    texts = [ben.lead(phone=Junk(text)), ben.set_city(), ben.lead(2, phone=Junk(text))]
    return [ann.entered(phone=number), *texts, ann.lead(phone=number), ann.lead(phone=Junk(text))]


def _more_than_a_phone_alone(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben = people
    number = ann.phone()
    text = chance.choice(_MORE_THAN_PHONES).replace("%d", number[1:]).replace("%s", number)
    alone = ann.lead(email="", phone=number)
    return [alone, ann.set_city(), ben.lead(email="", phone=Junk(text)), ben.lead(), alone]


def _extension(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben, cleo, dora = people
    # The digits of Ben's number and extension are Ann's number.
    number, digits = ann.phone()[:-2], ann.phone()[-2:]
    other = f"{int(digits) ^ 1:02}"
    phones = (ann.phone(), f"{number} ext. {digits}", number, f"{number} ext. {other}")
    steps: list[Step] = [ann.entered(phone=phones[0])]
    for person, phone in zip((ben, cleo, dora), phones[1:], strict=True):
        steps += [person.lead(phone=phone), person.set_city()]
    again = [one.lead(2, phone=phone) for one, phone in zip(people, phones, strict=True)]
    return [*steps, *again]


def _junk_token(people: Sequence[Person], chance: Chance) -> list[Step]:
    token = chance.choice((_junk(chance, "user_id", *_NO_IDS), Junk("chat-{{user_id}}"), Junk("")))
    steps: list[Step] = [one.lead(token=token, phone=one.phone()) for one in people]
    steps += [one.lead(phone=one.phone()) for one in people]
    return [*steps, SetProperties(people[0].number, token, {"city": people[0].city})]


def _junk_name(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben = people
    name = chance.choice((_junk(chance, "name"), Junk("")))
    half = Junk(f"{ben.first_name} {_junk(chance, 'last_name')}", rest=ben.first_name)
    return [ann.lead(name=name), ann.lead(), ann.lead(name=name), ben.lead(name=half)]


def _junk_email(people: Sequence[Person], chance: Chance) -> list[Step]:
    email = chance.choice((_junk(chance, "email"), Junk("{{user}}@example.com"), Junk("")))
    steps: list[Step] = [one.lead(email=email, phone=one.phone()) for one in people]
    return [*steps, *(one.lead() for one in people), people[0].lead(email=email)]


def _junk_values(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    free = {"address": "Ring <b>twice</b>, 100% sure", "jobtitle": "Baker"}
    values = {"city": _junk(chance, "city"), **free}
    return [ann.lead(), ann.set_city(), SetProperties(ann.number, ann.token(), values)]


def _junk_contact_id(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    return [ann.lead(), CreateDeal(ann.number, _junk(chance, "contactId", *_NO_IDS))]


def _email_at_once(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    second = chance.choice((1, 2))
    twice = (ann.lead(phone=ann.phone()), ann.lead(second, phone=ann.phone()))
    return [twice, ann.set_city(), ann.lead(3)]


def _new_phone_at_once(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben = people
    phone = ann.phone()
    return [(ann.lead(phone=phone), ben.lead(phone=phone)), (ann.set_city(), ben.set_city())]


def _phones_at_once(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    return [(ann.lead(phone=ann.phone(1)), ann.lead(2, phone=ann.phone(2))), ann.set_city(2)]


def _correction_at_once(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    return [(ann.lead(email=ann.email(1)), ann.lead(email=ann.email(2))), ann.set_city()]


def _phone_alone(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    phone = ann.phone()
    alone: list[Step] = [ann.lead(which, email="", phone=phone) for which in (1, 2)]
    return [*alone, ann.set_city(), ann.lead(3, phone=phone), ann.lead(2, email="", phone=phone)]


def _phone_alone_at_once(people: Sequence[Person], chance: Chance) -> list[Step]:
    [ann] = people
    alone = tuple(ann.lead(which, email="", phone=ann.phone()) for which in (1, 2))
    return [alone, ann.set_city(2), ann.lead(1, phone=ann.phone())]


def _phone_alone_of_two(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben = people
    phone = ann.phone()
    # Until Ben says his email, nobody can tell him from Ann.
    nameless = ben.lead(name="", email="", phone=phone)
    return [ann.lead(phone=phone), ann.set_city(), nameless, ben.lead(phone=phone), ben.set_city()]


def _junk_phone_alone(people: Sequence[Person], chance: Chance) -> list[Step]:
    phone = _junk(chance, "phone", *_NO_PHONES)
    steps: list[Step] = [one.lead(email="", phone=phone) for one in people]
    return [*steps, *(one.lead(email="", phone=one.phone()) for one in people)]


def _phone_decides(people: Sequence[Person], chance: Chance) -> list[Step]:
    ann, ben = people
    return [
        ann.lead(phone=ann.phone()),
        ben.lead(phone=ben.phone()),
        # Each comes with another email: Ann in a new conversation, Ben in hers.
        ann.lead(2, email=ann.email(2), phone=ann.phone()),
        ben.lead(token=ann.token(), email=ben.email(2), phone=ben.phone()),
        ben.set_city(token=ann.token()),
        ann.set_city(2),
    ]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of scene: its number of people, its account, and its only CRM, if it has one."""

    name: str
    people: int
    script: Script
    account: str = "emails"
    crm: str = ""


ACCOUNTS: Mapping[str, Mapping[str, str]] = {
    "emails": {},
    "phones": {"lead_requires": "email_or_phone"},
    "whatsapp": {"lead_requires": "email_or_phone", "phone_identifies": "true"},
}
"""The accounts of a run by name, with their switches."""

KINDS = (
    Kind("phone shared by two", 2, _phone_of_two),
    Kind("phone shared by ten", 10, _phone_of_ten),
    Kind("phone shared by ten at once", 10, _phone_of_ten_at_once),
    Kind("second email, secondary in the CRM", 1, _secondary_email, crm="hubspot"),
    Kind("another's secondary email", 2, _secondary_email_of_another, crm="hubspot"),
    Kind("second email in the conversation", 1, _second_email_here),
    Kind("second email elsewhere, same phone", 1, _second_email_elsewhere),
    Kind("corrected email", 1, _corrected_email),
    Kind("another's email in the conversation", 2, _email_of_another),
    Kind("another's email by setProperties", 2, _email_of_another_set),
    Kind("recycled number", 2, _recycled_number),
    Kind("number of a contact without email", 1, _number_without_email),
    Kind("email changed by hand", 1, _email_changed_by_hand),
    Kind("number changed by hand", 2, _phone_changed_by_hand),
    Kind("contact deleted by hand", 1, _deleted_by_hand),
    Kind("junk phone", 3, _junk_phone),
    Kind("text or messenger's id as a phone", 2, _more_than_a_phone),
    Kind("number with an extension", 4, _extension),
    Kind("junk contactToken", 3, _junk_token),
    Kind("junk name", 2, _junk_name),
    Kind("junk email", 3, _junk_email),
    Kind("junk property", 1, _junk_values),
    Kind("junk contactId", 1, _junk_contact_id),
    Kind("one email at once", 1, _email_at_once),
    Kind("one new phone at once", 2, _new_phone_at_once),
    Kind("one email at once, two phones", 1, _phones_at_once),
    Kind("two emails at once, one conversation", 1, _correction_at_once),
    Kind("phone alone", 1, _phone_alone, account="phones"),
    Kind("phone alone at once", 1, _phone_alone_at_once, account="phones"),
    Kind("phone alone of two", 2, _phone_alone_of_two, account="phones"),
    Kind("text as a phone alone", 2, _more_than_a_phone_alone, account="phones"),
    Kind("junk phone alone", 2, _junk_phone_alone, account="phones"),
    Kind("phone before conversation", 2, _phone_decides, account="whatsapp"),
)
NO_CLASH = Kind("no clash", 1, _no_clash)


@dataclass(frozen=True, slots=True)
class Scene:
    """The calls that one caller sends for some people."""

    kind: Kind
    people: tuple[Person, ...]
    steps: tuple[Step, ...]

    @property
    def calls(self) -> Iterator[Call]:
        """Every call of the scene."""
        for step in self.steps:
            yield from step if isinstance(step, tuple) else (step,)


def scenes(people: int, crm: str, seed: int) -> list[Scene]:
    """Return scenes for this number of people in random order; each kind has its share of them.

    The remaining people have no clash. Each kind has at least one scene, so a small number of
    people may become a little larger.
    """
    chance = random.Random(seed)
    kinds = [one for one in KINDS if one.crm in ("", crm)]
    crowd = map(Person, count())
    # As many people have no clash as have one of each kind.
    share = people // (len(kinds) + 1)
    made = [
        _scene(kind, list(islice(crowd, kind.people)), chance)
        for kind in kinds
        for _ in range(max(1, share // kind.people))
    ]
    rest = people - sum(len(scene.people) for scene in made)
    made += [_scene(NO_CLASH, [one], chance) for one in islice(crowd, max(0, rest))]
    chance.shuffle(made)
    return made


def _scene(kind: Kind, people: Sequence[Person], chance: Chance) -> Scene:
    return Scene(kind, tuple(people), tuple(kind.script(people, chance)))
