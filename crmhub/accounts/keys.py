"""API keys: an account may have several, with scopes and an optional expiry.

Only the digest of a key is stored; `create` alone returns the key itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

import sqlalchemy as sa

from crmhub.accounts import scopes as scope_names
from crmhub.accounts.plans import RESOURCES
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import api_key
from crmhub.errors import BadRequest, Conflict, NotFound, Semantic
from crmhub.secrets import digest, new_api_key, token

_ID = re.compile(r"key_[0-9A-Za-z]{11}", re.ASCII)
SCOPES = (
    *(f"{resource}:{right}" for resource, right in product(RESOURCES, ("read", "write"))),
    # Reads, too: a subscription sends the account's data to an address.
    "events:write",
)
LONGEST_NAME = 100
"""The greatest number of characters of a key's name."""

_key = api_key.c
_OF_ACCOUNT = _key.account_id == param("account_id")
_IS_KEY = sa.and_(_OF_ACCOUNT, _key.id == param("id"))
_CREATE = Statement(
    lambda insert: (
        insert(api_key)
        .values(
            params(
                "digest", "account_id", "id", "name", "hint", "scopes", "created_at", "expires_at"
            )
        )
        .on_conflict_do_nothing(index_elements=["account_id", "id"])
    )
)
_LIST = Statement(sa.select(api_key).where(_OF_ACCOUNT).order_by(_key.created_at, _key.id))
_EXISTS = Statement(sa.select(sa.func.count()).select_from(api_key).where(_IS_KEY))
_IS_VALID = Statement(
    sa.select(sa.func.count())
    .select_from(api_key)
    .where(
        _IS_KEY,
        _key.revoked_at.is_(None),
        sa.or_(_key.expires_at.is_(None), _key.expires_at > param("now")),
    )
)
_REVOKE = Statement(
    sa.update(api_key).where(_IS_KEY, _key.revoked_at.is_(None)).values(params("revoked_at"))
)
_NOTE_USE = Statement(
    sa.update(api_key)
    .where(_IS_KEY, sa.func.coalesce(_key.last_used_at, 0) < param("last_used_at"))
    .values(params("last_used_at"))
)


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new API key; `api_key` cannot be shown again. `expires_at`: ms since 1970 or None."""

    key_id: str
    name: str
    api_key: str = field(repr=False)
    scopes: tuple[str, ...]
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class Key:
    """A stored API key; times are in ms since 1970, None for never."""

    key_id: str
    name: str
    hint: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None


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
    """Create and store an API key for an account, and return it.

    Without `scopes` the key has all scopes. A caller that may repeat its request passes a `key_id`
    made by `new_id`: then only the first request creates a key. Raises Semantic for an invalid
    name, an unknown scope or a past expiry, BadRequest for an invalid `key_id`, and Conflict for a
    repeated one.
    """
    stored = scope_names.to_store(scopes, SCOPES)
    scope_names.check_end(expires_at)
    name = " ".join(name.split())
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise Semantic(
            f"name: {name[:LONGEST_NAME]!r} cannot be the name of a key; give at most"
            f" {LONGEST_NAME} printable characters."
        )
    if key_id is not None and not _ID.fullmatch(key_id):
        raise BadRequest("The id of the new key is missing or invalid.")
    secret = new_api_key()
    key_id = key_id or new_id()
    made = tx.run(
        _CREATE,
        {
            "digest": digest(secret),
            "account_id": account_id,
            "id": key_id,
            "name": name,
            "hint": secret[-4:],
            "scopes": stored,
            "created_at": now_ms(),
            "expires_at": expires_at,
        },
    )
    if not made:
        raise Conflict(
            f"The key {key_id} exists already; it was shown once."
            " If nobody has copied it, revoke it and create another one."
        )
    return IssuedKey(key_id, name, secret, scopes_of(stored), expires_at)


def list_keys(db: Connection, account_id: int) -> list[Key]:
    """Return all API keys of an account, including revoked and expired ones, the oldest first."""
    return [
        Key(
            key_id=row.id,
            name=row.name,
            hint=row.hint,
            scopes=scopes_of(row.scopes),
            created_at=row.created_at,
            expires_at=row.expires_at,
            revoked_at=row.revoked_at,
            last_used_at=row.last_used_at,
        )
        for row in db.rows(_LIST, {"account_id": account_id})
    ]


def is_valid(db: Connection, account_id: int, key_id: str) -> bool:
    """Return whether the account has this API key, neither revoked nor expired."""
    return bool(db.scalar(_IS_VALID, {"account_id": account_id, "id": key_id, "now": now_ms()}))


def revoke(tx: Connection, account_id: int, key_id: str) -> bool:
    """Revoke an API key; False if it had been revoked before. Raises NotFound."""
    key = {"account_id": account_id, "id": key_id}
    ended = tx.run(_REVOKE, key | {"revoked_at": now_ms()})
    if not ended and not tx.scalar(_EXISTS, key):
        raise NotFound(f"The account has no key {key_id[:60]!r}; `crmhub key list` shows its keys.")
    return ended > 0


def note_use(tx: Connection, used: Mapping[tuple[int, str], int]) -> None:
    """Store when keys were last used (ms since 1970, by account and key id); a later time stays."""
    # Sorted, so that two processes take the row locks in the same order.
    for (account_id, key_id), at in sorted(used.items()):
        tx.run(_NOTE_USE, {"account_id": account_id, "id": key_id, "last_used_at": at})


def scopes_of(stored: str) -> tuple[str, ...]:
    return scope_names.of_stored(stored, SCOPES)
