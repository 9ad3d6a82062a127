"""Bring what an action has written in the CRM into the account's copy of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter
from crmhub.crm import pulling
from crmhub.database.connection import Connection
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS, DEALS, KINDS, TICKETS, Kind
from crmhub.records import copies

WRITE_ACTIONS: Mapping[str, Kind] = {
    f"write{kind.singular.capitalize()}": kind for kind in KINDS.values()
}
"""The kinds of records by the actions that write a single one."""
_LINKED = {"createDeal": DEALS, "createTicket": TICKETS}


@dataclass(frozen=True, slots=True)
class WrittenRecord:
    """A record of the CRM that an action has written; `ids` are the CRM's.

    `linked`: the records at the other ends of its links. `merged`: those that are now part of it.
    """

    kind: Kind
    id: str
    linked: tuple[tuple[Kind, str], ...] = ()
    merged: tuple[str, ...] = ()
    is_archived: bool = False

    @property
    def all(self) -> list[tuple[Kind, str]]:
        return [(self.kind, self.id), *self.linked, *((self.kind, id) for id in self.merged)]


def written_record(
    action: str, request: Mapping[str, Any], *, contact_id: str, record_id: str
) -> WrittenRecord:
    """Return what an action that succeeded has written; the ids are those of its result."""
    own = WRITE_ACTIONS.get(action)
    if own is None:
        if kind := _LINKED.get(action):
            return WrittenRecord(kind, record_id)
        # Of assignOwner.
        deals = tuple((DEALS, id) for id in [request.get("deal_id")] if id)
        return WrittenRecord(CONTACTS, contact_id, deals)
    linked = tuple(
        (KINDS[name], id)
        for change in ("links", "unlinks")
        for name, ids in request.get(change, {}).items()
        for id in ids
    )
    merged: tuple[str, ...] = ()
    if other_id := request.get("merges"):
        # A CRM may give the merged record a new id.
        merged = tuple(id for id in (other_id, request["record_id"]) if id != record_id)
    is_archived = request.get("archives", False)
    return WrittenRecord(own, record_id, linked, merged, is_archived)


def order_of(kind: Kind, crm_id: str) -> str:
    """Return the key by which the writes of a record run in order, other than a contact's."""
    return f"{kind.name} {crm_id}"


def tell(tx: Connection, account: Account, what: WrittenRecord) -> None:
    """Let a worker copy the records, in the transaction of the action's outcome."""
    for kind in copies.ORDER:
        if ids := [id for of, id in what.all if of is kind]:
            copies.tell(tx, account, kind, ids)


def copy(
    hub: Hub, account: Account, adapter: Adapter, what: WrittenRecord, sent: Mapping[str, str]
) -> bool:
    """Copy the records, and return whether the CRM has told the first one within the deadline.

    A worker copies the others. `sent`: the properties that were written to the first one.
    """
    if what.is_archived:
        pulling.remove_now(hub, account, what.kind, what.id)
        return True
    # A merge chooses among the values of both records.
    written = None if what.merged else sent
    is_told = pulling.copy_now(hub, account, adapter, what.kind, what.id, written)
    if what.merged:
        pulling.merge_now(hub, account, what.kind, dict.fromkeys(what.merged, what.id))
    for kind, id in what.linked:
        pulling.copy_now(hub, account, adapter, kind, id, sent)
    return is_told
