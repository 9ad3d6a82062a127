"""The property catalogue: `/properties/{resource}`."""

from __future__ import annotations

import hashlib
from typing import Any

import flask
import pytest

from crmhub.bounds import MAX_OPTIONS, MAX_PROPERTIES
from crmhub.properties.catalogue import FIELDS
from crmhub.properties.validation import NAME
from tests.api.helpers.helper_calls import switch
from tests.api.refusals import refused
from tests.clients import Client, open_client

Json = Any
COLOURS = [{"value": "red", "label": "Red"}, {"value": "blue", "label": "Blue"}]
KINDS = ["contacts", "deals", "companies", "tickets"]


def define(client: Client, name: str, type: str = "string", /, **more: Json) -> Json:
    """Define a property of contacts, which must work, and return its definition."""
    answer = client.post("/properties/contacts", {"name": name, "type": type, **more})
    assert answer.status_code == 201, answer.text
    return answer.json


def found(client: Client, property_name: str, operator: str, **given: Json) -> list[int]:
    """Return the ids of the contacts that a filter finds."""
    condition = {"propertyName": property_name, "operator": operator, **given}
    answer = client.post("/contacts/search", {"filters": [condition]})
    assert answer.status_code == 200, answer.text
    return sorted(each["id"] for each in answer.json["results"])


def option_values(client: Client, path: str) -> list[str]:
    return [each["value"] for each in client.get(path).json["options"]]


# --- reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", KINDS)
def test_the_list_is_one_page_of_all_definitions(client: Client, resource: str) -> None:
    page = client.get(f"/properties/{resource}").json
    assert set(page) == {"total", "results", "cursor", "hasMore"}
    assert page["total"] == len(page["results"]) > 10
    assert (page["cursor"], page["hasMore"]) == ({"next": "", "nextLink": ""}, False)
    for definition in page["results"]:
        assert list(definition) == [
            "name", "label", "type", "description", "required", "unique", "readOnly", "options",
        ]  # fmt: skip


def test_one_definition_reads_as_it_is_listed(client: Client) -> None:
    email = client.get("/properties/contacts/email").json
    assert email in client.get("/properties/contacts").json["results"]
    assert email == {
        "name": "email",
        "label": "Email",
        "type": "email",
        "description": "Identifies the contact: no two have the same",
        "required": False,
        "unique": True,
        "readOnly": False,
        "options": [],
    }


def test_the_options_of_a_stage_property_are_the_stages(client: Client) -> None:
    options = client.get("/properties/deals/dealstage").json["options"]
    assert {"value": "closedwon", "label": "Closed Won"} in options
    assert option_values(client, "/properties/deals/pipeline") == ["default"]


@pytest.mark.parametrize("path", ["/properties/leads", "/properties/leads/email"])
def test_an_unknown_resource_is_not_found(client: Client, path: str) -> None:
    assert "contacts or deals or companies or tickets" in refused(client.get(path), 404)
    refused(client.patch(path, {}) if path.count("/") > 2 else client.post(path, {}), 404)


@pytest.mark.parametrize("name", ["nothing", "Email", "%20", "a" * 3000, "é", "createdate"])
def test_an_unknown_property_is_not_found(client: Client, name: str) -> None:
    path = f"/properties/contacts/{name}"
    refused(client.get(path), 404)
    refused(client.patch(path, {"label": "x"}), 404)
    refused(client.delete(path), 404)


# --- defining --------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", KINDS)
def test_a_defined_property_can_be_written_read_and_found(client: Client, resource: str) -> None:
    made = client.post(f"/properties/{resource}", {"name": "shoe_size", "type": "number"})
    assert made.status_code == 201
    assert made.json == client.get(f"/properties/{resource}/shoe_size").json
    id = client.make(resource, shoe_size="042.0")
    assert client.get(f"/{resource}/{id}").json["properties"]["shoe_size"] == "42"
    condition = {"propertyName": "shoe_size", "operator": "GT", "value": "41"}
    page = client.post(f"/{resource}/search", {"filters": [condition]}).json
    assert [each["id"] for each in page["results"]] == [id]


