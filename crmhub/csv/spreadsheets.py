"""Reading of CSV files by rows, and protection against formulas in cells.

A spreadsheet would execute a cell that begins like a formula
(https://owasp.org/www-community/attacks/CSV_Injection). Such a cell is written with a leading
apostrophe, which is removed on import, so that values survive a round trip.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from crmhub.csv.encodings import find_encoding, has_mark, normalize_encoding
from crmhub.errors import BadRequest

# Spreadsheets also accept the full-width forms of East Asian keyboards.
_FORMULA = re.compile(r"'*[=+\-@\t\r＝＋－＠]")
# A plain number executes nothing, and the sign belongs to a phone number.
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?", re.ASCII)
_DELIMITERS = (",", ";", "\t", "|")
_DELIMITER_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
# Excel writes and reads this line before the titles.
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
_LARGEST_CELL = 1 << 20
_HEAD_BYTES = 256 * 1024
_HEAD_ROWS = 50


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
    `start` the position after the header. `is_of_excel` tells whether the file begins with a byte
    order mark or is not in UTF-8. An empty `encoding` or `delimiter` is detected. Raises BadRequest
    for an invalid file, and if encoding or delimiter cannot be determined; its message has the line
    number. Raises LookupError for an unknown encoding.
    """

    def __init__(self, path: Path, *, delimiter: str = "", encoding: str = "") -> None:
        self.path = path
        self.encoding = normalize_encoding(encoding, path) if encoding else find_encoding(path)
        self.delimiter = delimiter
        self._beginning = _BEGINNING
        self._find_delimiter()
        self.is_of_excel = self.encoding != "utf-8" or has_mark(path)
        self.size = path.stat().st_size
        self.digest = _digest(path)
        rows = self.read(self._beginning)
        first = next(rows, None)
        if first is None:
            raise BadRequest(f"{path.name} is empty; its first line names the columns.")
        self.header = [cell.strip() for cell in first.cells]
        self.start = first.end
        self.rows = sum(1 for _ in rows)

    @property
    def delimiter_name(self) -> str:
        """The name of the delimiter, such as "comma"."""
        return _DELIMITER_NAMES.get(self.delimiter, self.delimiter)

    def read(self, after: Position = _BEGINNING) -> Iterator[Row]:
        """Yield the non-blank rows after a position, in order.

        From the beginning of the file, the first row is the header. Raises BadRequest for an
        invalid row; its message has the line number.
        """
        # The csv module has only this limit for the whole process.
        csv.field_size_limit(_LARGEST_CELL)
        with self.path.open("rb") as file:
            lines = _Lines(file, self.encoding, self.path.name, after)
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

    def _find_delimiter(self) -> None:
        """Set the delimiter, and the position of the titles after the line `sep=;`, if any."""
        with self.path.open("rb") as file:
            lines = _Lines(file, self.encoding, self.path.name, _BEGINNING)
            first = next(lines, "")
            if match := _SEPARATOR_LINE.fullmatch(first):
                self.delimiter = self.delimiter or match[1]
                self._beginning = lines.at
            elif not self.delimiter:
                text = first
                for line in lines:
                    if lines.at.bytes > _HEAD_BYTES:
                        break
                    text += line
                self.delimiter = _most_likely_delimiter(self.path.name, text)


def _most_likely_delimiter(name: str, text: str) -> str:
    """Return the delimiter that divides most rows into as many cells as the titles.

    `text` is the beginning of a file. Raises BadRequest if two delimiters do so equally well.
    """
    ranks = []
    for delimiter in _DELIMITERS:
        csv.field_size_limit(_LARGEST_CELL)
        try:
            reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
            widths = [len(row) for row in islice(reader, _HEAD_ROWS) if any(row)]
        except csv.Error:
            continue
        if widths and widths[0] > 1:
            ranks.append((widths.count(widths[0]) / len(widths), widths[0], delimiter))
    ranks.sort(reverse=True)
    if len(ranks) > 1 and ranks[0][:2] == ranks[1][:2]:
        both = " or ".join(_DELIMITER_NAMES[delimiter] for *_, delimiter in ranks[:2])
        raise BadRequest(
            f"{name}: the cells may be separated by {both}; name the character with --delimiter."
        )
    return ranks[0][2] if ranks else ","


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
        line = _read_line(self._file, self._encoding)
        if not line:
            raise StopIteration
        is_first = not self.at.bytes
        self.at = Position(self.at.bytes + len(line), self.at.lines + 1)
        try:
            text = line.decode(self._encoding)
        except UnicodeDecodeError as exc:
            raise BadRequest(
                f"{self._name}, line {self.at.lines}: this is not {self._encoding};"
                " name the file's encoding with --encoding (older spreadsheets write cp1252)."
            ) from exc
        return text.removeprefix("\ufeff") if is_first else text


def _read_line(file: BinaryIO, encoding: str) -> bytes:
    """Return the next line of a file in this encoding with its line break, b"" at the end."""
    if not encoding.startswith("utf-16"):
        return file.readline()
    is_little = encoding.endswith("le")
    line = b""
    while part := file.readline():
        line += part
        # The byte 0A may also be half of another character.
        if is_little and len(line) % 2:
            line += file.read(1)
            if line.endswith(b"\n\0"):
                break
        elif not is_little and len(line) % 2 == 0 and line.endswith(b"\0\n"):
            break
    return line
