"""Conditions of a search, as SQL that selects ids and as SQL that tests a record.

The positive set are the records with the wanted value; a condition selects it or, if negated, all
others. `ids` selects it from one index table, `test` tests a row of `records`. The SQL is written
by hand: building it with SQLAlchemy Core would take longer than running it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from crmhub.database.connection import Connection
from crmhub.properties import values
from crmhub.properties.definitions import Property
from crmhub.records import text_parts
from crmhub.records.index import PREFIX
from crmhub.records.search import costs
from crmhub.records.search.contains import (
    TRIGRAM,
    StoredTexts,
    contains,
    scan,
    scanned_size,
    without_index,
)
from crmhub.records.text_parts import FEW_VALUES

SYMBOLS = {"GT": ">", "GTE": ">=", "LT": "<", "LTE": "<="}


@dataclass(frozen=True, slots=True)
class Sql:
    text: str
    params: dict[str, Any]


ALL = Sql("1 = 1", {})


class Span(NamedTuple):
    """From `first` to before `end` (ms); None: open. `whole`: every record in it matches."""

    first: int | None = None
    end: int | None = None
    whole: bool = False


class Condition:
    """No SQL depends on `negated`. The names of parameters end in the condition's number `n`."""

    negated: bool
    uses_index = True
    """Whether an index finds the records that have the wanted value.

    If not, all records are read.
    """
    source: str | int = ""
    """The rows that the condition tests: a property's id for its index rows, or "records".

    The function `combine` merges conditions with the same source. "" means: never merged.
    """
    index_only = False
    """Whether the sort indexes of `records` contain all columns that the condition tests."""
    in_order = False
    """Whether the index returns the records that have the wanted value sorted by id."""
    is_scanned = False
    """Whether `many_ids` reads all values of the property, however few records match."""
    finds_texts = False
    """Whether the index is SQLite's of texts, which knows no rows of the other index tables."""
    is_common = False
    """Of a scanned condition: whether a page of matches is likely among a few thousand records."""

    def ids(self, connection: Connection, n: int, *, dated: bool = False) -> Sql:
        """Needs `:account` and `:kind`. `dated`: with `updated_at`, 0 if the index lacks it.

        Fast for few ids; `many_ids` selects the same.
        """
        rows = self.rows(n, ", updated_at" if dated else "")
        where = self.where(connection, n)
        return Sql(f"{rows.text} and {where.text}", rows.params | where.params)

    def many_ids(self, connection: Connection, n: int, *, dated: bool = False) -> Sql:
        return self.ids(connection, n, dated=dated)

    def size(self, connection: Connection, n: int) -> Sql:
        """Count the ids."""
        ids = self.ids(connection, n)
        return Sql(f"(select count(*) from ({ids.text}) as found)", ids.params)

    def rows(self, n: int, more: str) -> Sql:
        return Sql(f"select id{more} from records where account_id = :account and kind = :kind", {})

    def where(self, connection: Connection, n: int) -> Sql:
        raise NotImplementedError

    def test(self, connection: Connection, n: int) -> Sql:
        raise NotImplementedError

    def span(self, sort: str) -> Span:
        """A range that contains all matching records."""
        return Span()

    def optimized(self, stored: StoredTexts) -> Condition:
        """Return an equivalent condition that is faster for the values stored in the account."""
        return self


class OnProperty(Condition):
    def __init__(self, negated: bool, known: Property, operator: str) -> None:
        self.negated = negated
        self.source = known.prop_id
        self._known = known
        self._operator = operator

    def rows(self, n: int, more: str) -> Sql:
        return Sql(
            f"select record_id as id{more} from {self._known.index}"
            f" where account_id = :account and prop_id = :prop{n}",
            {f"prop{n}": self._known.prop_id},
        )


def value_of(known: Property, n: int) -> tuple[str, dict[str, Any]]:
    """Null in a row without the value."""
    return f"(properties ->> cast(:name{n} as text))", {f"name{n}": known.name}


def compared(
    connection: Connection, n: int, text: str, operator: str, operands: Sequence[Any]
) -> Sql:
    if operator == "HAS_PROPERTY":
        return ALL if text in ("value", "id") else Sql(f"{text} is not null", {})
    if operator == "IN":
        return Sql(*connection.in_list(text, f"of{n}", operands))
    return Sql(f"{text} {SYMBOLS[operator]} :v{n}", {f"v{n}": operands[0]})


