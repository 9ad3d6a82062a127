"""What no CRM would ever store is 422 at once, also while it waits for a lead or for the CRM."""

from __future__ import annotations

from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.accounts.field_maps import FieldMap
from crmhub.adapter import Unavailable
from crmhub.hub import Hub
from crmhub.operators.crm import map_fields
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_TICKET,
    SET_PROPERTIES,
    known,
    lead,
    switch,
)
from tests.clients import TESTS, Client
from tests.fakes import FakeCrm, fake_client, hubspot_client
from tests.queue.outcomes import open_circuit
from tests.queue.working import rows

pytestmark = pytest.mark.usefixtures("fakes")

Json = Any
TITLES = {CREATE_DEAL: "dealname", CREATE_TICKET: "subject"}


def use_rules(hub: Hub, client: Client, rules: str) -> None:
    """Give the account's connection a field map."""
    name, field_map = client.account.client_id, FieldMap.from_json(rules)
    map_fields.set_field_map(hub, name, field_map, test=False, by=TESTS)


def create(client: Client, path: str, contact_id: str, **properties: Json) -> Json:
    return client.helper(path, {"contactId": contact_id, "properties": properties})


def test_a_call_for_a_waiting_lead_is_refused_at_once(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    crm.failure = Unavailable("no route")
    contact_id = lead(bot).json["contactId"]  # type: ignore[index]
    before = len(rows(hub, bot, "id"))
    for path, title in TITLES.items():
        for properties in (
            {},
            {"amount": "5"},
            {title: "  "},
            {title: None},
            {title: "{{name}}", "amount": "5"},
            {title: ["x"]},
            {title: "x", "pipeline": "{{pipeline}}"},
            {title: "x", "hs_pipeline_stage": "%stage%"},
        ):
            answer = create(bot, path, contact_id, **properties)
            assert answer.status_code == 422, (path, properties, answer.text)
    for props in ({"city": "{{city}}"}, {"city": {"it": "Rome"}}):
        answer = bot.helper(SET_PROPERTIES, {"contactToken": "t", "props": props})
        assert (answer.status_code, "city" in answer.json["message"]) == (422, True)  # type: ignore[index]
    assert len(rows(hub, bot, "id")) == before
    assert create(bot, CREATE_DEAL, contact_id, dealname="D").json["status"] == "queued"


def test_blank_values_of_a_waiting_lead_change_nothing_if_the_account_says_so(
    app: flask.Flask,
    bot: Client,
    crm: FakeCrm,
) -> None:
    crm.failure = Unavailable("no route")
    lead(bot)
    switch(app, bot, blank_clears=False)
    answer = bot.helper(SET_PROPERTIES, {"contactToken": "t", "props": {"city": ""}})
    assert answer.status_code == 202
    answer = bot.helper(SET_PROPERTIES, {"contactToken": "t", "props": {"name": ["A", "B"]}})
    assert (answer.status_code, "name" in answer.json["message"]) == (422, True)  # type: ignore[index]


def test_a_strict_account_refuses_a_waiting_call_with_a_bad_property(
    app: flask.Flask, bot: Client, crm: FakeCrm
) -> None:
    crm.failure = Unavailable("no route")
    contact_id = lead(bot).json["contactId"]  # type: ignore[index]
    sent = {"dealname": "D", "amount": "{{amount}}"}
    assert create(bot, CREATE_DEAL, contact_id, **sent).status_code == 202
    switch(app, bot, strict="true")
    assert create(bot, CREATE_DEAL, contact_id, **sent, city="Rome").status_code == 422


def test_a_repeated_call_is_answered_as_before_although_it_is_invalid_now(
    app: flask.Flask,
    bot: Client,
    crm: FakeCrm,
) -> None:
    contact_id = known(bot)
    key, body = {"Idempotency-Key": "k"}, {"contactId": contact_id}
    body["properties"] = {"dealname": "D", "amount": "{{amount}}"}  # type: ignore[assignment]
    first = bot.helper(CREATE_DEAL, body, headers=key)
    assert first.status_code == 200
    switch(app, bot, strict="true")
    crm.failure = Unavailable("no route")
    again = bot.helper(CREATE_DEAL, body, headers=key)
    assert (again.status_code, again.json["dealId"]) == (200, first.json["dealId"])  # type: ignore[index]


def test_a_nameless_record_is_refused_in_the_same_words_on_every_crm(app: flask.Flask) -> None:
    fake = FakeHubSpot()
    with fake:
        clients = [hubspot_client(app, fake), fake_client(app)[0]]
        for path, title in TITLES.items():
            for client in clients:
                contact_id = known(client)
                for properties in ({}, {"amount": "5", "content": "x"}, {title: " \n"}):
                    answer = create(client, path, contact_id, **properties)
                    expected = f"{title}: it is blank or missing; send a value"
                    assert answer.status_code == 422, answer.text
                    assert expected in answer.json["message"], answer.text
                answer = create(client, path, contact_id, **{title: ["x"]})
                assert (answer.status_code, "an array" in answer.json["message"]) == (422, True)
    assert (fake.deals, fake.tickets) == ({}, {})


def test_a_constant_of_the_field_map_names_a_nameless_deal(app: flask.Flask, hub: Hub) -> None:
    client, crm = fake_client(app)
    contact_id = known(client)
    use_rules(hub, client, '{"deals": {"dealname": {"to": "dealname", "constant": "By bot"}}}')
    assert create(client, CREATE_DEAL, contact_id).status_code == 200
    assert crm.linked[-1][2]["dealname"] == "By bot"


def test_the_title_has_the_name_that_the_field_map_gives_it(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    contact_id = known(bot)
    use_rules(hub, bot, '{"deals": {"what": {"to": "dealname"}}}')
    assert "what: it is blank" in create(bot, CREATE_DEAL, contact_id).json["message"]
    assert create(bot, CREATE_DEAL, contact_id, what="A house").status_code == 200
    assert crm.linked[-1][2] == {"dealname": "A house"}


def test_an_unknown_place_of_a_waiting_deal_is_refused_by_remembered_pipelines(
    app: flask.Flask, hub: Hub
) -> None:
    with FakeHubSpot() as fake:
        client = hubspot_client(app, fake)
        contact_id = known(client)
        assert create(client, CREATE_DEAL, contact_id, dealname="A").status_code == 200
        open_circuit(hub, client.account, "no route", "Unavailable")
        for place, names in (
            ({"dealstage": "won"}, '"closedwon" (Closed Won)'),
            ({"dealstage": "won", "pipeline": "default"}, '"closedwon" (Closed Won)'),
            ({"pipeline": "sales"}, '"default" (Sales Pipeline)'),
        ):
            answer = create(client, CREATE_DEAL, contact_id, dealname="B", **place)
            assert (answer.status_code, names in answer.json["message"]) == (422, True), answer.text
        right = create(client, CREATE_DEAL, contact_id, dealname="B", dealstage="Closed won")
        assert right.json["status"] == "queued"
        # Nothing is known of the pipelines of tickets.
        waiting = create(client, CREATE_TICKET, contact_id, subject="C", hs_pipeline_stage="x")
        assert waiting.json["status"] == "queued"