def test_a_definition_is_answered_whole(client: Client) -> None:
    definition = {
        "name": "colour",
        "label": "Favourite colour",
        "type": "enumeration",
        "description": "Of the\ncar",
        "required": True,
        "unique": False,
        "readOnly": False,
        "options": COLOURS,
    }
    answer = client.post("/properties/contacts", definition)
    assert (answer.status_code, answer.json) == (201, definition)


@pytest.mark.parametrize("label", [{}, {"label": ""}, {"label": "  "}])
def test_a_label_is_made_of_the_name_when_there_is_none(client: Client, label: Json) -> None:
    assert define(client, "date_of_first_visit", "date", **label)["label"] == "Date of first visit"


def test_an_option_without_a_label_is_shown_by_its_value(client: Client) -> None:
    made = define(client, "colour", "multi_enumeration", options=[{"value": "red"}])
    assert made["options"] == [{"value": "red", "label": "red"}]


def test_a_name_that_is_taken_conflicts(client: Client) -> None:
    define(client, "colour")
    again = client.post("/properties/contacts", {"name": "colour", "type": "number"})
    assert "/properties/contacts/colour" in refused(again, 409)
    built_in = client.post("/properties/contacts", {"name": "email", "type": "email"})
    assert refused(built_in, 409)
    assert client.get("/properties/contacts/colour").json["type"] == "string"


def test_resources_and_accounts_have_their_own_names(client: Client, other: Client) -> None:
    define(client, "colour")
    for mine, path in ((client, "deals"), (other, "contacts")):
        assert mine.get(f"/properties/{path}/colour").status_code == 404
        made = mine.post(f"/properties/{path}", {"name": "colour", "type": "number"})
        assert made.status_code == 201
    assert client.get("/properties/contacts/colour").json["type"] == "string"


@pytest.mark.parametrize("name", [name for name in FIELDS if NAME.fullmatch(name)])
def test_a_field_of_the_record_is_no_name_for_a_property(client: Client, name: str) -> None:
    answer = client.post("/properties/contacts", {"name": name, "type": "string"})
    assert "choose another name" in refused(answer, 409)


@pytest.mark.parametrize("name", [name for name in FIELDS if NAME.fullmatch(name)])
def test_a_field_of_the_record_is_never_defined_by_a_write(
    app: flask.Flask, client: Client, name: str
) -> None:
    switch(app, client, auto_define_properties="true")
    body = {"properties": {"email": "a@b.co", name: "1", "new_one": "x"}}
    answer = client.post("/contacts", body)
    assert f"properties.{name}: a field of the record" in refused(answer, 422)
    del body["properties"][name]
    assert client.post("/contacts", body).status_code == 201


@pytest.mark.databases("sqlite")
def test_what_is_no_definition_is_a_bad_request(client: Client) -> None:
    for body, place in [
        ({"type": "string"}, "name: is missing"),
        ({"name": "colour"}, "type: is missing"),
        ({"name": "colour", "type": "colour"}, "type: must be one of string, text"),
        ({"name": "colour", "type": 1}, "type: must be"),
        ({"name": 7, "type": "string"}, "name: must be a string"),
        ({"name": "Colour", "type": "string"}, "name: a property name is"),
        ({"name": "9lives", "type": "string"}, "name: a property name is"),
        ({"name": "a-b", "type": "string"}, "name: a property name is"),
        ({"name": "a\n", "type": "string"}, "name: a property name is"),
        ({"name": "a" * 101, "type": "string"}, "name: a property name is"),
        ({"name": "", "type": "string"}, "name: a property name is"),
        ({"name": "colour", "type": "string", "color": 1}, "color: is not known here"),
        ({"name": "colour", "type": "string", "hidden": True}, "hidden: is not known here"),
        ({"name": "colour", "type": "string", "required": "yes"}, "required: must be true or"),
        ({"name": "colour", "type": "string", "unique": 1}, "unique: must be true or false"),
        ({"name": "colour", "type": "string", "readOnly": None}, "readOnly: must be true or"),
        ({"name": "colour", "type": "string", "label": "x" * 256}, "label: 256 characters"),
        ({"name": "colour", "type": "string", "label": "a\nb"}, "label: holds a line break"),
        ({"name": "colour", "type": "string", "label": None}, "label: must be a string"),
        ({"name": "colour", "type": "string", "description": "x" * 4001}, "description: 4001"),
        ({"name": "colour", "type": "enumeration", "options": {}}, "options: must be an array"),
        ({"name": "colour", "type": "enumeration", "options": ["red"]}, "options[0]: must be"),
        ({"name": "colour", "type": "enumeration", "options": [{}]}, "options[0].value: is miss"),
    ]:
        before = client.get("/properties/contacts").json
        assert place in refused(client.post("/properties/contacts", body), 400)
        assert client.get("/properties/contacts").json == before, (body, place)


