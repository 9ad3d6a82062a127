"""Writes of agents that are no actions of the journal, each with its entry in the audit log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from crmhub import audit, idempotency
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.database.connection import Connection
from crmhub.helpers import random_int
from crmhub.hub import Hub, in_transaction
from crmhub.idempotency import Answer
from crmhub.properties.kinds import Kind
from crmhub.records import linking
from crmhub.records.models import Change, Record


@in_transaction
def link(
    hub: Hub,
    tx: Connection,
    account: Account,
    kind: Kind,
    id: int,
    to: Kind,
    to_id: int,
    *,
    by: Author,
) -> None:
    """Link two of the hub's own records; raises NotFound for the first, Semantic for the second."""
    linking.link(hub.records, account, kind, id, to, to_id)
    record, after = f"{kind.name}/{id}", {"to": f"{to.name}/{to_id}"}
    audit.note(tx, by, "link", "records", record, account_id=account.id, after=after)


@in_transaction
def change(
    hub: Hub,
    tx: Connection,
    account: Account,
    kind: Kind,
    id: int,
    properties: Mapping[str, str],
    *,
    by: Author,
) -> tuple[Record, bool]:
    """Change properties as `RecordStore.update` does; return the record, and whether it changed."""
    before = hub.records.get(account, kind, id)
    [record] = hub.records.update(account, kind, [Change(id, properties)])
    # The names alone, since the audit log holds no personal data.
    names = {"properties": sorted(properties)}
    audit.note(tx, by, "change", "records", f"{kind.name}/{id}", account_id=account.id, after=names)
    return record, record.version != before.version


def pick(
    hub: Hub,
    account: Account,
    *,
    smallest: int,
    largest: int,
    contact_id: str,
    key: str,
    by: Author,
) -> tuple[int, bool]:
    """Draw an integer by the account's rotation; return it, and whether `key` was used before."""

    def draw() -> int:
        value = random_int.int_of_account(
            hub.database, account, smallest=smallest, largest=largest, contact_id=contact_id
        )
        drawn = {"min": smallest, "max": largest, "value": value}
        noted: dict[str, Any] = {"account_id": account.id, "after": drawn}
        hub.database.transact(lambda tx: audit.note(tx, by, "pick", "records", "rotation", **noted))
        return value

    if not key:
        return hub.database.transact(lambda _: draw()), False
    call = json.dumps([smallest, largest, contact_id])
    answer, old = idempotency.once(
        hub.database,
        account.id,
        key,
        hashlib.sha256(call.encode()).hexdigest(),
        lambda: Answer(200, (), json.dumps(draw())),
    )
    return json.loads(answer.body), old
