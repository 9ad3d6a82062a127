"""The scopes and the expiry of API keys and admin tokens: check, store and load them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crmhub.database.connection import now_ms
from crmhub.errors import Semantic

# 9999-12-31, the last day that Python's datetime supports.
_LAST_MS = 253_402_214_400_000

WARN_MS = 30 * 24 * 3600 * 1000
"""The time in ms before its expiry at which a key or token is said to expire soon."""

# Stored for full access, so that it includes scopes of later versions.
_ALL = ""


def to_store(names: Iterable[str], known: Sequence[str]) -> str:
    """In the order of `known`; no `names` stand for full access. Raises Semantic for an unknown
    one.
    """
    chosen = set(names)
    unknown = sorted(chosen - set(known))
    if unknown:
        message = f"There is no scope {', '.join(unknown)}; known are {', '.join(known)}."
        raise Semantic(message, field="scope")
    return " ".join(scope for scope in known if scope in chosen) or _ALL


def of_stored(stored: str, all_scopes: Sequence[str]) -> tuple[str, ...]:
    return tuple(all_scopes) if stored == _ALL else tuple(stored.split())


def check_end(expires_at: int | None) -> None:
    """Raise Semantic for an expiry (ms since 1970) in the past or beyond the year 9999."""
    if expires_at is None:
        return
    if expires_at <= now_ms():
        raise Semantic("expires: the time has passed already; give one to come.")
    if expires_at > _LAST_MS:
        raise Semantic("expires: the time lies beyond the year 9999; give none for never.")


def ends_soon(created_at: int, expires_at: int, now: int) -> bool:
    """Whether less than 30 days, and less than half of the life, are left. Times: ms since 1970."""
    left = expires_at - now
    return left < WARN_MS and 2 * left < expires_at - created_at
