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
from tests.own_databases import empty, url_fixture

MakeAccount = Callable[..., tuple[Account, IssuedIds]]


# Shared with no test of another directory.
own_url = url_fixture("session")


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
