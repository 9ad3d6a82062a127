"""The records of a fake CRM, by kind and id, with their fields and links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any

from adapters.fakes.fields import Field
from adapters.fakes.records import Record, now_ms

Values = Mapping[str, Any]


class Store:
    """The records of a CRM, and the fields of its kinds of records.

    `records` and `deleted` hold the records by kind and id, oldest first. `fields` holds the fields
    by kind and name; tests may change them. The ids are those that `id_of` makes of the kind and
    of the numbers from `first` on; they are not given again. `on_change` is called after a change
    of a record with "create", "change" or "delete", and the record.
    """

    def __init__(
        self,
        fields: Mapping[str, Mapping[str, Field]],
        *,
        first: int = 1,
        id_of: Callable[[str, int], str] = lambda kind, number: str(number),
    ) -> None:
        self.fields = {kind: dict(named) for kind, named in fields.items()}
        self.records: dict[str, dict[str, Record]] = {kind: {} for kind in fields}
        self.deleted: dict[str, dict[str, Record]] = {kind: {} for kind in fields}
        # The records that were ever written by kind and id, the last written ones last.
        self._written: dict[str, dict[str, Record]] = {kind: {} for kind in fields}
        # Kind and field → form of a value → records that have it, or had it, by id.
        self._indexes: dict[tuple[str, str], dict[str, dict[str, Record]]] = {}
        self._next, self._id_of = first, id_of
        self.on_change: Callable[[str, Record], None] = lambda action, record: None

    def insert(self, kind: str, values: Values) -> Record:
        """Create a record with these values; return it."""
        now = now_ms()
        record = Record(kind, self.new_id(kind), now, now, self._note)
        record.write(dict(values), now)
        self.records[kind][record.id] = record
        self.on_change("create", record)
        return record

    def new_id(self, kind: str) -> str:
        """Return the id of a new record."""
        self._next += 1
        return self._id_of(kind, self._next - 1)

    def update(self, record: Record, values: Values) -> None:
        """Change some values of a record; keep its others."""
        record.write({**record.properties, **values}, now_ms())
        self.on_change("change", record)

    def delete(self, record: Record) -> None:
        """Move a record to `deleted`."""
        self.deleted[record.kind][record.id] = self.records[record.kind].pop(record.id)
        self.on_change("delete", record)

    def _note(self, record: Record) -> None:
        written = self._written[record.kind]
        written.pop(record.id, None)
        written[record.id] = record
        for (kind, name), index in self._indexes.items():
            if kind == record.kind:
                for form in _forms(record.properties.get(name)):
                    index[form][record.id] = record

    def written_since(self, kind: str, at_ms: float) -> list[Record]:
        """Return the records written since a time in ms since 1970, the oldest first.

        Its time grows with the number of these records, not with that of all.
        """
        latest = reversed(self._written[kind].values())
        return self._stored(kind, takewhile(lambda record: record.updated_at >= at_ms, latest))

    def having(self, kind: str, name: str, values: Iterable[Any]) -> list[Record]:
        """Return the records whose field `name` has or had one of these values, the oldest first.

        Upper and lower case count as equal. The field may hold a list of values. The time grows
        with the number of values, not with that of all records.
        """
        if (kind, name) not in self._indexes:
            self._indexes[kind, name] = defaultdict(dict)
            for record in self.records[kind].values():
                for properties in (record.properties, *(held for _, held in record.indexed)):
                    for form in _forms(properties.get(name)):
                        self._indexes[kind, name][form][record.id] = record
        index = self._indexes[kind, name]
        found = {
            id_: one for form in _forms(list(values)) for id_, one in index.get(form, {}).items()
        }
        return self._stored(kind, found.values())

    def _stored(self, kind: str, records: Iterable[Record]) -> list[Record]:
        held = self.records[kind]
        stored = (record for record in records if held.get(record.id) is record)
        return sorted(stored, key=lambda record: (len(record.id), record.id))

    def find(
        self, kind: str, name: str, values: Iterable[Any], *, lag: float = 0.0
    ) -> list[Record]:
        """Return the records whose field `name` has one of these values, whatever its case.

        The field may hold a list of values.

        `lag` is the lag of the search index in seconds.
        """
        values = list(values)
        forms = _forms(values)
        return [
            record
            for record in self.having(kind, name, values)
            if (seen := record.searchable(lag)) is not None and _forms(seen.get(name)) & forms
        ]

    def holders(self, kind: str, values: Values, *, own: Record | None = None) -> dict[str, Record]:
        """Return the records that hold a value of a unique field already, by field.

        `own` is the record to which the values are written, if there is one.
        """
        holders = {}
        for name, field in self.fields[kind].items():
            if field.unique and values.get(name):
                value = values[name]
                found = self.find(kind, name, value if isinstance(value, list) else [value])
                if others := [record for record in found if record is not own]:
                    holders[name] = others[0]
        return holders

    def faults(self, kind: str, values: Values, *, own: Record | None = None) -> dict[str, str]:
        """Return why values are refused, by field; {} if none is.

        `own` is the record to which the values are written; None for a new record.
        """
        fields = self.fields[kind]
        found = {name: self._fault(fields.get(name), value) for name, value in values.items()}
        for name, field in fields.items():
            written = own is None or name in values
            if field.required and written and values.get(name) in (None, ""):
                found[name] = "is required"
        return {name: why for name, why in found.items() if why}

    def _fault(self, field: Field | None, value: Any) -> str:
        if field is None:
            return "does not exist"
        if field.read_only:
            return "is read-only"
        if value is None:
            return ""
        if why := field.check(value):
            return why
        if field.options and value not in field.options:
            return f"must be one of {', '.join(map(str, field.options))}"
        return ""

    def links(self, kind: str, values: Values) -> Iterator[tuple[str, str]]:
        """Yield the kind and the id of each record to which values link."""
        for name, field in self.fields[kind].items():
            if field.to:
                yield from ((field.to, id_) for id_ in ids_in(values.get(name)))

    def linked(self, kind: str, id_: str, to: str) -> list[str]:
        """Return the ids of the records of the kind `to` that are linked to a given record."""
        here, there = self.records[kind].get(id_), self.records[to]
        links = self.links(kind, here.properties) if here else ()
        ids = {one for of, one in links if of == to}
        back = [name for name, field in self.fields[to].items() if field.to == kind]
        if back:
            for one, record in there.items():
                if any(id_ in ids_in(record.properties.get(name)) for name in back):
                    ids.add(one)
        return [one for one in there if one in ids]


def _forms(value: Any) -> set[str]:
    """Return the forms in which a value, or each one in a list, is compared."""
    values = value if isinstance(value, list) else [value]
    return {str(one).casefold() for one in values if one not in (None, "")}


def ids_in(value: Any) -> set[str]:
    """Return the ids in the value of a link: an id, an object with an id, or a list of these."""
    if value in (None, "", False):
        return set()
    if isinstance(value, dict):
        return {str(value["id"])}
    return set().union(*map(ids_in, value)) if isinstance(value, list) else {str(value)}
