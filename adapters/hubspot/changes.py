"""Where `changed_since` goes on: the text between its calls.

HubSpot lists all records by id, searches for changes by time, and lists deleted records by id only.
So a round is the list (the first round) or the pages of a search, and then some pages of the list
of deleted records, which is walked again and again. Each round begins where the one before began,
and a little earlier, since the search shows a change late.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

PAGE = 100
# Deleted records that a round reads cost calls each minute, for every kind of record.
_DELETED_PAGES = 10
LOAD, CHANGED, SAME, DELETED = "load", "changed", "same", "deleted"


class Last(NamedTuple):
    """The last record of a page, and when it was changed."""

    id: str
    changed: int


@dataclass(frozen=True, slots=True)
class Position:
    """Times are in ms since 1970, by HubSpot's clock; 0 stands for none yet.

    - `phase`: `LOAD`, the list of all records; `CHANGED`, those changed from `since` on; `SAME`,
      those changed exactly at `since`, of which one page does not show all; `DELETED`, a page of
      the deleted records.
    - `began`: when this round began.
    - `after`: where the next page of `LOAD` or `SAME` begins.
    - `deleted_since`: the walk through the deleted records tells those deleted since then.
    - `deleted_began`, `deleted_after`: when this walk began, and where its next page begins.
    - `deleted_pages`: how many pages of it this round has read.
    """

    phase: str = LOAD
    began: int = 0
    since: int = 0
    after: str = ""
    deleted_since: int = 0
    deleted_began: int = 0
    deleted_after: str = ""
    deleted_pages: int = 0

    @classmethod
    def of(cls, text: str) -> Position:
        return cls(**json.loads(text)) if text else cls()

    def text(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value})

    def params(self) -> dict[str, str]:
        """Return the parameters of the list for the next page."""
        is_deleted = self.phase == DELETED
        after = self.deleted_after if is_deleted else self.after
        more = {"archived": "true"} if is_deleted else {}
        return {"limit": str(PAGE), **more, **({"after": after} if after else {})}

    def search(self, changed_at: str) -> dict[str, Any]:
        """Return the body of the search for the next page; `changed_at`: the property's name."""
        # Every page begins anew instead of at an offset: no search shows more than 10,000 records,
        # and at an offset a record is passed over when one before it changes and moves to the end.
        sort, filters = changed_at, [(changed_at, "GTE", self.since)]
        if self.phase == SAME:
            sort = "hs_object_id"
            filters += [(changed_at, "LTE", self.since), (sort, "GT", int(self.after or 0))]
        names = ("propertyName", "operator", "value")
        named = [dict(zip(names, map(str, one), strict=True)) for one in filters]
        return {
            "filterGroups": [{"filters": named}],
            "properties": [changed_at],
            "sorts": [sort],
            "limit": PAGE,
            "after": "0",
        }

    def next(self, last: Last, *, cursor: str, now: int, overlap: int) -> Position:
        """Return the next position. `cursor`: HubSpot's, of the page behind this one, "" if this is
        the last one; `now`: when this page was asked for; `overlap`: how late searches may be."""
        at = replace(self, began=self.began or now)
        if self.phase == DELETED:
            walk_began = self.deleted_began or now
            if cursor:
                at = replace(at, deleted_began=walk_began, deleted_after=cursor)
                if self.deleted_pages + 1 < _DELETED_PAGES:
                    return replace(at, deleted_pages=self.deleted_pages + 1)
            at = replace(at, phase=CHANGED, since=self.began - overlap, began=0, deleted_pages=0)
            if cursor:
                return at
            since = walk_began - overlap
            return replace(at, deleted_since=since, deleted_began=0, deleted_after="")
        if self.phase == LOAD and cursor:
            return replace(at, after=cursor)
        if self.phase == SAME and cursor:
            return replace(at, after=last.id)
        if self.phase == SAME:
            return replace(at, phase=CHANGED, since=self.since + 1, after="")
        if cursor and last.changed > self.since:
            return replace(at, since=last.changed)
        if cursor:
            return replace(at, phase=SAME)
        since = self.deleted_since or at.began - overlap
        return replace(at, phase=DELETED, deleted_since=since, after="")
