"""The records that unanswered creates may have made: found by values and creation time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from crmhub.adapter.answers import parse_time, text_of
from crmhub.adapter.values import Kind, Saved


@dataclass(frozen=True, slots=True)
class Candidate:
    """`created`: by the CRM's clock, in seconds since 1970."""

    saved: Saved
    created: float
    values: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Create:
    kind: Kind
    contact_id: str
    mark: str
    sent: Mapping[str, str] = field(repr=False)
    since_ms: int
    others: Collection[str] = ()


def find_created(
    candidates: Iterable[Candidate], sent: Mapping[str, str], *, since: float
) -> Saved | None:
    """Return the oldest candidate since `since` (seconds since 1970) with the values `sent`.

    Blank values are not compared, nor the forms of numbers, times and several options.
    """
    expected = {name: value for name, value in sent.items() if value}
    matches = [
        candidate
        for candidate in candidates
        if candidate.created >= since
        and all(_alike(v, text_of(candidate.values.get(n))) for n, v in expected.items())
    ]
    oldest = min(matches, key=lambda match: (match.created, match.saved.id), default=None)
    return None if oldest is None else oldest.saved


def _alike(sent: str, stored: str) -> bool:
    if sent.strip().casefold() == stored.strip().casefold():
        return True
    try:
        return Decimal(sent) == Decimal(stored)
    except InvalidOperation:
        pass
    if parse_time(sent) and parse_time(sent) == parse_time(stored):
        return True
    return ";" in sent and set(sent.split(";")) == set(stored.split(";"))
