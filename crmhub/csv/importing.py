"""Import of records from a CSV file: each row is stored once, even after interruptions.

Rows are written in batches; each batch and the progress of the import are saved in a transaction.
So a killed import continues after the last stored row. If two processes import the same file, the
slower process stops, and no record is created twice. A file is identified by its digest; a changed
file is a new import.

An invalid row is refused, and the other rows are imported nevertheless. The refused row is written
to a separate file with the reason; that file can be corrected and imported like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import sqlalchemy as sa

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.csv.columns import Choices, property_columns
from crmhub.csv.refused_rows import RefusedRows
from crmhub.csv.spreadsheets import Position, Row, Sheet, unescape_formula
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import csv_import
from crmhub.errors import BadRequest, Conflict, NotFound, Semantic
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import DuplicateValue, InvalidProperties
from crmhub.records.store import RecordStore
from crmhub.records.writing import Change, NewRecord, Upsert

_BATCH_ROWS = 500
_PROGRESS_KEPT_MS = 90 * 24 * 3600 * 1000
_import = csv_import.c
_OF_ACCOUNT = _import.account_id == param("account_id")
_IS_FILE = sa.and_(_OF_ACCOUNT, _import.kind == param("kind"), _import.digest == param("digest"))
_NOT_ENDED = _import.ended_at.is_(None)
_LOCK = Statement(sa.select(_import.position).where(_IS_FILE, _NOT_ENDED).with_for_update())
_NOTE_PROGRESS = Statement(
    sa.update(csv_import)
    .where(_IS_FILE)
    .values(
        params("position", "lines", "created", "updated", "refused", "refused_bytes", "changed_at")
    )
)
_DELETE = Statement(sa.delete(csv_import).where(_IS_FILE))
_DELETE_OLD = Statement(
    sa.delete(csv_import).where(_OF_ACCOUNT, _import.changed_at < param("before"))
)
_BEGIN = Statement(
    lambda insert: (
        insert(csv_import)
        .values(
            params("account_id", "kind", "digest", "choices", "position", "lines", "changed_at")
            | dict.fromkeys(("created", "updated", "refused", "refused_bytes"), 0)
        )
        .on_conflict_do_nothing(index_elements=["account_id", "kind", "digest"])
    )
)
_FIND = Statement(sa.select(csv_import).where(_IS_FILE))
_SET_ENDED = Statement(
    sa.update(csv_import)
    .where(_IS_FILE, _import.position == param("end"), _NOT_ENDED)
    .values(ended_at=param("now"), changed_at=param("now"))
)


@dataclass(frozen=True, slots=True)
class Tally:
    """The numbers of rows that an import has created, updated and refused so far."""

    created: int = 0
    updated: int = 0
    refused: int = 0

    @property
    def rows(self) -> int:
        """The number of rows that the import has processed."""
        return self.created + self.updated + self.refused


class ImportedElsewhere(Conflict):
    """The error if another process imports the same file at the same time.

    The other process continues; rows that were already stored stay stored.
    """


class _RowsRefused(Exception):
    """The error if rows cannot be stored; `reasons` maps their line numbers to reasons."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        self.reasons = reasons


@dataclass(frozen=True, slots=True)
class _ParsedRow:
    """A parsed row: its values by property, "" for an empty cell.

    `unique` has the (property, value) pairs of unique properties, `id` is the record's id or "",
    and `fault` is the reason if the row cannot be stored, else "".
    """

    row: Row
    values: Mapping[str, str]
    unique: frozenset[tuple[str, str]]
    id: str = ""
    fault: str = ""

    @property
    def path(self) -> str:
        return f"line {self.row.line}: "


