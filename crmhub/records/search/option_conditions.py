"""The condition that a record has one of several options of a property with several options."""

from __future__ import annotations

import json
from collections.abc import Sequence

from crmhub.database.connection import Connection
from crmhub.properties.definitions import Property
from crmhub.records.search.conditions import (
    Condition,
    OnProperty,
    OnText,
    Sql,
    few_values,
    value_of,
)

# Records mostly share a few sets of options. Reading this many distinct values of the index takes
# about 10 ms.
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

    def optimized(self, connection: Connection, account_id: int) -> Condition:
        """Return the condition on the stored sets with a wanted option, if they are few."""
        sets = few_values(connection, account_id, self._known, _FEW_SETS)
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
