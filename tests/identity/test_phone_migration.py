"""The migration that brings the phones of bindings into the form of the present version."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command

from crmhub.database import schema
from tests.api.helpers.helper_calls import lead
from tests.queue.working import change
from tests.records.test_redating import opened, own_database


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_existing_phones_are_those_of_the_same_person(dialect: str, tmp_path: Path) -> None:
    now = {"+5491166773399": "+541166773399", "34600111222": "+34600111222", "x1": "x1"}
    with own_database(dialect, tmp_path) as url, opened(url, tmp_path) as (hub, client):
        for before in now:
            lead(client, before, email=f"{before.strip('+')}@x.org", phone=None)
        command.downgrade(schema._alembic(url), "0029")
        change(hub, client, "phone = contact_token", table="binding")
        schema.upgrade(url)
        with hub.database.reading() as db:
            found = db.rows(
                "select contact_token, phone from binding where account_id = :account_id",
                {"account_id": client.account.id},
            )
        assert {row[0]: row[1] for row in found} == now
