"""First and last names in a CRM that has one property for the whole name.

The hub joins both to one name for such an adapter, and splits the name that the adapter returns.
Where the plain name would be split otherwise, an invisible character stands between the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from crmhub.adapter.context import Context
from crmhub.adapter.contract import Adapter, features
from crmhub.adapter.errors import AdapterError, Conflict, NotFound, Problem, Rejected
from crmhub.adapter.values import Changes, Contact, ContactWrite, Described, Kind, Saved, Written

T = TypeVar("T")

HALVES = ("firstname", "lastname")
BORDER = "\u2060"
"""WORD JOINER: takes no room, is no white space, and so survives trimming."""


def join(first: str, last: str) -> str:
    """Return the whole name that `split` reverses; a BORDER inside of `first` is lost."""
    first = first.replace(BORDER, "")
    blank = " " if first and last else ""
    plain = f"{first}{blank}{last}"
    return plain if split(plain) == (first, last) else f"{first}{blank}{BORDER}{last}"


def split(name: str) -> tuple[str, str]:
    first, border, last = name.partition(BORDER)
    if border:
        return first.removesuffix(" ") if last else first, last
    first, _, last = name.strip().partition(" ")
    return first, last.strip()


def open_adapter(adapter_class: type[Adapter], context: Context) -> Adapter:
    if not adapter_class.whole_name:
        return adapter_class(context)
    bases = (_Split, adapter_class)
    made: Adapter = type(adapter_class.__name__, bases, {"plain": adapter_class})(context)
    return made


class _Split(Adapter):
    """Joins and splits the name; a class for each adapter class, `plain`, inherits from both."""

    plain: type[Adapter]

    def can(self, feature: str) -> bool:
        return feature in features(self.plain)

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        asked = self.__asked(names)
        found = super().find_contact(email=email, phone=phone, names=asked)  # type: ignore[safe-super]
        return None if found is None else self.__halved(found, names)

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        found = super().get_contact(contact_id, self.__asked(names))  # type: ignore[safe-super]
        return self.__halved(found, names)

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        found = super().find_contacts(emails=emails, phones=phones, names=self.__asked(names))
        return {value: self.__halved(contact, names) for value, contact in found.items()}

    def describe(self, kind: Kind) -> list[Described]:
        described = super().describe(kind)
        if kind == "contacts":
            described += [
                Described("firstname", "First name", "string"),
                Described("lastname", "Last name", "string"),
            ]
        return described

    def __asked(self, names: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(self.whole_name if name in HALVES else name for name in names))

    def __halved(self, contact: Contact, names: Sequence[str]) -> Contact:
        values = dict(contact.properties)
        if self.whole_name in values:
            values |= zip(HALVES, split(values[self.whole_name]), strict=True)
        return replace(contact, properties={n: values[n] for n in names if n in values})

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        with self.__blaming(properties):
            saved = super().create_contact(self.__joined(properties), mark=mark)  # type: ignore[safe-super]
        return self.__blamed(saved, properties)

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        complete = self.__completed(contact_id, properties)
        with self.__blaming(properties):
            saved = super().update_contact(contact_id, self.__joined(complete))  # type: ignore[safe-super]
        return self.__blamed(saved, properties)

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        outcomes: dict[int, Saved | AdapterError | None] = {}
        sent: dict[int, ContactWrite] = {}
        for index, write in enumerate(writes):
            try:
                complete = self.__completed(write.contact_id, write.properties)
                sent[index] = replace(write, properties=self.__joined(complete))
            except NotFound:
                # Made in a call of its own, the hub looks for the person once more.
                outcomes[index] = None
            except AdapterError as exc:
                outcomes[index] = exc
        written = super().write_contacts([*sent.values()]) if sent else []
        for index, outcome in zip(sent, written, strict=True):
            outcomes[index] = self.__blamed(outcome, writes[index].properties)
        return [outcomes[index] for index in range(len(writes))]

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        halves = {name: value for name, value in properties.items() if name in HALVES}
        held = replace(contact, properties=_without(contact.properties))
        found = super().changes(held, _without(properties))
        if any(contact.properties.get(name) != value for name, value in halves.items()):
            found = replace(found, properties={**found.properties, **halves})
        return found

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        if kind == "contacts":
            sent = self.__joined(sent)
        return super().find_marked(kind, contact_id, mark, sent=sent, since_ms=since_ms)

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        if kind == "contacts":
            properties = self.__joined(properties)
        return super().may_land_for(kind, properties)

    def __joined(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties with the whole name; raises Rejected if it was given, too."""
        if not properties.keys() & {*HALVES}:
            return dict(properties)
        if self.whole_name in properties:
            reason = "send first and last name, or the whole name"
            raise Rejected([Problem(self.whole_name, reason)])
        first, last = (properties.get(name, "") for name in HALVES)
        return {**_without(properties), self.whole_name: join(first, last)}

    def __completed(self, contact_id: str, properties: Mapping[str, str]) -> Mapping[str, str]:
        if not contact_id or len(properties.keys() & {*HALVES}) != 1:
            return properties
        held = self.get_contact(contact_id, HALVES).properties
        return {**held, **properties}

    def __blamed(self, outcome: T, properties: Mapping[str, str]) -> T:
        if isinstance(outcome, Saved) and outcome.refused:
            return replace(outcome, refused=self.__problems(outcome.refused, properties))
        if isinstance(outcome, Rejected):
            outcome.set_problems(self.__problems(outcome.problems, properties))
        if isinstance(outcome, Conflict) and outcome.name == self.whole_name:
            outcome.name = next((name for name in HALVES if name in properties), outcome.name)
        return outcome

    @contextmanager
    def __blaming(self, properties: Mapping[str, str]) -> Iterator[None]:
        try:
            yield
        except (Rejected, Conflict) as exc:
            self.__blamed(exc, properties)
            raise

    def __problems(
        self, problems: Sequence[Problem], properties: Mapping[str, str]
    ) -> tuple[Problem, ...]:
        halves = [name for name in HALVES if name in properties]
        return tuple(
            replace(problem, name=name)
            for problem in problems
            for name in (halves if problem.name == self.whole_name and halves else [problem.name])
        )


def _without(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name not in HALVES}
