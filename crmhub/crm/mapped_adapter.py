"""An adapter that applies the account's field map: its callers use the bots' names and values.

Only this module applies field maps. The journal, the refused properties and the stored values use
the names that bots use, so a retried action is mapped by the present field map, also after a
correction or a change of the CRM. Only the constants of the field map are added earlier
(`FieldMap.completed`), so that a refused constant is left out like any property.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from crmhub.accounts.field_maps import FieldMap, KindMap
from crmhub.adapter import (
    Adapter,
    AdapterError,
    Changes,
    Conflict,
    Contact,
    ContactWrite,
    Described,
    Kind,
    Linked,
    Owner,
    Pipeline,
    Problem,
    Rejected,
    Saved,
    Written,
)

# The class attributes that the wrapped adapter may have of its own.
_ATTRIBUTES = (
    *("title", "own_titles", "settings", "record_pages", "remote", "batch_size", "email_names"),
    *("unique_emails", "phone_names", "remembered_first", "may_be_id", "under_way_s"),
)


class Translated(Adapter):
    """An adapter around another one: it takes and returns the names and values of bots."""

    def __init__(self, inner: Adapter, field_map: FieldMap) -> None:
        super().__init__(inner.context)
        self._inner = inner
        self._map = field_map
        self._contacts = field_map.of("contacts")
        vars(self).update({name: getattr(inner, name) for name in _ATTRIBUTES})

    def can(self, feature: str) -> bool:
        return self._inner.can(feature)

    # Contacts.

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        found = self._inner.find_contact(email=email, phone=phone, names=self._asked(names))
        return None if found is None else self._contact(found, names)

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        return self._contact(self._inner.get_contact(contact_id, self._asked(names)), names)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        sent = _sent(self._contacts, properties)
        with _in_bot_names(self._contacts):
            return _saved(self._contacts, self._inner.create_contact(sent, mark=mark))

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        sent = _sent(self._contacts, properties)
        with _in_bot_names(self._contacts):
            return _saved(self._contacts, self._inner.update_contact(contact_id, sent))

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        found = self._inner.find_contacts(emails=emails, phones=phones, names=self._asked(names))
        return {value: self._contact(one, names) for value, one in found.items()}

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        outcomes: dict[int, Saved | AdapterError | None] = {}
        sent: dict[int, ContactWrite] = {}
        for index, write in enumerate(writes):
            try:
                properties = _sent(self._contacts, write.properties)
            except Rejected as exc:
                outcomes[index] = exc
            else:
                sent[index] = replace(write, properties=properties)
        answered = self._inner.write_contacts(list(sent.values())) if sent else []
        for index, answer in zip(sent, answered, strict=True):
            match answer:
                case Saved():
                    outcomes[index] = _saved(self._contacts, answer)
                case AdapterError():
                    outcomes[index] = _error(self._contacts, answer)
                case None:
                    outcomes[index] = None
        return [outcomes[index] for index in range(len(writes))]

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        rules = self._contacts
        held = replace(contact, properties=rules.sent(contact.properties))
        with _in_bot_names(rules):
            found = self._inner.changes(held, _sent(rules, properties))
        changed = {n: v for n, v in properties.items() if rules.crm_name(n) in found.properties}
        for name in changed:
            # An adapter may keep further emails beside the one that was sent.
            if (theirs := rules.crm_name(name)) == "email":
                changed[name] = rules.hub_value(name, found.properties[theirs])
        return Changes(changed, tuple(_problem(rules, one) for one in found.refused))

    def has_email(self, contact: Contact, email: str) -> bool:
        return self._inner.has_email(contact, email)

    def has_phone(self, contact: Contact, phone: str) -> bool:
        return self._inner.has_phone(contact, phone)

    # Deals and tickets.

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        rules = self._map.of(kind)
        sent = _sent(rules, properties)
        with _in_bot_names(rules):
            return _saved(rules, self._inner.create_for_contact(kind, contact_id, sent, mark=mark))

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        rules = self._map.of(kind)
        found = self._inner.find_marked(
            kind, contact_id, mark, sent=rules.sent(sent), since_ms=since_ms
        )
        return None if found is None else _saved(rules, found)

    def find_apart(
        self,
        kind: Linked,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        rules = self._map.of(kind)
        found = self._inner.find_apart(
            kind, contact_id, mark, sent=rules.sent(sent), since_ms=since_ms, others=others
        )
        return None if found is None else _saved(rules, found)

    def may_land_for(self, kind: Written, properties: Mapping[str, str]) -> float:
        return self._inner.may_land_for(kind, self._map.of(kind).sent(properties))

    def check_place(self, kind: Linked, properties: Mapping[str, str]) -> None:
        rules = self._map.of(kind)
        with _in_bot_names(rules):
            self._inner.check_place(kind, rules.sent(properties))

    # Methods that need no translation.

    def active_workflow(self, contact_id: str, *, since_ms: int) -> str:
        return self._inner.active_workflow(contact_id, since_ms=since_ms)

    def check(self) -> None:
        self._inner.check()

    def describe(self, kind: Kind) -> list[Described]:
        return self._inner.describe(kind)

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        return self._inner.pipelines(kind)

    def owners(self) -> list[Owner]:
        return self._inner.owners()

    # Translation.

    def _asked(self, names: Sequence[str]) -> list[str]:
        asked = (self._contacts.crm_name(name) for name in names)
        return [name for name in asked if name is not None]

    def _contact(self, found: Contact, names: Sequence[str]) -> Contact:
        known = {
            name: self._contacts.hub_value(name, found.properties[theirs])
            for name in names
            if (theirs := self._contacts.crm_name(name)) is not None and theirs in found.properties
        }
        return replace(found, properties=known)


def _sent(rules: KindMap, properties: Mapping[str, str]) -> dict[str, str]:
    """Convert properties to the CRM's names and values; Rejected for those without a name."""
    if nameless := rules.nameless(properties):
        raise Rejected([Problem(name, reason) for name, reason in nameless])
    return rules.sent(properties)


def _saved(rules: KindMap, saved: Saved) -> Saved:
    if not saved.refused:
        return saved
    return replace(saved, refused=tuple(_problem(rules, one) for one in saved.refused))


@contextmanager
def _in_bot_names(rules: KindMap) -> Iterator[None]:
    """Convert property names in errors that the block raises from the CRM's names to the bots'."""
    try:
        yield
    except (Rejected, Conflict) as exc:
        translated = _error(rules, exc)
        if translated is exc:
            raise
        raise translated from exc


def _error(rules: KindMap, exc: AdapterError) -> AdapterError:
    translated: AdapterError
    match exc:
        case Rejected() if exc.problems:
            translated = Rejected([_problem(rules, one) for one in exc.problems])
        case Conflict() if exc.name:
            name = rules.hub_name(exc.name)
            translated = Conflict(exc.message, existing_id=exc.existing_id, name=name)
        case _:
            return exc
    translated.correlation_id = exc.correlation_id
    return translated


def _problem(rules: KindMap, one: Problem) -> Problem:
    name = rules.hub_name(one.name)
    options = tuple(rules.hub_value(name, option) for option in one.options)
    return Problem(name, one.reason, options)
