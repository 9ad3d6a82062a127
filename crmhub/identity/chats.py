"""Chats: the time at which a helper was last called for a contact."""

from __future__ import annotations

from contextlib import suppress

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database import tables
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.drivers import Unwritable
from crmhub.database.statements import Statement, param, params
from crmhub.identity.bindings import IS_BINDING, OF_CONNECTION, Binding
from crmhub.identity.resolution import get_or_create

# Calls within this time count as one, so that not every read causes a write.
_SAME_CALL_MS = 5_000

_b = tables.binding.c
_LAST_CHAT = Statement(
    sa.select(sa.func.max(_b.last_chat_at)).where(OF_CONNECTION, _b.crm_id == param("crm_id"))
)
_NOTE_CHAT = Statement(
    sa.update(tables.binding).where(IS_BINDING).values(params("last_chat_at")).returning(_b.person)
)


def last_chat(connection: Connection, account: Account, crm_id: str) -> int:
    moment: int | None = connection.scalar(_LAST_CHAT, account.connection_key | {"crm_id": crm_id})
    return moment or 0


def note_chat_of_contact(database: Database, account: Account, crm_id: str) -> None:
    """Do nothing within 5 s of the last call, or while the database takes no writes."""
    with database.reading() as connection:
        # abs(), since the last chat is in the future if the clock was set back.
        if abs(now_ms() - last_chat(connection, account, crm_id)) < _SAME_CALL_MS:
            return
    with suppress(Unwritable):
        database.transact(lambda tx: note_chat(tx, account, get_or_create(tx, account, crm_id)))


def note_chat(tx: Connection, account: Account, binding: Binding) -> str:
    """Return the stored person, "" if erased; the binding is locked until the transaction ends."""
    # Only in this binding: other bindings of the contact had conversations that moved on.
    person: str | None = tx.scalar(
        _NOTE_CHAT, account.connection_key | {"hub_id": binding.hub_id, "last_chat_at": now_ms()}
    )
    return person or ""
