"""Records through the client, of a served hub."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest

from crmhub_client import (
    BadRequestError,
    ConflictError,
    Hub,
    ItemError,
    New,
    NotFoundError,
    SemanticError,
)
from tests.clients_python.callers import Caller, fake

pytestmark = pytest.mark.process


def test_a_record_is_created_read_changed_and_archived(caller: Caller) -> None:
    made = caller.call(lambda hub: hub.contacts.create({"email": "Ada@example.com"}))
    assert made.properties == {"email": "ada@example.com"}
    assert made.associations == {"deals": [], "companies": []}
    assert made.raw["id"] == made.id
    assert datetime.now(UTC) - made.created_at < timedelta(minutes=10)
    changed = caller.call(lambda hub: hub.contacts.update(made.id, {"city": "London"}))
    assert changed.properties["city"] == "London"
    assert caller.call(lambda hub: hub.contacts.get(made.id)) == changed
    caller.call(lambda hub: hub.contacts.archive(made.id, if_match=changed.etag))
    with pytest.raises(NotFoundError):
        caller.call(lambda hub: hub.contacts.get(made.id))


@pytest.mark.parametrize(
    "code", ["A/1", "search", "merge", ".", "..", "a b", "100%41", "é?x=1#y", "~"]
)
def test_a_record_is_read_by_any_unique_value(caller: Caller, code: str) -> None:
    caller.call(
        lambda hub: hub.properties.create(
            "deals", {"name": "code", "type": "string", "unique": True}
        )
    )
    made = caller.call(lambda hub: hub.deals.create({"dealname": "A deal", "code": code}))
    found = caller.call(lambda hub: hub.deals.get(code, id_property="code"))
    assert (found.id, found.properties["code"]) == (made.id, code)
    with pytest.raises(NotFoundError):
        caller.call(lambda hub: hub.deals.get(code + "/", id_property="code"))


def test_a_change_of_an_old_version_is_refused(caller: Caller) -> None:
    old = caller.call(lambda hub: hub.companies.create({"name": "Engines"}))
    caller.call(lambda hub: hub.companies.update(old.id, {"city": "London"}))
    with pytest.raises(ConflictError) as refused:
        caller.call(lambda hub: hub.companies.update(old.id, {"city": "Paris"}, if_match=old.etag))
    assert not refused.value.uncertain


def test_python_values_become_the_hubs(caller: Caller) -> None:
    closing = datetime(2026, 3, 1, 1, 30, tzinfo=UTC).astimezone()
    values = {"dealname": "A deal", "amount": Decimal("1E+3"), "closedate": closing}
    deal = caller.call(lambda hub: hub.deals.create(values))
    assert deal.properties["amount"] == "1000"
    assert deal.properties["closedate"].startswith("2026-03-01")
    found = caller.call(lambda hub: hub.deals.search([("closedate", "EQ", closing)]))
    assert [each.id for each in found.results] == [deal.id]
    with pytest.raises(ValueError, match="time zone"):
        caller.call(lambda hub: hub.deals.create({"closedate": datetime(2026, 3, 1)}))  # noqa: DTZ001
    with pytest.raises(ValueError, match="JSON"):
        caller.call(lambda hub: hub.deals.create({"amount": float("nan")}))


def test_searches_count_and_filter(caller: Caller, hub: Hub) -> None:
    hub.contacts.create_many({"email": f"p{i}@example.com", "city": "AB"[i % 2]} for i in range(30))
    in_a = [("city", "EQ", "A")]
    assert caller.call(lambda hub: hub.contacts.count()) == 30
    assert caller.call(lambda hub: hub.contacts.count(in_a)) == 15
    both = [("city", "IN", ["A", "B"]), {"propertyName": "lastname", "operator": "NEQ", "value": 1}]
    page = caller.call(lambda hub: hub.contacts.search(both, limit=20))
    assert (page.total, len(page.results), page.has_more) == (30, 20, True)
    rest = caller.call(lambda hub: hub.contacts.page(filters=both, cursor=page.cursor))
    assert (len(rest.results), rest.has_more, rest.cursor) == (10, False, "")
    few = caller.items(
        lambda hub: hub.contacts.all(
            filters=[*in_a, ("lastname", "NOT_HAS_PROPERTY")],
            properties="city",
            include=["createdAt", "associations"],
            page_size=4,
        )
    )
    assert [each.properties for each in few] == [{"city": "A"}] * 15
    assert all(each.created_at and each.associations and not each.updated_at for each in few)


def test_archived_records_are_listed_restored_and_merged(caller: Caller, hub: Hub) -> None:
    made = hub.contacts.create_many({"email": f"{n}@example.com"} for n in range(5)).results
    ids = [each.id for each in made]
    hub.contacts.archive_many(ids)
    walked = caller.items(lambda hub: hub.contacts.archived(include=["createdAt"], page_size=2))
    assert [each.id for each in walked] == ids
    assert all(each.archived_at and each.created_at for each in walked)
    for id in ids[:2]:
        assert caller.call(lambda hub, id=id: hub.contacts.restore(id)).etag
    with pytest.raises(ConflictError):
        caller.call(lambda hub: hub.contacts.restore(ids[0]))
    merged = caller.call(lambda hub: hub.contacts.merge(*ids[:2], {"city": "Rome"}))
    assert (merged.id, merged.properties["city"]) == (ids[0], "Rome")
    with pytest.raises(NotFoundError):
        caller.call(lambda hub: hub.contacts.merge(*ids[:2]))


def test_notes_are_added_walked_and_deleted(caller: Caller, hub: Hub) -> None:
    id = hub.contacts.create({"email": "notes@example.com"}).id
    at = datetime(2026, 11, 28, 10, 20, tzinfo=UTC)
    first = caller.call(lambda hub: hub.contacts.add_note(id, "Call", author="Bob", at=at))
    assert (first.text, first.kind, first.author, first.at) == ("Call", "note", "Bob", at)
    said = [{"from": "Ann", "text": "Are you open?", "at": "10:15"}]
    key = {"idempotency_key": "a note"}
    last = [caller.call(lambda hub: hub.contacts.add_note(id, said, **key)) for _ in range(2)]
    assert last[0] == last[1]
    assert (last[0].kind, last[0].text) == ("transcript", "Ann (10:15): Are you open?")
    for n in range(101):
        hub.contacts.add_note(id, str(n), at=at + timedelta(minutes=n + 1))
    texts = [one.text for one in caller.items(lambda hub: hub.contacts.notes(id))]
    assert texts == [last[0].text, *map(str, reversed(range(101))), "Call"]
    caller.call(lambda hub: hub.contacts.delete_note(id, first.id))
    assert len(caller.items(lambda hub: hub.contacts.notes(id))) == 102
    with pytest.raises(NotFoundError):
        caller.call(lambda hub: hub.contacts.delete_note(id, first.id))


def test_updates_and_upserts_add_links(caller: Caller, hub: Hub) -> None:
    deal = hub.deals.create({"dealname": "Engine"}).id
    links: Any = {"deals": [deal]}
    people = [hub.contacts.create({"email": f"{n}@example.com"}).id for n in range(2)]
    caller.call(lambda hub: hub.contacts.update(people[0], {}, associations=links))
    caller.call(lambda hub: hub.contacts.update_many([(people[1], New({}, links))]))
    new = [("2@example.com", New({"city": "Rome"}, links)), New({"email": "3@example.com"}, links)]
    made = caller.call(lambda hub: hub.contacts.upsert_many(new, by="email")).results
    linked = hub.deals.get(deal).associations["contacts"]
    assert sorted(linked) == sorted([*people, *(each.id for each in made)])


def test_links_are_seen_from_both_ends(caller: Caller, hub: Hub) -> None:
    deals = hub.deals.create_many({"dealname": f"Deal {i}"} for i in range(130)).results
    contact = caller.call(
        lambda hub: hub.contacts.create(
            {"firstname": "Ada"}, associations={"deals": [each.id for each in deals[1:]]}
        )
    )
    caller.call(lambda hub: hub.contacts.link(contact.id, "deals", deals[0].id))
    linked = caller.items(lambda hub: hub.contacts.associations(contact.id, "deals"))
    assert sorted(linked) == sorted(each.id for each in deals)
    caller.call(lambda hub: hub.deals.unlink(deals[0].id, "contacts", contact.id))
    with pytest.raises(NotFoundError):
        caller.call(lambda hub: hub.deals.unlink(deals[0].id, "contacts", contact.id))
    assert caller.items(lambda hub: hub.deals.associations(deals[0].id, "contacts")) == []


def test_batches_of_any_length_go_in_hundreds(caller: Caller) -> None:
    people = ({"email": f"p{i}@example.com"} for i in range(234))
    made = caller.call(lambda hub: hub.contacts.create_many(people))
    assert len(caller.network.requests) == 3
    assert [each.properties["email"] for each in made.results] == [
        f"p{i}@example.com" for i in range(234)
    ]
    assert made.indexes == list(range(234))
    ids = [each.id for each in made.results]
    changed = caller.call(lambda hub: hub.contacts.update_many((i, {"city": "A"}) for i in ids))
    assert {each.properties["city"] for each in changed.results} == {"A"}
    rows = [{"email": f"p{i}@example.com", "city": "B"} for i in range(230, 240)]
    upserted = caller.call(lambda hub: hub.contacts.upsert_many(rows, by="email"))
    assert [each.is_new for each in upserted.results] == [False] * 4 + [True] * 6
    read = caller.items(lambda hub: hub.contacts.read_many([*ids, 7], properties=["city"]))
    assert [each.id for each in read] == ids
    assert caller.call(lambda hub: hub.contacts.archive_many(ids)) == 234
    assert caller.call(lambda hub: hub.contacts.count()) == 6


def test_an_asynchronous_iterable_feeds_a_batch(caller: Caller) -> None:
    async def people() -> AsyncIterator[dict[str, str]]:
        for number in range(120):
            yield {"email": f"p{number}@example.com"}

    if caller.kind == "sync":
        with pytest.raises(TypeError, match="AsyncHub"):
            caller.call(lambda hub: hub.contacts.create_many(people()))
    else:
        assert caller.call(lambda hub: hub.contacts.create_many(people())).sent == 120


def test_large_inputs_go_in_smaller_requests(caller: Caller) -> None:
    text = "é" * 30_000
    tickets = [New({"subject": f"T{i}", "content": text}) for i in range(40)]
    made = caller.call(lambda hub: hub.tickets.create_many(tickets))
    assert len(made.results) == 40
    sizes = [len(request.content) for request in caller.network.requests]
    assert len(sizes) == 3
    assert max(sizes) < 1024 * 1024


def test_a_refused_hundred_says_what_was_stored_before_it(caller: Caller) -> None:
    rows = [{"email": f"p{i}@example.com"} for i in range(250)]
    rows[220] = {"email": "p3@example.com"}
    with pytest.raises(ConflictError) as refused:
        caller.call(lambda hub: hub.contacts.create_many(rows))
    error = refused.value
    assert error.done is not None
    assert [each.properties["email"] for each in error.done.results] == [
        f"p{i}@example.com" for i in range(200)
    ]
    [problem] = error.errors
    assert problem.index == 220
    assert error.existing_id == problem.existing_id == error.done.results[3].id
    assert error.location.endswith(f"/contacts/{error.existing_id}")
    assert "inputs[220]" in error.message
    assert caller.call(lambda hub: hub.contacts.count()) == 200


def test_all_problems_of_a_batch_are_listed(caller: Caller) -> None:
    rows: list[dict[str, str]] = [{"dealname": f"Deal {i}"} for i in range(150)]
    rows[120], rows[140] = {"amount": "1"}, {"dealname": "x", "amount": "much"}
    with pytest.raises(SemanticError) as refused:
        caller.call(lambda hub: hub.deals.create_many(rows))
    assert [each.index for each in refused.value.errors] == [120, 140]


def _store_good_ones(request: httpx.Request) -> httpx.Response:
    """Answer as the hub does with `?partial=true`: each input whose name is "bad" is refused."""
    assert request.url.params["partial"] == "true"
    inputs = json.loads(request.content)["inputs"]
    good = [each for each in inputs if each["properties"]["firstname"] != "bad"]
    results = [
        {
            "id": int(each["properties"]["city"]),
            "properties": each["properties"],
            "associations": {"deals": [], "companies": []},
            "createdAt": "2026-11-21T09:51:10.417Z",
            "updatedAt": "2026-11-21T09:51:10.417Z",
        }
        for each in good
    ]
    errors = [
        {"index": i, "category": "ConflictError", "message": f"inputs[{i}]: no", "existingId": 7}
        for i, each in enumerate(inputs)
        if each["properties"]["firstname"] == "bad"
    ]
    return httpx.Response(207 if errors else 201, json={"results": results, "errors": errors})


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("verb", ["create_many", "update_many", "upsert_many"])
def test_a_partial_batch_numbers_errors_as_its_caller_does(kind: str, verb: str) -> None:
    refused = {0, 99, 100, 205}
    rows = [{"firstname": "bad" if i in refused else "a", "city": str(i)} for i in range(210)]
    inputs = rows if verb == "create_many" else list(enumerate(rows))
    options = {"by": "email"} if verb == "upsert_many" else {}
    caller = fake(kind, _store_good_ones)
    batch = caller.call(lambda hub: getattr(hub.contacts, verb)(inputs, partial=True, **options))
    assert batch.errors == [
        ItemError(i, "ConflictError", f"inputs[{i}]: no", 7) for i in sorted(refused)
    ]
    assert batch.indexes == [each.id for each in batch.results]
    assert batch.sent == 210 == len(batch.results) + len(batch.errors)


def test_the_hub_stores_what_is_good(caller: Caller) -> None:
    rows = [{"email": f"p{i}@example.com"} for i in range(210)]
    rows[150] = rows[3]
    batch = caller.call(lambda hub: hub.contacts.create_many(rows, partial=True))
    [refused] = batch.errors
    assert (refused.index, refused.existing_id) == (150, batch.results[3].id)
    assert [rows[i]["email"] for i in batch.indexes] == [
        each.properties["email"] for each in batch.results
    ]
    assert caller.call(lambda hub: hub.contacts.count()) == 209


def test_an_input_without_its_unique_value_is_refused_here(caller: Caller) -> None:
    with pytest.raises(ValueError, match="email"):
        caller.call(lambda hub: hub.contacts.upsert_many([{"firstname": "Ada"}], by="email"))


def test_definitions_are_read_and_changed(caller: Caller) -> None:
    new = {"name": "colour", "type": "enumeration", "options": [{"value": "red"}]}
    made = caller.call(lambda hub: hub.properties.create("contacts", new))
    made["options"] += [{"value": "blue", "label": "Blue"}]
    changes = {"label": "Colour", "options": made["options"]}
    caller.call(lambda hub: hub.properties.update("contacts", "colour", changes))
    found = caller.call(lambda hub: hub.properties.get("contacts", "colour"))
    assert (found["label"], len(found["options"])) == ("Colour", 2)
    caller.call(lambda hub: hub.contacts.create({"firstname": "Ada", "colour": "red"}))
    with pytest.raises(ConflictError):
        caller.call(lambda hub: hub.properties.delete("contacts", "colour"))
    caller.call(lambda hub: hub.properties.delete("contacts", "colour", force=True))
    names = [each["name"] for each in caller.call(lambda hub: hub.properties.list("contacts"))]
    assert "email" in names
    assert "colour" not in names


def test_pipelines_are_read_and_changed(caller: Caller) -> None:
    new = {"label": "Renewals", "stages": [{"label": "Open"}, {"label": "Done", "closed": True}]}
    made = caller.call(lambda hub: hub.pipelines.create("deals", new))
    deal = {"dealname": "A deal", "pipeline": made["id"]}
    caller.call(lambda hub: hub.deals.create(deal))
    with pytest.raises(ConflictError):
        caller.call(lambda hub: hub.pipelines.delete("deals", made["id"]))
    other = caller.call(lambda hub: hub.pipelines.create("deals", {**new, "id": "a.b-c"}))
    assert caller.call(lambda hub: hub.pipelines.get("deals", "a.b-c")) == other
    caller.call(lambda hub: hub.pipelines.update("deals", "a.b-c", {"label": "Other"}))
    labels = [each["label"] for each in caller.call(lambda hub: hub.pipelines.list("deals"))]
    assert labels[1:] == ["Renewals", "Other"]
    caller.call(lambda hub: hub.pipelines.delete("deals", "a.b-c"))


def test_usage_is_told(caller: Caller) -> None:
    caller.call(lambda hub: hub.contacts.create({"firstname": "Ada"}))
    usage = caller.call(lambda hub: hub.usage())
    assert usage["plan"] == "unlimited"
    assert usage["resources"]["contacts"] == {"used": 1, "limit": None}


def test_a_wrong_option_is_the_hubs_to_refuse(caller: Caller) -> None:
    with pytest.raises(BadRequestError) as refused:
        caller.call(lambda hub: hub.contacts.page(limit=101))
    assert refused.value.status == 400
    assert refused.value.request_id