# SQLite's own cast reads some decimals as the neighbour of the double that others read.
_AS_NUMBER = {"postgresql": "cast({} as double precision)", "sqlite": "exact_number({})"}


class OnKey(OnProperty):
    def __init__(
        self, negated: bool, known: Property, operator: str, operands: Sequence[float]
    ) -> None:
        super().__init__(negated, known, operator)
        self._operands = operands
        self.in_order = operator == "IN" and len(operands) == 1

    def where(self, connection: Connection, n: int) -> Sql:
        return compared(connection, n, "value", self._operator, self._operands)

    def test(self, connection: Connection, n: int) -> Sql:
        text, params = value_of(self._known, n)
        operands: list[Any] = list(self._operands)
        if self._known.index == "ix_date":
            # Canonical dates are compared as their texts are.
            text = f"substr({text}, 1, 10)"
            operands = [date.fromordinal(int(operand)).isoformat() for operand in operands]
        elif self._operator != "HAS_PROPERTY":
            text = _AS_NUMBER[connection.dialect].format(text)
        test = compared(connection, n, text, self._operator, operands)
        return Sql(test.text, params | test.params)


class OnText(OnProperty):
    """Compared by code point. A longer value than 255 characters is complete in another column."""

    def __init__(
        self, negated: bool, known: Property, operator: str, operands: Sequence[str]
    ) -> None:
        super().__init__(negated, known, operator)
        self.uses_index = operator != "CONTAINS_TOKEN"
        is_single = operator == "IN" and len(operands) == 1
        self.in_order = is_single and len(operands[0]) < PREFIX
        self._operands = operands
        # On SQLite, the set of the index of parts.
        self._part_set: int | None = None

    def ids(self, connection: Connection, n: int, *, dated: bool = False) -> Sql:
        if self._part_set is None:
            return super().ids(connection, n, dated=dated)
        test = self.test(connection, n)
        more = ", 0 as updated_at" if dated else ""
        text, params = text_parts.ids(n, self._part_set, self._operands[0], test.text, more)
        return Sql(text, params | test.params)

    def where(self, connection: Connection, n: int) -> Sql:
        if self._operator == "HAS_PROPERTY":
            return ALL
        if self._operator == "IN":
            short = [operand for operand in self._operands if len(operand) < PREFIX]
            long = [operand for operand in self._operands if len(operand) >= PREFIX]
            where, operands = connection.in_list("value", f"of{n}", short)
            if long:
                begins, starts = connection.in_list(
                    "value", f"starts{n}", [operand[:PREFIX] for operand in long]
                )
                equals, wholes = connection.in_list(
                    "coalesce(full_value, value)", f"wholes{n}", long
                )
                where = f"({where} or ({begins} and {equals}))"
                operands |= starts | wholes
            return Sql(where, operands)
        operand = self._operands[0]
        if self._operator == "CONTAINS_TOKEN":
            text, is_short = "coalesce(folded, value)", "full_value is null"
            return Sql(*contains(connection, text, n, operand, is_short=is_short))
        symbol = SYMBOLS[self._operator]
        if len(operand) < PREFIX:
            return Sql(f"value {symbol} :v{n}", {f"v{n}": operand})
        where = (
            f"(value {symbol[0]} :v{n}"
            f" or (value = :v{n} and coalesce(full_value, value) {symbol} :whole{n}))"
        )
        return Sql(where, {f"v{n}": operand[:PREFIX], f"whole{n}": operand})

    def test(self, connection: Connection, n: int) -> Sql:
        text, params = value_of(self._known, n)
        if self._operator == "CONTAINS_TOKEN":
            # The case-folded form stands in the index alone: in the row of this very value.
            part = self.where(connection, n)
            found = (
                f"exists (select 1 from ix_text where account_id = :account and prop_id = :prop{n}"
                f" and value = substr({text}, 1, {PREFIX}) and record_id = id and {part.text})"
            )
            params |= part.params | {f"prop{n}": self._known.prop_id}
            return Sql(*without_index(connection, text, n, self._operands[0], found, params))
        if self._operator in SYMBOLS and connection.dialect == "postgresql":
            text = f'{text} collate "C"'
        test = compared(connection, n, text, self._operator, self._operands)
        return Sql(test.text, params | test.params)

    def optimized(self, stored: StoredTexts) -> Condition:
        if self._operator != "CONTAINS_TOKEN":
            return self
        texts = stored.few_values(self._known.prop_id, FEW_VALUES)
        if texts is not None:
            containing = [text for text in texts if self._operands[0] in values.fold(text)]
            return OnText(self.negated, self._known, "IN", containing)
        connection, part, built = stored.connection, self._operands[0], stored.indexes
        condition = OnText(self.negated, self._known, self._operator, self._operands)
        if connection.dialect == "sqlite" and built.trigrams:
            prop_id = self._known.prop_id
            of = (connection, stored.account_id, stored.kind, prop_id)
            condition._part_set = text_parts.find_set(*of, part)
            condition.uses_index = condition.finds_texts = condition._part_set is not None
            return condition
        condition.is_scanned = built.others
        if built.others:
            condition.is_common = stored.is_common(self._known.name, part)
        if built.trigrams and not built.is_secured and TRIGRAM.search(part) is not None:
            condition.uses_index = not condition.is_common
        return condition

    def many_ids(self, connection: Connection, n: int, *, dated: bool = False) -> Sql:
        if not self.is_scanned:
            return self.ids(connection, n, dated=dated)
        more = ", updated_at" if dated else ""
        text, params = scan(connection, n, self._operands[0], more)
        return Sql(text, params | {f"prop{n}": self._known.prop_id})

    def size(self, connection: Connection, n: int) -> Sql:
        if not self.is_scanned:
            return super().size(connection, n)
        text, params = scanned_size(connection, n, self._operands[0])
        params[f"prop{n}"] = self._known.prop_id
        if self.uses_index:
            # The sample may be wrong, so the index finds a bounded number.
            few = self.ids(connection, n)
            text = (
                f"(with few as materialized ({few.text} limit :most{n})"
                f" select case when (select count(*) from few) < :most{n}"
                f" then (select count(*) from few) else {text} end)"
            )
            params |= few.params | {f"most{n}": costs.TRIGRAM_SET + 1}
        return Sql(text, params)


