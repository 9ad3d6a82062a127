"""The unique values of the rows that a dry run has accepted.

A dry run stores no records, so the database does not refuse a value that two rows have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Protocol

_CACHE = "pragma cache_size = -8000"
_CREATE = "create table seen (value text primary key, line integer) without rowid"


class _Line(Protocol):
    @property
    def line(self) -> int: ...


class _Accepted(Protocol):
    @property
    def row(self) -> _Line: ...

    @property
    def unique(self) -> frozenset[tuple[str, str]]: ...


class SeenValues:
    """`dumped` has the values that `dump` has returned."""

    def __init__(self, dumped: bytes = b"") -> None:
        # A database without a name is a temporary file, deleted when it is closed.
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.execute(_CACHE)
        self._file.execute("pragma journal_mode = off")
        if dumped:
            self._file.deserialize(dumped)
        else:
            self._file.execute(_CREATE)

    def has(self, pair: tuple[str, str]) -> bool:
        return self._line(pair) is not None

    def find_repeated(self, rows: Sequence[_Accepted], *, by: str) -> dict[int, str]:
        """Return reasons by line. A row with the same value of `by` updates the earlier record."""
        reasons = {}
        for row in rows:
            for pair in row.unique:
                if pair[0] in ("id", by) or (line := self._line(pair)) is None:
                    continue
                reasons[row.row.line] = f"{pair[0]}: line {line} has this value already"
        return reasons

    def add(self, rows: Sequence[_Accepted]) -> None:
        values = [(_key(pair), row.row.line) for row in rows for pair in row.unique]
        self._file.executemany("insert or ignore into seen values (?, ?)", values)

    def dump(self) -> bytes:
        return self._file.serialize()

    def close(self) -> None:
        self._file.close()

    def _line(self, pair: tuple[str, str]) -> int | None:
        found = self._file.execute("select line from seen where value = ?", (_key(pair),))
        row = found.fetchone()
        return None if row is None else int(row[0])


def _key(pair: tuple[str, str]) -> str:
    name, value = pair
    return f"{name}={value.strip().lower()}"
