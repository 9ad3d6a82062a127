"""The one-time link by which a person creates their console user; a new link replaces it."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import console_setup_link, console_user
from crmhub.secrets import digest, new_secret

LONGEST_MS = 7 * 24 * 3600 * 1000
"""The longest time, in ms, for which a link works."""
# A link that expires later than this was issued before the clock was set back, and has expired.
# Smaller differences between the clocks of hosts are tolerated.
_LATEST_MS = LONGEST_MS + 3600 * 1000

_link = console_setup_link.c
_WORKS = sa.and_(
    _link.digest == param("digest"),
    _link.ends_at > param("now"),
    _link.ends_at <= param("latest"),
)
_REPLACED = ("digest", "first_only", "issued_by", "ends_at")
_ISSUE = Statement(
    lambda insert: (
        (new := insert(console_setup_link))
        .values(params("id", *_REPLACED))
        .on_conflict_do_update(
            index_elements=["id"],
            set_={name: new.excluded[name] for name in _REPLACED},
        )
    )
)
_FIND = Statement(sa.select(_link.first_only, _link.issued_by).where(_WORKS))
_USE = Statement(sa.delete(console_setup_link).where(_WORKS))
_ANY_USER = Statement(sa.select(console_user.c.id).limit(1))


@dataclass(frozen=True, slots=True)
class SetupLink:
    """A link that works; `issued_by` is the name of the system user whose command issued it."""

    issued_by: str


def has_users(db: Connection) -> bool:
    return db.row(_ANY_USER) is not None


def issue(tx: Connection, *, ends_at: int, first_only: bool, issued_by: str) -> str:
    """Store a new link instead of the former one, and return its token.

    `ends_at` is in ms since 1970. A `first_only` link works only while there is no console user.
    """
    secret = new_secret()
    link = {"digest": digest(secret), "first_only": first_only}
    tx.run(_ISSUE, link | {"id": 1, "issued_by": issued_by, "ends_at": ends_at})
    return secret


def find(db: Connection, token: str) -> SetupLink | None:
    row = db.row(_FIND, _parameters(token))
    if row is None or (row.first_only and has_users(db)):
        return None
    return SetupLink(row.issued_by)


def use(tx: Connection, token: str) -> SetupLink | None:
    """Delete the link with this token and return it; of simultaneous callers only one gets it."""
    link = find(tx, token)
    return link if link is not None and tx.run(_USE, _parameters(token)) else None


def _parameters(token: str) -> dict[str, str | int]:
    now = now_ms()
    return {"digest": digest(token), "now": now, "latest": now + _LATEST_MS}
