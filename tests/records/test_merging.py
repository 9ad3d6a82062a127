"""Two records become one and two again; counters, index rows and links are right after each."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import flask
import pytest

from crmhub.errors import Conflict, NotFound
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS
from crmhub.properties.validation import DuplicateValue, InvalidProperties
from crmhub.records import repair
from crmhub.records.merging import Merge, Undo, combined
from tests.catalogue_properties import define
from tests.clients import Client, open_client
from tests.pages import walk
from tests.records.meanwhile import repeatedly
from tests.records.test_counters import Writer, check, equipped  # noqa: F401
from tests.records.test_repair import wrong


def merge(
    hub: Hub,
    client: Client,
    kept: int,
    other: int,
    *,
    take: Collection[str] = (),
    versions: tuple[int, int] | None = None,
) -> Undo:
    """Merge two contacts; the blanks of the kept one are filled."""
    found = {one.id: one for one in hub.records.read(client.account, CONTACTS, [kept, other])}
    held = [found[id].properties if id in found else {} for id in (kept, other)]
    names = frozenset(held[1].keys() - held[0]) | frozenset(take)
    now = [found[id].version if id in found else 1 for id in (kept, other)]
    asked = Merge(kept, other, names, versions or (now[0], now[1]))
    return hub.records.merge(client.account, CONTACTS, asked)


def unmerge(hub: Hub, client: Client, kept: int, other: int, undo: Undo, **stay: Any) -> None:
    # As it is stored.
    stored = json.loads(json.dumps(asdict(undo)))
    hub.records.unmerge(client.account, CONTACTS, kept, other, Undo.of(stored), stay=stay)


def record(client: Client, id: int, kind: str = "contacts") -> Any:
    answer = client.get(f"/{kind}/{id}")
    assert answer.status_code == 200, answer.text
    return answer.json


def links(client: Client, id: int, kind: str = "contacts") -> dict[str, list[int]]:
    """Return what a record is linked with, without the kinds of which there is nothing."""
    found = record(client, id, kind)["associations"]
    return {name: ids for name, ids in found.items() if ids}


def sound(hub: Hub, client: Client) -> None:
    """Nothing is left for a repair."""
    check(hub, client)
    assert repair.recount(hub.database, client.account.id, repair=False) == []
    assert wrong(hub, client, mend=False) == set()


def test_only_what_is_taken_comes_from_the_other() -> None:
    kept, other = {"a": "1", "b": "2"}, {"b": "3", "c": "4"}
    assert combined(kept, other, ()) == kept
    assert combined(kept, other, ("a", "b", "c")) == {"b": "3", "c": "4"}


def test_a_merge_leaves_one_record_and_an_unmerge_both(hub: Hub, client: Client) -> None:
    kept = client.make(firstname="Ann", email="ann@x.org")
    other = client.make(firstname="Anne", lastname="Lee", email="lee@x.org", hubspotscore="7")
    before = [record(client, id) for id in (kept, other)]
    undo = merge(hub, client, kept, other, take={"email"})
    merged = record(client, kept)
    assert merged["properties"] == {
        "firstname": "Ann", "lastname": "Lee", "email": "lee@x.org", "hubspotscore": "7",
    }  # fmt: skip
    assert merged["updatedAt"] > before[0]["updatedAt"]
    assert client.get(f"/contacts/{other}").status_code == 404
    assert client.get("/contacts").json["total"] == 1  # type: ignore[index]
    sound(hub, client)
    unmerge(hub, client, kept, other, undo)
    for id, former in zip((kept, other), before, strict=True):
        now = record(client, id)
        assert now["properties"] == former["properties"]
        assert now["createdAt"] == former["createdAt"]
        assert now["updatedAt"] > former["updatedAt"]
    assert client.get("/contacts").json["total"] == 2  # type: ignore[index]
    sound(hub, client)


def test_links_move_from_both_ends_and_come_back(hub: Hub, client: Client) -> None:
    deals = [client.make("deals") for _ in range(3)]
    company, friend = client.make("companies"), client.make()
    kept, other = client.make(), client.make()
    for id, to, to_id in (
        (kept, "deals", deals[0]),
        (kept, "deals", deals[1]),
        (other, "deals", deals[1]),
        (other, "deals", deals[2]),
        (other, "companies", company),
        (other, "contacts", friend),
        # Of each other, which would become a link of the kept contact to itself.
        (other, "contacts", kept),
    ):
        client.put(f"/contacts/{id}/associations/{to}/{to_id}")
    before = [links(client, id) for id in (kept, other)]
    undo = merge(hub, client, kept, other)
    assert links(client, kept) == {"deals": deals, "companies": [company], "contacts": [friend]}
    assert links(client, deals[2], "deals") == {"contacts": [kept]}
    sound(hub, client)
    unmerge(hub, client, kept, other, undo)
    assert [links(client, id) for id in (kept, other)] == before
    sound(hub, client)


def test_notes_move_and_come_back(hub: Hub, client: Client) -> None:
    kept, other = client.make(), client.make()
    for id in (kept, other):
        client.post(f"/contacts/{id}/notes", {"text": str(id)})
    undo = merge(hub, client, kept, other)
    client.post(f"/contacts/{kept}/notes", {"text": "later"})
    assert {one["text"] for one in walk(client, f"/contacts/{kept}/notes")} == {
        str(kept),
        str(other),
        "later",
    }
    unmerge(hub, client, kept, other, undo)
    assert [one["text"] for one in walk(client, f"/contacts/{other}/notes")] == [str(other)]
    assert client.get(f"/contacts/{kept}/notes").get_json()["total"] == 2


def test_notes_come_back_through_a_chain_of_merges(hub: Hub, client: Client) -> None:
    people = [client.make() for _ in range(3)]
    for id in people:
        client.post(f"/contacts/{id}/notes", {"text": str(id)})
    first, second, third = people
    inner = merge(hub, client, second, first)
    client.post(f"/contacts/{second}/notes", {"text": "later"})
    outer = merge(hub, client, third, second)
    unmerge(hub, client, third, second, outer)
    unmerge(hub, client, second, first, inner)
    notes = [[one["text"] for one in walk(client, f"/contacts/{id}/notes")] for id in people]
    assert notes == [[str(first)], ["later", str(second)], [str(third)]]


def test_a_record_that_gets_or_loses_links_alone_has_changed(hub: Hub, client: Client) -> None:
    kept, other, deal = client.make(), client.make(), client.make("deals")
    client.put(f"/deals/{deal}/associations/contacts/{other}")
    moments = [record(client, kept)["updatedAt"]]
    undo = merge(hub, client, kept, other)
    moments.append(record(client, kept)["updatedAt"])
    unmerge(hub, client, kept, other, undo)
    moments.append(record(client, kept)["updatedAt"])
    assert sorted({*moments}) == moments
    merge(hub, client, kept, client.make())
    assert record(client, kept)["updatedAt"] == moments[-1]


def test_what_was_written_since_stays(hub: Hub, client: Client) -> None:
    kept, other = client.make(firstname="Ann"), client.make(lastname="Lee", city="Rome")
    undo = merge(hub, client, kept, other)
    client.patch(f"/contacts/{kept}", {"properties": {"city": "Bari", "zip": "70100"}})
    deal = client.make("deals")
    client.put(f"/deals/{deal}/associations/contacts/{kept}")
    unmerge(hub, client, kept, other, undo)
    now = record(client, kept)
    assert now["properties"] == {"firstname": "Ann", "city": "Bari", "zip": "70100"}
    assert now["associations"]["deals"] == [deal]
    assert record(client, other)["properties"]["city"] == "Rome"
    sound(hub, client)


def test_records_that_were_deleted_since_are_linked_no_more(hub: Hub, client: Client) -> None:
    kept, other, deal = client.make(), client.make(), client.make("deals")
    client.put(f"/deals/{deal}/associations/contacts/{other}")
    undo = merge(hub, client, kept, other)
    client.delete(f"/deals/{deal}")
    unmerge(hub, client, kept, other, undo)
    assert links(client, other) == links(client, kept) == {}
    sound(hub, client)


def test_a_link_that_is_to_stay_stays(hub: Hub, client: Client) -> None:
    kept, other, deal = client.make(), client.make(), client.make("deals")
    client.put(f"/deals/{deal}/associations/contacts/{other}")
    undo = merge(hub, client, kept, other)
    unmerge(hub, client, kept, other, undo, deals=[deal])
    assert links(client, kept) == links(client, other) == {"deals": [deal]}


def test_another_version_is_a_conflict_and_changes_nothing(hub: Hub, client: Client) -> None:
    kept, other = client.make(firstname="Ann"), client.make(lastname="Lee")
    client.patch(f"/contacts/{other}", {"properties": {"lastname": "Li"}})
    with pytest.raises(Conflict):
        merge(hub, client, kept, other, versions=(1, 1))
    assert record(client, other)["properties"]["lastname"] == "Li"
    sound(hub, client)
    merge(hub, client, kept, other, versions=(1, 2))


def test_a_record_that_does_not_exist_is_not_found(hub: Hub, client: Client, other: Client) -> None:
    mine, theirs = client.make(), other.make()
    for ids in ((mine, theirs), (theirs, mine), (mine, 1)):
        with pytest.raises(NotFound):
            merge(hub, client, *ids)
    assert record(other, theirs)


def test_the_kept_record_keeps_what_it_must_have(hub: Hub, client: Client) -> None:
    define(client, "contacts", "code", required=True)
    kept, other = client.make(code="1"), client.make(code="2")
    hub.records.catalogues.reload(client.account.id, CONTACTS)
    taken = {"code"}
    undo = merge(hub, client, kept, other, take=taken)
    assert record(client, kept)["properties"]["code"] == "2"
    unmerge(hub, client, kept, other, undo)
    assert record(client, kept)["properties"]["code"] == "1"
    third = client.make(code="3")
    client.patch("/properties/contacts/code", {"required": False})
    client.patch(f"/contacts/{third}", {"properties": {"code": ""}})
    client.patch("/properties/contacts/code", {"required": True})
    with pytest.raises(InvalidProperties):
        merge(hub, client, kept, third, take=taken)
    sound(hub, client)


def test_a_unique_value_that_somebody_else_has_by_now_stops_an_unmerge(
    hub: Hub, client: Client
) -> None:
    kept, other = client.make(email="ann@x.org"), client.make(email="lee@x.org")
    undo = merge(hub, client, kept, other)
    taker = client.make(email="lee@x.org")
    with pytest.raises(DuplicateValue) as refused:
        unmerge(hub, client, kept, other, undo)
    assert refused.value.existing_id == taker
    assert client.get(f"/contacts/{other}").status_code == 404
    sound(hub, client)
    client.delete(f"/contacts/{taker}")
    unmerge(hub, client, kept, other, undo)
    sound(hub, client)


@pytest.mark.parametrize("deleted", ["kept", "other"])
def test_a_record_that_was_deleted_since_stops_an_unmerge(
    hub: Hub, client: Client, deleted: str
) -> None:
    kept, other = client.make(), client.make()
    undo = merge(hub, client, kept, other)
    if deleted == "kept":
        client.delete(f"/contacts/{kept}")
    else:
        hub.database.transact(
            lambda tx: tx.run(
                "delete from archived_record where account_id = :id", {"id": client.account.id}
            )
        )
    with pytest.raises(Conflict) as refused:
        unmerge(hub, client, kept, other, undo)
    assert str(kept if deleted == "kept" else other) in refused.value.message
    sound(hub, client)


def test_the_last_value_it_must_have_stops_an_unmerge(hub: Hub, client: Client) -> None:
    kept, other = client.make(firstname="Ann"), client.make(firstname="Bob", lastname="Lee")
    undo = merge(hub, client, kept, other)
    client.patch(f"/contacts/{kept}", {"properties": {"firstname": ""}})
    with pytest.raises(Conflict) as refused:
        unmerge(hub, client, kept, other, undo)
    assert "give it a value" in refused.value.message
    sound(hub, client)


def test_a_property_that_was_deleted_or_defined_anew_since_is_left_out(
    hub: Hub, client: Client
) -> None:
    for name in ("gone", "anew"):
        define(client, "contacts", name)
    kept, other = client.make(), client.make(gone="x", anew="not a number", city="Rome")
    undo = merge(hub, client, kept, other)
    for name in ("gone", "anew"):
        assert client.delete(f"/properties/contacts/{name}?force=true").status_code == 204
    define(client, "contacts", "anew", "number")
    client.patch(f"/contacts/{kept}", {"properties": {"anew": "5"}})
    unmerge(hub, client, kept, other, undo)
    assert record(client, other)["properties"] == {"firstname": "Ada", "city": "Rome"}
    assert record(client, kept)["properties"] == {"firstname": "Ada", "anew": "5"}
    sound(hub, client)


def test_a_property_that_became_unique_since_is_claimed(hub: Hub, client: Client) -> None:
    define(client, "contacts", "code")
    kept, other = client.make(code="1"), client.make(code="2")
    undo = merge(hub, client, kept, other)
    assert client.patch("/properties/contacts/code", {"unique": True}).status_code == 200
    unmerge(hub, client, kept, other, undo)
    answer = client.patch(f"/contacts/{kept}", {"properties": {"code": "2"}})
    assert answer.status_code == 409
    sound(hub, client)


def test_a_full_plan_stops_no_unmerge_and_its_count_is_right(app: flask.Flask, hub: Hub) -> None:
    client = open_client(app, plan="free")
    kept, other = client.make(), client.make()
    undo = merge(hub, client, kept, other)
    for size in (*[100] * 9, 99):
        inputs = [{"properties": {"firstname": "Ann"}}] * size
        assert client.post("/contacts/batch/create", {"inputs": inputs}).status_code == 201
    unmerge(hub, client, kept, other, undo)
    sound(hub, client)
    assert client.post("/contacts", {"properties": {"firstname": "Ann"}}).status_code == 402


def test_records_are_merged_and_unmerged_while_others_write_to_them(
    app: flask.Flask,
    equipped: Client,  # noqa: F811
    hub: Hub,
) -> None:
    writers = [Writer(Client(app, equipped.account, equipped.ids), n) for n in (1, 2)]
    writers[1].ids = writers[0].ids
    writers[0].write(40)
    done = 0
    with repeatedly(partial(writers[0].write, 1)), repeatedly(partial(writers[1].write, 1)) as more:
        for _ in range(40):
            more()
            while len(known := [*writers[0].ids["contacts"]]) < 2:
                more()  # most of them were archived or merged
            kept, other = writers[0].chance.sample(known, 2)
            # Archived meanwhile, or it has a unique value that another one got meanwhile.
            with suppress(NotFound, Conflict):
                undo = merge(hub, equipped, kept, other)
                more()
                unmerge(hub, equipped, kept, other, undo)
                done += 1
    assert done
    sound(hub, equipped)
