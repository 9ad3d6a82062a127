"""Which event subscriptions of an account get which types of events.

The account's row contains these routes, so a write knows without a query whether anybody wants its
events. They are read together with the catalogue's version, which grows with each change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple


class EventRoute(NamedTuple):
    """An active subscription and its types, which include patterns such as `contact.*`."""

    subscription_id: str
    types: frozenset[str]


EventRoutes = tuple[EventRoute, ...]


@lru_cache(maxsize=1024)
def parse_routes(text: str) -> EventRoutes:
    """Raises ValueError or TypeError."""
    if not text:
        return ()
    return tuple(EventRoute(id, frozenset(types)) for id, types in json.loads(text))


def dump_routes(routes: Iterable[EventRoute]) -> str:
    rows = [[route.subscription_id, sorted(route.types)] for route in routes]
    return json.dumps(rows) if rows else ""


def wanted_types(routes: EventRoutes) -> frozenset[str]:
    return frozenset().union(*(route.types for route in routes))


def is_wanted(wanted: frozenset[str], type: str) -> bool:
    """Return whether `wanted` names a type of events, itself or by a pattern."""
    return not wanted.isdisjoint((type, f"{type.partition('.')[0]}.*", "*"))
