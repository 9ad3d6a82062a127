"""API keys: an account may have several, with scopes and an optional expiry."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.credentials import Credentials
from crmhub.accounts.plans import RESOURCES
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import count_of, equals, param
from crmhub.database.tables import api_key
from crmhub.errors import BadRequest, Conflict, Semantic
from crmhub.secrets import new_api_key, token

_ID = re.compile(r"key_[0-9A-Za-z]{11}", re.ASCII)
SCOPES = (
    *(f"{resource}:{right}" for resource, right in product(RESOURCES, ("read", "write"))),
    # Reads, too: a subscription sends the account's data to an address.
    "events:write",
)
LONGEST_NAME = 100

_KEYS = Credentials(api_key, SCOPES, id_name="key_id", owner="account_id")
_IS_VALID = count_of(
    api_key,
    *equals(api_key, "account_id", "id"),
    api_key.c.revoked_at.is_(None),
    sa.or_(api_key.c.expires_at.is_(None), api_key.c.expires_at > param("now")),
)
note_use, scopes_of = _KEYS.note_use, _KEYS.scopes_of
Key = Any
"""The row of an API key, as `Credentials.rows` returns it."""


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new API key; `api_key` cannot be shown again. `expires_at`: ms since 1970 or None."""

    key_id: str
    name: str
    api_key: str = field(repr=False)
    scopes: tuple[str, ...]
    expires_at: int | None


def new_id() -> str:
    return f"key_{token(64)}"


def create(
    tx: Connection,
    account_id: int,
    *,
    name: str = "",
    scopes: Iterable[str] = (),
    expires_at: int | None = None,
    key_id: str | None = None,
) -> IssuedKey:
    """Without `scopes` it has all scopes.

    A caller that may repeat its request passes a `key_id` made by `new_id`: then only the first
    request creates a key. Raises Semantic for an invalid name, scope or expiry, BadRequest for an
    invalid `key_id`, and Conflict for a repeated one.
    """
    name = " ".join(name.split())
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise Semantic(
            "name: %(name)s cannot be the name of a key; give at most %(longest)s"
            " printable characters.",
            name=repr(name[:LONGEST_NAME]),
            longest=LONGEST_NAME,
        )
    if key_id is not None and not _ID.fullmatch(key_id):
        raise BadRequest("The id of the new key is missing or invalid.")
    secret, id = new_api_key(), key_id or new_id()
    key = {"account_id": account_id, "id": id}
    stored = _KEYS.create(tx, secret, key, name=name, scopes=scopes, expires_at=expires_at)
    if stored is None:
        raise Conflict(
            "The key %(id)s exists already; it was shown once. If nobody has copied"
            " it, revoke it and create another one.",
            id=id,
        )
    return IssuedKey(id, name, secret, stored, expires_at)


def list_keys(db: Connection, account_id: int) -> list[Key]:
    return _KEYS.rows(db, account_id=account_id)


def is_valid(db: Connection, account_id: int, key_id: str) -> bool:
    """Neither revoked nor expired."""
    return bool(db.scalar(_IS_VALID, {"account_id": account_id, "id": key_id, "now": now_ms()}))


def revoke(tx: Connection, account_id: int, key_id: str) -> bool:
    """False if it had been revoked before; raises NotFound."""
    unknown = f"The account has no key {key_id[:60]!r}; `crmhub key list` shows its keys."
    return _KEYS.revoke(tx, {"account_id": account_id, "id": key_id}, unknown)
