"""The files of stored imports, in parts in the database.

Roles: the upload ("file"), the refused rows ("refused"), and the unique values that a paused dry
run has seen ("seen"). The key of a job is its `account_id` and `id`.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import sqlalchemy as sa

from crmhub.csv.columns import ADDED_COLUMNS
from crmhub.csv.spreadsheets import Row, Sheet
from crmhub.csv.text_guards import escape_formula, unescape_formula
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import delete_where, insert_row
from crmhub.database.statements import Statement, param
from crmhub.database.tables import import_part
from crmhub.errors import Conflict, NotFound

_PART_BYTES = 1 << 20
# The byte order mark, by which Excel recognises UTF-8.
_MARK = "\ufeff"
_part = import_part.c
_IN_ROLE = sa.and_(
    _part.account_id == param("account_id"),
    _part.job_id == param("id"),
    _part.role == param("role"),
)
_NUMBERS = Statement(sa.select(_part.number).where(_IN_ROLE).order_by(_part.number))
_CONTENT = Statement(sa.select(_part.content).where(_IN_ROLE, _part.number == param("number")))
_DELETE_BEHIND = Statement(sa.delete(import_part).where(_IN_ROLE, _part.number > param("number")))


def add_file(tx: Connection, key: Mapping[str, Any], role: str, file: IO[bytes]) -> int:
    """Store a file from its present position; return the number of bytes."""
    size = 0
    for number, content in enumerate(iter(lambda: file.read(_PART_BYTES), b"")):
        _add_part(tx, key, role, number, content)
        size += len(content)
    return size


def _add_part(
    tx: Connection, key: Mapping[str, Any], role: str, number: int, content: bytes
) -> None:
    part = {"role": role, "number": number, "content": content}
    insert_row(tx, import_part, {"account_id": key["account_id"], "job_id": key["id"], **part})


def delete_parts(tx: Connection, key: Mapping[str, Any], role: str = "") -> None:
    """Without a role, all files of the job."""
    of_role = {"role": role} if role else {}
    delete_where(tx, import_part, {"account_id": key["account_id"], "job_id": key["id"], **of_role})


def copy_file(database: Database, key: Mapping[str, Any], to: Path) -> None:
    """Raises NotFound if the file was deleted."""
    with to.open("wb") as out:
        for content in _contents(database, key, "file"):
            out.write(content)
    if not to.stat().st_size:
        raise NotFound("The file of this import was deleted, since the import has ended.")


def seen_values(database: Database, key: Mapping[str, Any]) -> bytes:
    return b"".join(_contents(database, key, "seen"))


def refused_rows(database: Database, key: Mapping[str, Any]) -> Generator[bytes]:
    """Yield parts in UTF-8 with a byte order mark."""
    mark = _MARK.encode()
    for content in _contents(database, key, "refused"):
        yield content if content.startswith(mark) else mark + content
        mark = b""


def _contents(database: Database, key: Mapping[str, Any], role: str) -> Iterator[bytes]:
    wanted = {**key, "role": role}
    with database.reading() as db:
        numbers = [row.number for row in db.rows(_NUMBERS, wanted)]
    for number in numbers:
        with database.reading() as db:
            content = db.scalar(_CONTENT, wanted | {"number": number})
        yield bytes(content or b"")


class StoredRefusals:
    """The file of refused rows, which can be corrected and imported like any other CSV file.

    `copy_to` gets the rows at the end of the import. With `raw`, formulas are not escaped.
    """

    def __init__(
        self,
        database: Database,
        key: Mapping[str, Any],
        sheet: Sheet,
        *,
        raw: bool,
        copy_to: Path | None = None,
    ) -> None:
        self._database = database
        self._key = key
        self._sheet = sheet
        self._raw = raw
        self._copy_to = copy_to

    def open(self, *, behind: int | None) -> None:
        """Continue after this line; None deletes the rows of an earlier run.

        A killed dry run leaves rows that it did not count. Raises Conflict if `copy_to` has other
        content.
        """
        if behind is None:
            self.discard()
        else:
            later = {**self._key, "role": "refused", "number": behind}
            self._database.transact(lambda tx: tx.run(_DELETE_BEHIND, later))
        if self._copy_to and self._copy_to.exists() and not self._is_own_copy(self._copy_to):
            raise Conflict(
                f"{self._copy_to} exists already and may contain refused rows of an earlier import;"
                " move it away, or name another file with --refused."
            )

    def _is_own_copy(self, path: Path) -> bool:
        """Return whether a run that was killed at its end has written the file, or it is empty."""
        with path.open("rb") as file:
            if not file.read(1):
                return True
            file.seek(0)
            parts = _contents(self._database, self._key, "refused")
            return all(file.read(len(part)) == part for part in parts) and not file.read(1)

    def copy(self) -> None:
        if self._copy_to is None:
            return
        with TemporaryDirectory(dir=self._copy_to.parent, prefix=".crmhub-") as directory:
            whole = Path(directory, self._copy_to.name)
            with whole.open("wb") as out:
                for part in _contents(self._database, self._key, "refused"):
                    out.write(part)
                out.flush()
                os.fsync(out.fileno())
            whole.replace(self._copy_to)

    def write(
        self, tx: Connection, refused: Sequence[tuple[Row, str]], *, with_titles: bool
    ) -> int:
        """Return the number of bytes. The transaction must be that of the batch."""
        text, sheet = StringIO(), self._sheet
        out = csv.writer(text, delimiter=sheet.delimiter)
        if with_titles:
            # The mark only if the sheet may be opened in Excel again.
            text.write(_MARK * sheet.is_of_excel)
            out.writerow([*sheet.header, *ADDED_COLUMNS])
        for row, reason in refused:
            cells = row.cells
            if not self._raw:
                cells = [escape_formula(unescape_formula(cell)) for cell in cells]
            missing = [""] * (len(self._sheet.header) - len(cells))
            out.writerow([*cells, *missing, row.line, escape_formula(reason)])
        content = text.getvalue().encode("utf-8", "surrogatepass")
        _add_part(tx, self._key, "refused", refused[0][0].line, content)
        return len(content)

    def discard(self) -> None:
        self._database.transact(lambda tx: delete_parts(tx, self._key, "refused"))
