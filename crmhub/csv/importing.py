"""Import of records from a CSV file: each row is stored once, even after interruptions.

Each batch is one transaction with the progress: a killed import continues after the last stored
row, and of two processes with the same file the slower one stops. A file is identified by its
digest.

Invalid rows are written elsewhere with the reason; the others are imported. If all of the first
rows are refused for the same reason, nothing is stored. A dry run rolls each batch back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, replace
from typing import Any, NoReturn

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.csv.cells import CellReader
from crmhub.csv.columns import Choices, Plan, plan_columns
from crmhub.csv.formats import find_formats
from crmhub.csv.job_files import StoredRefusals
from crmhub.csv.links import LinkCell
from crmhub.csv.progress import ImportedUpTo, StoredProgress, Tally
from crmhub.csv.refusal_reasons import RefusalReasons
from crmhub.csv.row_writer import ParsedRow, RowsRefused, RowWriter, SeenValues
from crmhub.csv.spreadsheets import Position, Row, Sheet
from crmhub.csv.text_guards import unescape_formula
from crmhub.database.connection import Connection
from crmhub.errors import BadRequest, Conflict, NotFound, Semantic
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import KINDS, Kind
from crmhub.properties.values import DATE_TYPES, NUMBER_TYPES
from crmhub.records.store import RecordStore

_BATCH_ROWS = 500
_FIRST_ROWS = 200
_REMEDIES = (
    ("has this value already", "--by updates the existing records instead of creating new ones"),
    ("cells and the header", "name the character between the cells with --delimiter"),
    ("needs this property", "name the column of this property with --column 'TITLE=NAME'"),
    ("needs at least one of", "name a column of one of them with --column 'TITLE=NAME'"),
    ("is not a number", "name the decimal separator with --decimal"),
    ("is not a date", "name the order of day and month with --dates"),
)


class ImportedElsewhere(Conflict):
    """Another process imports the same file; rows already stored stay stored."""


class AllRefused(Semantic):
    """All of the first rows are refused for the same reason; nothing is stored."""


class _RolledBack(Exception):
    """Raised to undo the writes of a dry run."""


def load_catalogues(records: RecordStore, account: Account) -> dict[str, Catalogue]:
    return {name: records.catalogues.reload(account.id, kind) for name, kind in KINDS.items()}


class Import:
    """`reasons` has those of this run; `warning` is set if a dry run cannot foresee a limit."""

    def __init__(
        self,
        records: RecordStore,
        account: Account,
        kind: Kind,
        sheet: Sheet,
        *,
        choices: Choices,
        refusals: StoredRefusals | None,
        by: Author,
        again: bool = False,
        dry_run: bool = False,
        stop_early: bool = True,
        key: str = "",
        saved: str = "",
        seen: bytes = b"",
    ) -> None:
        """Check the columns and load the progress of an earlier run.

        `again` deletes the progress of an earlier import. `key` replaces the file's digest. `saved`
        and `seen` are what `pause` has returned.

        Raises Semantic for invalid columns, or numbers or dates that can be read in two ways.
        Raises Conflict if the file was already imported, an unfinished import of it has other
        options, or the file of refused rows has other content.
        """
        self.sheet = sheet
        self.reasons = RefusalReasons()
        self.warning = ""
        self._database = records.database
        self._choices = choices
        self._author = by
        self._stop_early = stop_early
        self._refusals = refusals
        # The unique values of earlier rows, while a dry run goes on.
        self._seen: SeenValues | None = None
        self._seen_before = seen
        # None in a dry run.
        self._progress = (
            None
            if dry_run
            else StoredProgress(account.id, kind.code, key or sheet.digest, sheet.path.name)
        )
        catalogues = load_catalogues(records, account)
        catalogue = catalogues[kind.name]
        self.plan: Plan = plan_columns(catalogue, sheet.header, choices, catalogues)
        self.plan.check()
        self._columns = self.plan.columns
        self._unique = {each.name for each in catalogue if each.unique}
        self._cells = CellReader(catalogue, self._find_formats(catalogue), choices.timezone)
        self._writer = RowWriter(records, account, kind, catalogues, choices)
        before = json.loads(saved or "{}")
        self.reasons.load(before.get("reasons", {}))
        up_to = before.get("up_to")
        self._up_to = ImportedUpTo.from_json(up_to) if up_to else ImportedUpTo(Tally(), sheet.start)
        if self._progress is None:
            self._open_refusals(is_continued=up_to is not None)
        else:
            # One transaction: if the restart fails, the earlier progress is kept.
            self._database.transact(lambda tx: self._resume(tx, again))

    @property
    def tally(self) -> Tally:
        return self._up_to.tally

    def _find_formats(self, catalogue: Catalogue) -> dict[str, str]:
        columns = {}
        for index, column in enumerate(self._columns):
            prop = catalogue.get(column.name)
            if prop is not None and prop.type in NUMBER_TYPES | DATE_TYPES:
                columns[index] = "number" if prop.type in NUMBER_TYPES else "date"
        rows = (
            (
                row.line,
                {index: self._text(c) for index, c in enumerate(row.cells) if index in columns},
            )
            for row in self.sheet.read(self.sheet.start)
            if len(row.cells) <= len(self._columns)
        )
        formats = find_formats(
            rows, columns, decimal=self._choices.decimal, dates=self._choices.dates
        )
        return {self._columns[index].name: format for index, format in formats.items()}

    def run(self) -> Iterator[Tally]:
        """Import the rest of the file; yield the tally after each batch.

        Raises AllRefused, LimitExceeded, Unavailable, ImportedElsewhere and OSError; earlier
        batches stay stored, and the import can be continued.
        """
        if self._progress is None:
            with closing(SeenValues(self._seen_before)) as self._seen:
                yield from self._run()
            self._check_quota()
        else:
            yield from self._run()
            if self._refusals and self._up_to.refused_bytes:
                self._refusals.copy()
            self._database.transact(self._end)

    def pause(self) -> tuple[str, bytes]:
        """Return JSON and, of a dry run, the unique values of its rows, to continue with later."""
        saved: dict[str, Any] = {"reasons": self.reasons.to_json()}
        if self._seen is None:
            return json.dumps(saved), b""
        return json.dumps(saved | {"up_to": asdict(self._up_to)}), self._seen.dump()

    def _run(self) -> Iterator[Tally]:
        at_start = self._up_to.position == self.sheet.start
        most = _FIRST_ROWS if at_start and self._stop_early else _BATCH_ROWS
        batch: list[ParsedRow] = []
        unique: set[tuple[str, str]] = set()
        for row in self.sheet.read(self._up_to.position):
            parsed = self._read(row)
            # Two rows of the same record go into separate batches, in order.
            if len(batch) == most or not unique.isdisjoint(parsed.unique):
                yield self._store(batch)
                batch, unique = [], set()
                most = self._check_first_rows(most)
            batch.append(parsed)
            unique |= parsed.unique
        if batch:
            yield self._store(batch)
            self._check_first_rows(most)

    def _check_first_rows(self, most: int) -> int:
        """Return the size of the next batch."""
        if most == _BATCH_ROWS or self.tally.rows < _FIRST_ROWS:
            return most
        if self.tally.rows == self.tally.refused and len(self.reasons.counts) == 1:
            self._stop(next(iter(self.reasons.counts)))
        return _BATCH_ROWS

    def _stop(self, reason: str) -> NoReturn:
        if self._progress:
            self._database.transact(self._progress.delete)
        if self._refusals:
            self._refusals.discard()
        remedy = next((f" Perhaps {text}." for part, text in _REMEDIES if part in reason), "")
        raise AllRefused(
            f"Nothing was imported. The first {self.tally.rows} rows fail for one reason:"
            f" {reason.rstrip('.')}.{remedy}"
        )

    def _text(self, cell: str) -> str:
        return cell if self._choices.raw else unescape_formula(cell)

    def _read(self, row: Row) -> ParsedRow:
        if len(row.cells) > len(self.sheet.header) or self.sheet.is_divided_otherwise(row):
            fault = (
                f"it has {len(row.cells)} cells and the header {len(self.sheet.header)};"
                f" a cell that contains {self.sheet.delimiter!r} needs quotes"
            )
            return ParsedRow(row, {}, frozenset(), fault=fault)
        # Programs leave out blank cells at the end of a row; these clear nothing.
        cells = [self._text(cell) for cell in row.cells]
        given, guarded = {}, set()
        for column, cell, written in zip(self._columns, cells, row.cells, strict=False):
            if column.name:
                given[column.name] = cell
                guarded |= {column.name} if cell != written else set()
        links = [
            LinkCell(column.target, cell)
            for column, cell in zip(self._columns, cells, strict=False)
            if column.target and cell.strip()
        ]
        id = given.pop("id", "").strip()
        values, fault = self._cells.read(given, guarded)
        unique = {(name, v.strip().lower()) for name, v in values.items() if name in self._unique}
        unique |= {("id", id)}
        unique_values = frozenset((name, value) for name, value in unique if value)
        if id and not (id.isascii() and id.isdigit() and len(id) < 17):
            fault = f"id: {id[:40]!r} is not a record id"
        if any("\0" in cell for cell in row.cells):
            fault = "it contains the character U+0000; delete it"
        return ParsedRow(row, values, unique_values, id, fault, links)

    def _store(self, rows: Sequence[ParsedRow]) -> Tally:
        refused = {row.line: row.fault for row in rows if row.fault}
        if self._seen is not None:
            refused |= self._seen.find_repeated(rows, by=self._choices.by)
        while True:
            accepted = [row for row in rows if row.line not in refused]
            rejected = [(row.row, refused[row.line]) for row in rows if row.line in refused]
            try:
                self._commit(rows[-1].row.end, accepted, rejected)
            except ImportedElsewhere:
                raise
            except RowsRefused as exc:
                refused |= exc.reasons
            except (BadRequest, NotFound, Conflict, Semantic) as exc:
                # The error names only the first fault, or rows that conflict with each other.
                if len(accepted) == 1:
                    refused[accepted[0].line] = exc.message.replace(accepted[0].path, "")
                    continue
                middle = rows.index(accepted[len(accepted) // 2])
                self._store(rows[:middle])
                return self._store(rows[middle:])
            else:
                for line, reason in sorted(refused.items()):
                    self.reasons.add(line, reason)
                return self.tally

    def _commit(
        self, end: Position, accepted: Sequence[ParsedRow], refused: Sequence[tuple[Row, str]]
    ) -> None:
        """`end` is the position in the CSV file after these rows."""
        before = self._up_to

        def write(tx: Connection) -> ImportedUpTo:
            # The lock is held until the commit: another process with the same file waits here.
            if self._progress and self._progress.lock(tx) != before.position.bytes:
                raise ImportedElsewhere(
                    f"Another process imports {self.sheet.path.name} as well, and continues."
                )
            created, updated = (
                self._rehearse(accepted) if self._seen else self._writer.write(accepted, None)
            )
            up_to = ImportedUpTo(
                Tally(
                    before.tally.created + created,
                    before.tally.updated + updated,
                    before.tally.refused + len(refused),
                ),
                end,
                before.refused_bytes,
            )
            if self._refusals and refused:
                size = self._refusals.write(tx, refused, with_titles=not before.refused_bytes)
                up_to = replace(up_to, refused_bytes=before.refused_bytes + size)
            if self._progress:
                self._progress.note(tx, up_to)
            return up_to

        self._up_to = self._database.transact(write)
        if self._seen is not None:
            self._seen.add(accepted)

    def _rehearse(self, rows: Sequence[ParsedRow]) -> tuple[int, int]:
        """Write the rows and undo it, within the batch's transaction."""
        results: list[tuple[int, int]] = []

        def write_and_undo(tx: Connection) -> None:
            results.append(self._writer.write(rows, self._seen))
            raise _RolledBack

        with suppress(_RolledBack):
            self._database.transact(write_and_undo)
        return results[-1]

    def _resume(self, tx: Connection, again: bool) -> None:
        assert self._progress is not None
        start = self.sheet.start
        self._up_to = self._progress.begin(tx, self._choices, start, again=again)
        self._open_refusals(is_continued=self._up_to.position != start)

    def _open_refusals(self, *, is_continued: bool) -> None:
        if self._refusals:
            self._refusals.open(behind=self._up_to.position.lines if is_continued else None)

    def _end(self, tx: Connection) -> None:
        assert self._progress is not None
        if self._progress.end(tx, self._up_to.position):
            audit.note(
                tx,
                self._author,
                "import",
                "records",
                self._writer.kind.name,
                account_id=self._writer.account.id,
                after=asdict(self.tally),
            )

    def _check_quota(self) -> None:
        account, kind = self._writer.account, self._writer.kind
        quota = account.plan.quotas.get(kind.name)
        live = self._writer.records.counts(account).get(kind.code, 0)
        if quota is not None and live + self.tally.created > quota:
            self.warning = (
                f"The plan allows {quota:,} {kind.name}, and there are {live:,}: the import"
                f" will stop after {max(0, quota - live):,} new ones."
            )
