"""How a CSV file writes numbers and dates, determined from all of its cells.

Spreadsheets write `1.234,50` or `1,234.50`, and 3/4/2024 for a day in March or in April. A file
uses one way throughout, so cells that can be read in one way only decide for the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from crmhub.errors import Semantic

_SPACES = " \u00a0\u202f\u2009'’"
_CURRENCY = "€$£¥"


def _number_pattern(decimal: str, group: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<sign>[+-]?)[{_CURRENCY}{_SPACES}]*"
        rf"(?P<whole>[0-9]{{1,3}}(?P<group>[{group}{_SPACES}])[0-9]{{3}}"
        rf"(?:(?P=group)[0-9]{{3}})*|[0-9]+)"
        rf"(?:{re.escape(decimal)}(?P<decimals>[0-9]+))?[{_CURRENCY}{_SPACES}]*"
    )


_NUMBERS = {".": _number_pattern(".", ","), ",": _number_pattern(",", ".")}
_DATE = re.compile(
    r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})"
    r"(?:[ ,T]+([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?: ?([AaPp])\.?[Mm]\.?)?)?"
)


def read_number(cell: str, decimal: str) -> str | None:
    """Return the number in a cell as plain decimal text; None if it has another form.

    `decimal` is the decimal separator, "." or ",". Thousands separators and signs of currencies
    are removed.
    """
    match = _NUMBERS[decimal].fullmatch(cell.strip())
    if match is None:
        return None
    whole = "".join(filter(str.isdigit, match["whole"]))
    return f"{match['sign']}{whole}" + (f".{match['decimals']}" if match["decimals"] else "")


def read_date(cell: str, order: str) -> str | None:
    """Return the date, or date and time, in a cell as ISO 8601; None if it has another form.

    `order` is "dmy" or "mdy"; with points between the numbers the day is always first. Whether the
    day exists is not checked.
    """
    match = _DATE.fullmatch(cell.strip())
    if match is None:
        return None
    first, separator, second, year, hour, minute, seconds, half = match.groups()
    day, month = (first, second) if separator == "." or order != "mdy" else (second, first)
    text = f"{year}-{month:0>2}-{day:0>2}"
    if hour is None:
        return text
    if half:
        if not 1 <= int(hour) <= 12:
            return None
        hour = str(int(hour) % 12 + 12 * (half in "Pp"))
    return f"{text} {hour:0>2}:{minute}:{seconds or '00'}"


@dataclass(slots=True)
class _Evidence:
    """The first cell for each of two ways of writing, and the first that may be either."""

    cells: dict[str, tuple[int, str]] = field(default_factory=dict)

    def note(self, way: str, line: int, cell: str) -> None:
        self.cells.setdefault(way, (line, cell))

    def decide(self, ways: Sequence[str], option: str, *, default: str = "") -> str:
        """Return the only way that the cells allow; raises Semantic if they do not decide."""
        found = [way for way in ways if way in self.cells]
        if len(found) == 1:
            return found[0]
        choice = " or ".join(f"{option} {way}" for way in ways)
        if found:
            (line, cell), (other_line, other) = (self.cells[way] for way in ways)
            raise Semantic(
                f"Nothing was imported. Line {line} has {cell[:40]} and line {other_line} has"
                f" {other[:40]}, which are written in two ways. Say which is right: {choice}."
            )
        if "either" not in self.cells or default:
            return default or ways[0]
        line, cell = self.cells["either"]
        raise Semantic(
            f"Nothing was imported. Line {line} has {cell[:40]}, which can be read in two ways,"
            f" and no other line decides. Say which is right: {choice}."
        )


@dataclass(frozen=True, slots=True)
class Formats:
    """The decimal separator, and the order of day and month, of a file."""

    decimal: str = "."
    dates: str = "dmy"


def find_formats(
    rows: Iterable[tuple[int, Sequence[str]]],
    columns: Mapping[int, str],
    *,
    delimiter: str,
    decimal: str,
    dates: str,
) -> Formats:
    """Determine the formats of a file from its rows, pairs of line number and cells.

    `columns` maps the index of each column of numbers or dates to "number" or "date". A given
    `decimal` or `dates` is returned as it is. Raises Semantic if the rows do not decide.
    """
    numbers, days, commas = _Evidence(), _Evidence(), False
    wanted = {
        index: kind
        for index, kind in columns.items()
        if not (decimal if kind == "number" else dates)
    }
    for line, cells in rows if wanted else ():
        for index, kind in wanted.items():
            cell = cells[index] if index < len(cells) else ""
            if not cell:
                continue
            if kind == "number":
                way = _number_way(cell)
                commas = commas or (way == "either" and "," in cell)
                numbers.note(way, line, cell)
            else:
                days.note(_date_way(cell), line, cell)
    # Where the comma separates cells, the point separates decimals.
    default = "." if delimiter == "," and not commas else ""
    return Formats(
        decimal or numbers.decide((".", ","), "--decimal", default=default),
        dates or days.decide(("dmy", "mdy"), "--dates"),
    )


def _number_way(cell: str) -> str:
    point, comma = read_number(cell, "."), read_number(cell, ",")
    if point == comma:
        return ""
    if point is not None and comma is not None:
        return "either"
    return "." if comma is None else ","


def _date_way(cell: str) -> str:
    match = _DATE.fullmatch(cell.strip())
    if match is None or match[2] == ".":
        return ""
    first, second = int(match[1]), int(match[3])
    if first == second or max(first, second) > 31 or min(first, second) > 12:
        return ""
    if first > 12:
        return "dmy"
    return "mdy" if second > 12 else "either"