@pytest.mark.databases("sqlite")
def test_an_option_value_must_be_one_that_can_be_sent(client: Client) -> None:
    for value, reason in [
        ("", "blank"),
        (" ", "blank"),
        (" red", "blank"),
        ("red\u00a0", "blank"),
        ("a;b", "semicolon"),
        ("a\tb", "control character"),
        ("x" * 256, "256 characters"),
        ("blue", "the same as options[0].value"),
    ]:
        options = [{"value": "blue"}, {"value": value, "label": "x"}]
        body = {"name": "colour", "type": "multi_enumeration", "options": options}
        message = refused(client.post("/properties/contacts", body), 400)
        assert message.startswith("options[1].value: "), (value, reason)
        assert reason in message


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"type": "enumeration"}, "options: "),
        ({"type": "multi_enumeration", "options": []}, "options: "),
        ({"type": "string", "options": COLOURS}, "options: only enumeration"),
        ({"type": "bool", "unique": True}, "unique: only these types"),
        ({"type": "enumeration", "options": COLOURS, "unique": True}, "unique: only these"),
        ({"type": "string", "required": True, "readOnly": True}, "readOnly: a required"),
    ],
)
def test_a_definition_that_contradicts_itself_is_semantic(
    client: Client, body: Json, place: str
) -> None:
    answer = client.post("/properties/contacts", {"name": "colour", **body})
    assert refused(answer, 422).startswith(place)
    refused(client.get("/properties/contacts/colour"), 404)


def test_every_fault_of_a_definition_is_named_at_once(client: Client) -> None:
    options = [{"value": ""}, {"value": "a;b", "label": "x" * 300}]
    body = {"name": "A", "type": "enumeration", "label": "\x01", "options": options}
    message = refused(client.post("/properties/contacts", body), 400)
    for place in ("name: ", "label: ", "options[0].value: ", "options[1].value: "):
        assert place in message
    assert "options[1].label: " in message


def test_there_is_an_end_to_properties(client: Client) -> None:
    left = MAX_PROPERTIES - client.get("/properties/tickets").json["total"]
    names = [f"p{i}" for i in range(left)]
    # Helper writes define what they name, a batch of properties at a time.
    for i in range(0, left, 200):
        properties = {"subject": "x", **dict.fromkeys(names[i : i + 200], "1")}
        contact = client.make()
        body = {"contactId": str(contact), "properties": properties}
        made = client.helper("/crm-api-interface/createTicket/{portal}", body)
        assert made.status_code == 200, made.text
    answer = client.post("/properties/tickets", {"name": "one_more", "type": "string"})
    assert str(MAX_PROPERTIES) in refused(answer, 422)


def test_there_is_an_end_to_options(client: Client) -> None:
    options = [{"value": str(i)} for i in range(MAX_OPTIONS - 50)]
    define(client, "many", "enumeration", options=options)
    more = [{"value": str(i)} for i in range(51)]
    body = {"name": "more", "type": "enumeration", "options": more}
    assert str(MAX_OPTIONS) in refused(client.post("/properties/contacts", body), 422)
    refused(client.patch("/properties/contacts/many", {"options": options + more}), 400)
    assert client.patch("/properties/contacts/many", {"options": more}).status_code == 200


# --- changing --------------------------------------------------------------------------------


def test_a_patch_changes_what_it_names_and_leaves_the_rest(client: Client) -> None:
    before = define(client, "colour", "enumeration", description="old", options=COLOURS)
    answer = client.patch("/properties/contacts/colour", {"label": "Hue", "description": "new"})
    assert answer.status_code == 200
    assert answer.json == {**before, "label": "Hue", "description": "new"}
    assert client.get("/properties/contacts/colour").json == answer.json


