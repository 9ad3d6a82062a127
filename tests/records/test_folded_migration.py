"""The migration that brings the folded texts of existing records up to date."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command

from crmhub.database import schema
from tests.pages import walk
from tests.records.index_rows import recomputed, stored
from tests.records.test_redating import opened, own_database


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_existing_records_are_found_whatever_the_form_of_their_accents(
    dialect: str, tmp_path: Path
) -> None:
    cities = ["Ma\u0301laga", "\u0130zmir", "x" * 300 + "E\u0301", "Bonn", "M\u00c1LAGA"]
    parts = {"m\u00e1laga": {0, 4}, "izmir": {1}, "x\u00e9": {2}, "bonn": {3}}
    with own_database(dialect, tmp_path) as url, opened(url, tmp_path) as (hub, client):
        ids = [client.make(city=city) for city in cities * 50]
        command.downgrade(schema._alembic(url), "0026")
        hub.database.transact(
            lambda tx: [
                tx.run(
                    "update ix_text set folded = :folded where account_id = :account_id"
                    " and record_id = :id and prop_id in (select prop_id from property_def"
                    " where account_id = :account_id and name = 'city')",
                    {"folded": city.casefold(), "account_id": client.account.id, "id": id},
                )
                for id, city in zip(ids, cities * 50, strict=True)
                if not city.isascii()
            ]
        )
        assert stored(hub, client) != recomputed(hub, client)
        schema.upgrade(url)
        assert stored(hub, client) == recomputed(hub, client)
        for part, found in parts.items():
            filters = [{"propertyName": "city", "operator": "CONTAINS_TOKEN", "value": part}]
            shown = walk(client, "/contacts/search", {"filters": filters}, limit=100)
            assert {each["id"] for each in shown} == {
                id for n, id in enumerate(ids) if n % len(cities) in found
            }
