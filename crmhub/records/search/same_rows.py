"""Conditions on the same property, tested together on each of its index rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crmhub.database.connection import Connection
from crmhub.records.search.conditions import Condition, Span, Sql
from crmhub.records.search.contains import StoredTexts

# More than there are filters.
_PARTS = 100


class OnSameRows(Condition):
    """Several conditions, not all negated, on the same row of one index table."""

    negated = False

    def __init__(self, parts: Sequence[Condition]) -> None:
        self._parts = parts
        self.uses_index = any(
            part.uses_index and not (part.negated or part.finds_texts) for part in parts
        )
        self.index_only = all(part.index_only for part in parts)

    def rows(self, n: int, more: str) -> Sql:
        return self._parts[0].rows(n, more)

    def where(self, connection: Connection, n: int) -> Sql:
        return self._all([part.where(connection, i) for i, part in self._numbered(n)])

    def test(self, connection: Connection, n: int) -> Sql:
        return self._all([part.test(connection, i) for i, part in self._numbered(n)])

    def span(self, sort: str) -> Span:
        spans = [part.span(sort) for part in self._parts]
        return Span(
            max((span.first for span in spans if span.first is not None), default=None),
            min((span.end for span in spans if span.end is not None), default=None),
            all(span.whole for span in spans),
        )

    def optimized(self, stored: StoredTexts) -> Condition:
        return OnSameRows([part.optimized(stored) for part in self._parts])

    def _numbered(self, n: int) -> list[tuple[int, Condition]]:
        return list(enumerate(self._parts, _PARTS * (n + 1)))

    def _all(self, tests: Sequence[Sql]) -> Sql:
        texts, params = [], dict[str, Any]()
        for part, test in zip(self._parts, tests, strict=True):
            texts.append(f"not coalesce({test.text}, false)" if part.negated else f"({test.text})")
            params |= test.params
        return Sql(" and ".join(texts), params)


def combine(conditions: Sequence[Condition]) -> list[Condition]:
    """Merge conditions on the same property, so that the two ends of a range select one set.

    If all are negated, they also select records without an index row, and are not merged.
    """
    on: dict[Any, list[Condition]] = {}
    for number, condition in enumerate(conditions):
        on.setdefault(condition.source or f"number {number}", []).append(condition)
    together = list[Condition]()
    for parts in on.values():
        may_merge = len(parts) > 1 and any(not part.negated for part in parts)
        together += [OnSameRows(parts)] if may_merge else parts
    return together
