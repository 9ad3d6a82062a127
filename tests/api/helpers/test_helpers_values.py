"""Values as people and builders send them: read if there is one reading, else refused by name."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import flask
import pytest

from crmhub.hub import Hub
from crmhub.identity.bindings import of_token
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_TICKET,
    GET_PROPERTIES,
    SET_PROPERTIES,
    known,
    stored,
    switch,
)
from tests.catalogue_properties import define
from tests.clients import Client
from tests.records.meanwhile import at_once

OPTIONS = [
    {"value": "cinema", "label": "Going to the cinema"},
    {"value": "music", "label": "Música"},
    {"value": "theater", "label": "Theatre, opera"},
]


@pytest.fixture
def caller(client: Client) -> Client:
    """A caller whose account has properties of all types that people write in several ways."""
    types = {"birthday": "date", "due": "datetime", "wants_news": "bool", "budget": "currency"}
    for name, type in types.items():
        define(client, "contacts", name, type)
    for name, type in {"interests": "multi_enumeration", "favourite": "enumeration"}.items():
        definition = {"name": name, "label": name, "type": type, "options": OPTIONS}
        assert client.post("/properties/contacts", definition).status_code == 201
    return client


def _set(client: Client, **properties: Any) -> Any:
    answer = client.helper(SET_PROPERTIES, {"contactToken": "t", "props": properties})
    assert answer.status_code in (200, 422), answer.text
    return answer.json


def _stored(client: Client, id: str, name: str, value: Any) -> str:
    """Set a property and return what is stored, the answer's message if nothing is."""
    _set(client, **{name: ""})
    answer = _set(client, **{name: value})
    found = stored(client, id).get(name)
    return found if found is not None else answer["message"]


def test_a_date_with_an_offset_keeps_its_written_day(caller: Client) -> None:
    id = known(caller)
    for value, day in (
        ("1985-03-09T22:30:00-05:00", "1985-03-09"),
        ("1985-03-09T00:00:00+02:00", "1985-03-09"),
        ("1985-03-09T00:00:00+13:00", "1985-03-09"),
    ):
        assert _stored(caller, id, "birthday", value) == day
        changed = caller.patch(f"/contacts/{id}", {"properties": {"birthday": value}})
        assert changed.json["properties"]["birthday"] == day  # type: ignore[index]
    assert _stored(caller, id, "due", "1985-03-09T22:30:00-05:00") == "1985-03-10T03:30:00.000Z"


def test_a_date_is_read_in_the_order_of_the_region(app: flask.Flask, caller: Client) -> None:
    id = known(caller)
    for region, value, day in (
        ("ES", "05/06/1990", "1990-06-05"),
        ("US", "05/06/1990", "1990-05-06"),
        ("US", "31-12-1990", "1990-12-31"),
        ("DE", "5.6.1990", "1990-06-05"),
        ("", "31/12/1990", "1990-12-31"),
        ("", "12.31.1990", "1990-12-31"),
        ("", "07/07/1990", "1990-07-07"),
        ("", "1990/12/31", "1990-12-31"),
    ):
        switch(app, caller, region=region)
        assert _stored(caller, id, "birthday", value) == day, (region, value)
    for region in ("", "CA"):
        switch(app, caller, region=region)
        message = _stored(caller, id, "birthday", "05/06/1990")
        assert "birthday" in message
        assert "1990-06-05" in message
        assert "1990-05-06" in message
    for value in ("31/02/1990", "05/06/90", "5/6"):
        assert "send YYYY-MM-DD" in _stored(caller, id, "birthday", value)


def test_a_number_is_read_as_its_region_writes_it(app: flask.Flask, caller: Client) -> None:
    id = known(caller)
    switch(app, caller, region="BR")
    for value, number in (
        ("R$ 1.234,56", "1234.56"),
        ("R$ 1.500", "1500"),
        ("1,5", "1.5"),
        ("1.234.567", "1234567"),
        ("1.2340", "1.234"),
        (1250.5, "1250.5"),
        (40.712, "40.712"),
    ):
        assert _stored(caller, id, "budget", value) == number, value
    assert "send 1234 or 1.2340" in _stored(caller, id, "budget", "1.234")
    changed = caller.patch(f"/contacts/{id}", {"properties": {"budget": "1.234"}})
    assert changed.json["properties"]["budget"] == "1.234"  # type: ignore[index]


