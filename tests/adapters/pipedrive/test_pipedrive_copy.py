"""A copy of Pipedrive: what changed, companies, deals that move between pipelines, webhooks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.fakes.pipedrive.catalogue import key_of
from adapters.pipedrive import adapter as module
from crmhub.adapter import Adapter, Denied, Event, Kind, LacksRight, NotFound
from crmhub.adapter.testing.reads import changed
from tests.adapters.pipedrive.pipedrive_crm import OAUTH, TOKEN, PipedriveCrm, calls, connected
from tests.adapters.receiver import Receiver

SUPPORT_ID = 3


@pytest.fixture
def in_pages_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAGE", "2")


@pytest.mark.usefixtures("in_pages_of_two")
def test_what_changes_between_two_pages_of_the_load_is_not_missed(
    crm: PipedriveCrm, adapter: Adapter
) -> None:
    ids = [crm.fake.add("deals", {"title": f"Deal {i}"}) for i in range(5)]
    page = adapter.changed_since("deals", "", ["dealname"])
    assert [one.id for one in page.records] == ids[:2]
    crm.fake.set("deals", ids[0], title="Changed")
    crm.fake.delete("deals", ids[1])
    crm.fake.delete("deals", ids[4])
    new = crm.fake.add("deals", {"title": "New"})
    records, pages = changed(adapter, "deals", page.next, ["dealname"])
    titles = {id: one.properties["dealname"] for id, one in records.items()}
    assert titles.items() >= {ids[0]: "Changed", ids[3]: "Deal 3", new: "New"}.items()
    assert {ids[1], ids[4]} <= {id for page in pages for id in page.deleted}


@pytest.mark.usefixtures("in_pages_of_two")
def test_changes_of_one_second_come_in_pages(crm: PipedriveCrm, adapter: Adapter) -> None:
    _, pages = changed(adapter, "contacts", "", [])
    ids = {crm.fake.add("contacts", {"name": f"Ann {i}"}) for i in range(7)}
    records, pages = changed(adapter, "contacts", pages[-1].next, [])
    assert (records.keys(), len(pages)) == (ids, 4)


def test_asking_for_changes_costs_one_list(crm: PipedriveCrm, adapter: Adapter) -> None:
    _, pages = changed(adapter, "deals", "", [])
    calls(crm.fake)
    adapter.changed_since("deals", pages[-1].next, ["dealname"])
    assert calls(crm.fake) == ["GET v2/deals"]


def test_a_deal_that_moves_to_the_pipeline_for_tickets_is_a_ticket(
    crm: PipedriveCrm, adapter: Adapter
) -> None:
    id = crm.fake.add("deals", {"title": "Help"})
    kinds: tuple[Kind, ...] = ("deals", "tickets")
    since = {kind: changed(adapter, kind, "", [])[1][-1].next for kind in kinds}
    crm.fake.set("deals", id, pipeline_id=SUPPORT_ID, stage_id=6)
    deals = adapter.changed_since("deals", since["deals"], ["dealname"])
    tickets = adapter.changed_since("tickets", since["tickets"], ["subject"])
    assert (deals.records, deals.deleted) == ((), (id,))
    assert [one.properties for one in tickets.records] == [{"subject": "Help"}]
    assert [len(adapter.get_records(kind, [id, "99"], [])) for kind in kinds] == [0, 1]
    with pytest.raises(NotFound):
        adapter.archive("deals", id)
    assert list(crm.shown("tickets")) == [id]


def test_a_company_is_written_and_read_with_its_links(crm: PipedriveCrm, adapter: Adapter) -> None:
    described = {one.name: one for one in adapter.describe("companies")}
    assert (described["name"].required, described["numberofemployees"].type) == (True, "number")
    assert "linkedin" not in described
    sent = {"name": "Acme", "industry": "Trade", "numberofemployees": "7", "address": "1 Road"}
    id = adapter.write("companies", "", sent, mark="m").id
    adapter.write("companies", id, {"website": "https://acme.example/", "numberofemployees": ""})
    [found] = adapter.get_records("companies", [id], [*sent, "website"])
    site = {"website": "https://acme.example/", "numberofemployees": "", "industry": "12"}
    assert found.properties == {**sent, **site}
    assert found.url.endswith(f"/organization/{id}")
    assert 0 < found.created_ms <= found.changed_ms
    person_id = crm.fake.add("contacts", {"name": "Ann", "org_id": int(id)})
    [person] = adapter.get_records("contacts", [person_id], [])
    assert person.links == {"companies": (id,)}
    linked = {"person_id": int(person_id), "org_id": int(id)}
    [deal] = adapter.get_records("deals", [crm.fake.add("deals", {"title": "T", **linked})], [])
    assert deal.links == {"contacts": (person_id,), "companies": (id,)}
    adapter.archive("companies", id)
    assert crm.count("companies") == 0


def test_an_update_of_a_deal_keeps_its_place_and_its_currencies(
    crm: PipedriveCrm, adapter: Adapter
) -> None:
    fee = key_of("deals", "Fee")
    money: dict[str, Any] = {fee: {"value": 5, "currency": "USD"}}
    place = {"pipeline_id": 2, "stage_id": 5}
    id = crm.fake.add("deals", {"title": "T", **place, "custom_fields": money})
    adapter.write("deals", id, {"dealname": "New", fee: "7.5"})
    stored = crm.fake.records("deals")[id]
    assert stored["custom_fields"] == {fee: {"value": 7.5, "currency": "USD"}}
    assert {**stored, **place, "title": "New"} == stored
    crm.fake.delete("deals", id)
    with pytest.raises(NotFound):
        adapter.write("deals", id, {"dealname": "Newer"})


def test_a_webhook_of_a_merge_names_both_records(crm: PipedriveCrm) -> None:
    adapter = connected(crm.fake).adapter()
    request = crm.webhook("contacts", "7")
    merge = request.body.replace(b'"action": "change"', b'"action": "delete", "merged_to_id": "8"')
    assert adapter.events(replace(request, body=merge)) == [
        Event("contacts", "7"),
        Event("contacts", "8"),
    ]
    assert adapter.events(crm.webhook("companies", "7")) == [Event("companies", "7")]
    both = [Event("deals", "7"), Event("tickets", "7")]
    assert adapter.events(crm.webhook("deals", "7")) == both
    for body in (b"", b"[]", b'{"meta": {"entity": "user", "entity_id": 7}}', b"[" * 9999):
        assert adapter.events(replace(request, body=body)) == []


def test_webhooks_that_the_hub_sets_up_need_no_password_of_an_operator(crm: PipedriveCrm) -> None:
    adapter = connected(crm.fake, {"api_token": crm.fake.options.token}).adapter()
    with Receiver() as receiver:
        assert adapter.watch(f"{receiver.url}/crm-changes/acme/1-7a") is None
        id = crm.fake.add("contacts", {"name": "Ann"})
        crm.fake.set("contacts", id, name="Ann Lee")
        crm.fake.delete("contacts", id)
        received = receiver.take(3)
    assert [adapter.events(one) for one in received] == [[Event("contacts", id)]] * 3
    with pytest.raises(Denied):
        adapter.events(crm.webhook("contacts", id))


def test_a_webhook_with_another_password_or_without_success_is_replaced(crm: PipedriveCrm) -> None:
    address = "https://hub.test/crm-changes/acme/1-7a"
    connected(crm.fake).adapter().watch(address)
    other = connected(crm.fake, {**TOKEN, "webhook_password": "another-password"}).adapter()
    other.watch(address)
    made = crm.fake.webhooks.all
    assert {one["http_auth_password"] for one in made.values()} == {"another-password"}
    [first, *_] = made
    made[first]["is_active"] = 0
    other.watch(address)
    assert first not in made
    assert len(made) == 3
    people = {one["user_id"] for one in made.values() if "user_id" in one}
    assert not people, "each webhook has the rights of the connection's own user"


def test_webhooks_that_are_right_stay_as_they_are(crm: PipedriveCrm, adapter: Adapter) -> None:
    adapter.watch("https://hub.test/crm-changes/acme/1-7a")
    made = dict(crm.fake.webhooks.all)
    adapter.watch("https://hub.test/crm-changes/acme/1-7a")
    assert crm.fake.webhooks.all == made


def test_labels_are_options_that_can_be_written(crm: PipedriveCrm, adapter: Adapter) -> None:
    [labels] = [one for one in adapter.describe("contacts") if one.name == "label_ids"]
    assert (labels.type, labels.read_only) == ("multi_enumeration", False)
    id = crm.fake.add("contacts", {"name": "Ann"})
    adapter.write("contacts", id, {"label_ids": labels.options[0].label})
    assert crm.fake.records("contacts")[id]["label_ids"] == [int(labels.options[0].value)]


def test_webhooks_of_others_are_left_alone(crm: PipedriveCrm, adapter: Adapter) -> None:
    theirs = {"subscription_url": "https://other.test/x", "event_action": "*"}
    crm.fake.webhooks.create({**theirs, "event_object": "person", "name": "theirs"})
    adapter.watch("https://hub.test/crm-changes/acme/1-7a")
    adapter.unwatch("https://hub.test/crm-changes/acme/1-7a")
    assert [one["name"] for one in crm.fake.webhooks.all.values()] == ["theirs"]


def test_an_app_without_the_scope_says_so(crm: PipedriveCrm) -> None:
    crm.fake.tokens.scopes = crm.fake.tokens.scopes - {"webhooks:full"}
    adapter = connected(crm.fake, OAUTH).adapter()
    with pytest.raises(LacksRight, match="webhooks:full"):
        adapter.watch("https://hub.test/crm-changes/acme/1-7a")
