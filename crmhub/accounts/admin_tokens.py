"""Tokens of the admin API, which belong to operators; only their digests are stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

import sqlalchemy as sa

from crmhub.accounts import scopes as scope_names
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import admin_token
from crmhub.errors import NotFound, Semantic
from crmhub.secrets import digest, new_admin_token
from crmhub.secrets import token as random_token

# The resources of the admin API; each has its own paths and scopes.
RESOURCES = ("accounts", "actions")
SCOPES = (
    *(f"{resource}:{right}" for resource, right in product(RESOURCES, ("read", "write"))),
    # Only the hub writes the audit log.
    "audit:read",
)
_LONGEST_NAME = 100

_token = admin_token.c
_IS_TOKEN = _token.id == param("id")
_CREATE = Statement(
    sa.insert(admin_token).values(
        params("digest", "id", "name", "hint", "scopes", "created_at", "expires_at")
    )
)
_LIST = Statement(sa.select(admin_token).order_by(_token.created_at, _token.id))
_EXISTS = Statement(sa.select(sa.func.count()).select_from(admin_token).where(_IS_TOKEN))
_REVOKE = Statement(
    sa.update(admin_token)
    .where(_IS_TOKEN, _token.revoked_at.is_(None))
    .values(params("revoked_at"))
)
_NOTE_USE = Statement(
    sa.update(admin_token)
    .where(_IS_TOKEN, sa.func.coalesce(_token.last_used_at, 0) < param("last_used_at"))
    .values(params("last_used_at"))
)


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new admin token; `token` cannot be shown again. `expires_at`: ms since 1970 or None."""

    token_id: str
    name: str
    token: str = field(repr=False)
    scopes: tuple[str, ...]
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class Token:
    """A stored admin token; times are in ms since 1970, None for never."""

    token_id: str
    name: str
    hint: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None


def create(
    tx: Connection, name: str, *, scopes: Iterable[str] = (), expires_at: int | None = None
) -> IssuedToken:
    """Create and store an admin token, and return it; without `scopes` it has all scopes.

    Raises Semantic for an invalid name, an unknown scope or a past expiry.
    """
    name = " ".join(name.split())
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        message = (
            f"{name[:_LONGEST_NAME]!r} cannot be the name of a token;"
            f" give 1 to {_LONGEST_NAME} printable characters."
        )
        raise Semantic(message, field="name")
    stored = scope_names.to_store(scopes, SCOPES)
    scope_names.check_end(expires_at)
    token = new_admin_token()
    token_id = f"adm_{random_token(64)}"
    tx.run(
        _CREATE,
        {
            "digest": digest(token),
            "id": token_id,
            "name": name,
            "hint": token[-4:],
            "scopes": stored,
            "created_at": now_ms(),
            "expires_at": expires_at,
        },
    )
    return IssuedToken(token_id, name, token, scopes_of(stored), expires_at)


def list_tokens(db: Connection) -> list[Token]:
    """Return all admin tokens, including revoked and expired ones, the oldest first."""
    return [
        Token(
            token_id=row.id,
            name=row.name,
            hint=row.hint,
            scopes=scopes_of(row.scopes),
            created_at=row.created_at,
            expires_at=row.expires_at,
            revoked_at=row.revoked_at,
            last_used_at=row.last_used_at,
        )
        for row in db.rows(_LIST)
    ]


def revoke(tx: Connection, token_id: str) -> bool:
    """Revoke an admin token; False if it had been revoked before. Raises NotFound."""
    ended = tx.run(_REVOKE, {"id": token_id, "revoked_at": now_ms()})
    if not ended and not tx.scalar(_EXISTS, {"id": token_id}):
        raise NotFound(
            f"There is no admin token {token_id!r}; `crmhub admin token list` shows them."
        )
    return ended > 0


def note_use(tx: Connection, used: Mapping[str, int]) -> None:
    """Store when tokens were last used (ms since 1970, by token id); a later stored time stays."""
    # Sorted, so that two processes take the row locks in the same order.
    for token_id, at in sorted(used.items()):
        tx.run(_NOTE_USE, {"id": token_id, "last_used_at": at})


def scopes_of(stored: str) -> tuple[str, ...]:
    return scope_names.of_stored(stored, SCOPES)