def test_a_definition_can_be_sent_back_as_it_was_read(client: Client) -> None:
    for path in ("contacts/email", "deals/dealstage", "tickets/hs_ticket_priority"):
        definition = client.get(f"/properties/{path}").json
        answer = client.patch(f"/properties/{path}", definition)
        assert (answer.status_code, answer.json) == (200, definition)
    assert client.patch("/properties/contacts/email", {}).status_code == 200


@pytest.mark.parametrize("change", [{"type": "text"}, {"name": "hue"}])
def test_name_and_type_stay_and_the_refusal_says_what_to_do(client: Client, change: Json) -> None:
    define(client, "colour")
    message = refused(client.patch("/properties/contacts/colour", change), 422)
    assert message.startswith(f"{next(iter(change))}: ")
    assert "define another property, copy the values, delete this one" in message


@pytest.mark.parametrize("change", [{"required": True}, {"unique": True}, {"readOnly": True}])
def test_the_flags_of_a_built_in_property_stay(client: Client, change: Json) -> None:
    path = "/properties/contacts/firstname"
    assert "built in" in refused(client.patch(path, change), 409)
    assert client.patch(path, {"label": "Given name"}).json["label"] == "Given name"


def test_options_of_a_built_in_property_can_be_changed(client: Client) -> None:
    path = "/properties/contacts/lifecyclestage"
    options = [*client.get(path).json["options"], {"value": "fan", "label": "Fan"}]
    assert client.patch(path, {"options": options}).status_code == 200
    client.make(lifecyclestage="fan")


def test_options_from_the_pipelines_are_changed_there(client: Client) -> None:
    for path in ("deals/dealstage", "deals/pipeline", "tickets/hs_pipeline_stage"):
        answer = client.patch(f"/properties/{path}", {"options": COLOURS})
        assert f"/pipelines/{path.partition('/')[0]}" in refused(answer, 409)


def test_two_options_that_differ_in_case_cannot_stand_where_any_case_is_taken(
    client: Client,
) -> None:
    path = "/properties/tickets/hs_ticket_priority"
    options = [{"value": "LOW"}, {"value": "low"}]
    assert "options[1].value: the same" in refused(client.patch(path, {"options": options}), 400)
    define(client, "size", "enumeration", options=options)


def test_an_option_that_no_record_has_can_go(client: Client) -> None:
    define(client, "colour", "enumeration", options=COLOURS)
    client.make(colour="red")
    answer = client.patch("/properties/contacts/colour", {"options": COLOURS[:1]})
    assert answer.json["options"] == COLOURS[:1]
    answer = client.post("/contacts", {"properties": {"firstname": "A", "colour": "blue"}})
    assert "properties.colour" in refused(answer, 422)


def test_a_new_option_can_be_written_and_found(client: Client) -> None:
    define(client, "colour", "enumeration", options=COLOURS)
    options = [*COLOURS, {"value": "green", "label": "Green"}]
    client.patch("/properties/contacts/colour", {"options": options})
    id = client.make(colour="green")
    assert found(client, "colour", "EQ", value="green") == [id]


@pytest.mark.parametrize(
    ("type", "values"),
    [("enumeration", ["red", "red", "blue"]), ("multi_enumeration", ["red", "red;blue", "blue"])],
)
def test_an_option_that_records_have_stays(client: Client, type: str, values: list[str]) -> None:
    define(client, "colour", type, options=COLOURS)
    for value in values:
        client.make(colour=value)
    answer = client.patch("/properties/contacts/colour", {"options": COLOURS[1:]})
    assert 'options: 2 contacts have the value "red"' in refused(answer, 409)
    assert option_values(client, "/properties/contacts/colour") == ["red", "blue"]


def test_a_long_choice_of_many_options_counts_too(client: Client) -> None:
    options = [{"value": f"option number {i}"} for i in range(40)]
    define(client, "picks", "multi_enumeration", options=options)
    client.make(picks=";".join(each["value"] for each in options))
    answer = client.patch("/properties/contacts/picks", {"options": options[:-1]})
    assert '1 contact has the value "option number 39"' in refused(answer, 409)


