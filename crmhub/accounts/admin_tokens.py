"""Tokens of the admin API, which belong to operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product

from crmhub.accounts.credentials import Credentials
from crmhub.database.connection import Connection
from crmhub.database.tables import admin_token
from crmhub.errors import Semantic
from crmhub.secrets import new_admin_token
from crmhub.secrets import token as random_token

# The resources of the admin API; each has its own paths and scopes.
RESOURCES = ("accounts", "actions")
SCOPES = (
    *(f"{resource}:{right}" for resource, right in product(RESOURCES, ("read", "write"))),
    # Only the hub writes the audit log.
    "audit:read",
)
_LONGEST_NAME = 100
_TOKENS = Credentials(admin_token, SCOPES, id_name="token_id")
list_tokens, note_use, scopes_of = _TOKENS.rows, _TOKENS.note_use, _TOKENS.scopes_of


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new admin token; `token` cannot be shown again. `expires_at`: ms since 1970 or None."""

    token_id: str
    name: str
    token: str = field(repr=False)
    scopes: tuple[str, ...]
    expires_at: int | None


def create(
    tx: Connection, name: str, *, scopes: Iterable[str] = (), expires_at: int | None = None
) -> IssuedToken:
    """Without `scopes` it has all. Raises Semantic for an invalid name, scope or expiry."""
    name = " ".join(name.split())
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        raise Semantic(
            "%(name)s cannot be the name of a token; give 1 to %(longest)s printable characters.",
            field="name",
            name=repr(name[:_LONGEST_NAME]),
            longest=_LONGEST_NAME,
        )
    token, id = new_admin_token(), f"adm_{random_token(64)}"
    stored = _TOKENS.create(tx, token, {"id": id}, name=name, scopes=scopes, expires_at=expires_at)
    assert stored is not None, "a random id is new"
    return IssuedToken(id, name, token, stored, expires_at)


def revoke(tx: Connection, token_id: str) -> bool:
    """Revoke an admin token; False if it had been revoked before. Raises NotFound."""
    unknown = f"There is no admin token {token_id!r}; `crmhub admin token list` shows them."
    return _TOKENS.revoke(tx, {"id": token_id}, unknown)
