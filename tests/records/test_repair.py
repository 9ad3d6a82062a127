"""Counters and index rows that went wrong are found and mended, also while others write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import flask
import pytest

from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS, DEALS, KINDS
from crmhub.records import repair
from crmhub.records.index import KEYS, TABLES
from crmhub.records.repair import Examined, Miscount
from tests.clients import Client, needed
from tests.records.index_rows import recomputed, stored
from tests.records.meanwhile import repeatedly
from tests.records.test_counters import Writer, check, equipped  # noqa: F401
from tests.records.times import set_former_dates


def examine(hub: Hub, client: Client, *, mend: bool) -> list[Examined]:
    return [
        repair.examine(hub.records.catalogues, client.account.id, kind, repair=mend)
        for kind in KINDS.values()
    ]


def wrong(hub: Hub, client: Client, *, mend: bool) -> set[int]:
    return {id for each in examine(hub, client, mend=mend) for id in each.wrong}


def run(hub: Hub, client: Client, sql: str, **params: Any) -> int:
    with hub.database.reading() as connection:
        return connection.run(sql, {"account": client.account.id, **params})


def test_nothing_is_wrong_after_writes(equipped: Client, hub: Hub) -> None:  # noqa: F811
    Writer(equipped, 7).write(80)
    before = stored(hub, equipped)
    assert repair.recount(hub.database, equipped.account.id, repair=True) == []
    assert wrong(hub, equipped, mend=True) == set()
    assert stored(hub, equipped) == before


@pytest.mark.parametrize(
    "spoil",
    [
        *(
            tuple(f"{verb} where account_id = :account".format(table) for table in TABLES)
            for verb in ("delete from {}", "update {} set record_id = -record_id")
        ),
        ("delete from records where account_id = :account",),
        ("update records set properties = '{}' where account_id = :account",),
    ],
    ids=["rows lost", "rows of nobody", "records lost", "properties lost"],
)
def test_spoilt_rows_are_made_anew(equipped: Client, hub: Hub, spoil: Sequence[str]) -> None:  # noqa: F811
    Writer(equipped, 8).write(40)
    for each in spoil:
        assert run(hub, equipped, each) > 0
    repair.recount(hub.database, equipped.account.id, repair=True)
    spoilt = stored(hub, equipped)
    found = wrong(hub, equipped, mend=False)
    assert found
    assert stored(hub, equipped) == spoilt
    assert wrong(hub, equipped, mend=True) == found
    assert stored(hub, equipped) == recomputed(hub, equipped)


def test_what_stands_beside_a_key_is_compared(client: Client, hub: Hub) -> None:
    id = client.make(firstname="ADA" + "x" * 300)
    spoil = "update ix_text set folded = 'b', full_value = null where account_id = :account"
    run(hub, client, spoil)
    assert wrong(hub, client, mend=True) == {id}
    check(hub, client)


def test_rows_with_the_date_of_no_change_are_made_anew(client: Client, hub: Hub) -> None:
    undated, behind, wrong_one = (client.make(city="Rome", hubspotscore="7") for _ in range(3))
    set_former_dates(hub, client, [undated], behind=False)
    set_former_dates(hub, client, [behind], behind=True)
    spoil = "update ix_num set updated_at = updated_at + 1 where account_id = :account"
    run(hub, client, f"{spoil} and record_id = {wrong_one}")
    assert wrong(hub, client, mend=True) == {wrong_one}
    assert wrong(hub, client, mend=True) == set()
    for id in (undated, behind):
        client.patch(f"/contacts/{id}", {"properties": {"city": "Kiel"}})
    check(hub, client)


def test_a_record_with_stray_rows_is_repaired(client: Client, hub: Hub) -> None:
    id = client.make(firstname="Ada", email="ada@example.com")
    run(
        hub,
        client,
        'update records set properties = \'{"firstname": "Bob"}\' where account_id = :account',
    )
    assert wrong(hub, client, mend=True) == {id}
    check(hub, client)


def test_two_records_with_one_unique_value_are_told(client: Client, hub: Hub) -> None:
    first, second = client.make(email="a@example.com"), client.make(email="b@example.com")
    run(
        hub,
        client,
        'update records set properties = \'{"email": "a@example.com"}\''
        " where account_id = :account and id = :id",
        id=second,
    )
    for _ in range(2):
        found = examine(hub, client, mend=True)[0]
        assert found.twins == {("email", second, first)}
    assert (
        client.patch(f"/contacts/{second}", {"properties": {"email": "c@a.de"}}).status_code == 200
    )
    assert wrong(hub, client, mend=True) == set()
    check(hub, client)


def test_each_of_several_records_with_one_unique_value_is_told(client: Client, hub: Hub) -> None:
    first, *others = (client.make(email=f"{name}@example.com") for name in "abcd")
    same = 'update records set properties = \'{"email": "a@example.com"}\''
    run(hub, client, f"{same} where account_id = :account and kind = 1")
    for _ in range(2):
        found = examine(hub, client, mend=True)[0]
        assert found.twins == {("email", id, first) for id in others}


@pytest.mark.parametrize(
    "document",
    ['{"amount": "a lot"}', '{"closedate": "soon"}', '{"dealname": {"a": 1}}', "null", "[1]"],
)
def test_records_that_cannot_be_read_are_told_and_left(
    client: Client, hub: Hub, document: str
) -> None:
    _, lost, spoilt = sorted(client.make("deals", dealname=name, amount="1") for name in "abc")
    of = "where account_id = :account"
    run(hub, client, f"update records set properties = '{document}' {of} and id = :id", id=spoilt)
    before = stored(hub, client)
    run(hub, client, f"delete from ix_text {of} and record_id = :id", id=lost)
    for mend in (False, True):
        found = repair.examine(hub.records.catalogues, client.account.id, DEALS, repair=mend)
        assert found.unreadable == {spoilt}
    assert stored(hub, client) == before


def test_a_value_that_cannot_be_read_holds_up_no_change_of_others(client: Client, hub: Hub) -> None:
    id = client.make(city="Rome", hubspotscore="5")
    document = client.get(f"/contacts/{id}").json["properties"] | {"hubspotscore": "a lot"}  # type: ignore[index]
    sql = "update records set properties = :document where id = :id"
    if hub.database.dialect == "postgresql":
        sql = sql.replace(":document", "cast(:document as jsonb)")
    run(hub, client, sql, id=id, document=json.dumps(document))
    answer = client.patch(f"/contacts/{id}", {"properties": {"city": "Oslo"}})
    assert answer.status_code == 200, answer.text
    here = {"filters": [{"propertyName": "city", "operator": "EQ", "value": "Oslo"}]}
    assert client.post("/contacts/search", here).json["total"] == 1  # type: ignore[index]


def test_counters_are_set_right(client: Client, hub: Hub) -> None:
    client.make("contacts")
    told = "update record_count set n = case when shard = 0 then 9 else 0 end"
    run(hub, client, f"{told} where account_id = :account and kind = 1")
    run(hub, client, "delete from record_count where account_id = :account and kind = 2")
    found = [Miscount(CONTACTS, 9, 1), Miscount(DEALS, 0, 0)]
    assert repair.recount(hub.database, client.account.id, repair=False) == found
    assert repair.recount(hub.database, client.account.id, repair=True) == found
    assert repair.recount(hub.database, client.account.id, repair=False) == []
    client.make("deals")
    check(hub, client)


def test_writers_meanwhile_are_neither_found_nor_lost(
    app: flask.Flask,
    equipped: Client,  # noqa: F811
    hub: Hub,
) -> None:
    account = equipped.account.id
    writers = [Writer(Client(app, equipped.account, equipped.ids), n) for n in (1, 2)]
    with repeatedly(partial(writers[0].write, 1)), repeatedly(partial(writers[1].write, 1)) as more:
        for _ in range(4):
            more()
            assert wrong(hub, equipped, mend=False) == set()
            assert repair.recount(hub.database, account, repair=True) == []
    check(hub, equipped)


def test_rows_are_rebuilt_while_others_write(
    app: flask.Flask,
    equipped: Client,  # noqa: F811
    hub: Hub,
) -> None:
    Writer(equipped, 3).write(20)
    writer = Writer(Client(app, equipped.account, equipped.ids), 4)
    with repeatedly(partial(writer.write, 1)) as more:
        # Without its unique value a record would get a twin by one of the writes.
        for table in KEYS:
            more()
            of = "where account_id = :account and record_id % 2 = 0"
            run(hub, equipped, f"delete from {table} {of}")
            wrong(hub, equipped, mend=True)
    wrong(hub, equipped, mend=True)
    check(hub, equipped)


def test_a_count_is_mended_while_others_write(app: flask.Flask, client: Client, hub: Hub) -> None:
    def write(caller: Client) -> None:
        inputs = [{"properties": needed("contacts")} for _ in range(3)]
        made = caller.post("/contacts/batch/create", {"inputs": inputs}).get_json()
        assert caller.delete(f"/contacts/{made[0]['id']}").status_code == 204

    callers = [Client(app, client.account, client.ids) for _ in range(2)]
    with repeatedly(partial(write, callers[0])), repeatedly(partial(write, callers[1])) as more:
        for _ in range(5):
            more()
            run(hub, client, "update record_count set n = n + 7 where account_id = :account")
            assert len(repair.recount(hub.database, client.account.id, repair=True)) == len(KINDS)
    check(hub, client)