def test_several_options_are_read_however_they_are_joined(caller: Client) -> None:
    id = known(caller)
    for value in (
        ["cinema", "music"],
        '["cinema", "Música"]',
        ["Going to the cinema", "", "MUSIC"],
        "cinema;music",
        "cinema, music",
        "Going to the cinema,Música",
        " Cinema ; mu\u0301sica ",
    ):
        assert _stored(caller, id, "interests", value) == "cinema;music", value
    assert _stored(caller, id, "interests", "Theatre, opera") == "theater"
    assert "not among the options" in _stored(caller, id, "interests", "cinema,nothing")
    assert "an array or an object" in _stored(caller, id, "favourite", ["cinema", "music"])
    assert "an array or an object" in _stored(caller, id, "city", ["Rome", "Bonn"])


def test_a_leading_semicolon_adds_options(caller: Client) -> None:
    id = known(caller)
    _set(caller, interests="cinema;music")
    _set(caller, interests="; Theatre, opera; cinema")
    assert stored(caller, id)["interests"] == "cinema;music;theater"
    caller.patch(f"/contacts/{id}", {"properties": {"interests": "music"}})
    for value in (";cinema", ";cinema"):
        changed = caller.patch(f"/contacts/{id}", {"properties": {"interests": value}})
        assert changed.json["properties"]["interests"] == "music;cinema"  # type: ignore[index]
    new = caller.make(interests=";music", city=";Rome")
    record = caller.get(f"/contacts/{new}").json
    assert record["properties"]["interests"] == "music"  # type: ignore[index]
    assert record["properties"]["city"] == ";Rome"  # type: ignore[index]
    batch = {"idProperty": "email", "id": "ann@x.org", "properties": {"interests": ";theater"}}
    caller.post("/contacts/batch/upsert", {"inputs": [batch]})
    assert stored(caller, id)["interests"] == "music;cinema;theater"


def test_yes_and_no_are_read_in_the_accounts_language(app: flask.Flask, caller: Client) -> None:
    id = known(caller)
    for language, yes, no in (
        ("", "Yes", "no"),
        ("", "1", "0"),
        ("", "on", "OFF"),
        ("es", "Sí", "No."),
        ("pt-BR", "sim", "nao"),
        ("de", "Ja", "nein"),
        ("fr", "oui", "NON"),
        ("it", "si", "no"),
        ("nl", "ja", "nee"),
        ("tr", "Evet", "HAYIR"),
    ):
        switch(app, caller, language=language)
        assert _stored(caller, id, "wants_news", yes) == "true", (language, yes)
        assert _stored(caller, id, "wants_news", no) == "false", (language, no)
    switch(app, caller, language="en")
    assert "wants_news" in _stored(caller, id, "wants_news", "oui")


def test_a_label_stands_for_its_option_in_all_helpers(caller: Client) -> None:
    id = known(caller)
    assert _stored(caller, id, "favourite", "mu\u0301sica") == "music"
    for path, resource, sent, right in (
        (CREATE_DEAL, "deals", {"dealname": "A", "dealtype": "New Business"}, "newbusiness"),
        (CREATE_DEAL, "deals", {"dealname": "B", "dealstage": "closed won"}, "closedwon"),
        (CREATE_DEAL, "deals", {"dealname": "C", "pipeline": "Sales Pipeline"}, "default"),
        (CREATE_TICKET, "tickets", {"subject": "D", "hs_ticket_priority": "High"}, "HIGH"),
        (CREATE_TICKET, "tickets", {"subject": "E", "hs_pipeline_stage": "CLOSED"}, "4"),
    ):
        answer = caller.helper(path, {"contactId": id, "properties": sent}).json
        assert answer["refused"] == ""  # type: ignore[index]
        made = answer["dealId" if resource == "deals" else "ticketId"]  # type: ignore[index]
        record = caller.get(f"/{resource}/{made}").json["properties"]  # type: ignore[index]
        assert record[list(sent)[1]] == right
    refused = caller.patch(f"/contacts/{id}", {"properties": {"favourite": "Música"}})
    assert (refused.status_code, '"music"' in refused.text.replace("\\", "")) == (422, True)


