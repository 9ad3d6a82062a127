"""Records from a CSV file: each row once, whatever happens in between.

Rows are written some hundred at a time, and how far the import has come is written in the same
transaction. So one that was killed goes on behind the last row that is stored, and two that
import the same file do not make its records twice: the slower one stops. A file is known by its
whole content; a file that was changed is another one.

A row that cannot be stored is refused and holds up no other one. It is kept with its reason in a
file of its own, which can be corrected and imported like any other.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path

import sqlalchemy as sa

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.csv.spreadsheets import (
    Position,
    Row,
    Sheet,
    guarded,
    unguarded,
)
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import csv_import
from crmhub.errors import BadRequest, Conflict, NotFound, Semantic, listed
from crmhub.properties.catalogue import (
    FIELDS,
    Catalogue,
    Property,
)
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import DuplicateValue, InvalidProperties
from crmhub.records.store import RecordStore
from crmhub.records.writing import Change, NewRecord, Upsert

# What a file of refused rows tells beside the cells of the row.
_ADDED = ("crmhub_line", "crmhub_refused")

_ROWS = 500
_KEPT_MS = 90 * 24 * 3600 * 1000
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
_BEGIN_ANEW = Statement(sa.delete(csv_import).where(_IS_FILE))
_FORGET = Statement(sa.delete(csv_import).where(_OF_ACCOUNT, _import.changed_at < param("before")))
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
_END = Statement(
    sa.update(csv_import)
    .where(_IS_FILE, _import.position == param("end"), _NOT_ENDED)
    .values(ended_at=param("now"), changed_at=param("now"))
)


@dataclass(frozen=True, slots=True)
class Choices:
    """How a file is read.

    `by` is what tells whose row it is: a unique property, "id", or "" when every row is a new
    record. `columns` says what the columns of some titles hold, "" leaves one out. With `clear` an
    empty cell clears a value that the record has, with `raw` cells are taken as they are.
    """

    by: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    clear: bool = False
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Tally:
    """What has become of the rows so far."""

    created: int = 0
    updated: int = 0
    refused: int = 0

    @property
    def rows(self) -> int:
        """How many rows that is."""
        return self.created + self.updated + self.refused


class ImportedElsewhere(Conflict):
    """Another process is importing the same file; what is stored stays, and it goes on."""


class _Refused(Exception):
    """Rows that cannot be stored; `reasons` by their lines."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        self.reasons = reasons


@dataclass(frozen=True, slots=True)
class _Read:
    """A row as it is to be stored: its values by property ("" where the cell is empty), and the
    unique values in it. `fault` says why it cannot be."""

    row: Row
    values: Mapping[str, str]
    unique: frozenset[tuple[str, str]]
    id: str = ""
    fault: str = ""

    @property
    def path(self) -> str:
        return f"line {self.row.line}: "


