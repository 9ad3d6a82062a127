"""The database rows of requests to connect an account to its CRM by OAuth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import connect_request
from crmhub.secrets import Vault

_COLUMN = "request"

_request = connect_request.c
_IS_REQUEST = sa.and_(_request.account_id == param("account_id"), _request.id == param("id"))
_ADD = Statement(
    sa.insert(connect_request).values(params("account_id", "id", "request", "expires_at"))
)
_LOAD = Statement(
    sa.select(_request.request, _request.used_at, _request.expires_at).where(_IS_REQUEST)
)
_USE = Statement(
    sa.update(connect_request)
    .where(_IS_REQUEST, _request.used_at.is_(None))
    .values(params("used_at"))
)


@dataclass(frozen=True, slots=True)
class StoredRequest:
    content: Mapping[str, Any]
    is_used: bool
    expires_at: int


def add(
    tx: Connection,
    vault: Vault,
    account_id: int,
    request_id: str,
    content: Mapping[str, Any],
    *,
    expires_at: int,
) -> None:
    """Store an encrypted request; `expires_at` is in ms since 1970."""
    sealed = vault.seal(json.dumps(content), account_id=account_id, column=_COLUMN)
    row = {"account_id": account_id, "id": request_id, "request": sealed}
    tx.run(_ADD, row | {"expires_at": expires_at})


def load(db: Connection, vault: Vault, account_id: int, request_id: str) -> StoredRequest | None:
    """Return a stored request or None; raises SealBroken."""
    row = db.row(_LOAD, {"account_id": account_id, "id": request_id})
    if row is None:
        return None
    opened = vault.open(row.request, account_id=account_id, column=_COLUMN)
    return StoredRequest(json.loads(opened), row.used_at is not None, row.expires_at)


def use(tx: Connection, account_id: int, request_id: str) -> bool:
    key = {"account_id": account_id, "id": request_id}
    return tx.run(_USE, key | {"used_at": now_ms()}) == 1