def test_an_option_of_archived_records_can_go(client: Client) -> None:
    define(client, "colour", "enumeration", options=COLOURS)
    client.delete(f"/contacts/{client.make(colour='red')}")
    answer = client.patch("/properties/contacts/colour", {"options": COLOURS[1:]})
    assert answer.status_code == 200


def test_other_accounts_options_do_not_stand_in_the_way(client: Client, other: Client) -> None:
    for each in (client, other):
        define(each, "colour", "enumeration", options=COLOURS)
    other.make(colour="red")
    answer = client.patch("/properties/contacts/colour", {"options": COLOURS[1:]})
    assert answer.status_code == 200


def test_a_read_only_property_is_refused_in_writes_until_it_is_not(client: Client) -> None:
    define(client, "score", "number", readOnly=True)
    body = {"properties": {"firstname": "Ada", "score": 1}}
    assert "read-only" in refused(client.post("/contacts", body), 422)
    client.patch("/properties/contacts/score", {"readOnly": False})
    assert client.post("/contacts", body).status_code == 201


# --- required --------------------------------------------------------------------------------


def test_records_without_a_value_live_on_when_a_property_becomes_required(client: Client) -> None:
    define(client, "vat_id")
    id = client.make()
    client.patch("/properties/contacts/vat_id", {"required": True})
    changed = client.patch(f"/contacts/{id}", {"properties": {"city": "Rome"}})
    assert changed.status_code == 200, changed.text
    body = {"inputs": [{"id": id, "properties": {"city": "Bonn", "vat_id": ""}}]}
    assert client.post("/contacts/batch/update", body).status_code == 200
    refused(client.post("/contacts", {"properties": {"firstname": "Bo"}}), 422)


def test_an_update_may_not_clear_a_required_property(client: Client) -> None:
    define(client, "vat_id")
    id = client.make(vat_id="7")
    client.patch("/properties/contacts/vat_id", {"required": True})
    for blank in ("", None):
        answer = client.patch(f"/contacts/{id}", {"properties": {"vat_id": blank, "city": "x"}})
        assert "properties.vat_id: " in refused(answer, 422)
    assert client.patch(f"/contacts/{id}", {"properties": {"vat_id": "8"}}).status_code == 200
    client.patch("/properties/contacts/vat_id", {"required": False})
    assert client.patch(f"/contacts/{id}", {"properties": {"vat_id": ""}}).status_code == 200


def test_a_contact_keeps_at_least_one_of_its_names(client: Client) -> None:
    id = client.make(firstname="Ada", lastname="Lovelace")
    assert client.patch(f"/contacts/{id}", {"properties": {"firstname": ""}}).status_code == 200
    answer = client.patch(f"/contacts/{id}", {"properties": {"lastname": "", "city": "x"}})
    assert "at least one of" in refused(answer, 422)


# --- unique ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "value", "same", "different"),
    [
        ("string", "A-1", "A-1", "a-1"),
        ("text", "x" * 300, "x" * 300, "x" * 301),
        ("number", "7", "07.0", "8"),
        ("email", "a@b.co", "A@B.co", "b@b.co"),
        ("url", "https://a.example", "https://a.example", "https://a.example/"),
    ],
)
def test_a_unique_property_identifies_records(
    client: Client, type: str, value: str, same: str, different: str
) -> None:
    define(client, "code", type, unique=True)
    id = client.make(code=value)
    again = client.post("/contacts", {"properties": {"firstname": "Bo", "code": same}})
    assert refused(again, 409).endswith(f"Existing ID: {id}")
    client.make(code=different)
    body = {"idProperty": "code", "inputs": [{"id": same}]}
    assert [r["id"] for r in client.post("/contacts/batch/read", body).json] == [id]
    upsert = {"inputs": [{"idProperty": "code", "id": same, "properties": {"city": "Rome"}}]}
    [upserted] = client.post("/contacts/batch/upsert", upsert).json
    assert (upserted["id"], upserted["new"]) == (id, False)


