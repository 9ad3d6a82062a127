"""What a key or a token may do, as it is named and as it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crmhub.errors import Semantic

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
