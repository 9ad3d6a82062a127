"""Output of commands: JSON for programs; aligned columns and local times for people."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import rich_click as click

from crmhub import durations

_GAP = "  "
_INDENT = "    "
# A column is shortened to so many characters, but not below its title.
_LEAST_WIDTH = 16
_LEAST_VALUE_WIDTH = 24


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


def print_columns(
    titles: Sequence[str], rows: Iterable[Sequence[str]], *, shorten: Sequence[str] = ()
) -> None:
    """Print a table: a line per row, with whole cells, unless it is wider than the terminal.

    There the columns titled `shorten` are shortened, the first of them first. Columns for which
    there is still no room follow on an indented line, with their title. An empty table is a
    sentence there.
    """
    table = [[one_line(cell) for cell in row] for row in rows]
    natural = [
        max(len(title), *(_width(row[place]) for row in table)) if table else len(title)
        for place, title in enumerate(titles)
    ]
    first = [titles.index(title) for title in shorten]
    room = _room()
    if room is not None and not table:
        click.echo("There is nothing to list.")
        return
    widths, below = _fit(natural, titles, first, room)
    for row in (titles, *table):
        cells = [_sized(row[place], width) for place, width in widths.items()]
        click.echo(_GAP.join(cells).rstrip())
        if row is not titles:
            for line in _below(titles, row, below, first, room):
                click.echo(f"{_INDENT}{line}")


def _fit(
    natural: Sequence[int], titles: Sequence[str], first: Sequence[int], room: int | None
) -> tuple[Mapping[int, int], Sequence[int]]:
    """Return the widths of columns by their place, and the places that go to another line.

    `first`: the places to shorten, and then to leave, in this order. The others are left from the
    right and never shortened; the first column always stays.
    """
    others = [place for place in range(len(titles) - 1, 0, -1) if place not in first]
    below: list[int] = []
    for leaving in (*first, *others, None):
        widths = {place: width for place, width in enumerate(natural) if place not in below}
        excess = sum(widths.values()) + len(_GAP) * (len(widths) - 1) - (room or 0)
        if room is None or excess <= 0:
            break
        for place in first:
            if place in widths:
                least = max(_LEAST_WIDTH, len(titles[place]))
                cut = max(0, min(excess, widths[place] - least))
                widths[place], excess = widths[place] - cut, excess - cut
        if excess <= 0 or leaving is None:
            break
        below.append(leaving)
    return widths, sorted(below)


def _below(
    titles: Sequence[str],
    row: Sequence[str],
    below: Sequence[int],
    first: Sequence[int],
    room: int | None,
) -> list[str]:
    """Return the lines of the cells that are not in the table itself."""
    most = max(_LEAST_VALUE_WIDTH, (room or 0) - len(_INDENT))
    lines: list[str] = []
    for place in below:
        if row[place] in ("", "-", "–"):
            continue
        part = f"{titles[place].lower()}: {row[place]}"
        if place in first and _width(part) > most:
            part = _sized(part, most)
        if lines and _width(lines[-1]) + len(_GAP) + _width(part) <= most:
            lines[-1] += f"{_GAP}{part}"
        else:
            lines.append(part)
    return lines


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print pairs of name and value with the values aligned: one pair per line.

    On a terminal, a longer value goes on below its begin; words are not divided.
    """
    pairs = list(fields)
    width = max(len(name) for name, _ in pairs)
    room = _room()
    for name, value in pairs:
        text = one_line(value)
        if room is not None:
            most = max(_LEAST_VALUE_WIDTH, room - width - len(_GAP))
            lines = textwrap.wrap(text, most, break_long_words=False, break_on_hyphens=False)
            text = f"\n{' ' * width}{_GAP}".join(lines)
        click.echo(f"{name.ljust(width)}{_GAP}{text}".rstrip())


def _room() -> int | None:
    """Return the width of the terminal, or None for a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def one_line(text: str) -> str:
    """Replace line breaks, and control characters, which a terminal would execute."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _sized(text: str, width: int) -> str:
    """Fill `text` with blanks up to `width`, or shorten it to that."""
    if text.isascii() and len(text) <= width:
        return text.ljust(width)
    from rich.cells import cell_len, set_cell_size

    is_long = cell_len(text) > width
    return set_cell_size(text, width - 1) + "…" if is_long else set_cell_size(text, width)


def iso(milliseconds: int | None) -> str | None:
    """Return a time, in ms since 1970, as 2031-12-31T00:00:00.000Z, None for None."""
    if milliseconds is None:
        return None
    return durations.iso(milliseconds)


def in_words(milliseconds: int | None, never: str = "never") -> str:
    """Return a local time, from ms since 1970, as all commands print it; `never` for None."""
    return never if milliseconds is None else durations.local_time(milliseconds)


def validity(*, expires_at: int | None, revoked_at: int | None) -> str:
    """Return the state of a key or token: live, live until a time, expired or revoked."""
    if revoked_at is not None:
        return f"revoked {in_words(revoked_at)}"
    if expires_at is None:
        return "live"
    ended = expires_at <= time.time_ns() // 1_000_000
    return f"{'expired' if ended else 'live until'} {in_words(expires_at)}"
