"""What API keys and admin tokens share: their columns, their scopes, and their last use.

Only the digest of a key or token is stored; who creates it is the only one to see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, count_of, equals, param, params
from crmhub.errors import NotFound, Semantic
from crmhub.secrets import digest

# 9999-12-31, the last day that Python's datetime supports.
_LAST_MS = 253_402_214_400_000

WARN_MS = 30 * 24 * 3600 * 1000
"""The time in ms before its expiry at which a key or token is said to expire soon."""

# Stored for full access, so that it includes scopes of later versions.
_ALL = ""
_SHOWN = ("name", "hint", "scopes", "created_at", "expires_at", "revoked_at", "last_used_at")


class Credentials:
    """`id_name`: the id's name in rows. With an `owner`, ids are unique for each of its values."""

    def __init__(
        self, table: sa.Table, scopes: Sequence[str], *, id_name: str, owner: str = ""
    ) -> None:
        self._scopes = scopes
        self._key = [name for name in (owner, "id") if name]
        columns = table.c
        is_one = sa.and_(*equals(table, *self._key))
        is_owners = columns[owner] == param(owner) if owner else sa.true()
        new = ("digest", *self._key, "name", "hint", "scopes", "created_at", "expires_at")
        self._create = Statement(
            lambda insert: (
                insert(table).values(params(*new)).on_conflict_do_nothing(index_elements=self._key)
            )
        )
        self._list = Statement(
            sa.select(columns.id.label(id_name), *(columns[name] for name in _SHOWN))
            .where(is_owners)
            .order_by(columns.created_at, columns.id)
        )
        self._exists = count_of(table, is_one)
        self._revoke = Statement(
            sa.update(table)
            .where(is_one, columns.revoked_at.is_(None))
            .values(params("revoked_at"))
        )
        self._note_use = Statement(
            sa.update(table)
            .where(is_one, sa.func.coalesce(columns.last_used_at, 0) < param("last_used_at"))
            .values(params("last_used_at"))
        )

    def create(
        self,
        tx: Connection,
        secret: str,
        key: Mapping[str, Any],
        *,
        name: str,
        scopes: Iterable[str],
        expires_at: int | None,
    ) -> tuple[str, ...] | None:
        """Store a new secret under `key`; return its scopes, None if the key exists already."""
        stored = to_store(scopes, self._scopes)
        check_end(expires_at)
        row = {
            "digest": digest(secret),
            "name": name,
            "hint": secret[-4:],
            "scopes": stored,
            "created_at": now_ms(),
            "expires_at": expires_at,
        }
        return self.scopes_of(stored) if tx.run(self._create, {**key, **row}) else None

    def rows(self, db: Connection, **owner: int) -> list[Any]:
        """Return all rows, also revoked and expired ones, the oldest first.

        Times are in ms since 1970, None for never; `scopes` is a tuple.
        """
        rows = db.rows(self._list, owner)
        return [row._replace(scopes=self.scopes_of(row.scopes)) for row in rows]

    def revoke(self, tx: Connection, key: Mapping[str, Any], unknown: str) -> bool:
        """Return False if it had been revoked before; raises NotFound with the text `unknown`."""
        ended = tx.run(self._revoke, {**key, "revoked_at": now_ms()})
        if not ended and not tx.scalar(self._exists, key):
            raise NotFound(unknown)
        return ended > 0

    def note_use(self, tx: Connection, used: Mapping[tuple[Any, ...], int]) -> None:
        """Store times of use (ms since 1970) by owner and id; a later stored time stays."""
        # Sorted, so that two processes take the row locks in the same order.
        for key, at in sorted(used.items()):
            row = {**dict(zip(self._key, key, strict=True)), "last_used_at": at}
            tx.run(self._note_use, row)

    def scopes_of(self, stored: str) -> tuple[str, ...]:
        return of_stored(stored, self._scopes)


# --- scopes and expiry ---------------------------------------------------------------------------


def to_store(names: Iterable[str], known: Sequence[str]) -> str:
    """In the order of `known`; no `names` stand for full access. Raises Semantic for an unknown
    one.
    """
    chosen = set(names)
    unknown = sorted(chosen - set(known))
    if unknown:
        raise Semantic(
            "There is no scope %(unknown)s; known are %(known)s.",
            field="scope",
            unknown=", ".join(unknown),
            known=", ".join(known),
        )
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
