from __future__ import annotations

import codecs
import csv
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from crmhub.csv.encodings import find_encoding, mark_of, named_encoding, split_lines
from crmhub.errors import BadRequest

MAX_COLUMNS = 1000
"""The most columns of a file."""

_DELIMITERS = (",", ";", "\t", "|")
_DELIMITER_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
# Excel writes and reads this line before the titles.
_SEPARATOR_LINE = re.compile(r'\ufeff*"?sep=([^\r\n"])"?(?:\r\n|\r|\n)', re.IGNORECASE)
_LARGEST_CELL = 1 << 20
_HEAD_BYTES = 256 * 1024
_HEAD_ROWS = 50


@dataclass(frozen=True, slots=True)
class Position:
    bytes: int = 0
    lines: int = 0


_BEGINNING = Position()


@dataclass(frozen=True, slots=True)
class Row:
    """`line` is the number of its first line, and `end` the position after the row."""

    cells: Sequence[str]
    line: int
    end: Position


class Sheet:
    """A CSV file with a header; the constructor reads it completely once.

    `header` has unique titles, such as "Phone (2)"; `rows` counts non-blank rows below it; `digest`
    is SHA-256. `is_of_excel`: the file has a byte order mark or is not UTF-8. Raises BadRequest for
    an invalid file, more than MAX_COLUMNS columns, or an undeterminable encoding or delimiter.
    """

    def __init__(self, path: Path, *, delimiter: str = "", encoding: str = "") -> None:
        self.path = path
        self.encoding = named_encoding(encoding, path) if encoding else find_encoding(path)
        self.delimiter = delimiter
        self._beginning = _BEGINNING
        self._check_head()
        self.is_of_excel = self.encoding != "utf-8" or bool(mark_of(path))
        self.size = path.stat().st_size
        with path.open("rb") as file:
            self.digest = hashlib.file_digest(file, "sha256").hexdigest()
        rows = self.read(self._beginning)
        first = next(rows, None)
        if first is None:
            raise BadRequest(f"{path.name} is empty; its first line names the columns.")
        self.header = _distinct([cell.replace("\ufeff", "").strip() for cell in first.cells])
        self.start = first.end
        self.rows = sum(1 for _ in rows)

    @property
    def delimiter_name(self) -> str:
        return _DELIMITER_NAMES.get(self.delimiter, self.delimiter)

    def is_divided_otherwise(self, row: Row) -> bool:
        """Return whether the row's only cell has all cells, with another delimiter."""
        others = len(self.header) - 1
        return len(row.cells) == 1 <= others and any(
            row.cells[0].count(each) == others for each in _DELIMITERS if each != self.delimiter
        )

    def read(self, after: Position = _BEGINNING) -> Iterator[Row]:
        """From the beginning, the first row is the header. Raises BadRequest with the line."""
        # The csv module has only this limit for the whole process.
        csv.field_size_limit(_LARGEST_CELL)
        name, at = self.path.name, after

        def lines(file: BinaryIO) -> Iterator[str]:
            nonlocal at
            for line in split_lines(file, self.encoding, name, first=at.lines + 1):
                is_first = not at.bytes
                at = Position(at.bytes + len(line), at.lines + 1)
                try:
                    text = line.decode(self.encoding)
                except UnicodeDecodeError as exc:
                    raise BadRequest(
                        f"{name}, line {at.lines}: this is not {self.encoding};"
                        " name the file's encoding with --encoding (older spreadsheets write"
                        " cp1252)."
                    ) from exc
                yield text.lstrip("\ufeff") if is_first else text

        with self.path.open("rb") as file:
            file.seek(after.bytes)
            reader = csv.reader(lines(file), delimiter=self.delimiter, strict=True)
            while True:
                first = at.lines + 1
                try:
                    cells = next(reader)
                except StopIteration:
                    return
                except csv.Error as exc:
                    raise BadRequest(f"{name}, line {first}: {_fault(exc)}") from exc
                if any(map(str.strip, cells)):
                    yield Row(cells, first, at)

    def _check_head(self) -> None:
        """A larger part of the file is not read: a file with a million columns takes no memory."""
        name = self.path.name
        with self.path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            is_whole = not file.read(1)
        text = codecs.getincrementaldecoder(self.encoding)("replace").decode(head)
        if "\0" in text:
            raise BadRequest(f"{name} is no text file: it contains the character U+0000.")
        if match := _SEPARATOR_LINE.match(text):
            self.delimiter = self.delimiter or match[1]
            self._beginning = Position(len(match[0].encode(self.encoding)), 1)
            text = text[match.end() :]
        text = text.lstrip("\ufeff")
        self.delimiter = self.delimiter or _most_likely_delimiter(name, text)
        width = has_more = 0
        try:
            reader = csv.reader(StringIO(text, newline=""), delimiter=self.delimiter)
            for row in reader:
                width = max(width, len(row))
                if any(row):
                    has_more = next(reader, None) is not None
                    break
        except csv.Error:
            return  # `read` has the line number.
        if width > MAX_COLUMNS:
            raise BadRequest(
                f"{name} has more than {MAX_COLUMNS:,} columns; delete those that are not needed."
            )
        if not is_whole and not has_more:
            raise BadRequest(
                f"{name}: the titles are longer than {_HEAD_BYTES >> 10} KiB; often a quote is"
                " never closed."
            )


def _distinct(titles: Sequence[str]) -> list[str]:
    distinct: list[str] = []
    taken, numbers = set(titles), Counter[str]()
    for title in titles:
        new = title
        numbers[title] += 1
        if title and numbers[title] > 1:
            while (new := f"{title} ({numbers[title]})") in taken:
                numbers[title] += 1
        taken.add(new)
        distinct.append(new)
    return distinct


def _most_likely_delimiter(name: str, text: str) -> str:
    """Raises BadRequest if two delimiters divide most rows equally well."""
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
    """Errors of Python's csv module have no codes, so their texts distinguish them."""
    if "end of data" in str(exc):
        return "a quote is never closed."
    if "expected after" in str(exc):
        return "a quote inside a quoted cell must be doubled."
    if "field limit" in str(exc):
        return "a cell is longer than 1 MiB; often a quote before it is never closed."
    return f"invalid CSV ({exc})."
