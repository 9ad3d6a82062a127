"""Records of a chosen age."""

from __future__ import annotations

from collections.abc import Sequence

from crmhub.database.connection import Connection
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS, KINDS
from crmhub.records.index import KEYS
from tests.clients import Client


def set_times(
    hub: Hub, client: Client, resource: str, ids: Sequence[int], moments: Sequence[tuple[int, int]]
) -> None:
    """Change when records were created and updated (ms since 1970, UTC)."""
    of = {"account": client.account.id, "kind": KINDS[resource].code}
    date = "select updated_at from records where account_id = :account and kind = :kind"
    own = "select prop_id from property_def where account_id = :account and kind = :kind"

    def work(tx: Connection) -> None:
        tx.update(
            "records",
            {"created_at": "bigint", "updated_at": "bigint"},
            {"account_id": "int", "kind": "int", "id": "bigint"},
            [(*moment, *of.values(), id) for id, moment in zip(ids, moments, strict=True)],
        )
        for table in KEYS:
            tx.run(
                f"update {table} set updated_at = ({date} and id = record_id)"
                f" where account_id = :account and prop_id in ({own})",
                of,
            )

    hub.database.transact(work)


def set_former_dates(hub: Hub, client: Client, ids: Sequence[int], *, behind: bool) -> None:
    """Leave the index rows of contacts without a date, or `behind`, as version 0.1.0 did."""
    of = {"account": client.account.id, "kind": CONTACTS.code}
    with hub.database.reading() as connection:
        among, these = connection.in_list("record_id", "these", ids)
        for table in KEYS:
            connection.run(
                f"update {table} set updated_at = :date where account_id = :account and {among}",
                {**these, "account": client.account.id, "date": int(behind)},
            )
        if behind:
            among, these = connection.in_list("id", "these", ids)
            connection.run(
                "insert into index_behind select account_id, kind, id, updated_at from records"
                f" where account_id = :account and kind = :kind and {among}",
                of | these,
            )
