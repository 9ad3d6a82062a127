"""Switch copies on and off, and pull at once what a worker would pull in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from typing import Any, NoReturn

import pytest

from crmhub.adapter import Unavailable
from crmhub.crm.pulling import pull_next
from crmhub.database.rows import set_where
from crmhub.database.tables import crm_copy
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from tests.adapter.small_adapter import SmallAdapter
from tests.clients import TESTS, Client

SMALL, OTHER = (
    EntryPoint(name, "tests.adapter.small_adapter:SmallAdapter", "crmhub.adapters")
    for name in ("small", "other")
)


def switch(hub: Hub, client: Client, on: bool) -> None:
    change_account.change(hub, client.account.client_id, {"mirror": on}, by=TESTS)
    client.account = hub.load_account(client.account.client_id)
    hub.directory.forget(client.account.id)


def pull(hub: Hub, client: Client) -> None:
    """Do all that is due now, and what is due in a minute."""
    of = {"account_id": client.account.id, "connection_id": client.account.connection.id}
    hub.database.transact(
        lambda tx: [
            set_where(tx, crm_copy, of | {"state": state}, run_at=0)
            for state in ("loading", "following", "ending")
        ]
    )
    while pull_next(hub, *of.values()):
        pass
    hub.records.copy_states._read.clear()


def load_copy(hub: Hub, client: Client) -> None:
    """Switch the copy on and load what the CRM has."""
    switch(hub, client, on=True)
    pull(hub, client)


def unavailable(*args: Any, **options: Any) -> NoReturn:
    """Stand in for a call of the adapter while the CRM is unavailable."""
    raise Unavailable("The CRM is down.", retry_after=30)


@contextmanager
def crm_down(*calls: str) -> Iterator[None]:
    """Let these calls of the small CRM's adapter fail."""
    with pytest.MonkeyPatch.context() as patched:
        for name in calls:
            patched.setattr(SmallAdapter, name, unavailable)
        yield


def contacts(client: Client) -> dict[str, Any]:
    """Return the properties of the copy's contacts by the CRM's ids."""
    listed = client.get("/contacts?limit=100")
    assert listed.status_code == 200, listed.json
    return {one["properties"]["crm_id"]: one["properties"] for one in listed.json["results"]}


def person(n: int, **more: str) -> dict[str, str]:
    return {"email": f"p{n}@example.org", "firstname": f"Ann {n}", "lastname": "Lee", **more}


def lead_of(client: Client) -> Any:
    lead = {"name": "Ann Lee", "email": "ann@example.org", "contactToken": "a"}
    return client.helper("/chatbot/createLead/{generated}", lead)
