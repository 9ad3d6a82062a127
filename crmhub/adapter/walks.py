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

# Nearly all transactions end within so many seconds, and all within so many: 15 minutes on Odoo.sh.
_SHORT_S, _LONGEST_S = 150.0, 900.0


class Walk(NamedTuple):
    """`since`: 0 for all records. `began`: when its first page was read, or 0 before it.

    Both are in seconds since 1970 by the CRM's clock. `cursor`: where its next page begins.
    `swept`: when the last walk began that went back for the longest transactions, or 0.
    """

    since: float = 0.0
    began: float = 0.0
    cursor: str = ""
    swept: float = 0.0

    @classmethod
    def of(cls, text: str) -> Walk:
        return cls(*json.loads(text)) if text else cls()

    @property
    def changed_after(self) -> float:
        """From when on a walk reads records (seconds since 1970) in CRMs that date them early.

        There a record has the time at which its transaction began, and appears when that ends. Each
        walk goes back behind `since` for most transactions, one in each quarter of an hour for all.
        """
        if self._sweeps:
            return (self.swept or self.since) - _LONGEST_S
        return self.since - _SHORT_S

    @property
    def _sweeps(self) -> bool:
        return self.since - self.swept >= _LONGEST_S

    def page(
        self, records: Iterable[Record], cursor: str, *, asked: float, deleted: Collection[str] = ()
    ) -> ChangedPage:
        """Return a page of the walk, which was asked for at `asked` by the CRM's clock.

        `cursor`: where the next page begins, "" after the last one. The first walk, through all
        records, goes on with what changed since it began.
        """
        began = self.began or asked
        swept = began if self._sweeps or not self.since else self.swept
        following = self._replace(began=began, cursor=cursor)
        if not cursor:
            following = Walk(began, swept=swept)
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
