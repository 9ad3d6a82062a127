"""One-time links: a user's, which sets a password, and the setup link, which creates a user.

A user has at most one link, and there is at most one setup link; a new one replaces it.
"""

from __future__ import annotations

from typing import Any, Literal

import sqlalchemy as sa

from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import delete_where, insert_row, upsert_row
from crmhub.database.statements import Statement, param
from crmhub.database.tables import console_link, console_setup_link, console_user
from crmhub.secrets import digest, new_secret

Purpose = Literal["invitation", "reset"]

_HOUR_MS = 3600 * 1000
LONGEST_MS = 7 * 24 * _HOUR_MS
_LASTS_MS: dict[Purpose, int] = {"invitation": LONGEST_MS, "reset": 24 * _HOUR_MS}
# A link that expires later than this was made before the clock was set back, and has expired.
# Smaller differences between the clocks of hosts are tolerated.
_LATEST_MS = LONGEST_MS + _HOUR_MS


def _works(link: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(
        link.c.digest == param("digest"),
        link.c.ends_at > param("now"),
        link.c.ends_at <= param("latest"),
    )


_link, _user, _setup = console_link.c, console_user.c, console_setup_link.c
_IS_LINK, _IS_SETUP_LINK = _works(console_link), _works(console_setup_link)
_FIND = Statement(
    sa.select(_link.user_id, _user.email, _link.purpose, _link.ends_at)
    .join_from(console_link, console_user, _user.id == _link.user_id)
    .where(_IS_LINK, _user.disabled_at.is_(None))
)
_USE = Statement(sa.delete(console_link).where(_IS_LINK))
_FIND_SETUP = Statement(sa.select(_setup.first_only, _setup.issued_by).where(_IS_SETUP_LINK))
_USE_SETUP = Statement(sa.delete(console_setup_link).where(_IS_SETUP_LINK))
_ANY_USER = Statement(sa.select(_user.id).limit(1))


def create(tx: Connection, user_id: str, purpose: Purpose, ends_at: int) -> str:
    """Store a link for a user in place of an earlier one; return the link's token."""
    delete(tx, user_id)
    secret = new_secret()
    link = {"digest": digest(secret), "user_id": user_id, "purpose": purpose}
    insert_row(tx, console_link, link | {"ends_at": ends_at})
    return secret


def expiry(purpose: Purpose) -> int:
    """In ms since 1970."""
    return now_ms() + _LASTS_MS[purpose]


def find(db: Connection, token: str) -> Any:
    """Return `user_id`, `email`, `purpose` and `ends_at` of the link with this token.

    None if it does not work or its user is disabled.
    """
    return db.row(_FIND, _values(token))


def use(tx: Connection, token: str) -> bool:
    """Delete the link with this token; return False if it was used before or has expired."""
    return tx.run(_USE, _values(token)) > 0


def delete(tx: Connection, user_id: str) -> None:
    delete_where(tx, console_link, {"user_id": user_id})


def _values(token: str) -> dict[str, str | int]:
    now = now_ms()
    return {"digest": digest(token), "now": now, "latest": now + _LATEST_MS}


# --- the setup link ----------------------------------------------------------------------------


def has_users(db: Connection) -> bool:
    return db.row(_ANY_USER) is not None


def issue_setup(tx: Connection, *, ends_at: int, first_only: bool, issued_by: str) -> str:
    """Store a new setup link instead of the former one, and return its token.

    `ends_at` is in ms since 1970. A `first_only` link works only while there is no console user.
    `issued_by` is the system user whose command issues it.
    """
    secret = new_secret()
    link = {"digest": digest(secret), "first_only": first_only, "issued_by": issued_by}
    upsert_row(tx, console_setup_link, {"id": 1}, link | {"ends_at": ends_at})
    return secret


def find_setup(db: Connection, token: str) -> str | None:
    """Return who issued the setup link with this token, None if it does not work."""
    row = db.row(_FIND_SETUP, _values(token))
    return None if row is None or (row.first_only and has_users(db)) else str(row.issued_by)


def use_setup(tx: Connection, token: str) -> str | None:
    """Delete the setup link and return who issued it; of simultaneous callers only one gets it."""
    issued_by = find_setup(tx, token)
    return issued_by if issued_by is not None and tx.run(_USE_SETUP, _values(token)) else None