# Reading this many distinct values of the index takes about 10 ms.
_FEW_SETS = 1000


class OnOptions(OnProperty):
    """EQ and IN on a `multi_enumeration`, whose stored value is its options joined by ";"."""

    uses_index = False

    def __init__(self, negated: bool, known: Property, options: Sequence[str]) -> None:
        super().__init__(negated, known, "IN")
        self._options = options

    def where(self, connection: Connection, n: int) -> Sql:
        return self._has_option(connection, n, "coalesce(full_value, value)")

    def test(self, connection: Connection, n: int) -> Sql:
        text, params = value_of(self._known, n)
        test = self._has_option(connection, n, text)
        return Sql(test.text, params | test.params)

    def optimized(self, stored: StoredTexts) -> Condition:
        """Return the condition on the stored sets with a wanted option, if they are few."""
        sets = stored.few_values(self._known.prop_id, _FEW_SETS)
        if sets is None:
            return self
        wanted = set(self._options)
        having = [text for text in sets if not wanted.isdisjoint(text.split(";"))]
        return OnText(self.negated, self._known, "IN", having)

    def _has_option(self, connection: Connection, n: int, text: str) -> Sql:
        if connection.dialect == "postgresql":
            has = f"string_to_array({text}, ';') && cast(:options{n} as text[])"
            return Sql(has, {f"options{n}": list(self._options)})
        has = (
            f"exists (select 1 from (select value as wanted from json_each(:options{n}))"
            f" where instr(';' || {text} || ';', ';' || wanted || ';') > 0)"
        )
        return Sql(has, {f"options{n}": json.dumps(list(self._options))})


class OnDocument(Condition):
    uses_index = False

    def __init__(self, negated: bool, known: Property, given: str) -> None:
        self.negated = negated
        self._name = known.name
        self._part = values.fold(given)

    def where(self, connection: Connection, n: int) -> Sql:
        return self.test(connection, n)

    def test(self, connection: Connection, n: int) -> Sql:
        # Canonical numbers and dates are ASCII, so the databases' lower() folds them.
        text = f"lower(properties ->> cast(:name{n} as text))"
        where, part = contains(connection, text, n, self._part)
        return Sql(where, {f"name{n}": self._name, **part})
