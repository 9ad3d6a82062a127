"""One record through the front door: create, read, change, archive, for all four resources."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import flask
import pytest

from tests.api.helpers.helper_calls import switch
from tests.api.refusals import refused
from tests.catalogue_properties import define
from tests.clients import Client, needed
from tests.pages import fetch, walk

# A text and a number property that each resource has.
TEXT = {"contacts": "city", "deals": "hs_next_step", "companies": "city", "tickets": "content"}
WHOLE = ["id", "properties", "associations", "createdAt", "updatedAt"]
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
HIGHEST = 2**53 - 1


def body(resource: str, **properties: Any) -> dict[str, Any]:
    return {"properties": {**needed(resource), **properties}}


def create(client: Client, resource: str, **properties: Any) -> Any:
    answer = client.post(f"/{resource}", body(resource, **properties))
    assert answer.status_code == 201, answer.text
    return answer.get_json()


def read(client: Client, resource: str, id: int | str, query: str = "") -> Any:
    answer = client.get(f"/{resource}/{id}{query}")
    assert answer.status_code == 200, answer.text
    return answer.get_json()


def change(client: Client, resource: str, id: int, **properties: Any) -> Any:
    answer = client.patch(f"/{resource}/{id}", {"properties": properties})
    assert answer.status_code == 200, answer.text
    return answer.get_json()


# --- create ----------------------------------------------------------------------------------


def test_create_answers_the_whole_record(client: Client, resource: str) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    record = create(client, resource, **{TEXT[resource]: "Ünïcödé 😀"})
    assert list(record) == WHOLE
    assert type(record["id"]) is int
    assert 0 < record["id"] <= HIGHEST
    assert {**needed(resource), TEXT[resource]: "Ünïcödé 😀"}.items() <= record[
        "properties"
    ].items()
    assert record["associations"] == {"deals": [], "companies": []}
    assert record["createdAt"] == record["updatedAt"]
    assert MOMENT.fullmatch(record["createdAt"])
    assert before <= datetime.fromisoformat(record["createdAt"]) <= datetime.now(UTC)


def test_a_record_reads_as_it_was_created(client: Client, resource: str) -> None:
    record = create(client, resource)
    assert read(client, resource, record["id"]) == record
    [listed] = fetch(client, f"/{resource}")["results"]
    assert listed == {"id": record["id"], "properties": record["properties"]}


def test_properties_without_a_value_are_left_out(client: Client, resource: str) -> None:
    record = create(client, resource, **{TEXT[resource]: ""})
    other = create(client, resource, **{TEXT[resource]: None})
    assert TEXT[resource] not in record["properties"]
    assert other["properties"] == record["properties"]


def test_properties_are_an_object_of_scalars(client: Client, resource: str) -> None:
    id, name = client.make(resource), TEXT[resource]
    wrong: list[Any] = [{}, {"properties": None}, {"properties": []}, {"properties": "x"}, []]
    no_scalars: list[Any] = [{}, [], ["x"], {"value": "x"}]
    for method, path in (("POST", f"/{resource}"), ("PATCH", f"/{resource}/{id}")):
        for sent in wrong:
            refused(client.call(method, path, sent), 400)
        for value in no_scalars:
            message = refused(client.call(method, path, body(resource, **{name: value})), 400)
            assert f"properties.{name}" in message


# --- required --------------------------------------------------------------------------------

REQUIRED = {"deals": "dealname", "companies": "name", "tickets": "subject"}
ONE_OF = ("email", "phone", "firstname", "lastname")
SAMPLES = {"email": "a@example.com", "phone": "+12025550123", "firstname": "A", "lastname": "B"}


@pytest.mark.parametrize("resource", REQUIRED)
def test_a_missing_required_property_is_422_and_named(client: Client, resource: str) -> None:
    name = REQUIRED[resource]
    for properties in ({}, {name: ""}, {name: None}, {TEXT[resource]: "x"}):
        message = refused(client.post(f"/{resource}", {"properties": properties}), 422)
        assert f"properties.{name}" in message


@pytest.mark.parametrize("resource", REQUIRED)
def test_an_update_may_not_clear_a_required_property(client: Client, resource: str) -> None:
    id, name = client.make(resource), REQUIRED[resource]
    for blank in ("", None):
        sent = {"properties": {name: blank, TEXT[resource]: "x"}}
        assert name in refused(client.patch(f"/{resource}/{id}", sent), 422)
    assert TEXT[resource] not in read(client, resource, id)["properties"]


@pytest.mark.parametrize("name", ONE_OF)
def test_a_contact_needs_one_of_four_properties(client: Client, name: str) -> None:
    answer = client.post("/contacts", {"properties": {name: SAMPLES[name]}})
    assert answer.status_code == 201
    message = refused(client.post("/contacts", {"properties": {"city": "Rome", name: ""}}), 422)
    assert all(each in message for each in ONE_OF)


def test_a_property_may_be_required_by_the_account(client: Client, resource: str) -> None:
    define(client, resource, "must", required=True)
    assert "must" in refused(client.post(f"/{resource}", body(resource)), 422)
    assert create(client, resource, must="x")["properties"]["must"] == "x"


# --- read ------------------------------------------------------------------------------------


def test_properties_narrows_what_is_shown(client: Client, resource: str) -> None:
    name, text = next(iter(needed(resource))), TEXT[resource]
    record = create(client, resource, **{text: "x"})
    shown = read(client, resource, record["id"], f"?properties={text},{name},nothing")
    assert shown == {**record, "properties": {text: "x", name: record["properties"][name]}}
    for query in (f"?properties={text}", f"?properties={text},,%20"):
        [listed] = fetch(client, f"/{resource}", None, query)["results"]
        assert listed == {"id": record["id"], "properties": {text: "x"}}


def test_include_adds_the_other_fields_to_lists_and_searches(client: Client, resource: str) -> None:
    record = create(client, resource)
    query = "?include=associations,createdAt,updatedAt"
    [listed] = fetch(client, f"/{resource}", None, query)["results"]
    [found] = fetch(client, f"/{resource}/search", {"filters": []}, query)["results"]
    assert listed == found == record
    message = refused(client.get(f"/{resource}?include=version"), 400)
    assert all(each in message for each in ("associations", "createdAt", "updatedAt"))


def test_a_slash_behind_a_path_changes_nothing(client: Client, resource: str) -> None:
    id = client.make(resource)
    to_id = client.make("tickets")
    link = f"/{resource}/{id}/associations/tickets"
    assert client.put(f"{link}/{to_id}/").status_code == 204
    for path in (f"/{resource}", f"/{resource}/{id}", link):
        assert client.get(f"{path}/").get_json() == client.get(path).get_json()
    assert client.patch(f"/{resource}/{id}/", {"properties": {}}).status_code == 200
    assert client.delete(f"/{resource}/{id}/").status_code == 204
    refused(client.get(f"/{resource}/search/"), 405)


def test_a_unique_property_finds_a_record(client: Client, resource: str) -> None:
    define(client, resource, "code", unique=True)
    values = ["A b", "ß", "x" * 300, "100%", "?#&"]
    for value in values:
        record = create(client, resource, code=value)
        assert read(client, resource, quote(value, safe=""), "?idProperty=code") == record
    assert "code" in refused(client.get(f"/{resource}/nobody?idProperty=code"), 404)
    other = TEXT[resource]
    assert "code" in refused(client.get(f"/{resource}/x?idProperty={other}"), 400)
    assert "code" in refused(client.get(f"/{resource}/x?idProperty=nothing"), 400)
    client.delete(f"/{resource}/{record['id']}")
    refused(client.get(f"/{resource}/{quote(values[-1])}?idProperty=code"), 404)


def test_a_contact_is_found_by_email_in_any_case(client: Client) -> None:
    record = create(client, "contacts", email="Ada@Example.com")
    assert record["properties"]["email"] == "ada@example.com"
    for email in ("ada@example.com", "ADA@EXAMPLE.COM", "%20ada@example.com%20"):
        assert read(client, "contacts", email, "?idProperty=email") == record


def test_an_id_that_is_none_is_404_or_400(client: Client, resource: str) -> None:
    id = client.make(resource)
    for unknown in (id + 10**6, 0, 1, HIGHEST, HIGHEST + 1, 2**63, 10**30):
        message = refused(client.get(f"/{resource}/{unknown}"), 404)
        assert message == refused(client.patch(f"/{resource}/{unknown}", body(resource)), 404)
        refused(client.delete(f"/{resource}/{unknown}"), 404)
    for wrong in ("abc", f"{id}.0", "-1", "+1", "1e3", "１", "%20", "null"):
        refused(client.get(f"/{resource}/{wrong}"), 400)
        refused(client.patch(f"/{resource}/{wrong}", body(resource)), 400)
        refused(client.delete(f"/{resource}/{wrong}"), 400)


# --- change ----------------------------------------------------------------------------------


def test_update_leaves_other_properties(client: Client, resource: str) -> None:
    record = create(client, resource, **{TEXT[resource]: "before"})
    changed = change(client, resource, record["id"], **{TEXT[resource]: "after"})
    assert changed["properties"] == {**record["properties"], TEXT[resource]: "after"}
    assert changed["createdAt"] == record["createdAt"]
    assert changed["updatedAt"] > record["updatedAt"]
    assert read(client, resource, record["id"]) == changed


def test_a_blank_clears_a_property(client: Client, resource: str) -> None:
    record = create(client, resource)
    for blank in ("", None):
        change(client, resource, record["id"], **{TEXT[resource]: "x"})
        changed = change(client, resource, record["id"], **{TEXT[resource]: blank})
        assert changed["properties"] == record["properties"]


def test_a_patch_that_changes_nothing_leaves_updated_at(client: Client, resource: str) -> None:
    record = create(client, resource, **{TEXT[resource]: "same"})
    for properties in ({}, record["properties"], {TEXT[resource]: "same"}, {"hubspot_team_id": ""}):
        assert change(client, resource, record["id"], **properties) == record
    assert read(client, resource, record["id"]) == record


def test_the_same_value_in_another_notation_changes_nothing(client: Client) -> None:
    record = create(client, "contacts", email="a@example.com", hubspotscore="7")
    assert change(client, "contacts", record["id"], email=" A@Example.COM", hubspotscore=7.0) == (
        record
    )


def test_changes_that_follow_each_other_have_rising_times(client: Client, resource: str) -> None:
    id = client.make(resource)
    times = [change(client, resource, id, **{TEXT[resource]: f"{n}"})["updatedAt"] for n in "123"]
    assert len(set(times)) == 3
    assert times == sorted(times)


# --- archive ---------------------------------------------------------------------------------


def test_an_archived_record_is_gone_from_everything(client: Client, resource: str) -> None:
    name = next(iter(needed(resource)))
    gone, kept = client.make(resource), client.make(resource)
    friend = client.make("companies", name="Friend")
    assert client.put(f"/{resource}/{gone}/associations/companies/{friend}").status_code == 204
    answer = client.delete(f"/{resource}/{gone}")
    assert (answer.status_code, answer.data) == (204, b"")
    assert "Content-Type" not in answer.headers
    path = f"/{resource}/{gone}"
    refused(client.get(path), 404)
    refused(client.patch(path, body(resource)), 404)
    refused(client.delete(path), 404)
    refused(client.get(f"{path}/associations/companies"), 404)
    refused(client.put(f"{path}/associations/companies/{friend}"), 404)
    refused(client.put(f"/companies/{friend}/associations/{resource}/{gone}"), 422)
    page = fetch(client, f"/companies/{friend}/associations/{resource}")
    assert (page["total"], page["results"]) == (0, [])
    assert read(client, "companies", friend)["associations"] == {"deals": [], "companies": []}
    everything = {kept, friend} if resource == "companies" else {kept}
    for sent in ([], [{"propertyName": name, "operator": "HAS_PROPERTY"}]):
        page = fetch(client, f"/{resource}/search", {"filters": sent})
        assert page["total"] == len(everything)
        assert {each["id"] for each in page["results"]} == everything
    assert {each["id"] for each in walk(client, f"/{resource}")} == everything
    several: Any = {"inputs": [{"id": gone}, {"id": kept}]}
    answer = client.post(f"/{resource}/batch/read", several)
    assert [each["id"] for each in answer.get_json()] == [kept]
    refused(client.post(f"/{resource}/batch/archive", several), 404)
    several = {"inputs": [{"id": id, "properties": {}} for id in (gone, kept)]}
    refused(client.post(f"/{resource}/batch/update", several), 404)
    linked = {**body(resource), "associations": {resource: [gone]}}
    refused(client.post(f"/{resource}", linked), 422)


# --- unique ----------------------------------------------------------------------------------


def test_a_duplicate_email_is_409_and_ends_with_the_existing_id(client: Client) -> None:
    first = client.make(email="ada@example.com")
    second = client.make(email="b@example.com")
    for email in ("ada@example.com", "ADA@example.com", " Ada@Example.com "):
        sent = {"properties": {"email": email}}
        for answer in (client.post("/contacts", sent), client.patch(f"/contacts/{second}", sent)):
            message = refused(answer, 409)
            assert "properties.email" in message
            assert message.endswith(f"Existing ID: {first}")
    assert fetch(client, "/contacts")["total"] == 2


def test_archiving_frees_the_unique_value(client: Client) -> None:
    first = client.make(email="ada@example.com")
    client.delete(f"/contacts/{first}")
    second = client.make(email="ada@example.com")
    assert second != first
    assert read(client, "contacts", "ada@example.com", "?idProperty=email")["id"] == second


def test_changing_or_clearing_frees_the_unique_value(client: Client) -> None:
    first = client.make(email="a@example.com")
    change(client, "contacts", first, email="b@example.com")
    second = client.make(email="a@example.com")
    change(client, "contacts", second, email="")
    client.make(email="a@example.com")
    assert change(client, "contacts", first, email="B@example.com")["id"] == first


# --- values ----------------------------------------------------------------------------------

CANONICAL = [
    ("string", " as it is ", " as it is "),
    ("text", "line\nline", "line\nline"),
    ("number", "007.50", "7.5"),
    ("number", "1e3", "1000"),
    ("number", "-0", "0"),
    ("number", 1000, "1000"),
    ("number", 0.1, "0.1"),
    ("number", 123456789012345, "123456789012345"),
    ("number", 1e-7, "0.0000001"),
    ("currency", "+12.00", "12"),
    ("date", "2026-01-31", "2026-01-31"),
    ("date", "2026-02-01T00:30:00+02:00", "2026-02-01"),
    ("datetime", "2026-01-31", "2026-01-31T00:00:00.000Z"),
    ("datetime", "2026-01-31T23:30:00-02:00", "2026-02-01T01:30:00.000Z"),
    ("datetime", 1769904000001, "2026-02-01T00:00:00.001Z"),
    ("bool", True, "true"),
    ("bool", "FALSE", "false"),
    ("email", " Ada@Example.COM ", "ada@example.com"),
    ("phone", "+49 (30) 12 34 56", "+4930123456"),
    ("phone", "030 12 ext. 12", "030 12 ext. 12"),
    ("url", " https://example.com/a ", "https://example.com/a"),
    ("string", 12.50, "12.5"),
    ("string", True, "true"),
]
REFUSED = [
    ("number", "abc"),
    ("number", "1234567890123456"),
    ("number", 1234567890123456),
    ("number", "1,5"),
    ("number", True),
    ("currency", "€ 5"),
    ("date", "2026-02-30"),
    ("date", "31.1.2026"),
    ("datetime", "today"),
    ("bool", "yes"),
    ("bool", 1),
    ("email", "ada"),
    ("phone", "call me"),
    ("url", "not a url"),
]


def test_values_travel_in_their_canonical_form(client: Client, resource: str) -> None:
    for type in {type for type, _, _ in CANONICAL}:
        define(client, resource, f"own_{type}", type)
    for type, sent, stored in CANONICAL:
        record = create(client, resource, **{f"own_{type}": sent})
        assert record["properties"][f"own_{type}"] == stored, (type, sent)
        assert change(client, resource, record["id"], **record["properties"]) == record


def test_a_value_that_is_not_of_its_type_is_422_and_named(client: Client, resource: str) -> None:
    for type in {type for type, _ in REFUSED}:
        define(client, resource, f"own_{type}", type)
    for type, value in REFUSED:
        sent = body(resource, **{f"own_{type}": value})
        assert f"properties.own_{type}" in refused(client.post(f"/{resource}", sent), 422), value


def test_a_national_phone_is_read_with_the_accounts_region(
    app: flask.Flask, client: Client
) -> None:
    assert create(client, "contacts", phone="030 123456")["properties"]["phone"] == "030 123456"
    switch(app, client, region="DE")
    assert create(client, "contacts", phone="030 123456")["properties"]["phone"] == "+4930123456"


def test_a_label_is_refused_with_the_value_to_send(client: Client, resource: str) -> None:
    options = [("very_big", "Very big"), ("small", "Small")]
    define(client, resource, "size", "enumeration", options=options)
    define(client, resource, "sizes", "multi_enumeration", options=options)
    for name, value in {"size": "Very big", "sizes": "small;Very big"}.items():
        message = refused(client.post(f"/{resource}", body(resource, **{name: value})), 422)
        assert f"properties.{name}" in message
        assert '"very_big"' in message
    refused(client.post(f"/{resource}", body(resource, size="huge")), 422)
    record = create(client, resource, size="very_big", sizes=" small ; very_big;small")
    assert record["properties"]["sizes"] == "small;very_big"


def test_an_unknown_property_is_422_and_told_how_to_define_it(
    client: Client, resource: str
) -> None:
    name = TEXT[resource]
    message = refused(client.post(f"/{resource}", body(resource, **{f"{name}x": "x"})), 422)
    assert f"properties.{name}x" in message
    assert f"{name} " in message or f"{name}?" in message
    assert f"POST /properties/{resource}" in message
    for odd in ("City", "é", "a-b", "", "1a", "a" * 101, "__proto__"):
        refused(client.post(f"/{resource}", body(resource, **{odd: "x"})), 422)
    message = refused(client.post(f"/{resource}", body(resource, **{name.title(): "x"})), 422)
    assert f"did you mean {name}" in message


def test_an_account_may_have_unknown_properties_defined(
    app: flask.Flask, client: Client, resource: str
) -> None:
    switch(app, client, auto_define_properties="true")
    record = create(client, resource, favourite_colour="red")
    assert record["properties"]["favourite_colour"] == "red"
    assert client.get(f"/properties/{resource}/favourite_colour").get_json()["type"] == "string"
    filters = [{"propertyName": "favourite_colour", "operator": "EQ", "value": "red"}]
    assert fetch(client, f"/{resource}/search", {"filters": filters})["total"] == 1
    refused(client.post(f"/{resource}", body(resource, **{"No name": "x"})), 422)


def test_a_text_of_65536_characters_is_the_longest(client: Client, resource: str) -> None:
    name, text = TEXT[resource], "😀" * 65_536
    assert create(client, resource, **{name: text})["properties"][name] == text
    too_long = client.post(f"/{resource}", body(resource, **{name: text + "x"}))
    assert f"properties.{name}" in refused(too_long, 422)


# --- pipelines and stages --------------------------------------------------------------------

PLACES = {"deals": ("pipeline", "dealstage"), "tickets": ("hs_pipeline", "hs_pipeline_stage")}
HOME = {"deals": ("default", "appointmentscheduled"), "tickets": ("0", "1")}
LAST = {"deals": "closedlost", "tickets": "4"}


@pytest.fixture(params=PLACES)
def placed(request: pytest.FixtureRequest) -> str:
    """Each resource with pipelines."""
    name: str = request.param
    return name


def place(record: Any, resource: str) -> tuple[str, str]:
    pipeline, stage = PLACES[resource]
    return record["properties"][pipeline], record["properties"][stage]


@pytest.fixture
def second(client: Client, placed: str) -> str:
    """A second pipeline with the stages `one` and `two`."""
    stages = [{"id": "one", "label": "One"}, {"id": "two", "label": "Two"}]
    sent = {"id": "second", "label": "Second", "stages": stages}
    answer = client.post(f"/pipelines/{placed}", sent)
    assert answer.status_code == 201, answer.text
    return "second"


def test_a_record_starts_in_the_first_stage_of_the_default_pipeline(
    client: Client, second: str, placed: str
) -> None:
    assert place(create(client, placed), placed) == HOME[placed]


def test_a_place_that_is_given_is_taken(client: Client, second: str, placed: str) -> None:
    pipeline, stage = PLACES[placed]
    record = create(client, placed, **{pipeline: second, stage: "two"})
    assert place(record, placed) == (second, "two")
    assert place(create(client, placed, **{stage: LAST[placed]}), placed)[1] == LAST[placed]


def test_half_a_place_brings_its_other_half(client: Client, second: str, placed: str) -> None:
    pipeline, stage = PLACES[placed]
    assert place(create(client, placed, **{pipeline: second}), placed) == (second, "one")
    assert place(create(client, placed, **{stage: "two"}), placed) == (second, "two")


def test_pipeline_and_stage_must_agree(client: Client, second: str, placed: str) -> None:
    pipeline, stage = PLACES[placed]
    id = client.make(placed)
    for disagreeing in (
        {pipeline: second, stage: LAST[placed]},
        {pipeline: HOME[placed][0], stage: "two"},
    ):
        message = refused(client.post(f"/{placed}", body(placed, **disagreeing)), 422)
        assert f"properties.{stage}" in message
        refused(client.patch(f"/{placed}/{id}", {"properties": disagreeing}), 422)
    # What the record has counts as well.
    refused(client.patch(f"/{placed}/{id}", {"properties": {pipeline: second}}), 422)
    refused(client.patch(f"/{placed}/{id}", {"properties": {stage: "two"}}), 422)
    moved = change(client, placed, id, **{pipeline: second, stage: "two"})
    assert place(moved, placed) == (second, "two")


def test_a_record_always_has_a_place(client: Client, second: str, placed: str) -> None:
    pipeline, stage = PLACES[placed]
    id = create(client, placed, **{pipeline: second, stage: "two"})["id"]
    assert place(change(client, placed, id, **{stage: ""}), placed) == (second, "one")
    assert place(change(client, placed, id, **{pipeline: ""}), placed) == (second, "one")
    both = change(client, placed, id, **{pipeline: "", stage: None})
    assert place(both, placed) == HOME[placed]


def test_answers_with_records_say_that_they_are_the_hubs_own(client: Client) -> None:
    created = client.post("/contacts", {"properties": {"email": "ada@example.com"}})
    id = created.get_json()["id"]
    change = {"id": id, "properties": {"city": "Rome"}}
    upsert = {"idProperty": "email", "id": "ada@example.com", "properties": {"city": "Bath"}}
    for answer in (
        created,
        client.get(f"/contacts/{id}"),
        client.get("/contacts"),
        client.post("/contacts/search", {"filters": []}),
        client.get(f"/contacts/{id}/associations/deals"),
        client.patch(f"/contacts/{id}", {"properties": {"city": "York"}}),
        client.post("/contacts/batch/create", {"inputs": [{"properties": {"firstname": "B"}}]}),
        client.post("/contacts/batch/read", {"inputs": [{"id": id}]}),
        client.post("/contacts/batch/update", {"inputs": [change]}),
        client.post("/contacts/batch/upsert", {"inputs": [upsert]}),
        client.post("/contacts/batch/update?partial=true", {"inputs": [change]}),
    ):
        assert answer.status_code in (200, 201), answer.text
        assert answer.headers["X-Record-Source"] == "hub"
    assert "X-Record-Source" not in client.get("/contacts/1").headers
