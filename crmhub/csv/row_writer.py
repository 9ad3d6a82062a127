from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from crmhub.accounts.accounts import Account
from crmhub.csv.columns import Choices
from crmhub.csv.links import LinkCell, find_linked
from crmhub.csv.seen_values import SeenValues
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
    def path(self) -> str:
        return f"line {self.row.line}: "


class RowWriter:
    def __init__(
        self,
        records: RecordStore,
        account: Account,
        kind: Kind,
        catalogues: Mapping[str, Catalogue],
        choices: Choices,
    ) -> None:
        self._records = records
        self._account = account
        self._kind = kind
        self._catalogues = catalogues
        self._choices = choices

    def write(self, rows: Sequence[ParsedRow], seen: SeenValues | None) -> tuple[int, int]:
        """Return the numbers of created and of updated records.

        `seen` has the unique values of a dry run's earlier rows, which count as stored. Raises
        RowsRefused.
        """
        linked = self._find_linked(rows)
        by = self._choices.by
        by_id: list[ParsedRow] = []
        by_value: list[ParsedRow] = []
        to_create: list[ParsedRow] = []
        for row in rows:
            has_value = by not in ("", "id") and row.values.get(by)
            (by_id if row.id else by_value if has_value else to_create).append(row)
        created = 0
        ids: dict[int, int] = {}
        with _map_errors(by_id):
            changes = [Change(int(row.id), self._values_to_send(row), row.path) for row in by_id]
            if changes:
                self._records.update(self._account, self._kind, changes)
                ids |= {row.row.line: int(row.id) for row in by_id}
        with _map_errors(by_value):
            upserts = [
                Upsert(by, row.values[by], self._values_to_send(row), row.path) for row in by_value
            ]
            if upserts:
                stored = self._records.upsert(self._account, self._kind, upserts)
                for row, (record, is_new) in zip(by_value, stored, strict=True):
                    ids[row.row.line] = record.id
                    created += is_new and not (seen and seen.has((by, row.values[by])))
        with _map_errors(to_create):
            inputs = [NewRecord(_non_empty(row), path=row.path) for row in to_create]
            if inputs:
                new = self._records.create(self._account, self._kind, inputs)
                ids |= {row.row.line: each.id for row, each in zip(to_create, new, strict=True)}
                created += len(inputs)
        links = [(ids[line], *target) for line, targets in linked.items() for target in targets]
        if links:
            linking.link_all(self._records, self._account, self._kind, links)
        return created, len(rows) - created

    def _find_linked(self, rows: Sequence[ParsedRow]) -> dict[int, list[tuple[Kind, int]]]:
        cells = {row.row.line: row.links for row in rows if row.links}
        if not cells:
            return {}
        linked, faults = find_linked(self._records, self._account, self._catalogues, cells)
        if faults:
            raise RowsRefused(faults)
        return linked

    def _values_to_send(self, row: ParsedRow) -> Mapping[str, str]:
        return row.values if self._choices.clear else _non_empty(row)


@contextmanager
def _map_errors(rows: Sequence[ParsedRow]) -> Iterator[None]:
    """Turn InvalidProperties and DuplicateValue of the record store into RowsRefused."""
    try:
        yield
    except InvalidProperties as exc:
        reasons: dict[int, list[str]] = {}
        for row in exc.problems:
            reasons.setdefault(rows[row.index].row.line, []).append(f"{row.name}: {row.reason}")
        raise RowsRefused({line: "; ".join(faults) for line, faults in reasons.items()}) from exc
    except DuplicateValue as exc:
        lines = {row.path: row.row.line for row in rows}
        raise RowsRefused(
            {
                lines[path]: f"{name}: record {holder} has this value already"
                for path, name, holder in exc.taken
            }
        ) from exc


def _non_empty(row: ParsedRow) -> dict[str, str]:
    return {name: value for name, value in row.values.items() if value}
