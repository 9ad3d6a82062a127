"""Records of a chosen age."""

from __future__ import annotations

from collections.abc import Sequence

from crmhub.database.connection import Connection
from crmhub.hub import Hub
from crmhub.properties.kinds import KINDS
from tests.clients import Client


def set_times(
    hub: Hub, client: Client, resource: str, ids: Sequence[int], moments: Sequence[tuple[int, int]]
) -> None:
    """Change when records were created and updated (ms since 1970, UTC)."""

    def work(tx: Connection) -> None:
        tx.update(
            "records",
            {"created_at": "bigint", "updated_at": "bigint"},
            {"account_id": "int", "kind": "int", "id": "bigint"},
            [
                (*moment, client.account.id, KINDS[resource].code, id)
                for id, moment in zip(ids, moments, strict=True)
            ],
        )

    hub.database.transact(work)
