"""The file of the rows that an import refused, with the reasons.

The file can be corrected and imported like any other CSV file.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Protocol

from crmhub.csv.spreadsheets import Row, Sheet
from crmhub.csv.text_guards import escape_formula, unescape_formula
from crmhub.database.connection import Connection
from crmhub.errors import Conflict

ADDED_COLUMNS = ("crmhub_line", "crmhub_refused")
"""The titles of the two columns after the cells of a row: its line number, and the reason."""


MARK = "\ufeff"
"""The byte order mark, by which Excel recognises UTF-8."""


class Refusals(Protocol):
    """Where an import writes the rows that it refuses.

    `size` is the length of what was written so far, in bytes.
    """

    size: int

    def open(self, size: int, *, behind: int | None) -> None:
        """Continue after the first `size` bytes, which an earlier run wrote.

        `behind` is the number of the last line that was imported, None for a new import. Raises
        Conflict if something else is stored there.
        """
        ...

    def write(self, tx: Connection, refused: Sequence[tuple[Row, str]]) -> None:
        """Write rows, each with its reason, in the transaction of the batch.

        The transaction may be rolled back and the batch written again.
        """
        ...

    def keep(self) -> None:
        """Make the rows written so far final, after the commit of the batch."""
        ...

    def discard(self) -> None:
        """Delete all rows; the import stores nothing."""
        ...


def titles_of(sheet: Sheet) -> list[str]:
    """Return the titles of the file of refused rows."""
    return [*sheet.header, *ADDED_COLUMNS]


def format_rows(sheet: Sheet, refused: Sequence[tuple[Row, str]], *, raw: bool) -> str:
    """Return refused rows, each with its reason, as CSV without titles.

    With `raw`, cells are written unchanged; otherwise formulas are escaped.
    """
    text = StringIO()
    out = csv.writer(text, delimiter=sheet.delimiter)
    for row, reason in refused:
        cells = row.cells if raw else [escape_formula(unescape_formula(cell)) for cell in row.cells]
        out.writerow([*cells, row.line, escape_formula(reason)])
    return text.getvalue()


def format_titles(sheet: Sheet) -> str:
    """Return the titles of the file of refused rows as a line of CSV.

    They begin with a byte order mark, if the sheet may be opened in Excel again.
    """
    text = StringIO()
    text.write(MARK * sheet.is_of_excel)
    csv.writer(text, delimiter=sheet.delimiter).writerow(titles_of(sheet))
    return text.getvalue()


class RefusedRows:
    """The file of refused rows at `path`; the first refused row creates it.

    `size` is the length of the file's valid part in bytes. Rows are provisional until `keep` is
    called: the next call of `write` replaces provisional rows.
    """

    def __init__(self, path: Path, sheet: Sheet, *, raw: bool) -> None:
        self.size = 0
        self._path = path
        self._sheet = sheet
        self._raw = raw
        self._kept_size = 0
        self._titles = titles_of(sheet)

    def open(self, size: int, *, behind: int | None) -> None:
        """Continue the file after its first `size` bytes, which an earlier run wrote.

        `behind` is the number of the last line of the CSV file that was imported, None for a new
        import. Raises Conflict if the file of refused rows has content that this import did not
        write.
        """
        existing_size = self._path.stat().st_size if self._path.exists() else 0
        if existing_size and (behind is None or not self._is_own_leftover(size, behind)):
            raise Conflict(
                f"{self._path} exists already and may contain refused rows of an earlier import;"
                " move it away, or name another file with --refused."
            )
        # If the file was moved away, its rows are there.
        self.size = self._kept_size = size if existing_size else 0

    def _is_own_leftover(self, size: int, behind: int) -> bool:
        """Return whether a killed run of this import left the content after `size` bytes.

        Such content has only rows for lines of the imported file after the line `behind`; the last
        row may be incomplete.
        """
        with self._path.open("rb") as file:
            file.seek(max(size - 1, 0))
            at_line_end = not size or file.read(1) == b"\n"
            rest = file.read().decode("utf-8", "replace").removeprefix(MARK)
        try:
            rows = list(csv.reader(StringIO(rest, newline=""), delimiter=self._sheet.delimiter))
        except csv.Error:
            return False
        if not size and rows.pop(0) != self._titles:
            return False
        complete_rows = rows if rest.endswith("\n") else rows[:-1]
        lines = [row[-2] for row in complete_rows if len(row) == len(self._titles)]
        is_later = (line.isdecimal() and int(line) > behind for line in lines)
        return at_line_end and len(lines) == len(complete_rows) and all(is_later)

    def write(self, tx: Connection, refused: Sequence[tuple[Row, str]]) -> None:
        """Write rows, each with its reason, after the rows that `keep` has made final.

        Rows that are not final are deleted from the file first.
        """
        if self.size == self._kept_size and not refused:
            return
        text = "" if self._kept_size else format_titles(self._sheet)
        text += format_rows(self._sheet, refused, raw=self._raw)
        with self._path.open("ab") as file:
            file.truncate(self._kept_size)
            file.write(text.encode("utf-8", "surrogatepass"))
            file.flush()
            os.fsync(file.fileno())
            self.size = file.tell()

    def keep(self) -> None:
        """Make the rows written so far final, so that no later `write` replaces them."""
        self._kept_size = self.size

    def discard(self) -> None:
        """Delete the file, if this import has created it."""
        if self.size:
            self._path.unlink(missing_ok=True)
        self.size = self._kept_size = 0


class NoRefusedRows:
    """Refused rows that are written nowhere, for a dry run."""

    size = 0

    def open(self, size: int, *, behind: int | None) -> None:
        """Do nothing."""

    def write(self, tx: Connection, refused: Sequence[tuple[Row, str]]) -> None:
        """Do nothing."""

    def keep(self) -> None:
        """Do nothing."""

    def discard(self) -> None:
        """Do nothing."""
