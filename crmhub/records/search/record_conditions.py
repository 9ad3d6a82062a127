"""Conditions on a record's own fields: its id, time of creation, and time of change."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from crmhub.database.connection import Connection
from crmhub.properties import values
from crmhub.properties.numbers_and_dates import search_day, search_number
from crmhub.records.search.conditions import (
    ALL,
    SYMBOLS,
    Condition,
    Span,
    Sql,
    compared,
)
from crmhub.records.search.contains import contains

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000


class OnRecord(Condition):
    source = "records"
    index_only = True

    def test(self, connection: Connection, n: int) -> Sql:
        return self.where(connection, n)


_HIGHEST_ID = 2**53
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


def _number(value: str) -> float | int:
    # An id may have one digit more than the values of number properties.
    return int(value) if _WHOLE.fullmatch(value) else search_number(value)


class OnId(OnRecord):
    def __init__(self, negated: bool, operator: str, given: Sequence[str]) -> None:
        self.negated = negated
        self._operator = operator
        self.uses_index = operator != "CONTAINS_TOKEN"
        self._part = given[0]
        self._ids: list[int] = []
        if operator == "IN":
            numbers = [_number(value) for value in given]
            self._ids = [int(number) for number in numbers if number == int(number)]
            self._ids = [number for number in self._ids if abs(number) < _HIGHEST_ID]
        elif operator in SYMBOLS:
            # The nearest whole number that leaves the comparison as it is.
            number = _number(given[0])
            rounded = math.floor(number) if operator in ("GT", "LTE") else math.ceil(number)
            self._ids = [max(-_HIGHEST_ID, min(_HIGHEST_ID, rounded))]

    def where(self, connection: Connection, n: int) -> Sql:
        if self._operator == "CONTAINS_TOKEN":
            return Sql(*contains(connection, "cast(id as text)", n, self._part))
        return compared(connection, n, "id", self._operator, self._ids)


class OnMoment(OnRecord):
    """Compared by day (UTC)."""

    def __init__(self, negated: bool, column: str, operator: str, given: Sequence[str]) -> None:
        self.negated = negated
        self._column = column
        self._operator = operator
        self.uses_index = operator != "CONTAINS_TOKEN"
        self._part = values.fold(given[0])
        self._days: list[int] = []
        self._first: int | None = None
        self._end: int | None = None
        if operator == "IN" or operator in SYMBOLS:
            self._days = sorted({search_day(value) for value in given})
            if operator in ("IN", "GTE", "GT"):
                self._first = _starts(self._days[0] + (operator == "GT"))
            if operator in ("IN", "LTE", "LT"):
                self._end = _starts(self._days[-1] + (operator != "LT"))

    @property
    def _scattered(self) -> bool:
        return bool(self._days) and len(self._days) <= self._days[-1] - self._days[0]

    def span(self, sort: str) -> Span:
        if self.negated:
            return Span()
        if self._column == sort:
            return Span(self._first, self._end, bool(self._days) and not self._scattered)
        # No record was changed before it was created.
        return Span(first=self._first) if sort == "updated_at" else Span(end=self._end)

    def where(self, connection: Connection, n: int) -> Sql:
        if self._operator == "HAS_PROPERTY":
            return ALL
        if self._operator == "CONTAINS_TOKEN":
            text = f"lower({_moment_text(connection, self._column)})"
            return Sql(*contains(connection, text, n, self._part))
        tests, params = list[str](), dict[str, Any]()
        if self._first is not None:
            tests, params = [f"{self._column} >= :from{n}"], {f"from{n}": self._first}
        if self._end is not None:
            tests, params = [*tests, f"{self._column} < :to{n}"], params | {f"to{n}": self._end}
        if self._scattered:
            # A range for each of 500 days would take the statement half a minute.
            numbers = [day - _EPOCH_DAY for day in self._days]
            among, days = connection.in_list(f"{self._column} / {_DAY_MS}", f"of{n}", numbers)
            tests, params = [*tests, among], params | days
        return Sql(" and ".join(tests), params)


class OnSince(OnRecord):
    """Created or changed (`column`) at `first` (ms since 1970) or later."""

    negated = False

    def __init__(self, column: str, first: int) -> None:
        self._column = column
        self._first = first

    def span(self, sort: str) -> Span:
        if sort == self._column:
            return Span(first=self._first, whole=True)
        # No record was changed before it was created.
        return Span(first=self._first) if sort == "updated_at" else Span()

    def where(self, connection: Connection, n: int) -> Sql:
        return Sql(f"{self._column} >= :since{n}", {f"since{n}": self._first})

    def test(self, connection: Connection, n: int) -> Sql:
        where = self.where(connection, n)
        # The sign keeps SQLite from walking the sort order where ids are looked up.
        return Sql(f"+{where.text}", where.params) if connection.dialect == "sqlite" else where


def _starts(day: int) -> int:
    return (day - _EPOCH_DAY) * _DAY_MS


def _moment_text(connection: Connection, column: str) -> str:
    if connection.dialect == "postgresql":
        seconds = f"to_timestamp({column} / 1000) at time zone 'UTC'"
        return (
            f"to_char({seconds}, 'YYYY-MM-DD\"T\"HH24:MI:SS')"
            f" || '.' || lpad(cast({column} % 1000 as text), 3, '0') || 'Z'"
        )
    seconds = f"strftime('%Y-%m-%dT%H:%M:%S', {column} / 1000, 'unixepoch')"
    return f"{seconds} || printf('.%03dZ', {column} % 1000)"
