"""The records of an account as two processes see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Database
from crmhub.errors import HubError
from crmhub.hub import Hub
from crmhub.records.store import RecordStore
from tests.clients import Client
from tests.records import meanwhile


@pytest.fixture
def account(client: Client) -> Account:
    return client.account


@pytest.fixture
def here(hub: Hub) -> RecordStore:
    return hub.records


@pytest.fixture
def there(database_url: str) -> Iterator[RecordStore]:
    """The records as another process sees them, which has a memory of its own."""
    database = Database(database_url)
    yield RecordStore(database, b"another process's key")
    database.close()


def done_at_once(*work: Callable[[], Any]) -> list[Any]:
    """Run all of `work` at the same time; return what each returned or raised of ours."""

    def done(one: Callable[[], Any]) -> Any:
        try:
            return one()
        except HubError as exc:
            return exc

    return meanwhile.at_once(*(lambda one=one: done(one) for one in work))
