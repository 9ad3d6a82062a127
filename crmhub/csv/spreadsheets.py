"""Reading of CSV files by rows, and protection against formulas in cells.

A spreadsheet would execute a cell that begins like a formula
(https://owasp.org/www-community/attacks/CSV_Injection). Such a cell is written with a leading
apostrophe, which is removed on import, so that values survive a round trip.
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

# Spreadsheets also accept the full-width forms of East Asian keyboards.
_FORMULA = re.compile(r"'*[=+\-@\t\r＝＋－＠]")
# A plain number executes nothing, and the sign belongs to a phone number.
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?", re.ASCII)
_DELIMITERS = (",", ";", "\t", "|")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_LARGEST_CELL = 1 << 20
_BLOCK = 1 << 20


def escape_formula(value: str) -> str:
    """Return the value as a CSV cell.

    A value that begins like a formula gets an apostrophe before it.
    """
    return f"'{value}" if _FORMULA.match(value) and not _NUMBER.fullmatch(value) else value


def unescape_formula(cell: str) -> str:
    """Return the value of a cell: without the apostrophe before a formula, if any."""
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell


@dataclass(frozen=True, slots=True)
class Position:
    """A position between two rows of a file: the numbers of bytes and of lines before it."""

    bytes: int = 0
    lines: int = 0


_BEGINNING = Position()


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a CSV file.

    `line` is the number of its first line, and `end` the position after the row.
    """

    cells: Sequence[str]
    line: int
    end: Position


class Sheet:
    """A CSV file with a header; the constructor reads it completely once.

    `rows` is the number of non-blank rows below the header, `digest` the SHA-256 of the file, and
    `start` the position after the header. An empty `delimiter` is guessed from the first line.
    Raises BadRequest for an invalid file; its message has the line number.
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
        """Yield the non-blank rows after a position, in order.

        From the beginning of the file, the first row is the header. Raises BadRequest for an
        invalid row; its message has the line number.
        """
        # The csv module has only this limit for the whole process.
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
                    raise BadRequest(f"{self.path.name}, line {line}: {_fault(exc)}") from exc
                if any(cells):
                    yield Row(cells, line, lines.at)

    def _most_likely_delimiter(self) -> str:
        with self.path.open("rb") as file:
            first = file.readline(_BLOCK).decode(self._encoding, "replace")
        return max(_DELIMITERS, key=first.count)


def _fault(exc: csv.Error) -> str:
    """Return a message for an error of Python's csv module.

    The errors are distinguished by their texts, since they have no codes.
    """
    if "end of data" in str(exc):
        return "a quote is never closed."
    if "expected after" in str(exc):
        return "a quote inside a quoted cell must be doubled."
    if "field limit" in str(exc):
        return "a cell is longer than 1 MiB; often a quote before it is never closed."
    return f"invalid CSV ({exc})."


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Lines:
    """Iterator over the decoded lines of a file; `at` is the position after the last line read."""

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
            raise BadRequest(f"{self._name} is in UTF-16. Save it as CSV in UTF-8.")
        self.at = Position(self.at.bytes + len(line), self.at.lines + 1)
        try:
            return line.decode(encoding)
        except UnicodeDecodeError as exc:
            raise BadRequest(
                f"{self._name}, line {self.at.lines}: this is not {encoding.removesuffix('-sig')};"
                " name the file's encoding with --encoding (older spreadsheets write cp1252)."
            ) from exc
