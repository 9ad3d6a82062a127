"""A walk through all records of a kind, and then, again and again, through what changed since.

The text of a walk is the `since` of `Adapter.changed_since`. Each walk reads what changed since the
former one began, so nothing that changes meanwhile is missed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from crmhub.adapter.tables import Row
from crmhub.adapter.unanswered import TooLarge
from crmhub.adapter.values import ChangedPage, Record


class Walk(NamedTuple):
    """`since`: 0 for all records. `began`: when its first page was read, or 0 before it.

    Both are in seconds since 1970 by the CRM's clock. `cursor`: where its next page begins.
    """

    since: float = 0.0
    began: float = 0.0
    cursor: str = ""

    @classmethod
    def of(cls, text: str) -> Walk:
        return cls(*json.loads(text)) if text else cls()

    def page(
        self, records: Iterable[Record], cursor: str, *, asked: float, deleted: Collection[str] = ()
    ) -> ChangedPage:
        """Return a page of the walk, which was asked for at `asked` by the CRM's clock.

        `cursor`: where the next page begins, "" after the last one. The first walk, through all
        records, goes on with what changed since it began.
        """
        began = self.began or asked
        following = Walk(self.since, began, cursor) if cursor else Walk(began)
        more = bool(cursor) or not self.since
        left = tuple(record for record in records if record.id not in deleted)
        return ChangedPage(left, json.dumps(following), more, tuple(deleted))


def page_of(read: Callable[[int], list[Row]], most: int) -> tuple[list[Row], bool]:
    """Return what `read` returns for at most `most` records, and whether there may be more.

    If they are too large for one answer, fewer are read.
    """
    try:
        rows = read(most)
    except TooLarge:
        if most == 1:
            raise
        return page_of(read, most // 10 or 1)
    return rows, len(rows) == most


def all_of(read: Callable[[int, int], list[Row]], most: int) -> Iterator[Row]:
    """Yield all records; `read(last, most)` returns those with the lowest ids above `last`."""
    last, more = 0, True
    while more:
        rows, more = page_of(partial(read, last), most)
        yield from rows
        last = int(rows[-1]["id"]) if more else last


def fits(row: Row, domain: Sequence[Sequence[Any]]) -> bool:
    """Return whether a record has the values of a domain such as `["type", "in", ["a", "b"]]`.

    Its operators are "=" and "in".
    """
    return all(
        row.get(name) in (wanted if operator == "in" else [wanted])
        for name, operator, wanted in domain
    )
