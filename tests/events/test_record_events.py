"""Each change of a record writes its event, in the transaction of the change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crmhub.accounts.event_routes import is_wanted
from crmhub.database.connection import Connection
from crmhub.events.event_types import TYPES
from crmhub.events.messages import MAX_BODY_BYTES
from crmhub.hub import Hub
from crmhub.operators.events import event_subscriptions
from crmhub.properties.kinds import CONTACTS, KINDS
from crmhub.records.merging import Merge
from tests.clients import TESTS, Client, needed
from tests.clocks import next_ms
from tests.events.receivers import events_of, subscribe


def written(hub: Hub, client: Client) -> list[tuple[str, Any]]:
    return [(each.type, json.loads(each.data)) for each in events_of(hub, client)]


@pytest.mark.parametrize("resource", list(KINDS))
def test_create_update_archive(hub: Hub, client: Client, resource: str) -> None:
    subscribe(hub, client, *TYPES)
    kind = KINDS[resource]
    name = next(iter(needed(resource)))
    id = client.make(resource)
    first = client.get(f"/{resource}/{id}").json["properties"]
    client.patch(f"/{resource}/{id}", {"properties": {name: "Another"}})
    client.delete(f"/{resource}/{id}")
    after = {**first, name: "Another"}
    assert written(hub, client) == [
        (
            f"{kind.singular}.created",
            {"id": id, "properties": first, "changed": sorted(first), "previous": {}},
        ),
        (
            f"{kind.singular}.updated",
            {"id": id, "properties": after, "changed": [name], "previous": {name: first[name]}},
        ),
        (
            f"{kind.singular}.archived",
            {"id": id, "properties": after, "changed": [], "previous": {}},
        ),
    ]


def test_only_subscribed_types_are_written(hub: Hub, client: Client) -> None:
    subscribe(hub, client, "contact.archived")
    id = client.make()
    client.patch(f"/contacts/{id}", {"properties": {"firstname": "Eve"}})
    client.delete(f"/contacts/{id}")
    assert [type for type, _ in written(hub, client)] == ["contact.archived"]


def test_patterns_subscribe_to_all_types_and_to_those_of_a_subject(
    hub: Hub, client: Client
) -> None:
    every = subscribe(hub, client, "*").subscription
    contacts = subscribe(hub, client, "contact.*", "ticket.created").subscription
    for resource in ("contacts", "deals", "tickets"):
        client.make(resource)
    client.patch(f"/contacts/{client.make()}", {"properties": {"firstname": "Bea"}})
    of = (hub, client.account.client_id)
    got = {
        each.id: sorted(one.type for one in event_subscriptions.list_deliveries(*of, each.id))
        for each in (every, contacts)
    }
    expected = ["contact.created", "contact.created", "contact.updated", "ticket.created"]
    assert got[contacts.id] == expected
    assert got[every.id] == sorted([*expected, "deal.created"])


def test_patterns_include_types_of_later_versions() -> None:
    for type, patterns in (("contact.renamed", ("*", "contact.*")), ("note.created", ("*",))):
        assert all(is_wanted(frozenset({pattern}), type) for pattern in patterns)
        assert not is_wanted(frozenset({"deal.*", "contact.created", "*.renamed"}), type)


def test_a_change_that_changes_nothing_is_no_event(hub: Hub, client: Client) -> None:
    id = client.make(firstname="Ada")
    subscribe(hub, client, *TYPES)
    client.patch(f"/contacts/{id}", {"properties": {"firstname": "Ada"}})
    assert written(hub, client) == []


@pytest.mark.parametrize(
    ("resource", "stage", "value"),
    [("deals", "dealstage", "closedwon"), ("tickets", "hs_pipeline_stage", "3")],
)
def test_stage_change(hub: Hub, client: Client, resource: str, stage: str, value: str) -> None:
    id = client.make(resource)
    before = client.get(f"/{resource}/{id}").json["properties"][stage]
    singular = KINDS[resource].singular
    subscribe(hub, client, f"{singular}.stage_changed", f"{singular}.updated")
    client.patch(f"/{resource}/{id}", {"properties": {stage: value}})
    [(first, _), (second, data)] = written(hub, client)
    assert (first, second) == (f"{singular}.updated", f"{singular}.stage_changed")
    assert (data["changed"], data["previous"]) == ([stage], {stage: before})


def test_batches_and_upserts(hub: Hub, client: Client) -> None:
    subscribe(hub, client, *TYPES)
    inputs = [{"properties": {"email": f"{n}@example.org"}} for n in range(3)]
    ids = [one["id"] for one in client.post("/contacts/batch/create", {"inputs": inputs}).json]
    upserts = [
        {"idProperty": "email", "id": f"{n}@example.org", "properties": {"city": "Kyiv"}}
        for n in (0, 9)
    ]
    client.post("/contacts/batch/upsert", {"inputs": upserts})
    client.post("/contacts/batch/archive", {"inputs": [{"id": ids[1]}]})
    # What happens to several records at once has no order.
    assert sorted(type.partition(".")[2] for type, _ in written(hub, client)) == [
        "archived", *["created"] * 4, "updated",
    ]  # fmt: skip


def test_links_are_told_of_the_record_named(hub: Hub, client: Client) -> None:
    company = client.make("companies", name="A company")
    subscribe(hub, client, *TYPES)
    body = {"properties": {"firstname": "Ada"}, "associations": {"companies": [company]}}
    id = client.post("/contacts", body).json["id"]
    path = f"/contacts/{id}/associations/companies/{company}"
    client.delete(path)
    client.put(path)
    client.put(path)
    told = written(hub, client)
    assert [type for type, _ in told] == ["contact.created", *["association.changed"] * 3]
    assert [data["associations"]["companies"] for _, data in told[1:]] == [
        {"added": [company]},
        {"removed": [company]},
        {"added": [company]},
    ]
    assert {(data["object"], data["id"]) for _, data in told[1:]} == {("contacts", id)}


def test_links_of_an_update_are_told_beside_it(hub: Hub, client: Client) -> None:
    company, id = client.make("companies"), client.make()
    subscribe(hub, client, *TYPES)
    links = {"associations": {"companies": [company]}}
    client.patch(f"/contacts/{id}", links)
    client.patch(f"/contacts/{id}", {"properties": {"city": "Rome"}, **links})
    assert [type for type, _ in written(hub, client)] == ["association.changed", "contact.updated"]


def test_merge_and_unmerge(hub: Hub, client: Client) -> None:
    kept, other = client.make(firstname="Ada"), client.make(lastname="Byron", city="Rome")
    deal = client.make("deals")
    client.put(f"/contacts/{other}/associations/deals/{deal}")
    subscribe(hub, client, *TYPES)
    asked = Merge(kept, other, frozenset(["city"]), (1, 1))
    undo = hub.records.merge(client.account, CONTACTS, asked)
    next_ms()
    hub.records.unmerge(client.account, CONTACTS, kept, other, undo, stay={})
    told = written(hub, client)
    assert sorted(type for type, _ in told[:3]) == [
        "association.changed", "contact.archived", "contact.merged",
    ]  # fmt: skip
    by_type = dict(told[:3])
    assert by_type["contact.merged"]["mergedId"] == other
    assert by_type["contact.merged"]["previous"]["city"] == ""
    assert by_type["contact.archived"]["mergedInto"] == kept
    restored = [data for type, data in told[3:] if type == "contact.created"]
    assert [(data["id"], data["restored"]) for data in restored] == [(other, True)]


def test_nothing_is_told_of_a_write_that_was_rolled_back(hub: Hub, client: Client) -> None:
    subscribe(hub, client, *TYPES)
    client.make(email="ada@example.org")
    refused = client.post("/contacts", {"properties": {"email": "ada@example.org"}})
    assert refused.status_code == 409

    def fail(tx: Connection) -> None:
        hub.records.archive(client.account, CONTACTS, [(client.make(), "")])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hub.database.transact(fail)
    types = [type for type, _ in written(hub, client)]
    assert "contact.archived" not in types
    assert types[0] == "contact.created"


def test_long_values_are_left_out_and_named(hub: Hub, client: Client) -> None:
    client.post("/properties/contacts", {"name": "bio", "label": "Bio", "type": "text"})
    client.post("/properties/contacts", {"name": "cv", "label": "CV", "type": "text"})
    subscribe(hub, client, *TYPES)
    id = client.make(bio="ü" * 60_000, cv="é" * 50_000, city="Rome")
    client.patch(f"/contacts/{id}", {"properties": {"bio": "ö" * 60_000}})
    client.patch(f"/contacts/{id}", {"properties": {"city": "Oslo"}})
    for each in events_of(hub, client):
        assert len(each.data.encode()) < MAX_BODY_BYTES - 500
    (_, created), (_, updated), (_, last) = written(hub, client)
    assert created["shortened"] == ["properties.bio"]
    assert (created["properties"]["city"], len(created["properties"]["cv"])) == ("Rome", 50_000)
    assert "bio" in created["changed"]
    assert {"properties.bio", "previous.bio"} <= {*updated["shortened"]}
    assert last["properties"]["city"] == "Oslo"


def test_a_subscription_counts_for_the_next_write_in_another_process(
    hub: Hub, client: Client
) -> None:
    other = Hub.open(hub.settings)
    try:
        client.make()
        other.records.catalogue(client.account, CONTACTS)
        id = subscribe(other, client, "contact.created").subscription.id
        made = client.make()
        event_subscriptions.change(other, client.account.client_id, id, state="disabled", by=TESTS)
        client.make()
    finally:
        other.close()
    assert [data["id"] for _, data in written(hub, client)] == [made]


def test_an_account_without_subscription_sends_no_further_statement(
    hub: Hub, client: Client, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[str]()
    for name in ("_send", "_send_many"):
        monkeypatch.setattr(Connection, name, _noting(getattr(Connection, name), sent))

    def use(caller: Client) -> None:
        id = caller.make()
        caller.patch(f"/contacts/{id}", {"properties": {"city": "Rome"}})
        deal = caller.make("deals")
        caller.put(f"/contacts/{id}/associations/deals/{deal}")
        caller.delete(f"/contacts/{id}")

    subscribe(hub, other, *TYPES)
    use(client)
    sent.clear()
    use(client)
    alone = [sql for sql in sent if "event_delivery" in sql or "event_subscription" in sql]
    assert sent
    assert not alone
    use(other)
    assert [sql for sql in sent if "event_delivery" in sql]


def _noting(send: Any, sent: list[str]) -> Any:
    def noted(connection: Connection, sql: str, *args: Any) -> Any:
        sent.append(sql)
        return send(connection, sql, *args)

    return noted
