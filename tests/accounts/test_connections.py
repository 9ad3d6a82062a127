"""Choosing a CRM: settings checked, secrets sealed, what is not named stays."""

from __future__ import annotations

import pytest

from crmhub.accounts.plans import BUILT_IN
from crmhub.adapter import Adapter, Setting
from crmhub.crm import stored_connections as connections
from crmhub.errors import Semantic
from crmhub.secrets import EncryptionKey, Vault

VAULT = Vault([EncryptionKey("k1", b"1" * 32)])
OTHER_VAULT = Vault([EncryptionKey("k2", b"2" * 32)])


class Fake(Adapter):
    title = "Fake CRM"
    settings = (
        Setting("base_url", "Address", type="url", default="https://api.fake.example"),
        Setting("pages", "Page size", type="integer"),
        Setting("access_token", "Token", secret=True, required=True),
        Setting("refresh_token", "Refresh token", secret=True),
    )


class Plain(Adapter):
    title = "Plain CRM"


@pytest.fixture
def account(make_account):
    return make_account()[0]


@pytest.fixture
def configure(database, account):
    def run(name="fake", adapter=Fake, settings=(), credentials=(), vault=VAULT):
        return database.transact(
            lambda tx: connections.configure(
                tx,
                account.id,
                name=name,
                adapter=adapter,
                settings=dict(settings),
                credentials=dict(credentials),
                vault=vault,
                plans=BUILT_IN,
            )
        )

    return run


def test_credentials_are_sealed_and_open_again(configure):
    changed = configure(settings={"pages": "5"}, credentials={"access_token": "tok-123"})
    assert changed.connection.settings == {"pages": "5"}
    assert "tok-123" not in changed.connection.credentials
    assert changed.connection.credentials not in repr(changed)
    assert connections.open_credentials(VAULT, changed) == {"access_token": "tok-123"}


def test_another_adapter_starts_with_nothing(configure):
    configure(settings={"pages": "5"}, credentials={"access_token": "tok-123"})
    plain = configure("plain", Plain)
    assert (plain.connection.settings, plain.connection.credentials) == ({}, "")
    with pytest.raises(Semantic, match="access_token: this secret is required"):
        configure(settings={"pages": "5"})


def test_credentials_of_a_lost_key_can_be_given_anew(configure):
    configure(credentials={"access_token": "tok-123", "refresh_token": "r"})
    with pytest.raises(Semantic, match=r"k1.*Give every secret of the adapter again"):
        configure(settings={"pages": "5"}, vault=OTHER_VAULT)
    changed = configure(
        credentials={"access_token": "tok-456", "refresh_token": ""}, vault=OTHER_VAULT
    )
    assert connections.open_credentials(OTHER_VAULT, changed) == {"access_token": "tok-456"}
