"""What processes share of a CRM's definitions: account by account, as old as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crmhub.crm.connection import connect, try_out
from crmhub.crm.definitions import LONGEST, CrmDefinitions
from crmhub.database import expired
from crmhub.database.connection import Database
from crmhub.helpers import read_crm
from crmhub.hub import Hub
from crmhub.operators.crm import set_crm
from crmhub.operators.crm.set_crm import Crm
from crmhub.settings import Settings
from tests.adapters.hubspot.hubspot_crm import TOKEN, HubSpotCrm, calls
from tests.clients import TESTS, Client


@pytest.fixture(scope="module")
def crm() -> Iterator[HubSpotCrm]:
    with HubSpotCrm() as crm:
        yield crm


@pytest.fixture
def connected(hub: Hub, client: Client, crm: HubSpotCrm) -> str:
    """The client id of an account on HubSpot."""
    crm.fake.reset()
    name = client.account.client_id
    set_crm.set_crm(hub, name, Crm("hubspot", {"base_url": crm.url}, TOKEN), test=False, by=TESTS)
    return name


def shared(hub: Hub, client: Client, connection_id: int = 1, **options: bool) -> CrmDefinitions:
    return CrmDefinitions(hub.database, client.account.id, connection_id, **options)


def age(hub: Hub, client: Client, ms: int) -> None:
    moved = {"ms": ms, "account": client.account.id}
    statement = "update crm_definition set loaded_at = loaded_at - :ms where account_id = :account"
    hub.database.transact(lambda tx: tx.run(statement, moved))


def test_what_one_process_has_saved_another_loads_with_its_age(hub: Hub, client: Client) -> None:
    shared(hub, client).save("list", "{}")
    shared(hub, client).save("list", "[1]")
    age(hub, client, 90_000)
    found = shared(hub, client).load("list")
    assert found is not None
    assert found[1] == "[1]"
    assert 90 <= found[0] < 90 + 600


def test_nothing_else_is_found(hub: Hub, client: Client, other: Client) -> None:
    shared(hub, client).save("list", "[]")
    assert shared(hub, client).load("other") is None
    assert shared(hub, client, 2).load("list") is None
    assert shared(hub, other).load("list") is None
    assert shared(hub, client, anew=True).load("list") is None


def test_what_is_from_the_future_counts_as_nothing(hub: Hub, client: Client) -> None:
    shared(hub, client).save("list", "[]")
    age(hub, client, -3_600_000)
    assert shared(hub, client).load("list") is None


def test_what_is_too_long_is_not_shared(hub: Hub, client: Client) -> None:
    shared(hub, client).save("list", "x" * LONGEST)
    shared(hub, client).save("list", "y" * (LONGEST + 1))
    found = shared(hub, client).load("list")
    assert found is not None
    assert found[1][0] == "x"


def test_what_is_old_is_deleted(hub: Hub, client: Client) -> None:
    shared(hub, client).save("old", "[]")
    age(hub, client, expired.CRM_DEFINITIONS_MS + 1)
    shared(hub, client).save("new", "[]")
    assert expired.delete_expired(hub.database, expired.CRM_DEFINITIONS) >= 1
    assert [shared(hub, client).load(name) is None for name in ("old", "new")] == [True, False]


def test_a_second_process_reads_no_definitions(
    hub: Hub, settings: Settings, client: Client, crm: HubSpotCrm, connected: str
) -> None:
    said = read_crm.describe(hub, hub.load_account(connected), "deals")
    assert len(calls(crm.fake)) > 1
    second = Hub.open(settings)
    try:
        assert read_crm.describe(second, second.load_account(connected), "deals") == said
        # People are not stored: owners are read by each process.
        assert [one.split("/")[2] for one in calls(crm.fake)] == ["owners"]
    finally:
        second.close()


def test_new_settings_end_what_was_shared(
    hub: Hub, client: Client, crm: HubSpotCrm, connected: str
) -> None:
    account = hub.load_account(connected)
    connect(hub, account).pipelines("deals")
    with HubSpotCrm() as other:
        given = Crm("hubspot", {"base_url": other.url}, TOKEN)
        set_crm.set_crm(hub, connected, given, test=False, by=TESTS)
        connect(hub, hub.load_account(connected)).pipelines("deals")
        assert len(calls(other.fake)) == 1


def test_a_trial_of_settings_neither_uses_nor_changes_what_is_shared(
    hub: Hub, client: Client, crm: HubSpotCrm, connected: str
) -> None:
    account = hub.load_account(connected)
    assert try_out(hub, account, dict(TOKEN))[0] is None
    with hub.database.reading() as db:
        key = {"account_id": account.id}
        assert not db.scalar(
            "select count(*) from crm_definition where account_id = :account_id", key
        )


def test_a_database_that_is_unavailable_shares_nothing_and_fails_no_call(
    client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    away = Database(f"sqlite:///{tmp_path}/missing/hub.db")
    try:
        of_one = CrmDefinitions(away, client.account.id, 1)
        of_one.save("list", "[]")
        assert of_one.load("list") is None
    finally:
        away.close()
    said = [record.getMessage() for record in caplog.records]
    assert [words.partition(":")[0] for words in said] == [
        "A CRM's definitions could not be shared",
        "A CRM's definitions could not be taken over",
    ]
