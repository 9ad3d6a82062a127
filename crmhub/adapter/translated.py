"""An adapter around another one, for a field map and for a CRM that has only whole names.

Its callers use the bots' names and values. Only this module applies field maps. The journal, the
refused properties and the stored values use the names that bots use, so a retried action is mapped
by the present field map, also after a correction or a change of the CRM. Only the constants of the
field map are added earlier (`FieldMap.completed`), so that a refused constant is left out like any
property.

For an adapter with a `whole_name`, first and last name are joined, and the name that the adapter
returns is split. Where the plain name would be split otherwise, an invisible character stands
between the two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from crmhub.adapter.context import Context
from crmhub.adapter.contract import Adapter
from crmhub.adapter.errors import AdapterError, Conflict, NotFound, Problem, Rejected
from crmhub.adapter.values import (
    ChangedPage,
    Changes,
    Contact,
    ContactWrite,
    Described,
    Kind,
    Linked,
    Record,
    Saved,
)
from crmhub.translatable import translatable

HALVES = ("firstname", "lastname")
BORDER = "\u2060"
"""WORD JOINER: takes no room, is no white space, and so survives trimming."""


class Rules(Protocol):
    """The field map of a kind of record; see `crmhub.accounts.field_maps.KindMap`."""

    def crm_name(self, name: str) -> str | None: ...

    def hub_name(self, name: str) -> str: ...

    def hub_value(self, name: str, value: str) -> str: ...

    def sent(self, properties: Mapping[str, str]) -> dict[str, str]: ...

    def nameless(self, properties: Mapping[str, str]) -> list[tuple[str, str]]: ...


class FieldMap(Protocol):
    def of(self, kind: Kind) -> Rules: ...


class _NoMap:
    """The field map, and the rules of each kind, of a connection without any."""

    def of(self, kind: Kind) -> Rules:
        return self

    def crm_name(self, name: str) -> str:
        return name

    hub_name = crm_name

    def hub_value(self, name: str, value: str) -> str:
        return value

    def sent(self, properties: Mapping[str, str]) -> dict[str, str]:
        return dict(properties)

    def nameless(self, properties: Mapping[str, str]) -> list[tuple[str, str]]:
        return []


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


def open_adapter(
    adapter_class: type[Adapter], context: Context, field_map: FieldMap | None = None
) -> Adapter:
    adapter = adapter_class(context)
    return Translated(adapter, field_map) if field_map or adapter.whole_name else adapter


class Translated(Adapter):
    """Takes and returns the names and values of bots; all that has none is `inner`'s own."""

    def __init__(self, inner: Adapter, field_map: FieldMap | None = None) -> None:
        super().__init__(inner.context)
        self._inner = inner
        self._map = field_map or _NoMap()
        self._contacts = self._map.of("contacts")
        self._halves = HALVES if inner.whole_name else ()
        for name in ("title", *dir(Adapter)):
            if not name.startswith("_") and name not in vars(Translated):
                setattr(self, name, getattr(inner, name))

    # Contacts.

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        found = self._inner.find_contact(email=email, phone=phone, names=self._asked(names))
        return None if found is None else self._contact(found, names)

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        return self._contact(self._inner.get_contact(contact_id, self._asked(names)), names)

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        found = self._inner.find_contacts(emails=emails, phones=phones, names=self._asked(names))
        return {value: self._contact(one, names) for value, one in found.items()}

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        sent = self._sent("contacts", properties)
        with self._in_bot_names("contacts", sent):
            saved = self._inner.create_contact(self._with_whole_name(sent), mark=mark)
        return self._saved("contacts", saved, sent)

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        sent = self._sent("contacts", properties)
        with self._in_bot_names("contacts", sent):
            complete = self._with_whole_name(sent, contact_id)
            saved = self._inner.update_contact(contact_id, complete)
        return self._saved("contacts", saved, sent)

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        outcomes: dict[int, Saved | AdapterError | None] = {}
        sent: dict[int, Mapping[str, str]] = {}
        complete: dict[int, ContactWrite] = {}
        for index, write in enumerate(writes):
            try:
                sent[index] = self._sent("contacts", write.properties)
                properties = self._with_whole_name(sent[index], write.contact_id)
                complete[index] = replace(write, properties=properties)
            except NotFound:
                # Made in a call of its own, the hub looks for the person once more.
                outcomes[index] = None
            except AdapterError as exc:
                outcomes[index] = exc
        answered: list[Saved | AdapterError | None] = []
        if complete or not writes:
            answered = self._inner.write_contacts(list(complete.values()))
        for index, answer in zip(complete, answered, strict=True):
            if isinstance(answer, Saved):
                outcomes[index] = self._saved("contacts", answer, sent[index])
            else:
                outcomes[index] = answer and self._error("contacts", answer, sent[index])
        return [outcomes[index] for index in range(len(writes))]

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        rules = self._contacts
        held, sent = rules.sent(contact.properties), self._sent("contacts", properties)
        halves = {name: value for name, value in sent.items() if name in self._halves}
        others = {name: value for name, value in held.items() if name not in self._halves}
        rest = {name: value for name, value in sent.items() if name not in halves}
        with self._in_bot_names("contacts", sent):
            found = self._inner.changes(replace(contact, properties=others), rest)
        theirs = dict(found.properties)
        if any(held.get(name) != value for name, value in halves.items()):
            theirs |= halves
        changed = {n: v for n, v in properties.items() if rules.crm_name(n) in theirs}
        # An adapter may take a property under several names, and answer with another one of them.
        for name in theirs.keys() - {rules.crm_name(n) for n in changed}:
            if rules.crm_name(hub_name := rules.hub_name(name)) == name:
                changed[hub_name] = rules.hub_value(hub_name, theirs[name])
        for name in changed:
            # An adapter may keep further emails beside the one that was sent.
            if (crm_name := rules.crm_name(name)) == "email":
                changed[name] = rules.hub_value(name, theirs[crm_name])
        return Changes(changed, self._problems("contacts", found.refused, sent))

    # Deals and tickets.

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        sent = self._sent(kind, properties)
        with self._in_bot_names(kind, sent):
            saved = self._inner.create_for_contact(kind, contact_id, sent, mark=mark)
        return self._saved(kind, saved, sent)

    def find_marked(
        self,
        kind: Kind,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        sent = self._map.of(kind).sent(sent)
        complete = self._with_whole_name(sent) if kind == "contacts" else sent
        found = self._inner.find_marked(kind, contact_id, mark, sent=complete, since_ms=since_ms)
        return found and self._saved(kind, found, sent)

    def find_apart(
        self,
        kind: Kind,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        sent = self._map.of(kind).sent(sent)
        complete = self._with_whole_name(sent) if kind == "contacts" else sent
        found = self._inner.find_apart(
            kind, contact_id, mark, sent=complete, since_ms=since_ms, others=others
        )
        return found and self._saved(kind, found, sent)

    def may_land_for(
        self, kind: Kind, properties: Mapping[str, str], *, contact_id: str = ""
    ) -> float:
        sent = self._map.of(kind).sent(properties)
        complete = self._with_whole_name(sent) if kind == "contacts" else sent
        return self._inner.may_land_for(kind, complete, contact_id=contact_id)

    def check_place(self, kind: Linked, properties: Mapping[str, str]) -> None:
        sent = self._map.of(kind).sent(properties)
        with self._in_bot_names(kind, sent):
            self._inner.check_place(kind, sent)

    def describe(self, kind: Kind) -> list[Described]:
        described = self._inner.describe(kind)
        if kind == "contacts" and self._halves:
            described += [
                Described("firstname", "First name", "string"),
                Described("lastname", "Last name", "string"),
            ]
        return described

    # Records of any kind.

    def changed_since(self, kind: Kind, since: str, names: Sequence[str]) -> ChangedPage:
        page = self._inner.changed_since(kind, since, self._asked(names, kind))
        return replace(page, records=tuple(self._record(kind, one, names) for one in page.records))

    def get_records(self, kind: Kind, ids: Sequence[str], names: Sequence[str]) -> list[Record]:
        found = self._inner.get_records(kind, ids, self._asked(names, kind))
        return [self._record(kind, one, names) for one in found]

    def write(
        self, kind: Kind, record_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        sent = self._sent(kind, properties)
        with self._in_bot_names(kind, sent):
            complete = self._with_whole_name(sent, record_id) if kind == "contacts" else sent
            saved = self._inner.write(kind, record_id, complete, mark=mark)
        return self._saved(kind, saved, sent)

    def _record(self, kind: Kind, found: Record, names: Sequence[str]) -> Record:
        return replace(found, properties=self._known(kind, found.properties, names))

    # Translation.

    def _asked(self, names: Sequence[str], kind: Kind = "contacts") -> list[str]:
        rules = self._map.of(kind)
        halves = self._halves if kind == "contacts" else ()
        asked = (rules.crm_name(name) for name in names)
        whole = self._inner.whole_name
        return list(dict.fromkeys(whole if one in halves else one for one in asked if one))

    def _contact(self, found: Contact, names: Sequence[str]) -> Contact:
        return replace(found, properties=self._known("contacts", found.properties, names))

    def _known(
        self, kind: Kind, properties: Mapping[str, str], names: Sequence[str]
    ) -> dict[str, str]:
        """Return the properties `names` under the names and with the values that bots use."""
        rules, values = self._map.of(kind), dict(properties)
        whole = values.get(self._inner.whole_name) if kind == "contacts" else None
        if whole is not None:
            values |= zip(self._halves, split(whole), strict=False)
        return {
            name: rules.hub_value(name, values[theirs])
            for name in names
            if (theirs := rules.crm_name(name)) is not None and theirs in values
        }

    def _sent(self, kind: Kind, properties: Mapping[str, str]) -> dict[str, str]:
        """Convert properties to the CRM's names and values; Rejected for those without a name."""
        rules = self._map.of(kind)
        if nameless := rules.nameless(properties):
            raise Rejected([Problem(name, reason) for name, reason in nameless])
        return rules.sent(properties)

    def _with_whole_name(self, sent: Mapping[str, str], contact_id: str = "") -> dict[str, str]:
        """Join the name; a missing half is read from the contact with this id.

        Raises Rejected if the whole name was sent, too.
        """
        halves, whole = sent.keys() & {*self._halves}, self._inner.whole_name
        if not halves:
            return dict(sent)
        if contact_id and len(halves) == 1:
            held = self._inner.get_contact(contact_id, [whole]).properties.get(whole, "")
            sent = {**dict(zip(self._halves, split(held), strict=True)), **sent}
        if whole in sent:
            raise Rejected(
                [Problem(whole, translatable("send first and last name, or the whole name"))]
            )
        rest = {name: value for name, value in sent.items() if name not in self._halves}
        return {**rest, whole: join(*(sent.get(name, "") for name in self._halves))}

    # The names in outcomes.

    def _saved(self, kind: Kind, saved: Saved, sent: Mapping[str, str]) -> Saved:
        if not saved.refused:
            return saved
        return replace(saved, refused=self._problems(kind, saved.refused, sent))

    @contextmanager
    def _in_bot_names(self, kind: Kind, sent: Mapping[str, str]) -> Iterator[None]:
        """Convert the CRM's property names in errors that the block raises to the bots'."""
        try:
            yield
        except (Rejected, Conflict) as exc:
            translated = self._error(kind, exc, sent)
            if translated is exc:
                raise
            raise translated from exc

    def _error(self, kind: Kind, exc: AdapterError, sent: Mapping[str, str]) -> AdapterError:
        translated: AdapterError
        if isinstance(exc, Rejected) and exc.problems:
            # With a field map, the adapter's own message may name what bots call otherwise.
            message = exc.message if isinstance(self._map, _NoMap) else ""
            translated = Rejected(exc.problems, message)
            translated.set_problems(self._problems(kind, exc.problems, sent))
        elif isinstance(exc, Conflict) and exc.name:
            name, *_ = self._names(kind, exc.name, sent)
            translated = Conflict(exc.message, existing_id=exc.existing_id, name=name)
        else:
            return exc
        translated.correlation_id = exc.correlation_id
        return translated

    def _problems(
        self, kind: Kind, problems: Sequence[Problem], sent: Mapping[str, str]
    ) -> tuple[Problem, ...]:
        rules = self._map.of(kind)
        return tuple(
            Problem(name, one.reason, tuple(rules.hub_value(name, each) for each in one.options))
            for one in problems
            for name in self._names(kind, one.name, sent)
        )

    def _names(self, kind: Kind, theirs: str, sent: Mapping[str, str]) -> list[str]:
        """Return the bots' names of a property; of the whole name, those of the halves sent."""
        is_whole = kind == "contacts" and theirs == self._inner.whole_name
        halves = [name for name in self._halves if name in sent] if is_whole else []
        return [self._map.of(kind).hub_name(name) for name in halves or [theirs]]
