"""Going back to a former CRM: its settings, secrets and field map are kept for 30 days."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crmhub.accounts.field_maps import FieldMap
from crmhub.crm import past_connections
from crmhub.crm.stored_connections import open_credentials
from crmhub.database import expired
from crmhub.errors import Semantic
from crmhub.hub import Hub
from crmhub.operators.crm import map_fields, set_crm
from crmhub.operators.crm.set_crm import LAST, Crm
from tests.adapters.hubspot.hubspot_crm import OAUTH, HubSpotCrm
from tests.api.helpers.helper_calls import known
from tests.clients import TESTS, Client
from tests.queue.working import change

BACK = Crm("hubspot", {}, {}, past=LAST)


@pytest.fixture(scope="module")
def crm() -> Iterator[HubSpotCrm]:
    # A refresh token that is used becomes invalid.
    with HubSpotCrm(rotates=True) as crm:
        yield crm


@pytest.fixture
def left(hub: Hub, client: Client, crm: HubSpotCrm) -> int:
    """The id of the connection to HubSpot that the account has left for its own records."""
    crm.fake.reset()
    name = client.account.client_id
    given = Crm("hubspot", {"base_url": crm.url}, OAUTH)
    set_crm.set_crm(hub, name, given, test=True, by=TESTS)
    rules = FieldMap.from_json('{"contacts": {"source": {"to": "hs_lead_status"}}}')
    map_fields.set_field_map(hub, name, rules, test=False, by=TESTS)
    left = hub.load_account(name).connection.id
    set_crm.set_crm(hub, name, Crm("local", {}, {}), test=False, by=TESTS)
    return left


def age(hub: Hub, client: Client, days: int) -> None:
    moved = {"days": days * 24 * 3600 * 1000, "account": client.account.id}
    statement = "update past_connection set left_at = left_at - :days where account_id = :account"
    hub.database.transact(lambda tx: tx.run(statement, moved))


def test_going_back_restores_everything_under_a_new_connection(
    hub: Hub, client: Client, crm: HubSpotCrm, left: int
) -> None:
    account = set_crm.set_crm(hub, client.account.client_id, BACK, test=True, by=TESTS)
    assert account.connection.id > left
    assert account.connection.settings == {"base_url": crm.url}
    assert account.connection.field_map
    # The test used the refresh token up; the account has the one that took its place.
    assert open_credentials(hub.vault, account)["refresh_token"] == crm.fake.tokens.refresh_token


def test_a_mere_test_leaves_the_kept_secrets_valid(hub: Hub, client: Client, left: int) -> None:
    name = client.account.client_id
    assert set_crm.check_crm(hub, name, BACK) is None
    assert set_crm.check_crm(hub, name, BACK) is None
    set_crm.set_crm(hub, name, BACK, test=True, by=TESTS)


def test_kept_secrets_are_sent_to_no_other_address(hub: Hub, client: Client, left: int) -> None:
    elsewhere = Crm(
        "hubspot", {"base_url": "http://127.0.0.1:9"}, {}, whole=True, guarded=True, past=left
    )
    with pytest.raises(Semantic, match="another address") as caught:
        set_crm.check_crm(hub, client.account.client_id, elsewhere)
    assert caught.value.fields[0][0] == "base_url"


def test_without_the_word_nothing_is_restored(hub: Hub, client: Client, left: int) -> None:
    with pytest.raises(Semantic, match="access token"):
        set_crm.set_crm(hub, client.account.client_id, Crm("hubspot", {}, {}), test=False, by=TESTS)


def test_after_30_days_they_are_deleted(hub: Hub, client: Client, left: int) -> None:
    age(hub, client, 29)
    expired.delete_expired(hub.database, expired.PAST_CONNECTIONS)
    with hub.database.reading() as db:
        assert past_connections.load_kept(db, client.account.id, left).credentials
    age(hub, client, 1)
    with pytest.raises(Semantic, match="30 days"):
        set_crm.set_crm(hub, client.account.client_id, BACK, test=False, by=TESTS)
    expired.delete_expired(hub.database, expired.PAST_CONNECTIONS)
    stored = "select settings, credentials from connection where account_id = :id and id = :left"
    with hub.database.reading() as db:
        row = db.row(stored, {"id": client.account.id, "left": left})
    assert tuple(row) == ("{}", "")


def test_an_action_that_is_left_to_do_keeps_them(
    hub: Hub, client: Client, crm: HubSpotCrm, left: int
) -> None:
    known(client, "chat-1")
    change(hub, client, f"state = 'dead', connection_id = {left}")
    age(hub, client, expired.PAST_CONNECTIONS_MS // (24 * 3600 * 1000))
    expired.delete_expired(hub.database, expired.PAST_CONNECTIONS)
    stored = "select credentials from connection where account_id = :id and id = :left"
    with hub.database.reading() as db:
        assert db.scalar(stored, {"id": client.account.id, "left": left})
