"""A database of our own, empty for each test: some promises are about all accounts there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import crmhub.accounts.directory
from crmhub.accounts.accounts import Account
from crmhub.accounts.changes import IssuedIds, open_account
from crmhub.accounts.directory import Directory
from crmhub.accounts.plans import BUILT_IN
from crmhub.database.connection import Database
from tests.clocks import Clock, clock_of
from tests.own_databases import KINDS, empty, own_database

MakeAccount = Callable[..., tuple[Account, IssuedIds]]


@pytest.fixture(scope="session", params=KINDS)
def own_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Each database in turn, shared with no test of another directory."""
    with own_database(request.param, tmp_path_factory.mktemp("accounts")) as url:
        yield url


@pytest.fixture
def database(own_url: str) -> Iterator[Database]:
    empty(own_url)
    database = Database(own_url)
    yield database
    database.close()


@pytest.fixture
def make_account(database: Database) -> MakeAccount:
    def make(name: str = "Acme", **options: object) -> tuple[Account, IssuedIds]:
        return database.transact(
            lambda tx: open_account(tx, **{"name": name, "plans": BUILT_IN, **options})
        )

    return make


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time as directories see it."""
    return clock_of(crmhub.accounts.directory, monkeypatch)


@pytest.fixture
def directory(database: Database) -> Iterator[Directory]:
    directory = Directory(database, BUILT_IN)
    yield directory
    directory.close()
