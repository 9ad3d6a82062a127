"""A walk through all records of a kind, and then, again and again, through what changed since.

The text of a walk is the `since` of `Adapter.changed_since`. Each walk reads what changed since the
former one began, so nothing that changes meanwhile is missed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import NamedTuple

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
