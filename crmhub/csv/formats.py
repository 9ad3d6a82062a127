"""How a column of a CSV file writes numbers or dates, determined from all of its cells.

Spreadsheets write `1.234,50` or `1,234.50`, and 3/4/2024 for a day in March or in April. A
column uses one way throughout, so cells that can be read in one way only decide for the others. A
column without such a cell is asked for.
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
        rf"(?P<whole>[1-9][0-9]{{0,2}}(?P<group>[{group}{_SPACES}])[0-9]{{3}}"
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

    def decide(self, ways: Sequence[str], option: str) -> str:
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
        if "either" not in self.cells:
            return ways[0]
        line, cell = self.cells["either"]
        raise Semantic(
            f"Nothing was imported. Line {line} has {cell[:40]}, which can be read in two ways,"
            f" and no other cell of its column decides. Say which is right: {choice}."
        )


def find_formats(
    rows: Iterable[tuple[int, Mapping[int, str]]],
    columns: Mapping[int, str],
    *,
    decimal: str,
    dates: str,
) -> dict[int, str]:
    """Determine the format of each column from its cells.

    `rows` are pairs of the line and the cells by index. `columns` maps the index of each column of
    numbers or dates to "number" or "date". The format is the decimal separator, or the order of day
    and month. A given `decimal` or `dates` is returned as it is. Raises Semantic if the cells of a
    column do not decide.
    """
    given = {index: decimal if kind == "number" else dates for index, kind in columns.items()}
    evidence = {index: _Evidence() for index, format in given.items() if not format}
    for line, cells in rows if evidence else ():
        for index, found in evidence.items():
            if cell := cells[index]:
                way = _number_way(cell) if columns[index] == "number" else _date_way(cell)
                found.note(way, line, cell)
    for index, found in evidence.items():
        if columns[index] == "number":
            given[index] = found.decide((".", ","), "--decimal")
        else:
            given[index] = found.decide(("dmy", "mdy"), "--dates")
    return given


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
