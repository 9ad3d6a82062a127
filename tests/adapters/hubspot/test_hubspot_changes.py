"""What HubSpot changed, deleted and merged, for a copy of its records."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from adapters.fakes.hubspot import FakeHubSpot, portal
from adapters.hubspot import HubSpotAdapter, changes
from adapters.hubspot.changes import CHANGED, DELETED, LOAD, Last, Position
from crmhub.adapter import ChangedPage, Kind, LacksRight, NotFound, Record, Rejected, Unsupported
from crmhub.adapter.testing.reads import changed
from tests.adapters.hubspot.hubspot_crm import VERSIONS, adapted, calls
from tests.loops import for_each

LOADED = 250


def people(fake: FakeHubSpot, count: int) -> list[str]:
    return [fake.add_contact(email=f"ann{i}@example.com") for i in range(count)]


def round_after(
    adapter: HubSpotAdapter, since: str, names: Sequence[str] = ("city",), kind: Kind = "contacts"
) -> tuple[dict[str, Record], ChangedPage, list[str]]:
    """Return what changed, the last page, and the deleted ids."""
    records, pages = changed(adapter, kind, since, names)
    return records, pages[-1], [one for page in pages for one in page.deleted]


def test_nothing_is_missed_that_changes_during_the_first_load(
    fake: FakeHubSpot, adapter: HubSpotAdapter
) -> None:
    ids = people(fake, LOADED)
    first = adapter.changed_since("contacts", "", ["city"])
    assert ([one.id for one in first.records], first.total) == (ids[:100], LOADED)
    fake.set("contacts", ids[0], city="Changed")
    fake.delete("contacts", ids[1])
    new = fake.add_contact(email="new@example.com", city="New")
    rest, last, _ = round_after(adapter, first.next)
    records, _, deleted = round_after(adapter, last.next)
    assert {*rest, *records} == {*ids, new} - {ids[1]}
    assert records[ids[0]].properties == {"city": "Changed"}
    assert records[new].properties == {"city": "New"}
    assert ids[1] in deleted


def test_each_round_and_each_walk_through_deleted_records_begins_where_the_former_began() -> None:
    def after(at: Position, cursor: str, now: int) -> Position:
        last = Last("9", now)
        return Position.of(at.next(last, cursor=cursor, now=now, overlap=60_000).text())

    loading = after(Position(), "100", 1_000_000)
    assert loading == Position(LOAD, began=1_000_000, after="100")
    loaded = after(loading, "", 5_000_000)
    assert loaded == Position(DELETED, began=1_000_000, deleted_since=940_000)
    walk = {"deleted_since": 940_000, "deleted_began": 5_001_000}
    walking = after(loaded, "1", 5_001_000)
    began = {**walk, "began": 1_000_000}
    assert walking == Position(DELETED, **began, deleted_after="1", deleted_pages=1)
    for page in range(2, 11):
        assert walking.phase == DELETED
        walking = after(walking, f"{page}", 5_002_000)
    walk["deleted_after"] = "10"
    assert walking == Position(CHANGED, since=940_000, **walk)
    page = after(walking, "100", 6_000_000)
    assert page == Position(CHANGED, began=6_000_000, since=6_000_000, **walk)
    found = after(page, "", 7_000_000)
    assert (found.phase, found.began) == (DELETED, 6_000_000)
    walked = after(found, "", 8_000_000)
    assert walked == Position(CHANGED, since=5_940_000, deleted_since=4_941_000)


def test_more_changes_of_one_millisecond_than_a_page_has_are_told(
    fake: FakeHubSpot, adapter: HubSpotAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = people(fake, LOADED)
    _, last, _ = round_after(adapter, "")
    at = portal.now_ms() + 1
    with monkeypatch.context() as patched:
        patched.setattr(portal, "now_ms", lambda: at)
        for one in ids:
            fake.set("contacts", one, city="Changed")
    after = fake.add_contact(email="later@example.com", city="Changed")
    records, last, _ = round_after(adapter, last.next)
    assert records.keys() == {*ids, after}
    assert {one.properties["city"] for one in records.values()} == {"Changed"}


def test_a_change_that_the_search_shows_late_is_told_by_a_later_round(
    fake: FakeHubSpot, adapter: HubSpotAdapter
) -> None:
    [one] = people(fake, 1)
    _, last, _ = round_after(adapter, "")
    fake.search_lag = 3_600.0
    fake.set("contacts", one, city="Changed")
    _, last, _ = round_after(adapter, last.next)
    fake.index()
    records, _, _ = round_after(adapter, last.next)
    assert records[one].properties == {"city": "Changed"}


def test_a_round_reads_some_pages_of_deleted_records_and_tells_each_in_the_end(
    fake: FakeHubSpot, adapter: HubSpotAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_DELETED_PAGES", 2)
    *old, first, second, third = people(fake, LOADED)
    young = [first, second, third]
    for one in old:
        fake.delete("contacts", one)
        fake.portal.archived["contacts", one] = 1
    _, last, _ = round_after(adapter, "")
    for one in young:
        fake.delete("contacts", one)
    told = []
    for pages in (1, 2):
        fake.take_requests()
        _, last, deleted = round_after(adapter, last.next)
        assert sum("archived=true" in one.query for one in fake.take_requests()) == pages
        told += deleted
    assert told == young


def test_a_merge_is_told_with_the_new_record(fake: FakeHubSpot, adapter: HubSpotAdapter) -> None:
    first, second = people(fake, 2)
    _, last, _ = round_after(adapter, "")
    new = fake.merge("contacts", first, second)
    pages = changed(adapter, "contacts", last.next, ["email"])[1]
    assert pages[0].merged == {first: new, second: new}
    assert adapter.get_records("contacts", [first, second], ["email"]) == []
    with pytest.raises(NotFound):
        adapter.archive("contacts", first)
    assert [*fake.contacts] == [new]


@for_each("version", VERSIONS, fresh="fake")
def test_each_record_has_all_its_links(fake: FakeHubSpot, version: str) -> None:
    adapter = adapted(fake, api_version=version)
    [one, other] = people(fake, 2)
    company = fake.add("companies", {"name": "Acme"}, contacts=[one])
    deals = [fake.add("deals", {"dealname": f"{i}"}, contacts=[one]) for i in range(520)]
    expected = {"companies": (company,), "deals": tuple(deals), "tickets": ()}
    none = dict.fromkeys(expected, ())
    records, last, _ = round_after(adapter, "")
    assert [records[one].links, records[other].links] == [expected, none]
    records, _, _ = round_after(adapter, last.next)
    assert [records[one].links, records[other].links] == [expected, none]
    found = adapter.get_records("companies", [company], ["name"])
    assert found[0].links == {"contacts": (one,), "deals": (), "tickets": ()}
    assert found[0].url.endswith(f"/record/0-2/{company}")


def test_links_to_records_that_the_token_may_not_read_are_unknown(
    fake: FakeHubSpot, adapter: HubSpotAdapter
) -> None:
    [one] = people(fake, 1)
    fake.tokens.scopes = {scope for scope in fake.tokens.scopes if "companies" not in scope}
    records, _, _ = round_after(adapter, "")
    assert records[one].links == {"deals": (), "tickets": ()}
    with pytest.raises(LacksRight, match=r"crm\.objects\.companies\.read"):
        adapter.changed_since("companies", "", ["name"])


def test_many_properties_are_read_and_no_address_is_too_long(
    fake: FakeHubSpot, adapter: HubSpotAdapter
) -> None:
    names = [f"a_property_with_a_long_name_{i}" for i in range(400)]
    for name in names:
        fake.define("contacts", name)
    one = fake.add_contact(email="ann@example.com", **{names[-1]: "x"})
    company = fake.add("companies", {"name": "Acme"}, contacts=[one])
    for since in ("", round_after(adapter, "")[1].next):
        records, _, _ = round_after(adapter, since, names)
        assert records[one].properties == {**dict.fromkeys(names, ""), names[-1]: "x"}
        assert records[one].links["companies"] == (company,)


def test_sensitive_properties_are_never_asked_for(
    fake: FakeHubSpot, adapter: HubSpotAdapter
) -> None:
    fake.define("contacts", "illness", sensitivity="sensitive")
    one = fake.add_contact(email="ann@example.com", illness="flu")
    records, last, _ = round_after(adapter, "", ["illness", "email"])
    again, _, _ = round_after(adapter, last.next, ["illness", "email"])
    read = adapter.get_records("contacts", [one], ["illness", "email"])
    expected = {"email": "ann@example.com"}
    assert [records[one].properties, again[one].properties, read[0].properties] == [expected] * 3


def test_a_company_is_written_and_an_update_of_a_deal_leaves_its_stage(
    fake: FakeHubSpot, adapter: HubSpotAdapter
) -> None:
    company = adapter.write("companies", "", {"name": "Acme", "city": "Ulm"}, mark="a-mark")
    assert adapter.write("companies", company.id, {"city": ""}).outcome == "updated"
    assert fake.records("companies")[company.id].items() >= {"name": "Acme"}.items()
    assert "city" not in fake.records("companies")[company.id]
    assert {"name", "domain"} <= {one.name for one in adapter.describe("companies")}
    deal = adapter.write("deals", "", {"dealname": "A", "dealstage": "Closed Won"})
    fake.take_requests()
    adapter.write("deals", deal.id, {"dealname": "B"})
    assert json.loads(fake.requests[-1].body) == {"properties": {"dealname": "B"}}
    assert fake.deals[deal.id]["dealstage"] == "closedwon"
    with pytest.raises(Rejected):
        adapter.write("deals", deal.id, {"dealstage": "none"})


def test_calls_of_a_load_and_of_a_round(fake: FakeHubSpot, adapter: HubSpotAdapter) -> None:
    people(fake, 4)
    _, last, _ = round_after(adapter, "")
    assert calls(fake)[-2:] == ["GET /crm/objects/2026-09/contacts"] * 2
    round_after(adapter, last.next)
    assert calls(fake) == [
        "POST /crm/objects/2026-09/contacts/search",
        "POST /crm/objects/2026-09/contacts/batch/read",
        "POST /crm/associations/2026-09/contacts/companies/batch/read",
        "POST /crm/associations/2026-09/contacts/deals/batch/read",
        "POST /crm/associations/2026-09/contacts/tickets/batch/read",
        "GET /crm/objects/2026-09/contacts",
    ]


def test_few_records_are_read_with_their_links_by_one_call_each(
    fake: FakeHubSpot, adapter: HubSpotAdapter
) -> None:
    [one, gone] = people(fake, 2)
    deal = fake.add("deals", {"dealname": "A"}, contacts=[one])
    adapter.get_records("contacts", [one], ["email"])
    calls(fake)
    first, _ = adapter.get_records("contacts", [one, gone], ["email"])
    assert (first.id, first.links["deals"]) == (one, (deal,))
    path = "/crm/objects/2026-09/contacts"
    assert calls(fake) == [f"GET {path}/{one}", f"GET {path}/{gone}"]
    fake.delete("contacts", gone)
    [found] = adapter.get_records("contacts", [gone, one], ["email"])
    assert (found.id, found.links["deals"]) == (one, (deal,))
    # The answer to a batch proves that a record is missing.
    assert f"POST {path}/batch/read" in calls(fake)


def test_records_of_one_kind_are_not_associated(fake: FakeHubSpot, adapter: HubSpotAdapter) -> None:
    one, other = people(fake, 2)
    calls(fake)
    with pytest.raises(Unsupported):
        adapter.link("contacts", one, "contacts", other)
    assert calls(fake) == []