@pytest.mark.parametrize("type", ["string", "number", "phone"])
def test_a_property_with_values_can_become_unique(client: Client, type: str) -> None:
    define(client, "code", type)
    ids = [client.make(code=f"4930123456{i}") for i in range(3)]
    client.make()
    answer = client.patch("/properties/contacts/code", {"unique": True})
    assert (answer.status_code, answer.json["unique"]) == (200, True)
    again = client.post("/contacts", {"properties": {"firstname": "x", "code": "49301234561"}})
    assert refused(again, 409).endswith(f"Existing ID: {ids[1]}")
    assert client.get("/contacts/49301234560?idProperty=code").json["id"] == ids[0]


@pytest.mark.parametrize("value", ["A-1", "x" * 300])
def test_values_that_repeat_keep_a_property_from_becoming_unique(
    client: Client, value: str
) -> None:
    define(client, "code")
    client.make(code="other")
    first, second = client.make(code=value), client.make(code=value)
    message = refused(client.patch("/properties/contacts/code", {"unique": True}), 409)
    assert f"contacts {first} and {second} have the same code" in message
    assert message.endswith(f"Existing ID: {first}")
    assert client.get("/properties/contacts/code").json["unique"] is False
    client.make(code=value)


def test_a_value_that_looks_like_a_digest_is_itself(client: Client) -> None:
    define(client, "code", unique=True)
    client.make(code="x" * 300)
    digest = f"sha256:{hashlib.sha256(b'x' * 300).hexdigest()}"
    refused(client.get(f"/contacts/{digest}?idProperty=code"), 404)
    made = client.make(code=digest)
    assert client.get(f"/contacts/{digest}?idProperty=code").json["id"] == made


def test_the_same_value_in_another_account_or_resource_does_not_repeat(
    client: Client, other: Client
) -> None:
    for each in (client, other):
        define(each, "code")
        each.make(code="A-1")
    client.post("/properties/deals", {"name": "code", "type": "string"})
    client.make("deals", code="A-1")
    assert client.patch("/properties/contacts/code", {"unique": True}).status_code == 200
    assert other.post("/contacts", {"properties": {"code": "A-1", "phone": "1"}}).status_code == 201


def test_a_property_that_is_unique_no_more_frees_its_values(client: Client) -> None:
    define(client, "code", unique=True)
    first = client.make(code="A-1")
    client.patch("/properties/contacts/code", {"unique": False})
    second = client.make(code="A-1")
    refused(client.get("/contacts/A-1?idProperty=code"), 400)
    for i, id in enumerate((first, second)):
        client.patch(f"/contacts/{id}", {"properties": {"code": f"B-{i}"}})
    assert client.patch("/properties/contacts/code", {"unique": True}).status_code == 200
    assert client.get("/contacts/B-1?idProperty=code").json["id"] == second
    client.make(code="A-1")


# --- deleting --------------------------------------------------------------------------------


def test_a_property_without_values_is_deleted(client: Client) -> None:
    define(client, "colour")
    answer = client.delete("/properties/contacts/colour")
    assert (answer.status_code, answer.data) == (204, b"")
    refused(client.get("/properties/contacts/colour"), 404)
    refused(client.delete("/properties/contacts/colour"), 404)
    body = {"properties": {"firstname": "Ada", "colour": "red"}}
    assert "no such property" in refused(client.post("/contacts", body), 422)


def test_a_property_that_was_never_filled_and_one_filled_in_another_account_go(
    client: Client, other: Client
) -> None:
    for each in (client, other):
        define(each, "colour")
    id = other.make(colour="red")
    assert client.delete("/properties/contacts/colour").status_code == 204
    assert other.get(f"/contacts/{id}").json["properties"]["colour"] == "red"


@pytest.mark.parametrize("query", ["", "?force=false"])
def test_a_property_with_values_is_deleted_only_by_force(client: Client, query: str) -> None:
    define(client, "colour")
    ids = [client.make(colour="red"), client.make(colour="blue")]
    message = refused(client.delete(f"/properties/contacts/colour{query}"), 409)
    assert message.startswith("2 contacts have a value of colour")
    assert "?force=true" in message
    assert found(client, "colour", "HAS_PROPERTY") == ids


@pytest.mark.parametrize("query", ["force=1", "force=True", "force=", "Force=true", "x=1"])
def test_force_is_the_word_true_or_the_word_false(client: Client, query: str) -> None:
    define(client, "colour")
    client.make(colour="red")
    refused(client.delete(f"/properties/contacts/colour?{query}"), 400)
    assert client.get("/properties/contacts/colour").status_code == 200


