"""What API keys and admin tokens share: their columns, their scopes, and their last use.

Only the digest of a key or token is stored; who creates it is the only one to see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from crmhub.accounts import scopes as scope_names
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, count_of, equals, param, params
from crmhub.errors import NotFound
from crmhub.secrets import digest

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
        stored = scope_names.to_store(scopes, self._scopes)
        scope_names.check_end(expires_at)
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
        return scope_names.of_stored(stored, self._scopes)
