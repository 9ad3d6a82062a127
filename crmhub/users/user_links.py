"""One-time links by which a console user sets a password: invitations and password resets.

A user has at most one link; a new one replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import console_link, console_user
from crmhub.secrets import digest, new_secret

Purpose = Literal["invitation", "reset"]

_HOUR_MS = 3600 * 1000
_LASTS_MS: dict[Purpose, int] = {"invitation": 7 * 24 * _HOUR_MS, "reset": 24 * _HOUR_MS}

_link, _user = console_link.c, console_user.c
_IS_LINK = sa.and_(
    _link.digest == param("digest"),
    _link.ends_at > param("now"),
    # A link that expires later than any new link was made before the clock was set back.
    _link.ends_at <= param("latest"),
)
_DELETE_OF_USER = Statement(sa.delete(console_link).where(_link.user_id == param("user_id")))
_CREATE = Statement(
    sa.insert(console_link).values(params("digest", "user_id", "purpose", "ends_at"))
)
_FIND = Statement(
    sa.select(_link.user_id, _user.email, _link.purpose, _link.ends_at)
    .join_from(console_link, console_user, _user.id == _link.user_id)
    .where(_IS_LINK, _user.disabled_at.is_(None))
)
_USE = Statement(sa.delete(console_link).where(_IS_LINK))


@dataclass(frozen=True, slots=True)
class Link:
    user_id: str
    email: str
    purpose: Purpose
    ends_at: int


def create(tx: Connection, user_id: str, purpose: Purpose, ends_at: int) -> str:
    """Store a link for a user in place of an earlier one; return the link's token."""
    delete(tx, user_id)
    secret = new_secret()
    link = {"digest": digest(secret), "user_id": user_id, "purpose": purpose}
    tx.run(_CREATE, link | {"ends_at": ends_at})
    return secret


def expiry(purpose: Purpose) -> int:
    """Return the expiry of a new link, in ms since 1970."""
    return now_ms() + _LASTS_MS[purpose]


def find(db: Connection, token: str) -> Link | None:
    """Return the link with this token, None if it does not work or its user is disabled."""
    row = db.row(_FIND, _values(token))
    return None if row is None else Link(*row)


def use(tx: Connection, token: str) -> bool:
    """Delete the link with this token; return False if it was used before or has expired."""
    return tx.run(_USE, _values(token)) > 0


def delete(tx: Connection, user_id: str) -> None:
    tx.run(_DELETE_OF_USER, {"user_id": user_id})


def _values(token: str) -> dict[str, str | int]:
    now = now_ms()
    latest = now + max(_LASTS_MS.values()) + _HOUR_MS
    return {"digest": digest(token), "now": now, "latest": latest}
