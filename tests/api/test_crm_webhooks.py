"""The address for a CRM's webhooks: what it refuses, and how little a refused one costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import flask
import pytest

from crmhub.accounts import limits
from crmhub.accounts.plans import Rate
from crmhub.bounds import MAX_BODY_BYTES
from crmhub.crm.watching import WEBHOOK_PATH, webhook_address
from crmhub.database.connection import Database
from crmhub.database.rows import find_row
from crmhub.database.tables import crm_copy_hint
from crmhub.hub import Hub
from tests.adapter.small_crm import HOOK_KEY, SmallCrm, signed
from tests.clients import Client, open_client
from tests.copies.copying import SMALL, switch
from tests.fakes import adapters, connect


@pytest.fixture
def client(app: flask.Flask) -> Iterator[Client]:
    with SmallCrm() as crm, adapters(app, SMALL):
        client = open_client(app)
        kept = {"refresh_token": crm.refresh_token, "hook_key": HOOK_KEY}
        connect(app, client, "small", kept, base_url=crm.url)
        switch(app.extensions["crmhub"], client, on=True)
        yield client


@pytest.fixture
def hub(app: flask.Flask, client: Client) -> Hub:
    hub: Hub = app.extensions["crmhub"]
    return hub


@pytest.fixture
def path(hub: Hub, client: Client) -> str:
    return WEBHOOK_PATH + webhook_address(hub, client.account).partition(WEBHOOK_PATH)[2]


def send(client: Client, path: str, id: int = 7, **headers: str) -> Any:
    body = f'{{"changed": ["contacts", {id}]}}'.encode()
    headers = headers or {"x-signature": signed(body)}
    return client.helper(path, None, data=body, headers=headers)


def is_noted(hub: Hub, client: Client, id: str) -> bool:
    of = {"account_id": client.account.id, "crm_id": id}
    with hub.database.reading() as db:
        return find_row(db, crm_copy_hint, of) is not None


def test_a_forged_address_costs_no_database_work(
    hub: Hub, client: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _, signature = path.rpartition("/")
    hub.directory.forget(client.account.id)

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("the database is asked")

    with monkeypatch.context() as patched:
        for name in ("reading", "transact"):
            patched.setattr(Database, name, refuse)
        number, _, digest = signature.partition("-")
        for forged in ("x", digest, f"{number}-", f"{int(number) + 1}-{digest}", f"{signature}0"):
            assert send(client, f"{before}/{forged}").status_code == 404, forged
        assert send(client, f"{WEBHOOK_PATH}/another/{signature}").status_code == 404
    assert send(client, path).status_code == 204


def test_an_address_ends_with_its_copy(hub: Hub, client: Client, path: str) -> None:
    hub.database.transact(lambda tx: None)
    assert send(client, path).status_code == 204
    assert is_noted(hub, client, "7")
    from crmhub.accounts import changes

    off = {"mirror": "false"}
    hub.database.transact(lambda tx: changes.set_switches(tx, client.account.id, off, hub.plans))
    hub.directory.forget(client.account.id)
    assert send(client, path).status_code == 404


def test_a_webhook_without_proof_changes_nothing(hub: Hub, client: Client, path: str) -> None:
    assert send(client, path, 8, **{"x-signature": "0"}).status_code == 401
    assert not is_noted(hub, client, "8")


def test_guesses_of_a_secret_are_limited(
    client: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_FAILURES", Rate(6, 600))
    wrong = [send(client, path, **{"x-signature": "0"}).status_code for _ in range(4)]
    assert wrong == [401, 401, 401, 429]


def test_a_flood_is_refused_without_database_work(
    hub: Hub, client: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_CRM_WEBHOOKS", Rate(4, 600))
    assert [send(client, path, id).status_code for id in (1, 2)] == [204, 204]
    refused = send(client, path, 3)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) >= 1
    assert not is_noted(hub, client, "3")
    # Other calls of the account have a limit of their own.
    assert client.get("/sync").status_code == 200


def test_a_repeated_webhook_is_one_hint(hub: Hub, client: Client, path: str) -> None:
    assert [send(client, path).status_code for _ in range(3)] == [204] * 3
    assert is_noted(hub, client, "7")


@pytest.mark.parametrize("id", ["", "7\0", "\ud800", "7\n", "7" * 300_000])
def test_an_id_that_no_record_has_is_no_hint(hub: Hub, client: Client, path: str, id: str) -> None:
    body = json.dumps({"changed": ["contacts", id]}).encode()
    sent = client.helper(path, None, data=body, headers={"x-signature": signed(body)})
    assert sent.status_code == 204
    with hub.database.reading() as db:
        assert find_row(db, crm_copy_hint, {"account_id": client.account.id}) is None


def test_too_large_a_body_is_refused(client: Client, path: str) -> None:
    body = b"x" * (MAX_BODY_BYTES + 1)
    sent = client.helper(path, None, data=body, headers={"x-signature": signed(body)})
    assert sent.status_code == 413


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_other_methods_are_refused(app: flask.Flask, path: str, method: str) -> None:
    assert app.test_client().open(path, method=method).status_code == 405
