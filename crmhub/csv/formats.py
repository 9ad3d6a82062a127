"""How a column of a CSV file writes numbers or dates, determined from all of its cells.

A column uses one way throughout: its unambiguous cells decide for the others. A column without such
a cell is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from crmhub.adapter.reading import read_number
from crmhub.errors import Semantic

_DATE = re.compile(
    r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})"
    r"(?:[ ,T]+([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?: ?([AaPp])\.?[Mm]\.?)?)?"
)
# Also as Korean programs write it: 1990. 12. 31.
_YEAR_FIRST = re.compile(r"([0-9]{4})([./]) ?([0-9]{1,2})\2 ?([0-9]{1,2})\.?((?:[ T].*)?)\Z")


def read_date(cell: str, order: str) -> str | None:
    """Return ISO 8601; None for another form. Whether the month has the day is not checked.

    `order` is "dmy" or "mdy"; with points between the numbers the day is always first.
    """
    if early := _YEAR_FIRST.match(cell.strip()):
        year, _, month, day, rest = early.groups()
        return f"{year}-{month:0>2}-{day:0>2}{rest}"
    match = _DATE.fullmatch(cell.strip())
    if match is None:
        return None
    first, separator, second, year, hour, minute, seconds, half = match.groups()
    day, month = (first, second) if separator == "." or order != "mdy" else (second, first)
    if not (1 <= int(day) <= 31 and 1 <= int(month) <= 12):
        return None
    text = f"{year}-{month:0>2}-{day:0>2}"
    if hour is None:
        return text
    if half:
        if not 1 <= int(hour) <= 12:
            return None
        hour = str(int(hour) % 12 + 12 * (half in "Pp"))
    return f"{text} {hour:0>2}:{minute}:{seconds or '00'}"


_READINGS: Mapping[str, tuple[tuple[str, str], Callable[[str, str], str | None], str]] = {
    "number": ((".", ","), read_number, "--decimal"),
    "date": (("dmy", "mdy"), read_date, "--dates"),
}


def find_formats(
    rows: Iterable[tuple[int, Mapping[int, str]]],
    columns: Mapping[int, str],
    *,
    decimal: str,
    dates: str,
) -> dict[int, str]:
    """`columns` maps the index of a column to "number" or "date".

    Returns the decimal separator or the order of day and month by index. Raises Semantic if a
    column has not exactly one reading.
    """
    formats = {index: decimal if kind == "number" else dates for index, kind in columns.items()}
    # By column: the first cell with each only reading, and the first with two ("").
    cells_by_reading: dict[int, dict[str, tuple[int, str]]] = {
        index: {} for index, format in formats.items() if not format
    }
    for line, cells in rows if cells_by_reading else ():
        for index, found in cells_by_reading.items():
            if index not in cells:
                continue
            readings, read, _ = _READINGS[columns[index]]
            values = {way: read(cells[index], way) for way in readings}
            if len(set(values.values())) > 1:
                possible = [way for way, value in values.items() if value is not None]
                found.setdefault(possible[0] if len(possible) == 1 else "", (line, cells[index]))
    for index, found in cells_by_reading.items():
        formats[index] = _only_reading(found, columns[index])
    return formats


def _only_reading(found: Mapping[str, tuple[int, str]], kind: str) -> str:
    readings, _, option = _READINGS[kind]
    possible = [way for way in readings if way in found]
    if len(possible) == 1 or not found:
        return [*possible, *readings][0]
    cells = [
        f"line {line} has {cell[:40]}" for line, cell in map(found.__getitem__, possible or [""])
    ]
    fault = (
        "which are written in two ways"
        if possible
        else "which can be read in two ways, and no other cell of its column decides"
    )
    choice = " or ".join(f"{option} {way}" for way in readings)
    raise Semantic(
        f"Nothing was imported. L{' and '.join(cells)[1:]}, {fault}. Say which is right: {choice}."
    )