def test_properties_may_be_json_in_a_text(caller: Client) -> None:
    id = known(caller)
    for props in (
        json.dumps({"city": "Rome", "interests": ["music"]}),
        '{"city": "Rome",\n "interests": ["music"], "x": "a\tb\nc"}',
    ):
        body = {"contactToken": "t", "props": props}
        answer = caller.helper(SET_PROPERTIES, body)
        assert answer.status_code == 200, answer.text
        assert stored(caller, id)["interests"] == "music"
    assert stored(caller, id)["x"] == "a\tb\nc"
    deal = {"contactId": id, "properties": json.dumps({"dealname": "By text"})}
    assert caller.helper(CREATE_DEAL, deal).status_code == 200
    for props in (["city", "x"], '["city", "x"]', "city, x"):
        answer = caller.helper(GET_PROPERTIES, {"contactToken": "t", "props": props})
        assert answer.json["city"] == "Rome"  # type: ignore[index]
        assert answer.json["x"] == "a\tb\nc"  # type: ignore[index]
    for props in ("city", "{city}", '{"city"'):
        answer = caller.helper(SET_PROPERTIES, {"contactToken": "t", "props": props})
        assert answer.status_code == 400


def test_blank_values_clear_unless_the_account_says_otherwise(
    app: flask.Flask, caller: Client
) -> None:
    id = known(caller)
    _set(caller, city="Rome", zip="1")
    switch(app, caller, blank_clears=False)
    assert _set(caller, city=" ", zip="2")["status"] == "updated"
    answer = _set(caller, city="", zip=None)
    assert (answer["status"], answer["refused"]) == ("unchanged", "")
    assert (stored(caller, id)["city"], stored(caller, id)["zip"]) == ("Rome", "2")
    switch(app, caller, blank_clears=True)
    _set(caller, city="")
    assert "city" not in stored(caller, id)


def test_a_property_with_a_reserved_name_is_never_blank_without_a_word(caller: Client) -> None:
    known(caller)
    names = ["message", "status", "missing", "city", "contactId"]
    _set(caller, message="Hello there", status="vip", missing="m", city="Rome")
    call = {"contactToken": "t", "props": names}
    flat = caller.helper(GET_PROPERTIES, call).json
    assert (flat["status"], flat["city"]) == ("ok", "Rome")  # type: ignore[index]
    assert flat["properties"]["message"] == "Hello there"  # type: ignore[index]
    for part in ("message", "status", "properties", "prop_message"):
        assert part in flat["message"]  # type: ignore[index]
    assert flat["message"].count("prop_") == 1  # type: ignore[index]
    chatfuel = caller.helper(f"{GET_PROPERTIES}?format=chatfuel", call).json["set_attributes"]  # type: ignore[index]
    assert chatfuel["prop_message"] == "Hello there"
    assert (chatfuel["prop_status"], chatfuel["prop_missing"]) == ("vip", "m")
    # Equal to the key's own value by chance.
    _set(caller, status="ok")
    chatfuel = caller.helper(f"{GET_PROPERTIES}?format=chatfuel", call).json["set_attributes"]  # type: ignore[index]
    assert chatfuel["prop_status"] == "ok"
    path = f"{GET_PROPERTIES}?format=manychat&fields=prop_message,city"
    actions = caller.helper(path, call).json["content"]["actions"]  # type: ignore[index]
    assert {one["field_name"]: one["value"] for one in actions} == {
        "prop_message": "Hello there",
        "city": "Rome",
    }


def test_options_that_are_added_at_once_are_all_there(caller: Client) -> None:
    id = known(caller)
    values = [";cinema", ";music", ";theater"]
    for _ in range(5):
        caller.patch(f"/contacts/{id}", {"properties": {"interests": ""}})
        answers = at_once(
            *(
                partial(caller.patch, f"/contacts/{id}", {"properties": {"interests": value}})
                for value in values
            )
        )
        assert [answer.status_code for answer in answers] == [200] * 3
        assert sorted(stored(caller, id)["interests"].split(";")) == ["cinema", "music", "theater"]


def test_the_last_known_values_have_no_options_to_add(app: flask.Flask, caller: Client) -> None:
    known(caller)
    _set(caller, interests="cinema", city="Rome")
    _set(caller, interests=";music", city="Bonn")
    hub: Hub = app.extensions["crmhub"]
    with hub.database.reading() as connection:
        binding = of_token(connection, caller.account, "t")
    assert binding is not None
    assert binding.last_values["city"] == "Bonn"
    assert not binding.last_values["interests"].startswith(";")
