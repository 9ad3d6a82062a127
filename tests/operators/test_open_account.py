"""An account is opened whole or not at all, and its connection tells what is wrong with it."""

from __future__ import annotations

from dataclasses import replace

import flask
import pytest

from crmhub.accounts import accounts
from crmhub.adapter import BadConfig
from crmhub.crm.connection import check, connect, in_words
from crmhub.errors import Conflict, Semantic
from crmhub.hub import Connected, Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.secrets import BASE36, EncryptionKey, Vault, token
from tests.clients import TESTS, Client
from tests.fakes import BROKEN, FAKE, adapters, fake_client


def _count(hub: Hub) -> int:
    with hub.database.reading() as connection:
        return len(accounts.list_accounts(connection, hub.plans))


def test_a_new_account_has_its_catalogue_and_a_working_key(client: Client) -> None:
    assert client.get("/contacts").status_code == 200
    assert client.make("deals", dealstage="closedwon")


def test_a_taken_client_id_is_a_conflict(hub: Hub, client: Client) -> None:
    with pytest.raises(Conflict):
        open_account(hub, name="Another", client_id=client.account.client_id, by=TESTS)


def test_an_adapter_that_cannot_be_used_opens_nothing(app: flask.Flask) -> None:
    with adapters(app, BROKEN):
        hub: Hub = app.extensions["crmhub"]
        before = _count(hub)
        for adapter, word in (("salesforce", "not installed|No adapter"), ("broken", "loaded")):
            with pytest.raises(Semantic, match=word):
                open_account(hub, name=token(40, BASE36), adapter=adapter, by=TESTS)
        assert _count(hub) == before


def test_a_good_connection_has_nothing_wrong(hub: Hub, client: Client) -> None:
    assert check(hub, client.account) is None


def test_a_connection_without_its_settings_says_which(app: flask.Flask) -> None:
    with adapters(app, FAKE):
        hub: Hub = app.extensions["crmhub"]
        account, _ = open_account(hub, name=token(40, BASE36), adapter="fake", by=TESTS)
        assert "crm: this setting is required" in in_words(check(hub, account))


def test_rotated_credentials_are_sealed_and_read_again(app: flask.Flask) -> None:
    with adapters(app, FAKE):
        hub: Hub = app.extensions["crmhub"]
        client, _ = fake_client(app)
        connect(hub, client.account).context.save_credentials({"access_token": "rotated"})
        with hub.database.reading() as connection:
            account = accounts.load_by_id(connection, client.account.id, hub.plans)
        assert "rotated" not in account.connection.credentials
        assert connect(hub, account).context.credentials == {"access_token": "rotated"}
        vault = Vault([EncryptionKey("k2", b"x" * 32)])
        stranger = replace(hub, vault=vault, connected=Connected())
        with pytest.raises(BadConfig, match="k1"):
            connect(stranger, account)
