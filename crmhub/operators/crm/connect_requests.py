"""Stored requests to connect an account to its CRM by OAuth, and the signed texts that name them.

Such a text is `<client id>.<request id>.<end in ms>.<signature>`. The signature belongs to a
purpose, so that a text of one purpose serves no other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import find_row, insert_row
from crmhub.database.statements import Statement, equals, params
from crmhub.database.tables import connect_request
from crmhub.errors import Conflict, HubError
from crmhub.hub import Hub
from crmhub.secrets import Vault, same

_COLUMN = "request"

_request = connect_request.c
_IS_REQUEST = sa.and_(*equals(connect_request, "account_id", "id"))
_USE = Statement(
    sa.update(connect_request)
    .where(_IS_REQUEST, _request.used_at.is_(None))
    .values(params("used_at"))
)


def add(
    hub: Hub,
    tx: Connection,
    account: Account,
    request_id: str,
    content: Mapping[str, Any],
    expires_at: int,
) -> None:
    """Store an encrypted request; `expires_at` is in ms since 1970."""
    sealed = hub.vault.seal(json.dumps(content), account_id=account.id, column=_COLUMN)
    row = {"account_id": account.id, "id": request_id, "request": sealed}
    insert_row(tx, connect_request, row | {"expires_at": expires_at})


def load(db: Connection, vault: Vault, account_id: int, request_id: str) -> Any:
    """Return `request` (the content), `used_at` and `expires_at`, or None; raises SealBroken."""
    row = find_row(db, connect_request, {"account_id": account_id, "id": request_id})
    if row is None:
        return None
    opened = vault.open(row.request, account_id=account_id, column=_COLUMN)
    return row._replace(request=json.loads(opened))


def use(tx: Connection, account_id: int, request_id: str) -> bool:
    key = {"account_id": account_id, "id": request_id}
    return tx.run(_USE, key | {"used_at": now_ms()}) == 1


# --- signed texts that name a request -----------------------------------------------------------


def sign_request(hub: Hub, account: Account, request_id: str, expires_at: int, purpose: str) -> str:
    text = f"{account.client_id}.{request_id}.{expires_at}"
    return f"{text}.{hub.signature('connect', f'{purpose} {text}')}"


def open_request(
    hub: Hub, signed: str, purpose: str, foreign: HubError, over: str | None
) -> tuple[Account, str]:
    """Return the account and the id of the request that a signed text names.

    Raises `foreign` if it was not signed for this purpose, and Conflict with the message `over` if
    it has ended; None opens it all the same. Unless a user is signed in, this thread then works for
    the account (`Database.bind_account`).
    """
    text, _, signature = signed.rpartition(".")
    if not same(signature, hub.signature("connect", f"{purpose} {text}")):
        raise foreign
    client_id, request_id, expires_at = text.split(".")
    if over is not None and now_ms() >= int(expires_at):
        raise Conflict(over)
    with hub.database.across_accounts():
        account = hub.load_account(client_id)
    if not hub.database.account:
        # Nobody is signed in: the text alone tells for which account this request works.
        hub.database.bind_account(account.id)
    return account, request_id
