"""Recognize the record that an earlier, unanswered create has made, by its values and its time.

For adapters whose CRM cannot search by the mark (the text that the hub writes into a record).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from crmhub.adapter.answers import parse_time, text_of
from crmhub.adapter.values import Saved


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record that the create may have made.

    `created` is the time of its creation by the CRM's clock, in seconds since 1970.
    """

    saved: Saved
    created: float
    values: Mapping[str, Any] = field(repr=False)


def find_created(
    candidates: Iterable[Candidate], sent: Mapping[str, str], *, since: float
) -> Saved | None:
    """Return the oldest candidate that has the values `sent`, or None if there is none.

    Blank values of `sent` are not compared, nor is the form in which the CRM stores a number, a
    time or several options. Records that were created before `since` (seconds since 1970) do not
    count.
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
    """Return whether `stored` may be the form in which the CRM stores the value `sent`."""
    if sent.strip().casefold() == stored.strip().casefold():
        return True
    try:
        return Decimal(sent) == Decimal(stored)
    except InvalidOperation:
        pass
    if parse_time(sent) and parse_time(sent) == parse_time(stored):
        return True
    return ";" in sent and set(sent.split(";")) == set(stored.split(";"))
