"""A database of crmhub 0.1.0 is upgraded to the newest schema, and served with all its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from crmhub.accounts import accounts
from crmhub.accounts.changes import IssuedIds
from crmhub.app import create_app
from crmhub.database import schema
from crmhub.settings import Settings
from tests import databases
from tests.api.helpers.helper_calls import GET_PROPERTIES
from tests.cli.conftest import CommandLine
from tests.clients import Client
from tests.own_databases import KINDS
from tests.queue.working import states, try_due

FIRST = "0030"
KEY = "crmhub_kkkkkkkkkkkkkkkkkkkkkkkkkkkkkk1EpiOw"
ROWS = Path(__file__).with_name("rows_of_0_1_0.sql")


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database as 0.1.0 has left it."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/crmhub.db"
        _fill(url)
        yield url
        return
    if reason := databases.left_out("postgresql"):
        pytest.skip(f"PostgreSQL left out: {reason}")
    with databases.empty_postgresql_database() as url:
        _fill(url)
        yield url


def _fill(url: str) -> None:
    command.upgrade(schema._alembic(url), FIRST)
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in ROWS.read_text().strip().split(";\n"):
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_migrations_are_named_by_their_revisions_in_order() -> None:
    steps = ScriptDirectory.from_config(schema._alembic("")).walk_revisions()
    assert schema.revisions() == [step.revision for step in steps][::-1]


def test_what_0_1_0_has_stored_is_served(url: str, tmp_path: Path) -> None:
    crmhub = CommandLine(tmp_path, {"CRMHUB_DATABASE_URL": url})
    crmhub("db", "upgrade")
    app = create_app(Settings.load({"CRMHUB_DATABASE_URL": url}, tmp_path))
    with closing(app.extensions["crmhub"]) as hub:
        assert schema.pending(hub.database) is None
        with hub.database.across_accounts(), hub.database.reading() as db:
            account = accounts.load(db, "acme", hub.plans)
        client = Client(app, account, IssuedIds(KEY, "generated", "portal", ""))
        filters = [{"propertyName": "city", "operator": "EQ", "value": "Rome"}]
        found = client.post("/contacts/search", {"filters": filters}).json
        stored = {"email": "ann@x.org", "lastname": "Lee", "city": "Rome"}
        assert found["results"] == [{"id": 101, "properties": stored}]
        try_due(hub, client)
        assert set(states(hub, client)) == {"done"}
        [deal] = client.get("/deals").json["results"]
        assert deal["properties"]["amount"] == "12.5"
        told = client.helper(GET_PROPERTIES, {"contactToken": "t", "props": ["city"]}).json
        assert told["city"] == "Rome"
    found = crmhub.json("doctor", "--all")["checks"]
    assert [check for check in found if check["state"] == "fail"] == []
    assert [user["email"] for user in crmhub.json("admin", "user", "list")] == ["ops@example.com"]
