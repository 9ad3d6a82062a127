"""Output of commands: JSON for programs; aligned columns and readable times for people."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import rich_click as click


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


def print_columns(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = [tuple(titles), *(tuple(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(titles))]
    for row in table:
        click.echo("  ".join(map(str.ljust, row, widths)).rstrip())


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print pairs of name and value, one pair per line, with the values aligned."""
    pairs = list(fields)
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        click.echo(f"{name.ljust(width)}  {value}".rstrip())


def iso(milliseconds: int | None) -> str | None:
    """Return a time, in ms since 1970, as 2031-12-31T00:00:00.000Z, None for None."""
    if milliseconds is None:
        return None
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_words(milliseconds: int | None, never: str = "never") -> str:
    """Return a time, in ms since 1970, as "2031-12-31 00:00 UTC", `never` for None."""
    if milliseconds is None:
        return never
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def validity(*, expires_at: int | None, revoked_at: int | None) -> str:
    """Return the state of a key or token: live, live until a time, expired or revoked."""
    if revoked_at is not None:
        return f"revoked {in_words(revoked_at)}"
    if expires_at is None:
        return "live"
    ended = expires_at <= time.time_ns() // 1_000_000
    return f"{'expired' if ended else 'live until'} {in_words(expires_at)}"
