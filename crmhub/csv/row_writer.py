"""The rows of an import: how they are written, and the unique values that a dry run has seen."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from crmhub.accounts.accounts import Account
from crmhub.csv.columns import Choices
from crmhub.csv.links import LinkCell, find_linked
from crmhub.csv.spreadsheets import Row
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import DuplicateValue, InvalidProperties
from crmhub.records import linking
from crmhub.records.models import Change, NewRecord, Upsert
from crmhub.records.store import RecordStore


class RowsRefused(Exception):
    """`reasons` maps line numbers to reasons."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        self.reasons = reasons


@dataclass(frozen=True, slots=True)
class ParsedRow:
    """`unique` has the (property, value) pairs of unique properties, `fault` "" for a valid row."""

    row: Row
    values: Mapping[str, str]
    unique: frozenset[tuple[str, str]]
    id: str = ""
    fault: str = ""
    links: Sequence[LinkCell] = field(default=())

    @property
    def line(self) -> int:
        return self.row.line

    @property
    def path(self) -> str:
        return f"line {self.line}: "


class SeenValues:
    """The unique values of the rows that a dry run has accepted.

    A dry run stores no records, so the database does not refuse a value that two rows have.
    `dumped` has the values that `dump` has returned.
    """

    def __init__(self, dumped: bytes = b"") -> None:
        # A database without a name is a temporary file, deleted when it is closed.
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.execute("pragma cache_size = -8000")
        self._file.execute("pragma journal_mode = off")
        if dumped:
            self._file.deserialize(dumped)
        else:
            self._file.execute(
                "create table seen (value text primary key, line integer) without rowid"
            )
        self.dump, self.close = self._file.serialize, self._file.close

    def line_of(self, pair: tuple[str, str]) -> int | None:
        found = self._file.execute("select line from seen where value = ?", (_key(pair),))
        row = found.fetchone()
        return None if row is None else int(row[0])

    def find_repeated(self, rows: Sequence[ParsedRow], *, by: str) -> dict[int, str]:
        """Return reasons by line. A row with the same value of `by` updates the earlier record."""
        return {
            row.line: f"{pair[0]}: line {line} has this value already"
            for row in rows
            for pair in row.unique
            if pair[0] not in ("id", by) and (line := self.line_of(pair)) is not None
        }

    def add(self, rows: Sequence[ParsedRow]) -> None:
        values = [(_key(pair), row.line) for row in rows for pair in row.unique]
        self._file.executemany("insert or ignore into seen values (?, ?)", values)


def _key(pair: tuple[str, str]) -> str:
    name, value = pair
    return f"{name}={value.strip().lower()}"


@dataclass(frozen=True, slots=True)
class RowWriter:
    records: RecordStore
    account: Account
    kind: Kind
    catalogues: Mapping[str, Catalogue]
    choices: Choices

    def write(self, rows: Sequence[ParsedRow], seen: SeenValues | None) -> tuple[int, int]:
        """Return the numbers of created and of updated records.

        `seen` has the unique values of a dry run's earlier rows, which count as stored. Raises
        RowsRefused.
        """
        store, place, by = self.records, (self.account, self.kind), self.choices.by
        cells = {row.line: row.links for row in rows if row.links}
        linked, faults = find_linked(store, self.account, self.catalogues, cells)
        if faults:
            raise RowsRefused(faults)
        by_id: list[ParsedRow] = []
        by_value: list[ParsedRow] = []
        to_create: list[ParsedRow] = []
        for row in rows:
            has_value = by not in ("", "id") and row.values.get(by)
            (by_id if row.id else by_value if has_value else to_create).append(row)
        ids = {row.line: int(row.id) for row in by_id}
        created = len(to_create)
        if by_id:
            with _map_errors(by_id):
                store.update(*place, [Change(ids[r.line], self._values(r), r.path) for r in by_id])
        if by_value:
            with _map_errors(by_value):
                upserts = [
                    Upsert(by, row.values[by], self._values(row), row.path) for row in by_value
                ]
                stored = store.upsert(*place, upserts)
            for row, (record, is_new) in zip(by_value, stored, strict=True):
                ids[row.line] = record.id
                is_seen = seen is not None and seen.line_of((by, row.values[by])) is not None
                created += is_new and not is_seen
        if to_create:
            with _map_errors(to_create):
                inputs = [NewRecord(_non_empty(row), path=row.path) for row in to_create]
                new = store.create(*place, inputs)
            ids |= {row.line: each.id for row, each in zip(to_create, new, strict=True)}
        links = [(ids[line], *target) for line, targets in linked.items() for target in targets]
        if links:
            linking.link_all(store, *place, links)
        return created, len(rows) - created

    def _values(self, row: ParsedRow) -> Mapping[str, str]:
        return row.values if self.choices.clear else _non_empty(row)


@contextmanager
def _map_errors(rows: Sequence[ParsedRow]) -> Iterator[None]:
    """Turn InvalidProperties and DuplicateValue of the record store into RowsRefused."""
    try:
        yield
    except InvalidProperties as exc:
        reasons: dict[int, list[str]] = {}
        for fault in exc.problems:
            reasons.setdefault(rows[fault.index].line, []).append(f"{fault.name}: {fault.reason}")
        raise RowsRefused({line: "; ".join(faults) for line, faults in reasons.items()}) from exc
    except DuplicateValue as exc:
        lines = {row.path: row.line for row in rows}
        taken = {
            lines[path]: f"{name}: record {holder} has this value already"
            for path, name, holder in exc.taken
        }
        raise RowsRefused(taken) from exc


def _non_empty(row: ParsedRow) -> dict[str, str]:
    return {name: value for name, value in row.values.items() if value}
