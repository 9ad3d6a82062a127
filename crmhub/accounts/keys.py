"""API keys: several to an account, each with its scopes and perhaps an end.

Only a digest is stored; the key itself is returned once, by `create`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

from crmhub.accounts import scopes as scope_names
from crmhub.accounts.plans import RESOURCES
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import BadRequest, Conflict, NotFound
from crmhub.secrets import digest, new_api_key, token

_ID = re.compile(r"key_[0-9A-Za-z]{11}", re.ASCII)
SCOPES = tuple(f"{resource}:{right}" for resource, right in product(RESOURCES, ("read", "write")))


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key; `api_key` is not stored and not shown again."""

    key_id: str
    api_key: str = field(repr=False)
    scopes: tuple[str, ...]
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class Key:
    """A stored key; times in ms, None for never. `hint` is the end of the key, to tell it by."""

    key_id: str
    hint: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None


def new_id() -> str:
    """Return an id for a key to be made."""
    return f"key_{token(64)}"


def create(
    tx: Connection,
    account_id: int,
    *,
    scopes: Iterable[str] = (),
    expires_at: int | None = None,
    key_id: str | None = None,
) -> IssuedKey:
    """Store a new key and return it; no scopes named means all of them.

    Whoever may ask twice for one key names its id, from `new_id`. Raises Semantic for unknown
    scopes and an end that has passed, BadRequest for what is no id, and Conflict where the account
    has a key of this id.
    """
    stored = scope_names.to_store(scopes, SCOPES)
    scope_names.check_end(expires_at)
    if key_id is not None and not _ID.fullmatch(key_id):
        raise BadRequest("The id of the key to be made is missing or is none.")
    api_key = new_api_key()
    key_id = key_id or new_id()
    made = tx.run(
        "insert into api_key (digest, account_id, id, hint, scopes, created_at, expires_at)"
        " values (:digest, :account, :id, :hint, :scopes, :now, :expires_at)"
        " on conflict (account_id, id) do nothing",
        {
            "digest": digest(api_key),
            "account": account_id,
            "id": key_id,
            "hint": api_key[-4:],
            "scopes": stored,
            "now": now_ms(),
            "expires_at": expires_at,
        },
    )
    if not made:
        raise Conflict(
            f"The key {key_id} was made already, and shown then."
            " If nobody has copied it, revoke it and make another one."
        )
    return IssuedKey(key_id, api_key, scopes_of(stored), expires_at)


def list_keys(db: Connection, account_id: int) -> list[Key]:
    """Return all keys of the account, revoked and expired ones too, the oldest first."""
    rows = db.rows(
        "select id, hint, scopes, created_at, expires_at, revoked_at, last_used_at"
        " from api_key where account_id = :account order by created_at, id",
        {"account": account_id},
    )
    return [Key(row[0], row[1], scopes_of(row[2]), *row[3:]) for row in rows]


def revoke(tx: Connection, account_id: int, key_id: str) -> bool:
    """End the key now and return whether it had not been; raises NotFound."""
    of = {"now": now_ms(), "account": account_id, "id": key_id}
    where = "where account_id = :account and id = :id"
    ended = tx.run(f"update api_key set revoked_at = :now {where} and revoked_at is null", of)
    if not ended and not tx.scalar(f"select count(*) from api_key {where}", of):
        raise NotFound(f"The account has no key {key_id[:60]!r}; `crmhub key list` shows its keys.")
    return ended > 0


def note_use(tx: Connection, used: Mapping[tuple[int, str], int]) -> None:
    """Store when keys, by account and key id, were last used."""
    # Sorted, so that two processes take the row locks in the same order.
    for (account_id, key_id), at in sorted(used.items()):
        tx.run(
            "update api_key set last_used_at = :at where account_id = :account and id = :id"
            " and (last_used_at is null or last_used_at < :at)",
            {"account": account_id, "id": key_id, "at": at},
        )


def scopes_of(stored: str) -> tuple[str, ...]:
    """Return the scopes that the column `scopes` stands for."""
    return scope_names.of_stored(stored, SCOPES)
