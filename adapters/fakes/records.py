"""A record of a fake CRM whose search index lags behind writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LONGEST_LAG = 60.0
"""The largest lag of a search index, in seconds; former values are kept as long."""


def now_ms() -> int:
    """Return the present time in ms since 1970."""
    return int(time.time() * 1000)


@dataclass(slots=True)
class Record:
    """A record of the kind `kind`, such as contacts, with its id, times and properties.

    `created_at` and `updated_at` are in ms since 1970. The dict `properties` is never changed but
    replaced by `write`, since the search index keeps former dicts. `indexed` lists (time,
    properties) for the search index. `on_write` is called with the record after each write.
    """

    kind: str
    id: str
    created_at: int
    updated_at: int
    on_write: Callable[[Record], None]
    properties: dict[str, Any] = field(default_factory=dict)
    indexed: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def searchable(self, lag: float) -> dict[str, Any] | None:
        """Return the properties that a search sees for this record.

        The search sees the properties as they were `lag` seconds ago, since the search index lags
        behind writes. Returns None if the record is not in the index yet.
        """
        if lag <= 0:
            return self.properties
        seen = time.monotonic() - lag
        if self.indexed and self.indexed[-1][0] <= seen:
            return self.indexed[-1][1]
        return next((properties for at, properties in reversed(self.indexed) if at <= seen), None)

    def index(self) -> None:
        """Put the present properties into the search index, without lag."""
        self.indexed = [(float("-inf"), self.properties)]

    def write(self, properties: dict[str, Any], at_ms: int) -> None:
        """Replace all properties of the record by `properties`.

        `at_ms` is the time of the change, in ms since 1970. The change reaches the search index
        with its lag.
        """
        self.properties = properties
        self.updated_at = at_ms
        now = time.monotonic()
        while len(self.indexed) > 1 and self.indexed[1][0] < now - LONGEST_LAG:
            del self.indexed[0]
        self.indexed.append((now, properties))
        self.on_write(self)
