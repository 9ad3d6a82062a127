"""CSV files as spreadsheets read and write them: cells, columns, rows.

A cell that begins like a formula would be carried out by the spreadsheet that opens the file
(https://owasp.org/www-community/attacks/CSV_Injection). Such a cell is written with an
apostrophe before it, and read without: what was written comes back as it was.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from crmhub.errors import BadRequest

# The full-width forms are taken for the others where such keyboards are in use.
_FORMULA = re.compile(r"'*[=+\-@\t\r＝＋－＠]")
# A number alone carries nothing out; of a phone the sign belongs to it.
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?", re.ASCII)
_DELIMITERS = (",", ";", "\t", "|")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_LARGEST_CELL = 1 << 20
_BLOCK = 1 << 20


def guarded(value: str) -> str:
    """Return the cell for a value: no spreadsheet takes it for a formula."""
    return f"'{value}" if _FORMULA.match(value) and not _NUMBER.fullmatch(value) else value


def unguarded(cell: str) -> str:
    """Return the value of a cell that `guarded` made."""
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell


@dataclass(frozen=True, slots=True)
class Position:
    """A place between two rows: so many bytes and so many lines lie before it."""

    bytes: int = 0
    lines: int = 0


_BEGINNING = Position()


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its cells, the line it begins in, and the place behind it."""

    cells: Sequence[str]
    line: int
    end: Position


class Sheet:
    """A CSV file that has been read through once: its header, its rows, and what tells it apart.

    `rows` counts those below the header that are not blank; `digest` is the SHA-256 of the file.
    Raises BadRequest, naming the line, for a file that is none.
    """

    def __init__(self, path: Path, *, delimiter: str = "", encoding: str = "utf-8") -> None:
        self.path = path
        self._encoding = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
        self.delimiter = delimiter or self._most_likely_delimiter()
        self.size = path.stat().st_size
        self.digest = _digest(path)
        rows = self.read()
        first = next(rows, None)
        if first is None:
            raise BadRequest(f"{path.name} is empty; its first line names the columns.")
        self.header = [cell.strip() for cell in first.cells]
        self.start = first.end
        self.rows = sum(1 for _ in rows)

    def read(self, after: Position = _BEGINNING) -> Iterator[Row]:
        """Return the rows behind a place, in order, but for blank ones; the header is the first."""
        # A setting of the process; the csv module has no other way.
        csv.field_size_limit(_LARGEST_CELL)
        with self.path.open("rb") as file:
            lines = _Lines(file, self._encoding, self.path.name, after)
            reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
            while True:
                line = lines.at.lines + 1
                try:
                    cells = next(reader)
                except StopIteration:
                    return
                except csv.Error as exc:
                    raise BadRequest(
                        f"{self.path.name}, line {line}: this is no CSV ({exc}); a cell that holds"
                        " quotes, line breaks or the delimiter stands in quotes, and a quote in"
                        " it is doubled."
                    ) from exc
                if any(cells):
                    yield Row(cells, line, lines.at)

    def _most_likely_delimiter(self) -> str:
        with self.path.open("rb") as file:
            first = file.readline(_BLOCK).decode(self._encoding, "replace")
        return max(_DELIMITERS, key=first.count)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Lines:
    """The lines of a file in words; `at` is the place behind the last one."""

    def __init__(self, file: BinaryIO, encoding: str, name: str, at: Position) -> None:
        file.seek(at.bytes)
        self.at = at
        self._file = file
        self._encoding = encoding
        self._name = name

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._file.readline()
        if not line:
            raise StopIteration
        encoding = self._encoding
        if self.at.bytes:
            encoding = encoding.removesuffix("-sig")
        elif line.startswith(_UTF16):
            raise BadRequest(
                f"{self._name} is UTF-16; save it as CSV in UTF-8 (spreadsheets offer both)."
            )
        self.at = Position(self.at.bytes + len(line), self.at.lines + 1)
        try:
            return line.decode(encoding)
        except UnicodeDecodeError as exc:
            raise BadRequest(
                f"{self._name}, line {self.at.lines}: this is not {encoding.removesuffix('-sig')};"
                " name the file's encoding with --encoding (older spreadsheets write cp1252)."
            ) from exc
