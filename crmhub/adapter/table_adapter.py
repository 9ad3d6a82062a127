"""The base class of adapters that are tables and a few hooks.

An adapter declares its CRM's kinds of records and the types of its values (`tables`), and overrides
the hooks that its CRM needs. This class does what all CRMs have in common: it compares the whole
values of the records that a search finds, takes the oldest, converts values both ways by the CRM's
definitions, names problems as the caller does, and looks for the records of unanswered creates.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar

from crmhub.adapter.answers import parse_time
from crmhub.adapter.batches import Action, Results, write_batches
from crmhub.adapter.coercion import Misfit
from crmhub.adapter.context import Context
from crmhub.adapter.contract import Adapter
from crmhub.adapter.creates import Create
from crmhub.adapter.emails import free_email, free_emails
from crmhub.adapter.errors import (
    AdapterError,
    Conflict,
    LacksRight,
    NotFound,
    Problem,
    Rejected,
    Unavailable,
    Uncertain,
    Unsupported,
)
from crmhub.adapter.fields import Field, Fields
from crmhub.adapter.fitting import Fitting
from crmhub.adapter.phones import has_number
from crmhub.adapter.remembered import HOUR
from crmhub.adapter.several import Several
from crmhub.adapter.tables import CODECS, Codec, Records, Row, Write, id_in_json
from crmhub.adapter.types import to_text
from crmhub.adapter.values import (
    Changes,
    Choice,
    Contact,
    ContactWrite,
    Described,
    Kind,
    Linked,
    Outcome,
    Owner,
    Pipeline,
    Record,
    Saved,
)
from crmhub.translatable import translatable

# What stands between the emails, or the phones, of one property.
_BETWEEN_EMAILS = re.compile(r"[\s,;<>\"]+")
_BETWEEN_PHONES = re.compile(r"[|\n]")
_HOOKS = {
    "archive": "delete",
    "find_apart": "find_create",
    "find_contacts": "send_batch",
    "find_marked": "find_create",
    "get_records": "read_several",
    "link": "delete",
    "merge": "merge_into",
    "owners": "load_owners",
    "pipelines": "load_pipelines",
    "write": "delete",
    "write_contacts": "send_batch",
}


class TableDefinitions(Fields[Field]):
    """The definitions that the hooks of a `TableAdapter` load, under the hub's and the CRM's names.

    An adapter with definitions of its own kind derives from it, and sets `definitions_class`.
    """

    def __init__(self, adapter: TableAdapter) -> None:
        self._adapter = adapter
        self.types = adapter.shared_types
        super().__init__(adapter.context, adapter.kinds)

    def load_fields(self, kind: Kind) -> Iterable[Field]:
        return filter(None, self._adapter.load_fields(kind))

    def load_list(self, name: str, kind: Kind) -> dict[str, Described] | None:
        """Callers may use the CRM's own names, too; of two fields, the hub's name counts."""
        fields = list(self.load_fields(kind))
        theirs: dict[str, Described] = {field.theirs: field for field in fields}
        return theirs | {field.name: field for field in fields}

    def properties(
        self, kind: Kind, names: Iterable[str], *, newer_than: float = HOUR
    ) -> dict[str, Described]:
        """Raises Rejected for a list of `several`, whose entries have names of their own."""
        names = set(names)
        found = super().properties(kind, names, newer_than=newer_than)
        entries: dict[str, list[str]] = {}
        for name, one in self._adapter.several.items() if kind == "contacts" else ():
            if one.path in names - found.keys():
                ours = self._adapter.kinds[kind].ours(name)
                entries.setdefault(one.path, []).append(ours)
        if entries:
            reasons = {path: " or ".join(ours) for path, ours in entries.items()}
            raise Rejected(
                [
                    Problem(n, translatable("it is read-only; send %(right)s", right=w))
                    for n, w in reasons.items()
                ]
            )
        return found

    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        return self._adapter.load_pipelines(kind)

    def load_owners(self) -> list[Owner]:
        return self._adapter.load_owners()


class TableAdapter(Adapter):
    """Runs the tables `kinds` and `codecs`; the hooks stand below, in the order of their use."""

    kinds: ClassVar[Mapping[Kind, Records]]
    """An instance may have its own: its constructor sets them before it calls the base's."""
    codecs: ClassVar[Mapping[str, Codec]] = CODECS
    """By the CRM's names of types; fields of other types are no properties."""
    several: ClassVar[Mapping[str, Several]] = MappingProxyType({})
    """By the CRM's names, the properties of contacts that are entries of lists.

    The contact is read before such a list is written, since all its other entries are sent again.
    All values of a list in one text are a contact's property with the name of the list, too.
    """
    searched_emails: ClassVar[tuple[str, ...]] = ()
    """The properties that a search by email compares, if not all of `email_names`."""
    id_form: ClassVar[re.Pattern[str]] = re.compile(r"[1-9][0-9]{0,19}", re.ASCII)
    largest_id: ClassVar[int] = 10**20
    owner_name: ClassVar[str] = "hubspot_owner_id"
    """The hub's name of the property with an owner's id, whom bots may name by email."""
    one_link: ClassVar[bool] = False
    """Whether a record is linked to one other record, of whatever kind."""
    reads_first: ClassVar[bool] = False
    """Whether `Write.contact` has been read before an update, a deal or a ticket."""
    shared_types: ClassVar[tuple[type, ...]] = (Field,)
    """The dataclasses that `load_fields` and `load_pipelines` return, but those of the contract."""
    definitions_class: ClassVar[type[TableDefinitions]] = TableDefinitions

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A feature whose hook the adapter lacks is not announced: the contract's method refuses it.
        for feature, hook in _HOOKS.items():
            has_hook = getattr(cls, hook) is not getattr(TableAdapter, hook)
            if getattr(cls, feature) in (getattr(TableAdapter, feature), getattr(Adapter, feature)):
                setattr(cls, feature, getattr(TableAdapter if has_hook else Adapter, feature))

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.definitions = self.definitions_class(self)
        self.fitting = Fitting(
            self.definitions,
            theirs=lambda kind, name: self.kinds[kind].theirs(name),
            owner=self.owner_name,
        )

    # Hooks: reading.

    @abstractmethod
    def find(self, by: str, values: Sequence[str], names: Sequence[str]) -> Iterable[Row]:
        """Return candidates: contacts that may have one of `values`, with the properties `names`.

        `by` is "email" (`values` in lower case) or "phone". The order does not matter, and a
        contact that has none of the values is left out later.
        """

    @abstractmethod
    def read(self, contact_id: str, names: Sequence[str]) -> Row:
        """Return a contact with the properties `names`; raises NotFound."""

    def read_several(self, kind: Kind, ids: Sequence[str], names: Sequence[str]) -> Iterable[Row]:
        """Return records of any kind, without those that do not exist or are deleted.

        Each has the times and the links that `kinds` names.
        """
        raise NotImplementedError

    def links(self, kind: Kind) -> Mapping[Kind, str]:
        """Return the CRM's names of the fields that hold linked records, by the kind of these."""
        return self.kinds[kind].links

    def age(self, row: Row) -> Any:
        """Return what is least for the oldest of several contacts; by default the numeric id."""
        return len(str(row["id"])), str(row["id"])

    def text(self, field: Field, row: Row) -> str:
        """Return the text of a property of a record."""
        if field.theirs in self.several:
            return self.several[field.theirs].text(row)
        return self.codecs[field.their_type].read(row.get(field.theirs))

    def seconds(self, value: Any) -> float:
        """Return a time of a record in seconds since 1970; 0 for no value."""
        return parse_time(value)

    # Hooks: writing.

    @abstractmethod
    def send(self, write: Write) -> Row:
        """Create or update a record in the CRM; return a row with its id."""

    def json(self, field: Field, text: str, write: Write) -> Any:
        """Return the JSON of a text that fits its property; raises Misfit."""
        codec = self.codecs[field.their_type]
        return codec.write(text) if text else codec.blank

    def before_write(self, write: Write) -> None:
        """Complete `write.values`: what the CRM demands, the link to the contact, the mark."""

    def after_write(self, write: Write, saved: Saved) -> Saved:
        """Return the result of a write, maybe with what the CRM has ignored as refused."""
        return saved

    def send_batch(
        self, action: Action, items: Mapping[int, ContactWrite], results: Results
    ) -> None:
        """Make several writes of one action; see `batches.write_batches`, and `self.prepared`."""
        raise NotImplementedError

    def delete(self, kind: Kind, record_id: str) -> None:
        """Delete a record of any kind; raises NotFound also for a deleted one.

        With this hook, the adapter announces that it writes records of any kind.
        """
        raise NotImplementedError

    def set_link(self, kind: Kind, row: Row, name: str, to_id: str) -> None:
        """Write the id of a linked record, or "", into the field `name` of `links`."""
        values = {name: id_in_json(to_id)}
        self.send(Write(kind, {}, record_id=str(row["id"]), contact=row, values=values))

    def merge_into(self, kind: Kind, kept_id: str, other_id: str) -> Row:
        """Merge another contact or company into the kept one; return a row with the result's id."""
        raise NotImplementedError

    def takes_email_once(self) -> bool:
        """Return whether the CRM refuses a second contact with an email."""
        return self.unique_emails

    def may_land_for(
        self, kind: Kind, properties: Mapping[str, str], *, contact_id: str = ""
    ) -> float:
        # A second contact with the email would be refused, however late the first one lands.
        once = kind == "contacts" and properties.get("email") and self.takes_email_once()
        return 0.0 if once else self.under_way_s

    # Hooks: definitions.

    @abstractmethod
    def load_fields(self, kind: Kind) -> Iterable[Field | None]:
        """Return the fields of a kind of record; `self.field` makes one, or None."""

    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        """Return the pipelines with their stages; without pipelines, stages in a pipeline ""."""
        raise Unsupported(f"{self.title} has no pipelines.")

    def load_owners(self) -> list[Owner]:
        """Return the users to whom records can be assigned."""
        raise Unsupported(f"{self.title} tells no owners.")

    # Hooks: after a lost answer, and for people.

    def find_create(self, create: Create) -> Saved | None:
        """Return the record that an earlier attempt of a create has made, or None."""
        raise NotImplementedError

    def page(self, kind: Kind, record_id: str) -> str:
        """Return the web address of a record, or ""."""
        return ""

    # For the hooks.

    def field(
        self,
        kind: Kind,
        theirs: str,
        label: str,
        their_type: str,
        options: Iterable[Choice] = (),
        *,
        make: Callable[..., Field] = Field,
        **more: Any,
    ) -> Field | None:
        """Return a field by the tables; None if it is hidden or of a type without a codec.

        `more`: further attributes of `Field`, or of the class `make` that is derived from it.
        """
        records, codec = self.kinds[kind], self.codecs.get(their_type)
        if codec is None or theirs in records.hidden:
            return None
        return make(
            name=records.ours(theirs),
            label=label or theirs,
            type=records.types.get(theirs, codec.type),
            options=tuple(options),
            theirs=theirs,
            their_type=their_type,
            single_line=codec.single_line,
            **more,
        )

    def check_kind(self, kind: Kind) -> None:
        """Raise Unsupported for a kind of record that this connection does not keep."""
        needed = next((name for linked, name in self.linked_kinds.items() if linked == kind), "")
        if kind not in self.kinds or (needed and not self.context.settings[needed]):
            hint = f" The setting {needed!r} says where it keeps them." if needed else ""
            raise Unsupported(f"{self.title} has no {kind} here.{hint}")

    def theirs(self, kind: Kind, names: Iterable[str]) -> list[str]:
        """Return the CRM's names of those properties that it has."""
        fields = self.definitions.fields(kind)
        return list(dict.fromkeys(fields[name].theirs for name in names if name in fields))

    def _id(self, row: Row, error: type[AdapterError] = Unavailable) -> str:
        """Return the id of a record; raise `error` for one that callers could never name again."""
        record_id = str(row["id"])
        if not self.may_be_id(record_id):
            raise error(
                f"{self.title} issued the id {record_id[:40]}, which {type(self).__name__}.id_form"
                " or largest_id refuses: set them to what the CRM issues."
            )
        return record_id

    def saved(self, kind: Kind, row: Row, outcome: Outcome) -> Saved:
        record_id = self._id(row, Uncertain)
        return Saved(record_id, outcome, self.page(kind, record_id))

    def contact(self, row: Row, names: Iterable[str]) -> Contact:
        record_id = self._id(row)
        texts = self._texts("contacts", row, names)
        return Contact(record_id, texts, self.page("contacts", record_id))

    def existing(self, kind: Kind, record_id: str) -> Row:
        """Return a record of any kind; raises NotFound."""
        for row in self.read_several(kind, [record_id], ()):
            # A merged record may lead to the one that is left.
            if str(row["id"]) == record_id:
                return row
        raise NotFound(
            translatable("%(crm)s has no such record%(reason)s", crm=self.title, reason="")
        )

    def to_record(self, kind: Kind, row: Row, names: Iterable[str]) -> Record:
        """Return a record with the times and the links that `kinds` names."""
        records, record_id = self.kinds[kind], self._id(row)
        changed, created = (
            int(self.seconds(row.get(name)) * 1000) for name in (records.changed, records.created)
        )
        if not (changed := changed or created):
            raise Unavailable(f"{self.title} does not say when a record changed.")
        fields = {to: row[name] for to, name in self.links(kind).items() if name in row}
        links = {to: tuple(to_text(id) for id in _ids(value)) for to, value in fields.items()}
        texts, url = self._texts(kind, row, names), self.page(kind, record_id)
        return Record(record_id, texts, changed, created, links, url)

    def _texts(self, kind: Kind, row: Row, names: Iterable[str]) -> dict[str, str]:
        fields = self.definitions.fields(kind)
        several = self.several.values() if kind == "contacts" else ()
        lists = {one.path: one for one in several}
        return {
            name: lists[name].joined(row) if name in lists else self.text(fields[name], row)
            for name in names
            if name in lists or name in fields
        }

    def lacking(self, probes: Iterable[tuple[str, Callable[[], object]]]) -> list[str]:
        """Make the calls of `probes`; return the rights (their names) that the CRM refuses."""
        refused, missing = self.definitions.hidden or (LacksRight,), dict[str, None]()
        for right, call in probes:
            try:
                call()
            except refused:
                missing[right] = None
        return list(missing)

    # The contract.

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        if not cls.id_form.fullmatch(contact_id):
            return False
        return not contact_id.isdecimal() or int(contact_id) <= cls.largest_id

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        by = "email" if email else "phone"
        return self._found(by, [email or phone], names).get(email or phone)

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        return self._found("email" if emails else "phone", emails or phones, names)

    def _found(self, by: str, values: Sequence[str], names: Sequence[str]) -> dict[str, Contact]:
        of_emails = by == "email"
        emails = self.searched_emails or self.email_names
        held = emails if of_emails else self.phone_names
        has = self.has_email if of_emails else self.has_phone
        asked = list(dict.fromkeys((*names, *held)))
        found: dict[str, Contact] = {}
        for row in sorted(self.find(by, values, asked), key=self.age):
            contact = self.contact(row, asked)
            values_of = contact.properties.items()
            holder = replace(contact, properties={n: v for n, v in values_of if n in held})
            asked_for = replace(contact, properties={n: v for n, v in values_of if n in names})
            for value in values:
                if value not in found and has(holder, value):
                    found[value] = asked_for
        return found

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        self.check_id(contact_id)
        return self.contact(self.read(contact_id, names), names)

    def has_email(self, contact: Contact, email: str) -> bool:
        held = (contact.properties.get(name, "").lower() for name in self.email_names)
        return any(email == text or email in _BETWEEN_EMAILS.split(text) for text in held)

    def has_phone(self, contact: Contact, phone: str) -> bool:
        held = (contact.properties.get(name, "") for name in self.phone_names)
        parts = [part.strip() for text in held for part in _BETWEEN_PHONES.split(text)]
        numbers = {str(index): part for index, part in enumerate(parts)}
        return has_number(numbers, phone, tuple(numbers))

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Compare with the form in which the CRM would give the values back.

        A further phone of a list is no change.
        """
        fit = self.fitting.fitted("contacts", properties)
        fields = self.definitions.fields("contacts")
        theirs = Counter(fields[name].theirs for name in fit)
        if twice := [name for name in fit if theirs[fields[name].theirs] > 1]:
            raise Rejected([Problem(twice[-1], translatable("it is sent under two names"))])
        adds = {name for name, several in self.several.items() if several.adds}
        fit = {
            name: self._stored(fields[name], text)
            for name, text in fit.items()
            if fields[name].theirs not in adds or not text or not self.has_phone(contact, text)
        }
        return super().changes(contact, fit)

    def _stored(self, field: Field, text: str) -> str:
        codec = self.codecs[field.their_type]
        try:
            return codec.read(codec.write(text)) if text else ""
        except Misfit:
            return text

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        with free_email(self, "" if self.takes_email_once() else self._email(properties)):
            return self._write(Write("contacts", properties, mark))

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        lists = self._lists(properties)
        # The CRM replaces a list as a whole: without a lease, two writes lose an entry.
        lease = self.context.lease(f"lists {contact_id[:20]}", self.context.remaining())
        with lease if lists else nullcontext():
            contact = self._contact_to_write(contact_id, lists)
            return self._write(
                Write("contacts", properties, record_id=str(contact["id"]), contact=contact)
            )

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        self.check_kind(kind)
        return self._write(
            Write(kind, properties, mark, contact=self._contact_to_write(contact_id))
        )

    def _contact_to_write(self, contact_id: str, lists: Sequence[str] = ()) -> Row:
        self.check_id(contact_id)
        reads = lists or self.reads_first
        return self.read(contact_id, lists) if reads else {"id": contact_id}

    def _lists(self, properties: Iterable[str]) -> list[str]:
        """Return the lists that hold these properties of a contact, by the CRM's names."""
        theirs = {self.kinds["contacts"].theirs(name) for name in properties}
        return sorted({one.path for name, one in self.several.items() if name in theirs})

    def _write(self, write: Write) -> Saved:
        saved, _ = self.fitting.write(
            write.kind,
            write.sent,
            lambda fit: self._sent(replace(write, fit=fit)),
            update=bool(write.record_id),
        )
        return saved

    def _sent(self, write: Write) -> Saved:
        self.prepare(write)
        if write.record_id and not write.values:
            return self.saved(write.kind, {"id": write.record_id}, "unchanged")
        sent = [name for name, text in write.sent.items() if text or write.record_id]
        with self.definitions.renamed(write.kind, sent):
            write.row = self.send(write)
        outcome: Outcome = "updated" if write.record_id else "created"
        return self.after_write(write, self.saved(write.kind, write.row, outcome))

    def prepare(self, write: Write) -> None:
        """Set `write.values` to what `send` sends, from `write.fit`; raises Rejected."""
        if not write.record_id:
            # A new record has no values to clear.
            write.fit = {name: text for name, text in write.fit.items() if text}
        self.convert(write)
        self.before_write(write)

    def convert(self, write: Write) -> None:
        """Set `write.values` from `write.fit`; pipeline and stage may be no fields of the CRM."""
        fields = self.definitions.fields(write.kind)
        known = {name: text for name, text in write.fit.items() if name in fields}
        write.values = self.definitions.values(
            write.kind, known, lambda field, text: self.json(field, text, write)
        )
        for name, several in self.several.items() if write.kind == "contacts" else ():
            if name in write.values:
                text = (write.values.pop(name) or "").strip()
                row = {**write.contact, **write.values}
                write.values[several.path] = several.written(row, text)

    @contextmanager
    def prepared(
        self, items: Mapping[int, ContactWrite], results: Results
    ) -> Iterator[dict[int, Write]]:
        """Yield the writes of a batch, ready to send, while nobody else can take their emails.

        Writes that must be made alone are left out; the errors of refused ones become results.
        """
        writes: dict[int, Write] = {}
        indexes, once = list(items), self.takes_email_once()
        listed = [
            replace(one, properties={"email": "" if once else self._email(one.properties)})
            for one in items.values()
        ]
        with free_emails(self, listed) as free:
            for index, item in ((indexes[i], items[indexes[i]]) for i in free):
                sent, contact_id = dict(item.properties), item.contact_id
                if contact_id and (self._lists(sent) or not self.may_be_id(contact_id)):
                    continue
                writes[index] = Write("contacts", sent, item.mark, contact_id, fit=sent)
                try:
                    self.prepare(writes[index])
                except Rejected as exc:
                    del writes[index]
                    results[index] = exc
            yield writes

    def _email(self, properties: Mapping[str, str]) -> str:
        theirs = self.kinds["contacts"].theirs("email")
        return (properties.get("email") or properties.get(theirs, "")).strip()

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        return write_batches(writes, fit=self._fitted_contact, send=self.send_batch)

    def _fitted_contact(self, properties: Mapping[str, str]) -> dict[str, str]:
        return self.fitting.fitted("contacts", properties)

    def get_records(self, kind: Kind, ids: Sequence[str], names: Sequence[str]) -> list[Record]:
        self.check_kind(kind)
        sound = [one for one in dict.fromkeys(ids) if self.may_be_id(one)]
        rows = self.read_several(kind, sound, names) if sound else ()
        return [self.to_record(kind, row, names) for row in rows if str(row["id"]) in sound]

    def write(
        self, kind: Kind, record_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        if kind == "contacts" and record_id:
            return self.update_contact(record_id, properties)
        if kind == "contacts":
            return self.create_contact(properties, mark=mark)
        self.check_kind(kind)
        if record_id:
            self.check_id(record_id)
        row = self.existing(kind, record_id) if record_id and self.reads_first else {}
        return self._write(Write(kind, properties, mark, record_id, contact=row))

    def archive(self, kind: Kind, record_id: str) -> None:
        self.check_kind(kind)
        self.check_id(record_id)
        self.delete(kind, record_id)

    def link(
        self, kind: Kind, record_id: str, to: Kind, to_id: str, *, remove: bool = False
    ) -> None:
        self.check_kind(kind)
        self.check_kind(to)
        if to not in self.links(kind):
            kind, record_id, to, to_id = to, to_id, kind, record_id
        fields = self.links(kind)
        if to not in fields:
            raise Unsupported(f"{self.title} has no associations between {to} and {kind}.")
        self.check_id(record_id)
        self.check_id(to_id)
        # Without a lease, the second of two links at the same time would replace the first.
        with self.context.lease(f"link {kind} {record_id}", self.context.remaining()):
            row = self.existing(kind, record_id)
            self.existing(to, to_id)
            linked = {
                (of, to_text(id))
                for of, name in fields.items()
                if of == to or self.one_link
                for id in _ids(row.get(name))
            }
            if ((to, to_id) in linked) == (not remove):
                return
            if linked and not remove:
                [(of, other), *_] = linked
                here, there = _one_of(kind), _one_of(of)
                raise Conflict(
                    translatable(
                        "%(here)s %(id)s is linked to %(there)s %(other)s; remove that association"
                        " first.",
                        here=here.capitalize(),
                        id=record_id,
                        there=there,
                        other=other,
                    ),
                    existing_id=other,
                )
            self.set_link(kind, row, fields[to], "" if remove else to_id)

    def merge(self, kind: Kind, kept_id: str, other_id: str) -> Saved:
        self.check_kind(kind)
        if kind not in ("contacts", "companies"):
            raise Unsupported(f"The hub merges no {kind} in {self.title}.")
        for record_id in (kept_id, other_id):
            self.check_id(record_id)
            self.existing(kind, record_id)
        if kept_id == other_id:
            raise Rejected([], f"A {_one_of(kind)} cannot be merged with itself.")
        return self.saved(kind, self.merge_into(kind, kept_id, other_id), "updated")

    def describe(self, kind: Kind) -> list[Described]:
        self.check_kind(kind)
        described = self.definitions.described(kind)
        return [self.fitting.with_options(kind, one) for one in described]

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        self.check_kind(kind)
        return self.definitions.pipelines(kind)

    def check_place(self, kind: Linked, properties: Mapping[str, str]) -> None:
        self.check_kind(kind)
        self.fitting.check_place(kind, properties)

    def owners(self) -> list[Owner]:
        return self.definitions.owners()

    def find_marked(
        self,
        kind: Kind,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        return self.find_create(Create(kind, contact_id, mark, sent, since_ms))

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
        return self.find_create(Create(kind, contact_id, mark, sent, since_ms, others))


def _one_of(kind: Kind) -> str:
    return "company" if kind == "companies" else kind[:-1]


def _ids(value: Any) -> list[Any]:
    """Return the ids in the value of a link: an id, an object with its id, or several."""
    values = value if isinstance(value, list) else [value]
    ids = [one.get("id") if isinstance(one, dict) else one for one in values]
    return [one for one in ids if one]
