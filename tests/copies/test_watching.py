"""The webhooks that the hub sets up in a CRM for its copy: renewed, moved, and removed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import flask
import pytest

from crmhub.crm import watching
from crmhub.crm.watching import describe, watch_next, watch_state, webhook_address
from crmhub.database.connection import now_ms
from crmhub.database.rows import find_row, set_where
from crmhub.database.tables import crm_watch
from crmhub.hub import Hub
from crmhub.operators.crm import set_crm
from crmhub.operators.crm.set_crm import Crm
from tests.adapter.small_crm import HOOK_LASTS_S, SmallCrm
from tests.clients import TESTS, Client
from tests.consoles import open_console
from tests.copies.copying import switch

PUBLIC = "https://hub.example"


@pytest.fixture
def hub(app: flask.Flask, client: Client) -> Hub:
    return at(app.extensions["crmhub"], PUBLIC)


def at(hub: Hub, public_url: str | None) -> Hub:
    """Return the hub with another public address."""
    return replace(hub, settings=replace(hub.settings, public_url=public_url))


def row_of(hub: Hub, client: Client) -> Any:
    with hub.database.reading() as db:
        return find_row(db, crm_watch, client.account.connection_key)


def watch(hub: Hub, client: Client, **values: Any) -> None:
    """Do what is due, after the given values are stored."""
    if values:
        of = client.account.connection_key
        hub.database.transact(lambda tx: set_where(tx, crm_watch, of, **values))
    assert watch_next(hub, client.account.id)


def test_webhooks_are_set_up_renewed_and_removed(hub: Hub, client: Client, crm: SmallCrm) -> None:
    switch(hub, client, on=True)
    assert describe(watch_state(hub, client.account)) == "A worker sets up the CRM's webhooks."
    watch(hub, client)
    address = webhook_address(hub, client.account)
    assert address.startswith(f"{PUBLIC}/crm-changes/{client.account.client_id}/")
    assert list(crm.hooks) == [address]
    state, row = watch_state(hub, client.account), row_of(hub, client)
    assert state.until == crm.hooks[address]
    assert state.problem == ""
    # Half of a day before the webhooks end.
    assert now_ms() < row.run_at < state.until - HOOK_LASTS_S * 400
    assert not watch_next(hub, client.account.id)
    crm.hooks[address] = 0
    watch(hub, client, run_at=0)
    assert crm.hooks[address] > now_ms()
    switch(hub, client, on=False)
    watch(hub, client)
    assert crm.hooks == {}
    assert row_of(hub, client) is None


def test_a_failed_attempt_is_repeated_later_and_later(
    hub: Hub, client: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(hub, client, on=True)
    monkeypatch.setattr(crm, "access_tokens", set())
    token, crm.refresh_token = crm.refresh_token, "another"
    waits = []
    for _ in range(2):
        watch(hub, client, run_at=0)
        waits.append(row_of(hub, client).run_at - now_ms())
    assert 0 < waits[0] < waits[1]
    state = watch_state(hub, client.account)
    assert state.problem
    assert state.problem in describe(state)
    assert state.address in describe(state)
    crm.refresh_token = token
    watch(hub, client, run_at=0)
    assert watch_state(hub, client.account).problem == ""


def test_without_a_public_https_address_nothing_is_set_up(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    switch(hub, client, on=True)
    for public_url in (None, "http://hub.example"):
        private = at(hub, public_url)
        watch(private, client, run_at=0)
        assert crm.hooks == {}
        assert "CRMHUB_PUBLIC_URL" in watch_state(private, client.account).problem


def test_a_hub_that_has_moved_sets_them_up_at_its_new_address(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    switch(hub, client, on=True)
    watch(hub, client)
    with hub.database.across_accounts():
        watching.move(hub)
    assert not watch_next(hub, client.account.id)
    moved = at(hub, "https://moved.example")
    with hub.database.across_accounts():
        watching.move(moved)
        assert client.account.id in watching.due(hub.database, 100)
    watch(moved, client)
    assert list(crm.hooks) == [webhook_address(moved, client.account)]


def test_new_credentials_set_them_up_again(hub: Hub, client: Client, crm: SmallCrm) -> None:
    switch(hub, client, on=True)
    watch(hub, client)
    crm.hooks.clear()
    new = Crm("small", {}, {"hook_key": "another-key"})
    set_crm.set_crm(hub, client.account.client_id, new, test=False, by=TESTS)
    watch(hub, client)
    assert len(crm.hooks) == 1


def test_webhooks_that_cannot_be_removed_are_left_in_the_end(
    hub: Hub, client: Client, crm: SmallCrm, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(hub, client, on=True)
    watch(hub, client)
    switch(hub, client, on=False)
    monkeypatch.setattr(crm, "access_tokens", set())
    crm.refresh_token = "another"
    attempts = 0
    while row_of(hub, client) is not None:
        watch(hub, client, run_at=0)
        attempts += 1
    assert attempts == watching._MOST_REMOVALS


def test_a_copy_switched_on_again_keeps_its_webhooks(
    hub: Hub, client: Client, crm: SmallCrm
) -> None:
    switch(hub, client, on=True)
    watch(hub, client)
    account = client.account
    hub.database.transact(lambda tx: watching.end(tx, account))
    hub.database.transact(lambda tx: watching.begin(hub, tx, account))
    watch(hub, client)
    assert len(crm.hooks) == 1


def test_the_console_says_whether_webhooks_are_set_up(
    app: flask.Flask,
    hub: Hub,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    quick_passwords: None,
) -> None:
    switch(hub, client, on=True)
    path, console = f"/accounts/{client.account.client_id}/crm", open_console(app)
    assert "CRMHUB_PUBLIC_URL" in console.get(path).text
    monkeypatch.setitem(app.extensions, "crmhub", hub)
    assert "a worker sets them up" in console.get(path).text
    watch(hub, client)
    assert "the hub renews them" in console.get(path).text
    of = client.account.connection_key
    failure = {"failure": "The token lacks a right."}
    hub.database.transact(lambda tx: set_where(tx, crm_watch, of, **failure))
    assert failure["failure"] in console.get(path).text
