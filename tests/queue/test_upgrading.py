"""What an upgrade makes of the actions that a former version has left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from alembic import command

from crmhub.app import create_app
from crmhub.database import schema
from crmhub.database.connection import Connection, now_ms
from crmhub.hub import Hub
from crmhub.identity import resolution
from crmhub.queue.models import new_id
from crmhub.secrets import EncryptionKey
from crmhub.settings import Settings
from tests.clients import Client, open_client
from tests.own_databases import KINDS, own_database
from tests.queue.working import rows

_TYPES = {
    "account_id": "int",
    "connection_id": "int",
    "id": "text",
    "kind": "text",
    "person": "text",
    "hub_id": "text",
    "state": "text",
    "behind": "text",
    "request": "text",
    "tries": "int",
    "run_at": "bigint",
    "give_up_at": "bigint",
    "reason": "text",
    "created_at": "bigint",
    "finished_at": "bigint",
}


def meet(tx: Connection, client: Client, token: str, crm_id: str = "") -> str:
    resolved = resolution.resolve_binding(
        tx, client.account, token=token, email=f"{token}@x.org", phone=""
    )
    if crm_id:
        resolution.set_contact(
            tx, client.account, resolved.binding.hub_id, crm_id=crm_id, values={}
        )
    return resolved.binding.hub_id


def put(tx: Connection, client: Client, kind: str, hub_id: str, state: str, behind: str) -> str:
    """Write an action down as it stood before, and return its id."""
    moment = now_ms()
    id = new_id(moment)
    of = (client.account.id, client.account.connection.id, id, kind, hub_id, hub_id, state)
    row = (*of, behind or None, json.dumps({}), 1, 0, 0, "why", moment, moment)
    tx.insert("action", _TYPES, [row])
    return id


@pytest.mark.parametrize("kind", KINDS)
def test_what_waits_for_no_missing_contact_is_queued_by_the_upgrade(
    kind: str, tmp_path: Path
) -> None:
    with own_database(kind, tmp_path) as url:
        settings = Settings(
            root=tmp_path,
            database_url=url,
            secret_key="the secret key of the tests alone",
            encryption_keys=(EncryptionKey("k1", b"k" * 32),),
        )
        app = create_app(settings)
        hub: Hub = app.extensions["crmhub"]
        client = open_client(app)

        def former(tx: Connection) -> dict[str, str]:
            unknown = meet(tx, client, "unknown")
            known = meet(tx, client, "known", "c-1")
            lead = put(tx, client, "createLead", unknown, "dead", "")
            deal = put(tx, client, "createDeal", known, "dead", "")
            return {
                put(tx, client, kind, hub_id, "parked", behind): then
                for kind, hub_id, behind, then in (
                    ("createDeal", unknown, lead, "parked"),
                    ("setProperties", unknown, lead, "parked"),
                    ("createLead", unknown, lead, "queued"),
                    ("createDeal", known, lead, "queued"),
                    ("createDeal", "c-2", lead, "queued"),
                    ("createDeal", unknown, deal, "queued"),
                    ("createDeal", unknown, "act-gone", "queued"),
                )
            }

        wanted = hub.database.transact(former)
        command.downgrade(schema._alembic(url), "0012")
        schema.upgrade(url)
        found = rows(hub, client, "id, state, coalesce(behind, ''), finished_at, run_at")
        hub.close()
    assert {id: state for id, state, *_ in found if id in wanted} == wanted
    for _, state, behind, finished_at, run_at in found:
        assert (bool(finished_at), run_at > 0) == (state != "queued", state == "queued")
        assert bool(behind) == (state == "parked")
