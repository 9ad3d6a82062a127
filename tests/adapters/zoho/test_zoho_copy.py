"""A copy of Zoho CRM: what changed, companies, fields that link, many columns, notifications."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from adapters.fakes.zoho import FakeZoho
from adapters.fakes.zoho.schema import Column
from adapters.zoho import adapter as module
from crmhub.adapter import Denied, Event, LacksRight, NotFound, Rejected
from crmhub.adapter.testing.reads import changed
from tests.adapters.receiver import Receiver
from tests.adapters.zoho.zoho_crm import ZohoCrm, adapted, calls, connected


@pytest.fixture
def in_pages_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAGE", 2)


@pytest.mark.usefixtures("in_pages_of_two")
def test_what_changes_between_two_pages_of_the_load_is_not_missed(fake: FakeZoho) -> None:
    ids = [fake.add("deals", {"Deal_Name": f"Deal {i}"}) for i in range(5)]
    adapter = adapted(fake)
    page = adapter.changed_since("deals", "", ["dealname"])
    assert [one.id for one in page.records] == ids[:2]
    fake.set("deals", ids[0], Deal_Name="Changed")
    fake.delete("deals", ids[1])
    fake.delete("deals", ids[4])
    new = fake.add("deals", {"Deal_Name": "New"})
    records, pages = changed(adapter, "deals", page.next, ["dealname"])
    titles = {id: one.properties["dealname"] for id, one in records.items()}
    assert titles.items() >= {ids[0]: "Changed", ids[3]: "Deal 3", new: "New"}.items()
    assert {ids[1], ids[4]} <= {id for page in pages for id in page.deleted}


@pytest.mark.usefixtures("in_pages_of_two")
def test_changes_of_one_second_come_in_pages(fake: FakeZoho) -> None:
    adapter = adapted(fake)
    _, pages = changed(adapter, "contacts", "", [])
    ids = {fake.add("contacts", {"Last_Name": f"Lee {i}"}) for i in range(7)}
    records, pages = changed(adapter, "contacts", pages[-1].next, [])
    assert (records.keys(), len(pages)) == (ids, 4)


@pytest.mark.parametrize("unchanged_is_304", [True, False])
def test_asking_for_changes_costs_a_query_and_a_list(unchanged_is_304: bool) -> None:
    with ZohoCrm(unchanged_is_304=unchanged_is_304) as crm:
        adapter = adapted(crm.fake)
        _, pages = changed(adapter, "contacts", "", ["email"])
        calls(crm.fake)
        page = adapter.changed_since("contacts", pages[-1].next, ["email"])
        assert (page.records, page.deleted, page.more) == ((), (), False)
        assert calls(crm.fake) == ["POST /crm/v8/coql", "GET /crm/v8/Contacts/deleted"]


def test_more_columns_than_a_query_takes_are_read_by_further_ones(fake: FakeZoho) -> None:
    names = [f"Custom_{i}" for i in range(60)]
    for name in names:
        fake.columns["Contacts"][name] = Column("text", custom=True)
    values = {name: name.upper() for name in names}
    id = fake.add("contacts", {"Last_Name": "Lee", **values})
    adapter = adapted(fake)
    records, _ = changed(adapter, "contacts", "", names)
    assert records[id].properties == values
    assert [one.properties for one in adapter.get_records("contacts", [id], names)] == [values]


def test_a_company_is_written_and_read_with_its_links(fake: FakeZoho) -> None:
    adapter = adapted(fake)
    sent = {"name": "Acme", "industry": "Trade", "numberofemployees": "7"}
    id = adapter.write("companies", "", sent, mark="m").id
    adapter.write("companies", id, {"website": "https://acme.example/", "industry": ""})
    [found] = adapter.get_records("companies", [id], [*sent, "website"])
    assert found.properties == {**sent, "industry": "", "website": "https://acme.example/"}
    assert 0 < found.created_ms <= found.changed_ms
    person_id = fake.add("contacts", {"Last_Name": "Lee", "Account_Name": {"id": id}})
    [person] = adapter.get_records("contacts", [person_id], [])
    assert person.links == {"companies": (id,)}
    linked = {"Contact_Name": {"id": person_id}, "Account_Name": {"id": id}}
    [deal] = adapter.get_records("deals", [fake.add("deals", {"Deal_Name": "T", **linked})], [])
    assert deal.links == {"contacts": (person_id,), "companies": (id,)}
    adapter.archive("companies", id)
    assert fake.records("companies") == {}
    with pytest.raises(NotFound):
        adapter.write("companies", id, {"name": "Gone"})


def test_another_field_may_link_a_case_to_its_contact(fake: FakeZoho) -> None:
    fake.columns["Cases"]["Caller"] = fake.columns["Cases"].pop("Related_To")
    adapter = adapted(fake)
    person_id = fake.add("contacts", {"Last_Name": "Lee"})
    id = adapter.create_for_contact("tickets", person_id, {"subject": "Help"}).id
    [case] = adapter.get_records("tickets", [id], [])
    assert case.links == {"contacts": (person_id,), "companies": ()}


def test_a_field_that_is_gone_is_not_asked_for_again(
    fake: FakeZoho, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = adapted(fake)
    adapter.describe("contacts")
    del fake.columns["Contacts"]["Score"]
    id = fake.add("contacts", {"Last_Name": "Lee"})
    monkeypatch.setattr(adapter.definitions, "stale_s", 0.0)
    records, _ = changed(adapter, "contacts", "", ["lastname", "Score"])
    assert records[id].properties == {"lastname": "Lee"}


def test_an_update_of_a_deal_keeps_its_pipeline(fake: FakeZoho) -> None:
    place = {"Pipeline": "Enterprise (Standard)", "Stage": "Tender"}
    id = fake.add("deals", {"Deal_Name": "T", **place})
    adapter = adapted(fake)
    adapter.write("deals", id, {"dealname": "New"})
    adapter.write("deals", id, {"dealstage": "Closed Won"})
    stored = fake.records("deals")[id]
    assert [stored[name] for name in ("Deal_Name", *place)] == [
        "New",
        "Enterprise (Standard)",
        "Closed Won",
    ]
    with pytest.raises(Rejected):
        adapter.write("deals", id, {"dealstage": ""})


def test_a_notification_names_the_records_of_a_module(crm: ZohoCrm) -> None:
    adapter = adapted(crm.fake)
    request = crm.webhook("tickets", "5725767000000001001")
    assert adapter.events(request) == [Event("tickets", "5725767000000001001")]
    body = json.loads(request.body)
    for wrong in ({"module": "Leads"}, {"ids": "7"}, {"ids": [7, "../x"]}):
        other = json.dumps({**body, **wrong}).encode()
        assert adapter.events(replace(request, body=other)) == []


def test_a_channel_that_the_hub_enables_needs_no_token_of_an_operator(crm: ZohoCrm) -> None:
    connection = connected(crm.fake)
    connection.credentials["webhook_token"] = ""
    adapter = connection.adapter()
    with Receiver() as receiver:
        adapter.watch(f"{receiver.url}/crm-changes/acme/1-7a")
        id = crm.fake.add("contacts", {"Last_Name": "Ann"})
        crm.fake.set("contacts", id, Last_Name="Lee")
        crm.fake.delete("contacts", id)
        received = receiver.take(3)
    assert [adapter.events(one) for one in received] == [[Event("contacts", id)]] * 3
    with pytest.raises(Denied):
        adapter.events(crm.webhook("contacts", id))


def test_a_channel_is_renewed_and_keeps_its_id(fake: FakeZoho) -> None:
    adapter, address = adapted(fake), "https://hub.test/crm-changes/acme/1-7a"
    until = adapter.watch(address)
    [(channel, first)] = fake.channels.all.items()
    assert first["notify_on_related_action"] is False
    fake.channels.all[channel] = {**first, "ends_at": time.time() + 60}
    assert adapter.watch(address) >= until
    assert fake.channels.all[channel]["ends_at"] > time.time() + 86_400
    # Once it has ended, it is enabled again.
    fake.channels.all[channel]["ends_at"] = 0.0
    assert adapter.watch(address) >= until
    assert list(fake.channels.all) == [channel]


def test_an_edition_without_cases_is_watched_without_them() -> None:
    with ZohoCrm(has_cases=False) as crm:
        adapted(crm.fake).watch("https://hub.test/crm-changes/acme/1-7a")
        [channel] = crm.fake.channels.all.values()
        assert channel["events"] == ["Contacts.all", "Deals.all", "Accounts.all"]


def test_a_channel_that_zoho_refuses_is_an_error(fake: FakeZoho) -> None:
    connection = connected(fake)
    connection.credentials["webhook_token"] = "x" * 51
    with pytest.raises(Rejected, match="invalid data"):
        connection.adapter().watch("https://hub.test/crm-changes/acme/1-7a")
    fake.tokens.scopes = fake.tokens.scopes - {"ZohoCRM.notifications.ALL"}
    with pytest.raises(LacksRight):
        adapted(fake).watch("https://hub.test/crm-changes/acme/1-7a")
