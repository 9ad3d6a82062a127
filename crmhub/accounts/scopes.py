"""What a key or a token may do, as it is named and as it is stored, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crmhub.database.connection import now_ms
from crmhub.errors import Semantic

# 9999-12-31: no calendar of Python goes further.
_LAST_MS = 253_402_214_400_000

# How a key for everything is stored, so that it also holds the scopes of later versions.
_ALL = ""


def to_store(named: Iterable[str], known: Sequence[str]) -> str:
    """Return the scopes as a column holds them, in the order of `known`; none named: all.

    Raises Semantic for unknown ones.
    """
    chosen = set(named)
    unknown = sorted(chosen - set(known))
    if unknown:
        raise Semantic(f"There is no scope {', '.join(unknown)}; known are {', '.join(known)}.")
    return " ".join(scope for scope in known if scope in chosen) or _ALL


def of_stored(stored: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the scopes that a column stands for."""
    return tuple(known) if stored == _ALL else tuple(stored.split())


def check_end(expires_at: int | None) -> None:
    """Raise Semantic for an end (ms) that has passed, or that no calendar knows."""
    if expires_at is None:
        return
    if expires_at <= now_ms():
        raise Semantic("expires: the time has passed already; give one to come.")
    if expires_at > _LAST_MS:
        raise Semantic("expires: the time lies beyond the year 9999; give none for never.")