class Import:
    """The import of one file into the records of one kind of an account.

    Its columns are checked and what was imported of it before is found; `run` does the rest.
    `left_out` names the columns that are not read, `tally` what has become of the rows so far.
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
        """Raise Semantic for columns that cannot be, and Conflict when it was imported before.

        `refused` is the file for what cannot be stored. With `again` what was imported before
        does not count.
        """
        self.sheet = sheet
        self.tally = Tally()
        self._records = records
        self._database = records.database
        self._account = account
        self._kind = kind
        self._choices = choices
        self._author = by
        self._of = {"account_id": account.id, "kind": kind.code, "digest": sheet.digest}
        catalogue = records.catalogues.reload(account.id, kind)
        self._properties = _columns(catalogue, sheet.header, choices)
        self._unique = {each.name for each in catalogue if each.unique}
        self._at = sheet.start
        self._refusals = _Refusals(refused, sheet, raw=choices.raw)
        # Together: what cannot begin anew has not forgotten what was imported before.
        self._database.transact(lambda tx: self._resume(tx, again))

    @property
    def left_out(self) -> list[str]:
        """The titles of the columns that are not read."""
        titles = zip(self.sheet.header, self._properties, strict=True)
        return [title or "(no title)" for title, name in titles if not name]

    def run(self) -> Iterator[Tally]:
        """Import what is left of the file; return after each step what has become of its rows.

        Raises LimitExceeded, Unavailable, ImportedElsewhere and OSError, when the rows before are
        stored and the same import can go on later.
        """
        batch: list[_Read] = []
        unique: set[tuple[str, str]] = set()
        for row in self.sheet.read(self._at):
            read = self._read(row)
            # Of two rows about the same one, the second changes what the first has written.
            if len(batch) == _ROWS or not unique.isdisjoint(read.unique):
                yield self._store(batch)
                batch, unique = [], set()
            batch.append(read)
            unique |= read.unique
        if batch:
            yield self._store(batch)
        self._end()

    # Rows

    def _read(self, row: Row) -> _Read:
        header = self.sheet.header
        if len(row.cells) != len(header):
            fault = (
                f"it has {len(row.cells)} cells and the header {len(header)};"
                f" a cell that holds {self.sheet.delimiter!r} stands in quotes"
            )
            return _Read(row, {}, frozenset(), fault=fault)
        plain = row.cells if self._choices.raw else [unguarded(cell) for cell in row.cells]
        values = {name: value for name, value in zip(self._properties, plain, strict=True) if name}
        id = values.pop("id", "").strip()
        unique = {(name, v.strip().lower()) for name, v in values.items() if name in self._unique}
        unique |= {("id", id)}
        held = frozenset((name, value) for name, value in unique if value)
        fault = ""
        if id and not (id.isascii() and id.isdigit() and len(id) < 17):
            fault = f"id: {id[:40]!r} is no id of a record"
        return _Read(row, values, held, id, fault)

    def _store(self, rows: Sequence[_Read]) -> Tally:
        """Store rows, refuse those that cannot be, and return the new tally."""
        refused = {each.row.line: each.fault for each in rows if each.fault}
        while True:
            good = [each for each in rows if each.row.line not in refused]
            told = [(each.row, refused[each.row.line]) for each in rows if each.row.line in refused]
            try:
                self._commit(rows[-1].row.end, good, told)
                return self.tally
            except ImportedElsewhere:
                raise
            except _Refused as exc:
                refused |= exc.reasons
            except (BadRequest, NotFound, Conflict, Semantic) as exc:
                # It tells of the first fault alone, or of rows that cannot be written together.
                if len(good) == 1:
                    refused[good[0].row.line] = exc.message.replace(good[0].path, "")
                    continue
                middle = rows.index(good[len(good) // 2])
                self._store(rows[:middle])
                return self._store(rows[middle:])

    def _commit(
        self, end: Position, good: Sequence[_Read], refused: Sequence[tuple[Row, str]]
    ) -> None:
        """Write rows and refusals, and that everything up to `end` is done."""

        def work(tx: Connection) -> Tally:
            # Held until the commit: another process with the same file waits here.
            at = tx.scalar(_LOCK, self._of)
            if at != self._at.bytes:
                raise ImportedElsewhere(
                    f"Another process imports {self.sheet.path.name} as well; it goes on."
                )
            created, updated = self._write(good)
            # Before the commit: a refusal told twice is cut off again, an untold one is lost. Not
            # before the lock: the file may be another process's, which goes on with it.
            self._refusals.write(refused)
            before = self.tally
            done = Tally(
                before.created + created, before.updated + updated, before.refused + len(refused)
            )
            tx.run(
                _NOTE_PROGRESS,
                self._of
                | asdict(done)
                | {
                    "position": end.bytes,
                    "lines": end.lines,
                    "refused_bytes": self._refusals.size,
                    "changed_at": now_ms(),
                },
            )
            return done

        self.tally = self._database.transact(work)
        self._at = end
        self._refusals.keep()

    def _write(self, rows: Sequence[_Read]) -> tuple[int, int]:
        """Write rows and return how many were created and updated; _Refused with all at fault."""
        by = self._choices.by
        known: list[_Read] = []
        named: list[_Read] = []
        new: list[_Read] = []
        for each in rows:
            has_name = by not in ("", "id") and each.values.get(by)
            (known if each.id else named if has_name else new).append(each)
        created = 0
        with _told(known):
            changes = [Change(int(each.id), self._sent(each), each.path) for each in known]
            if changes:
                self._records.update(self._account, self._kind, changes)
        with _told(named):
            upserts = [Upsert(by, each.values[by], self._sent(each), each.path) for each in named]
            if upserts:
                stored = self._records.upsert(self._account, self._kind, upserts)
                created += sum(is_new for _, is_new in stored)
        with _told(new):
            inputs = [NewRecord(_filled(each), path=each.path) for each in new]
            if inputs:
                self._records.create(self._account, self._kind, inputs)
                created += len(inputs)
        return created, len(rows) - created

    def _sent(self, row: _Read) -> Mapping[str, str]:
        return row.values if self._choices.clear else _filled(row)

    # How far it has come

    def _resume(self, tx: Connection, again: bool) -> None:
        """Find how far the file was imported before, or write down that it begins."""
        choices = json.dumps(asdict(self._choices), sort_keys=True)
        if again:
            tx.run(_BEGIN_ANEW, self._of)
        tx.run(_FORGET, {"account_id": self._account.id, "before": now_ms() - _KEPT_MS})
        tx.run(
            _BEGIN,
            self._of
            | {
                "choices": choices,
                "position": self.sheet.start.bytes,
                "lines": self.sheet.start.lines,
                "changed_at": now_ms(),
            },
        )
        found = tx.row(_FIND, self._of)
        self.tally = Tally(found.created, found.updated, found.refused)
        if found.ended_at is not None:
            raise Conflict(
                f"{self.sheet.path.name} was imported already: {found.created} created,"
                f" {found.updated} updated, {found.refused} refused. --again imports it anew."
            )
        if found.choices != choices:
            raise Conflict(
                f"{self.sheet.path.name} was imported up to line {found.lines} with other"
                f" options: {found.choices}. Give the same to go on, or --again to begin anew."
            )
        self._at = Position(found.position, found.lines)
        goes_on = self._at != self.sheet.start
        self._refusals.open(found.refused_bytes, behind=found.lines if goes_on else None)

    def _end(self) -> None:
        def work(tx: Connection) -> None:
            ended = tx.run(_END, self._of | {"now": now_ms(), "end": self._at.bytes})
            if ended:
                audit.note(
                    tx,
                    self._author,
                    "import",
                    "records",
                    self._kind.name,
                    account_id=self._account.id,
                    after=asdict(self.tally),
                )

        self._database.transact(work)


class _Refusals:
    """The file of rows that were refused, which is made with the first of them.

    What is written behind the last `keep` is written anew by the next `write`.
    """

    def __init__(self, path: Path, sheet: Sheet, *, raw: bool) -> None:
        self.size = 0
        self._path = path
        self._sheet = sheet
        self._raw = raw
        self._kept = 0
        self._titles = [*sheet.header, *_ADDED]

    def open(self, size: int, *, behind: int | None) -> None:
        """Go on behind the first `size` bytes; Conflict when it holds something else.

        `behind` is the line up to which the import has come, None when it begins.
        """
        there = self._path.stat().st_size if self._path.exists() else 0
        if there and (behind is None or not self._as_left(size, behind)):
            raise Conflict(
                f"{self._path} is there already and may hold rows that were refused before;"
                " move it away, or name another file with --refused."
            )
        # Whoever took it away has what was in it.
        self.size = self._kept = size if there else 0

    def _as_left(self, size: int, behind: int) -> bool:
        """Return whether nothing but rows of lines after `behind` stands behind `size` bytes.

        An import that was killed leaves those. The last of them may be half written.
        """
        with self._path.open("rb") as file:
            file.seek(max(size - 1, 0))
            at_an_end = not size or file.read(1) == b"\n"
            rest = file.read().decode("utf-8", "replace")
        try:
            rows = list(csv.reader(StringIO(rest, newline=""), delimiter=self._sheet.delimiter))
        except csv.Error:
            return False
        if not size and rows.pop(0) != self._titles:
            return False
        whole = rows if rest.endswith("\n") else rows[:-1]
        lines = [row[-2] for row in whole if len(row) == len(self._titles)]
        later = (line.isdecimal() and int(line) > behind for line in lines)
        return at_an_end and len(lines) == len(whole) and all(later)

    def write(self, refused: Sequence[tuple[Row, str]]) -> None:
        """Write rows, each with the reason, behind what is kept."""
        if self.size == self._kept and not refused:
            return
        text = StringIO()
        out = csv.writer(text, delimiter=self._sheet.delimiter)
        if not self._kept:
            out.writerow(self._titles)
        for row, reason in refused:
            cells = row.cells if self._raw else [guarded(unguarded(cell)) for cell in row.cells]
            out.writerow([*cells, row.line, guarded(reason)])
        with self._path.open("ab") as file:
            file.truncate(self._kept)
            file.write(text.getvalue().encode("utf-8", "surrogatepass"))
            file.flush()
            os.fsync(file.fileno())
            self.size = file.tell()

    def keep(self) -> None:
        """Let what was written stay."""
        self._kept = self.size


@contextmanager
def _told(rows: Sequence[_Read]) -> Iterator[None]:
    """Raise _Refused where a batch of these rows fails and every one at fault is named."""
    try:
        yield
    except InvalidProperties as exc:
        reasons: dict[int, list[str]] = {}
        for each in exc.problems:
            reasons.setdefault(rows[each.index].row.line, []).append(f"{each.name}: {each.reason}")
        raise _Refused({line: "; ".join(told) for line, told in reasons.items()}) from exc
    except DuplicateValue as exc:
        lines = {each.path: each.row.line for each in rows}
        raise _Refused(
            {
                lines[path]: f"{name}: record {holder} has this value already"
                for path, name, holder in exc.taken
            }
        ) from exc


def _filled(row: _Read) -> dict[str, str]:
    return {name: value for name, value in row.values.items() if value}


def _columns(catalogue: Catalogue, titles: Sequence[str], choices: Choices) -> tuple[str, ...]:
    """Return what each column holds, "" where it is left out; Semantic naming every fault."""
    problems = [
        (f"--column {title}", f"no column has this title; they are {', '.join(titles)}")
        for title in choices.columns
        if title not in titles
    ]
    names: list[str] = []
    for title in titles:
        name = choices.columns.get(title, _meant(catalogue, title, choices.by))
        if name and (reason := _not_a_column(catalogue, name, names, choices.by)):
            problems.append((f"column {title[:100]!r}", reason))
        names.append(name)
    if choices.by and (reason := _tells_nobody(catalogue, choices.by, names)):
        problems.append(("--by", reason))
    if not any(names):
        problems.append(("columns", "none of them holds a property"))
    if problems:
        raise Semantic(f"Nothing was imported. {listed(problems)}")
    return tuple(names)


def _meant(catalogue: Catalogue, title: str, by: str) -> str:
    """Return what a column of this title holds: the property of this name, or else label."""
    if title == "id" == by:
        return title
    if not title or title in FIELDS or title in _ADDED:
        return ""
    like = [each.name for each in catalogue if title.casefold() in _called(each)]
    return title if catalogue.get(title) or len(like) != 1 else like[0]


def _called(known: Property) -> tuple[str, str]:
    return known.name, known.label.casefold()


def _not_a_column(catalogue: Catalogue, name: str, before: Collection[str], by: str) -> str:
    """Say why no column can hold this, and what to do about it; "" when one can."""
    known = catalogue.get(name)
    if name in before:
        return f"an earlier column holds {name} already; leave one out with --column 'TITLE='"
    if known is not None:
        return f"{name} is read-only; leave it out with --column 'TITLE='" * known.read_only
    if name == "id" == by:
        return ""
    near = catalogue.nearest(name.lower().replace(" ", "_"))
    meant = f"; did you mean {' or '.join(near)}?" if near else "."
    return (
        f"{catalogue.kind.name} have no property of this name or label{meant} Name one with"
        " --column 'TITLE=NAME', or leave it out with --column 'TITLE='"
    )


def _tells_nobody(catalogue: Catalogue, by: str, names: Collection[str]) -> str:
    known = catalogue.get(by)
    if by != "id" and (known is None or not known.unique):
        there = ", ".join(["id", *(each.name for each in catalogue if each.unique)])
        return f"{by} is not unique, so it does not tell whose row it is; give one of {there}"
    return "" if by in names else f"no column holds {by}"