@pytest.mark.parametrize(
    ("type", "value", "more"),
    [
        ("string", "Ä€𝄞\\\"'{}", {}),
        ("text", "x" * 300, {"unique": True}),
        ("number", "7", {"unique": True}),
        ("date", "2026-01-31", {}),
        ("multi_enumeration", "red;blue", {"options": COLOURS}),
    ],
)
def test_force_takes_the_values_out_of_all_records(
    client: Client, type: str, value: str, more: Json
) -> None:
    define(client, "gone", type, **more)
    kept = {"firstname": "Ä€𝄞\\\"'{}", "lastname": "null", "website": "a.example/?a=1"}
    id = client.make(**kept, gone=value)
    untouched = client.make(city="Rome")
    assert client.delete("/properties/contacts/gone?force=true").status_code == 204
    assert client.get(f"/contacts/{id}").json["properties"] == kept
    listed = {each["id"]: each["properties"] for each in client.get("/contacts").json["results"]}
    assert listed == {id: kept, untouched: {"firstname": "Ada", "city": "Rome"}}
    condition = {"propertyName": "gone", "operator": "HAS_PROPERTY"}
    refused(client.post("/contacts/search", {"filters": [condition]}), 422)


def test_a_name_that_was_deleted_starts_afresh_with_another_type(client: Client) -> None:
    define(client, "code", unique=True)
    client.make(code="A-1")
    client.delete("/properties/contacts/code?force=true")
    define(client, "code", "number", unique=True)
    assert found(client, "code", "HAS_PROPERTY") == []
    id = client.make(code="1")
    assert found(client, "code", "LT", value="2") == [id]


def test_a_forced_deletion_is_seen_by_if_match_and_not_by_the_order_of_change(
    client: Client,
) -> None:
    define(client, "colour")
    id = client.make(colour="red")
    before = client.get(f"/contacts/{id}")
    plain = client.get(f"/contacts/{client.make()}").headers["ETag"]
    client.delete("/properties/contacts/colour?force=true")
    after = client.get(f"/contacts/{id}")
    assert after.json["updatedAt"] == before.json["updatedAt"]
    assert after.headers["ETag"] != before.headers["ETag"]
    change = {"properties": {"city": "Rome"}}
    stale = client.patch(f"/contacts/{id}", change, headers={"If-Match": before.headers["ETag"]})
    refused(stale, 409)
    [other] = [r["id"] for r in client.get("/contacts").json["results"] if r["id"] != id]
    assert client.get(f"/contacts/{other}").headers["ETag"] == plain


@pytest.mark.parametrize("path", ["contacts/email", "contacts/city", "deals/pipeline"])
def test_a_built_in_property_cannot_be_deleted(client: Client, path: str) -> None:
    for query in ("", "?force=true"):
        assert "built in" in refused(client.delete(f"/properties/{path}{query}"), 409)


def test_an_archived_record_does_not_hold_a_property(client: Client) -> None:
    define(client, "colour")
    client.delete(f"/contacts/{client.make(colour='red')}")
    assert client.delete("/properties/contacts/colour").status_code == 204


# --- any text --------------------------------------------------------------------------------


def test_a_label_may_hold_any_character_of_any_language(app: flask.Flask) -> None:
    client = open_client(app)
    label = "Größe 👩‍💻 ٣ \u202eabc % _ ' \" {0}"
    assert define(client, "size", label=label, description=label)["label"] == label
    assert client.get("/properties/contacts/size").json["description"] == label


@pytest.mark.parametrize(
    ("value", "encoded"), [("A/1", "A%2F1"), ("search", "search"), ("merge", "merge")]
)
def test_a_value_that_cannot_stand_in_a_path_is_read_in_a_batch(
    client: Client, value: str, encoded: str
) -> None:
    define(client, "code", unique=True)
    id = client.make(code=value)
    assert "batch/read" in refused(client.get(f"/contacts/{encoded}?idProperty=code"), 404, 405)
    body = {"idProperty": "code", "inputs": [{"id": value}]}
    assert [r["id"] for r in client.post("/contacts/batch/read", body).json] == [id]
