"""Delete the copy of a CRM that an operator has switched off."""

from __future__ import annotations

from dataclasses import replace

import orjson
import sqlalchemy as sa

from crmhub.accounts import changes
from crmhub.crm import comparing, watching
from crmhub.crm.copy_turns import Turn
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import delete_where
from crmhub.database.statements import Statement, equals, param
from crmhub.database.tables import archived_record, crm_copy, records
from crmhub.properties import catalogue as catalogues
from crmhub.properties.catalogue import Catalogue
from crmhub.records import copied, copies, erasing

_SOME = Statement(
    sa.select(records.c.id).where(*equals(records, "account_id", "kind")).limit(param("limit"))
)
_SOME_ARCHIVED = Statement(
    sa.select(
        archived_record.c.id, sa.cast(archived_record.c.properties, sa.Text).label("properties")
    )
    .where(*equals(archived_record, "account_id", "kind"), archived_record.c.id > param("after"))
    .order_by(archived_record.c.id)
    .limit(param("limit"))
)


def delete_copy(turn: Turn) -> None:
    """Delete the copy of the turn's kind, and with the last one the CRM's definitions."""
    account, kind, database = turn.account, turn.kind, turn.hub.database
    after = 0
    while True:

        def delete_some(tx: Connection, catalogue: Catalogue) -> int:
            nonlocal after
            here = {"account_id": account.id, "kind": kind.code, "limit": 500}
            ids = [row.id for row in tx.rows(_SOME, here)]
            rows = [] if ids else tx.rows(_SOME_ARCHIVED, here | {"after": after})
            if rows:
                # What was archived before the copy began is the hub's own.
                ids = [row.id for row in rows if copied.ID in orjson.loads(row.properties)]
                after = rows[-1].id
            erasing.erase(tx, replace(catalogue, event_routes=()), ids, now=now_ms())
            turn.keep(tx)
            return len(ids) + len(rows)

        if not turn.hub.records.transact(account, kind, delete_some):
            break
        if turn.is_over():
            copies.release(database, turn.row, run_at=now_ms())
            return
    comparing.forget_seen(turn)
    database.transact(lambda tx: _end_kind(tx, turn))


def _end_kind(tx: Connection, turn: Turn) -> None:
    """Delete the row; after the last one, the account's definitions are the hub's own again.

    If the account has another CRM now, the copy of that one begins.
    """
    hub, account = turn.hub, turn.account
    # Two last kinds that end at once would each see the other's row.
    tx.hold(account.id, exclusive=True)
    copies.hold(tx, turn.row)
    delete_where(tx, crm_copy, turn.key)
    if not any(row.state == "ending" for row in copies.rows(tx, account)):
        copies.delete(tx, account)
        catalogues.change(tx, account.id)
        catalogues.refill(tx, account.id)
        present = changes.locked(tx, account.id, hub.plans)
        if present.connection.id == account.connection.id:
            changes.set_switches(tx, account.id, {"mirror": "false"}, hub.plans)
        else:
            copies.begin(tx, present, copies.ORDER)
            watching.begin(hub, tx, present)
        hub.forget_after_commit(account.id)
