"""What the hub remembers of the people its bots talk to, for each connection to a CRM.

A row stands for one person under one `hub_id`, which stays theirs for ever. A conversation (its
`contactToken`) points to one row at a time; when it turns out to be about somebody else, the
token moves to another row and the old row keeps its person.
"""

from __future__ import annotations

from typing import Any

from crmhub.accounts.accounts import Account
from crmhub.actions.locks import hold
from crmhub.db import Connection, Database, now_ms
from crmhub.errors import NotFound
from crmhub.secrets import BASE36
from crmhub.secrets import token as random_token

HUB_ID = "hub-"
LONGEST = 255
"""Characters of a token or an id: what an index of both databases can hold."""
# Reading often must not mean writing often: within this time a chat counts as one call.
_SAME_CALL_MS = 5_000
_HERE = "account_id = :account and connection_id = :connection"


def of_token(database: Database, account: Account, token: str) -> str:
    """Return the CRM's id of whom the conversation is about, "" when the hub was never told."""
    with database.reading() as connection:
        return _of_token(connection, account, token)


def accounts_of_token(database: Database, token: str) -> list[int]:
    """Return the accounts whose present connection holds this token (no more than a thousand)."""
    with database.reading() as connection:
        rows = connection.rows(
            "select distinct b.account_id from binding b join account a"
            " on a.id = b.account_id and a.connection_id = b.connection_id"
            " where b.contact_token = :token limit 1000",
            {"token": token},
        )
    return [row[0] for row in rows]


def crm_id(database: Database, account: Account, contact_id: str) -> str:
    """Return the CRM's id for an id as a bot has it: the hub's or already the CRM's own.

    Raises NotFound for an id of the hub's form that it never issued for this connection.
    """
    if not contact_id.startswith(HUB_ID):
        return contact_id
    with database.reading() as connection:
        found: str | None = connection.scalar(
            f"select crm_id from binding where {_HERE} and hub_id = :hub_id",
            _of(account) | {"hub_id": contact_id},
        )
    if not found:
        raise NotFound(
            f"contactId: {contact_id} is not a contact of this account's CRM;"
            " send the contactId that createLead answered"
        )
    return found


def bind(
    database: Database, account: Account, *, token: str, crm_id: str, email: str, phone: str
) -> None:
    """Let a conversation be about this contact from now on, and note the call."""
    here = _of(account) | {
        "token": token,
        "crm_id": crm_id,
        "email": email[:LONGEST],
        "phone": phone[:LONGEST],
        "now": now_ms(),
    }

    def work(tx: Connection) -> None:
        # Calls of one conversation at once would each see the token where it is no more.
        hold(tx, account.id, account.connection.id, "token", token)
        if _of_token(tx, account, token) != crm_id:
            _move(tx, here)
        tx.run(
            "update binding set last_chat_at = :now,"
            " email = coalesce(nullif(:email, ''), email),"
            " phone = coalesce(nullif(:phone, ''), phone)"
            f" where {_HERE} and contact_token = :token",
            here,
        )

    database.transact(work)


def _move(tx: Connection, here: dict[str, Any]) -> None:
    """Take the token from whoever had it and give it to a row of this contact."""
    tx.run(
        f"update binding set contact_token = null where {_HERE} and contact_token = :token", here
    )
    free = tx.scalar(
        f"select hub_id from binding where {_HERE} and crm_id = :crm_id"
        f" and contact_token is null order by created_at, hub_id limit 1{tx.for_update}",
        here,
    )
    tx.run(
        f"update binding set contact_token = :token where {_HERE} and hub_id = :hub_id",
        here | {"hub_id": free or _add(tx, here)},
    )


def _add(tx: Connection, here: dict[str, Any]) -> str:
    """Add a row for the contact, without a token, and return its hub id."""
    hub_id = HUB_ID + random_token(96, BASE36)
    tx.run(
        "insert into binding (account_id, connection_id, hub_id, crm_id, last_chat_at, created_at)"
        " values (:account, :connection, :hub_id, :crm_id, :now, :now)",
        here | {"hub_id": hub_id},
    )
    return hub_id


def last_chat(database: Database, account: Account, crm_id: str) -> int:
    """Return when a helper was last called for this contact, in ms; 0 for never."""
    with database.reading() as connection:
        return _last_chat(connection, account, crm_id)


def chatted(database: Database, account: Account, crm_id: str) -> None:
    """Note that a helper was called for this contact just now."""
    here = _of(account) | {"crm_id": crm_id, "now": now_ms()}
    with database.reading() as connection:
        if here["now"] - _last_chat(connection, account, crm_id) < _SAME_CALL_MS:
            return

    def work(tx: Connection) -> None:
        noted = tx.run(
            f"update binding set last_chat_at = :now where {_HERE} and crm_id = :crm_id", here
        )
        if not noted:
            _add(tx, here)

    database.transact(work)


def _last_chat(connection: Connection, account: Account, crm_id: str) -> int:
    moment: int | None = connection.scalar(
        f"select max(last_chat_at) from binding where {_HERE} and crm_id = :crm_id",
        _of(account) | {"crm_id": crm_id},
    )
    return moment or 0


def _of_token(connection: Connection, account: Account, token: str) -> str:
    crm_id: str | None = connection.scalar(
        f"select crm_id from binding where {_HERE} and contact_token = :token",
        _of(account) | {"token": token},
    )
    return crm_id or ""


def _of(account: Account) -> dict[str, Any]:
    return {"account": account.id, "connection": account.connection.id}
