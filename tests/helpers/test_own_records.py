"""Contacts of the hub's own CRM are found by their email or phone."""

from __future__ import annotations

import json

import pytest

from crmhub.crm.own_records import OwnRecords, _some_with_values
from crmhub.hub import Hub
from tests.clients import Client

PHONE = "+393331234567"


@pytest.fixture
def own(hub: Hub, client: Client) -> OwnRecords:
    return OwnRecords(hub.records, client.account)


def found(own: OwnRecords, **by: str) -> str:
    contact = own.find(**by)
    return contact.id if contact else ""


def test_the_oldest_of_several_is_found_whatever_its_id(
    hub: Hub, own: OwnRecords, client: Client
) -> None:
    first, second = (str(client.make(firstname=name, phone=PHONE)) for name in ("Ada", "Bob"))
    client.make(firstname="Cyd", phone="+393337654321")
    assert found(own, phone="0039 333 1234567") == first
    with hub.database.reading() as connection:
        connection.run(
            "update records set created_at = created_at - 1000"
            " where account_id = :account_id and id = :id",
            {"account_id": client.account.id, "id": int(second)},
        )
    assert found(own, phone=PHONE) == second


def test_a_phone_comes_before_a_mobile_phone(own: OwnRecords, client: Client) -> None:
    by_mobile = str(client.make(firstname="Ada", mobilephone=PHONE))
    assert found(own, phone=PHONE) == by_mobile
    by_phone = str(client.make(firstname="Bob", phone=PHONE, mobilephone=PHONE))
    assert found(own, phone=PHONE) == by_phone


def test_nobody_is_found_by_what_nobody_has(own: OwnRecords, client: Client) -> None:
    client.make(email="ada@example.com", phone=PHONE)
    assert found(own, email="bob@example.com") == ""
    assert found(own, phone="+393330000001") == ""


@pytest.mark.databases("postgresql")
def test_without_statistics_each_value_is_looked_up_in_the_index(
    hub: Hub, own: OwnRecords, client: Client
) -> None:
    if hub.database.dialect != "postgresql":
        pytest.skip("SQLite needs no statistics to use an index")
    client.make(phone=PHONE)
    params = {"account_id": client.account.id}
    for n in range(4):
        params |= {f"prop_id_{n}": 4, f"value_{n}": f"{n}"}
    with hub.database.reading() as connection:
        connection.begin()
        connection.run(
            "delete from pg_statistic where starelid in ('ix_text'::regclass, 'records'::regclass)"
        )
        connection.run(
            "update pg_class set reltuples = -1, relpages = 0, relallvisible = 0"
            " where oid in ('ix_text'::regclass, 'ix_text_pkey'::regclass)"
        )
        text = _some_with_values(4).text("postgresql")
        plan = json.dumps(
            connection.scalar(
                "explain (format json) " + text.replace("%(", ":").replace(")s", ""), params
            )
        )
        connection.end("ROLLBACK")
    assert plan.count('"Index Cond"') == 4
    assert '"Filter": "(value' not in plan
    assert "value = '0'" in plan