class Import:
    """The import of a CSV file as records of one kind in an account.

    The constructor checks the columns and loads the progress of an earlier run. `run` imports the
    rest. `left_out` has the titles of the columns that are not imported; `tally` has the numbers of
    rows imported and refused so far.
    """

    def __init__(
        self,
        records: RecordStore,
        account: Account,
        kind: Kind,
        sheet: Sheet,
        *,
        choices: Choices,
        refused: Path,
        by: Author,
        again: bool = False,
    ) -> None:
        """Prepare the import of `sheet`, or its continuation after an interruption.

        `refused` is the path of the file for refused rows. With `again`, the progress of an earlier
        import is deleted, and the file is imported from its start. Raises Semantic for invalid
        columns. Raises Conflict if the file was already imported, if an unfinished import of it has
        other options, or if `refused` exists and has other content.
        """
        self.sheet = sheet
        self.tally = Tally()
        self._records = records
        self._database = records.database
        self._account = account
        self._kind = kind
        self._choices = choices
        self._author = by
        self._key = {"account_id": account.id, "kind": kind.code, "digest": sheet.digest}
        catalogue = records.catalogues.reload(account.id, kind)
        self._properties = property_columns(catalogue, sheet.header, choices)
        self._unique = {each.name for each in catalogue if each.unique}
        self._position = sheet.start
        self._refusals = RefusedRows(refused, sheet, raw=choices.raw)
        # One transaction: if the restart fails, the earlier progress is kept.
        self._database.transact(lambda tx: self._resume(tx, again))

    @property
    def left_out(self) -> list[str]:
        """The titles of the columns that are not imported."""
        titles = zip(self.sheet.header, self._properties, strict=True)
        return [title or "(no title)" for title, name in titles if not name]

    def run(self) -> Iterator[Tally]:
        """Import the rest of the file; yield the tally after each batch.

        Raises LimitExceeded if the plan allows no more records, Unavailable without the database,
        ImportedElsewhere, and OSError. Earlier batches stay stored, and the same import can be
        continued later.
        """
        batch: list[_ParsedRow] = []
        unique: set[tuple[str, str]] = set()
        for row in self.sheet.read(self._position):
            parsed = self._read(row)
            # Two rows of the same record go into separate batches, in order.
            if len(batch) == _BATCH_ROWS or not unique.isdisjoint(parsed.unique):
                yield self._store(batch)
                batch, unique = [], set()
            batch.append(parsed)
            unique |= parsed.unique
        if batch:
            yield self._store(batch)
        self._database.transact(self._end)

    # Rows

    def _read(self, row: Row) -> _ParsedRow:
        header = self.sheet.header
        if len(row.cells) != len(header):
            fault = (
                f"it has {len(row.cells)} cells and the header {len(header)};"
                f" a cell that contains {self.sheet.delimiter!r} needs quotes"
            )
            return _ParsedRow(row, {}, frozenset(), fault=fault)
        cells = row.cells if self._choices.raw else [unescape_formula(cell) for cell in row.cells]
        values = {name: value for name, value in zip(self._properties, cells, strict=True) if name}
        id = values.pop("id", "").strip()
        unique = {(name, v.strip().lower()) for name, v in values.items() if name in self._unique}
        unique |= {("id", id)}
        unique_values = frozenset((name, value) for name, value in unique if value)
        fault = ""
        if id and not (id.isascii() and id.isdigit() and len(id) < 17):
            fault = f"id: {id[:40]!r} is not a record id"
        return _ParsedRow(row, values, unique_values, id, fault)

    def _store(self, rows: Sequence[_ParsedRow]) -> Tally:
        """Store the valid rows of `rows`; write the invalid rows to the file of refused rows.

        Return the tally of the import including these rows.
        """
        refused = {row.row.line: row.fault for row in rows if row.fault}
        while True:
            accepted = [row for row in rows if row.row.line not in refused]
            rejected = [(row.row, refused[row.row.line]) for row in rows if row.row.line in refused]
            try:
                self._commit(rows[-1].row.end, accepted, rejected)
                return self.tally
            except ImportedElsewhere:
                raise
            except _RowsRefused as exc:
                refused |= exc.reasons
            except (BadRequest, NotFound, Conflict, Semantic) as exc:
                # The error names only the first fault, or rows that conflict with each other.
                if len(accepted) == 1:
                    refused[accepted[0].row.line] = exc.message.replace(accepted[0].path, "")
                    continue
                middle = rows.index(accepted[len(accepted) // 2])
                self._store(rows[:middle])
                return self._store(rows[middle:])

    def _commit(
        self, end: Position, accepted: Sequence[_ParsedRow], refused: Sequence[tuple[Row, str]]
    ) -> None:
        """Store rows as records, refused rows, and the progress of the import, in one transaction.

        `end` is the position in the CSV file after these rows. `accepted` rows become records;
        `refused` rows are written to the file of refused rows, each with its reason.
        """
        self.tally = self._database.transact(
            lambda tx: self._write_batch(tx, end, accepted, refused)
        )
        self._position = end
        self._refusals.keep()

    def _write_batch(
        self,
        tx: Connection,
        end: Position,
        accepted: Sequence[_ParsedRow],
        refused: Sequence[tuple[Row, str]],
    ) -> Tally:
        # The lock is held until the commit: another process with the same file waits here.
        if tx.scalar(_LOCK, self._key) != self._position.bytes:
            raise ImportedElsewhere(
                f"Another process imports {self.sheet.path.name} as well, and continues."
            )
        created, updated = self._write(accepted)
        # Before the commit: a repeated refusal is truncated later, a missing one would be lost.
        # After the lock: another process may still be writing to the file.
        self._refusals.write(refused)
        before = self.tally
        tally = Tally(
            before.created + created, before.updated + updated, before.refused + len(refused)
        )
        progress = {
            "position": end.bytes,
            "lines": end.lines,
            "refused_bytes": self._refusals.size,
            "changed_at": now_ms(),
        }
        tx.run(_NOTE_PROGRESS, self._key | asdict(tally) | progress)
        return tally

    def _write(self, rows: Sequence[_ParsedRow]) -> tuple[int, int]:
        """Store rows as records; return the numbers of created and of updated records.

        Raises _RowsRefused for invalid values, and for unique values that other records have.
        """
        by = self._choices.by
        by_id: list[_ParsedRow] = []
        by_value: list[_ParsedRow] = []
        to_create: list[_ParsedRow] = []
        for row in rows:
            has_value = by not in ("", "id") and row.values.get(by)
            (by_id if row.id else by_value if has_value else to_create).append(row)
        created = 0
        with _map_errors(by_id):
            changes = [Change(int(row.id), self._values_to_send(row), row.path) for row in by_id]
            if changes:
                self._records.update(self._account, self._kind, changes)
        with _map_errors(by_value):
            upserts = [
                Upsert(by, row.values[by], self._values_to_send(row), row.path) for row in by_value
            ]
            if upserts:
                stored = self._records.upsert(self._account, self._kind, upserts)
                created += sum(is_new for _, is_new in stored)
        with _map_errors(to_create):
            inputs = [NewRecord(_non_empty(row), path=row.path) for row in to_create]
            if inputs:
                self._records.create(self._account, self._kind, inputs)
                created += len(inputs)
        return created, len(rows) - created

    def _values_to_send(self, row: _ParsedRow) -> Mapping[str, str]:
        return row.values if self._choices.clear else _non_empty(row)

    # Progress

    def _resume(self, tx: Connection, again: bool) -> None:
        """Load the progress of an earlier import of the file, or store the start of a new one.

        With `again`, the earlier progress is deleted first. Raises Conflict if the file was already
        imported, or if the earlier import had other options.
        """
        choices = json.dumps(asdict(self._choices), sort_keys=True)
        if again:
            tx.run(_DELETE, self._key)
        tx.run(
            _DELETE_OLD, {"account_id": self._account.id, "before": now_ms() - _PROGRESS_KEPT_MS}
        )
        tx.run(
            _BEGIN,
            self._key
            | {
                "choices": choices,
                "position": self.sheet.start.bytes,
                "lines": self.sheet.start.lines,
                "changed_at": now_ms(),
            },
        )
        progress = tx.row(_FIND, self._key)
        self.tally = Tally(progress.created, progress.updated, progress.refused)
        if progress.ended_at is not None:
            raise Conflict(
                f"{self.sheet.path.name} was imported already: {progress.created} created,"
                f" {progress.updated} updated, {progress.refused} refused."
                " --again imports it again."
            )
        if progress.choices != choices:
            raise Conflict(
                f"{self.sheet.path.name} was imported up to line {progress.lines} with other"
                f" options: {progress.choices}. "
                " Give the same options to continue, or --again to restart."
            )
        self._position = Position(progress.position, progress.lines)
        goes_on = self._position != self.sheet.start
        self._refusals.open(progress.refused_bytes, behind=progress.lines if goes_on else None)

    def _end(self, tx: Connection) -> None:
        if tx.run(_SET_ENDED, self._key | {"now": now_ms(), "end": self._position.bytes}):
            audit.note(
                tx,
                self._author,
                "import",
                "records",
                self._kind.name,
                account_id=self._account.id,
                after=asdict(self.tally),
            )


@contextmanager
def _map_errors(rows: Sequence[_ParsedRow]) -> Iterator[None]:
    """Context manager that turns InvalidProperties and DuplicateValue into _RowsRefused.

    The record store raises these errors for invalid records. The _RowsRefused names the line in the
    CSV file of every invalid row in `rows`.
    """
    try:
        yield
    except InvalidProperties as exc:
        reasons: dict[int, list[str]] = {}
        for row in exc.problems:
            reasons.setdefault(rows[row.index].row.line, []).append(f"{row.name}: {row.reason}")
        raise _RowsRefused({line: "; ".join(faults) for line, faults in reasons.items()}) from exc
    except DuplicateValue as exc:
        lines = {row.path: row.row.line for row in rows}
        raise _RowsRefused(
            {
                lines[path]: f"{name}: record {holder} has this value already"
                for path, name, holder in exc.taken
            }
        ) from exc


def _non_empty(row: _ParsedRow) -> dict[str, str]:
    return {name: value for name, value in row.values.items() if value}
