"""createDeal and createTicket: linked to the contact, in the right place, or not made at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flask
import pytest

from crmhub.adapter import Conflict, Unavailable
from crmhub.hub import Hub
from crmhub.identity import bindings
from tests.api.helpers.helper_calls import CREATE_DEAL, CREATE_TICKET, OWN, known, lead, switch
from tests.clients import Client
from tests.fakes import FAKE, FakeAdapter, adapters, fake_client
from tests.pages import total
from tests.queue.working import rows


@dataclass(frozen=True)
class Helper:
    path: str
    resource: str
    id: str
    title: str
    pipeline: str
    stage: str
    first: tuple[str, str]
    second: str


DEAL = Helper(
    CREATE_DEAL,
    "deals",
    "dealId",
    "dealname",
    "pipeline",
    "dealstage",
    ("default", "appointmentscheduled"),
    "closedwon",
)
TICKET = Helper(
    CREATE_TICKET,
    "tickets",
    "ticketId",
    "subject",
    "hs_pipeline",
    "hs_pipeline_stage",
    ("0", "1"),
    "2",
)
both = pytest.mark.parametrize("helper", [DEAL, TICKET], ids=["deal", "ticket"])


def _create(client: Client, helper: Helper, contact_id: Any, /, **properties: Any) -> Any:
    body = {"contactId": contact_id, "properties": {helper.title: "Big one", **properties}}
    return client.helper(helper.path, body)


def _record(client: Client, helper: Helper, answer: Any) -> Any:
    return client.get(f"/{helper.resource}/{answer.json[helper.id]}?associations=contacts").json


@both
def test_the_record_is_made_and_linked(client: Client, helper: Helper) -> None:
    contact_id = known(client)
    answer = _create(client, helper, contact_id)
    assert answer.status_code == 200
    assert list(answer.json) == [*OWN, helper.id, "contactId"]
    assert isinstance(answer.json[helper.id], str)
    assert (answer.json["status"], answer.json["contactId"]) == ("created", contact_id)
    record = _record(client, helper, answer)
    assert record["associations"]["contacts"] == [int(contact_id)]
    assert record["properties"] == {
        helper.title: "Big one",
        helper.pipeline: helper.first[0],
        helper.stage: helper.first[1],
    }


@both
def test_the_place_and_further_properties_are_stored(client: Client, helper: Helper) -> None:
    place = {helper.pipeline: helper.first[0], helper.stage: helper.second}
    answer = _create(client, helper, known(client), **place, source_campaign="spring", blank="")
    assert _record(client, helper, answer)["properties"] == {
        helper.title: "Big one",
        **place,
        "source_campaign": "spring",
    }


@both
def test_a_contact_made_through_the_public_api_will_do(client: Client, helper: Helper) -> None:
    contact_id = client.make()
    for sent in (contact_id, str(contact_id), f" {contact_id} "):
        answer = _create(client, helper, sent)
        assert answer.json["contactId"] == str(contact_id)


@both
def test_the_hubs_own_id_of_a_contact_will_do(hub: Hub, client: Client, helper: Helper) -> None:
    contact_id = known(client)
    with hub.database.reading() as connection:
        hub_id = connection.scalar(
            "select hub_id from binding where account_id = :id", {"id": client.account.id}
        )
    assert hub_id.startswith("hub-")
    assert _create(client, helper, hub_id).json["contactId"] == contact_id


@both
@pytest.mark.parametrize("contact_id", ["1", "hub-unknown", "no-such", "9" * 200, -1])
def test_an_unknown_contact_is_404_and_nothing_is_made(
    client: Client, helper: Helper, contact_id: Any
) -> None:
    answer = _create(client, helper, contact_id)
    assert (answer.status_code, "contactId" in answer.json["message"]) == (404, True)
    assert total(client, helper.resource) == 0


@both
def test_a_text_that_can_be_no_id_is_404_at_once(
    app: flask.Flask, hub: Hub, monkeypatch: pytest.MonkeyPatch, helper: Helper
) -> None:
    monkeypatch.setattr(FakeAdapter, "may_be_id", classmethod(lambda _, id: id.startswith("c-")))
    with adapters(app, FAKE):
        client, crm = fake_client(app)
        contact_id = known(client)
        crm.failure, crm.calls = Unavailable("no route"), []
        answer = _create(client, helper, "x-1")
        assert (answer.status_code, answer.json["category"]) == (404, "NotFoundError")
        assert "contactId: there is no contact x-1; send the contactId" in answer.json["message"]
        assert (crm.calls, len(rows(hub, client))) == ([], 1)
        assert _create(client, helper, "c-77").json["status"] == "queued"
        # Whom the hub has met is never refused by the look of an id.
        monkeypatch.setattr(FakeAdapter, "may_be_id", classmethod(lambda _, id: False))
        assert _create(client, helper, contact_id).json["status"] == "queued"


@both
@pytest.mark.parametrize("broken", ["not installed", "a bug"])
def test_an_id_is_accepted_while_nobody_can_tell_whether_it_is_one(
    app: flask.Flask, monkeypatch: pytest.MonkeyPatch, helper: Helper, broken: str
) -> None:
    def may_be_id(cls: type[FakeAdapter], contact_id: str) -> bool:
        raise ValueError(contact_id)

    with adapters(app, FAKE):
        client, crm = fake_client(app)
        crm.failure = Unavailable("no route")
        if broken == "a bug":
            monkeypatch.setattr(FakeAdapter, "may_be_id", classmethod(may_be_id))
            assert _create(client, helper, "x-1").json["status"] == "queued"
    if broken == "not installed":
        assert _create(client, helper, "x-1").json["status"] == "queued"


@both
def test_another_accounts_contact_is_404(client: Client, other: Client, helper: Helper) -> None:
    assert _create(client, helper, known(other)).status_code == 404


@pytest.mark.databases("sqlite")
def test_a_contact_id_that_cannot_be_is_refused(client: Client) -> None:
    for helper in [DEAL, TICKET]:
        for contact_id, status in [
            ("", 422),
            (None, 422),
            ("{{contactId}}", 422),
            ("undefined", 422),
            (0, 422),
            (True, 400),
            (1.5, 400),
            (["1"], 400),
            ({"id": 1}, 400),
            ("x" * 256, 400),
        ]:
            answer = _create(client, helper, contact_id)
            assert (answer.status_code, "contactId" in answer.json["message"]) == (status, True), (
                helper,
                contact_id,
            )


@pytest.mark.databases("sqlite")
def test_a_body_that_cannot_be_read_is_400(client: Client) -> None:
    for helper in [DEAL, TICKET]:
        for body in [
            {},
            {"contactId": "1"},
            {"properties": {}},
            {"contactId": "1", "properties": None},
            {"contactId": "1", "properties": 5},
            {"contactId": "1", "properties": ["a"]},
        ]:
            assert client.helper(helper.path, body).status_code == 400


@both
@pytest.mark.parametrize("value", [["a", "b"], {"a": 1}])
def test_an_array_or_object_is_refused_alone(client: Client, helper: Helper, value: Any) -> None:
    answer = _create(client, helper, known(client), tags=value, **{helper.title: "Title"})
    assert (answer.json["status"], answer.json["refused"]) == ("created", "tags")
    assert "an array or an object" in answer.json["message"]


@pytest.mark.databases("sqlite")
def test_a_record_without_its_title_is_422(client: Client) -> None:
    for helper in [DEAL, TICKET]:
        for title in ["", "  ", None, "{{title}}", ["title"]]:
            answer = _create(client, helper, known(client), **{helper.title: title})
            assert (answer.status_code, helper.title in answer.json["message"]) == (422, True)
            assert total(client, helper.resource) == 0


@both
def test_one_bad_property_is_left_out_and_named(client: Client, helper: Helper) -> None:
    bad = {"Bad Name": "1", "vip": "{{vip}}"}
    answer = _create(client, helper, known(client), **bad, city="Rome")
    assert answer.json["status"] == "created"
    assert answer.json["refused"] == "vip,Bad Name"
    assert _record(client, helper, answer)["properties"]["city"] == "Rome"


@both
def test_a_strict_account_makes_all_or_nothing(
    app: flask.Flask, client: Client, helper: Helper
) -> None:
    contact_id = known(client)
    switch(app, client, strict="true")
    for bad in ({"Bad Name": "1"}, {"vip": "{{vip}}"}):
        assert _create(client, helper, contact_id, **bad).status_code == 422
    assert total(client, helper.resource) == 0


@both
def test_a_place_nobody_has_set_up_is_added(client: Client, helper: Helper) -> None:
    contact_id = known(client)
    for place in (
        {helper.pipeline: "sales", helper.stage: "fresh"},
        {helper.pipeline: "sales", helper.stage: "won"},
        {helper.pipeline: helper.first[0], helper.stage: "fresh eyes"},
        {helper.stage: "another"},
    ):
        answer = _create(client, helper, contact_id, **place)
        assert (answer.status_code, answer.json["refused"]) == (200, "")
        properties = _record(client, helper, answer)["properties"]
        expected = {helper.pipeline: helper.first[0], **place}
        assert {name: properties[name] for name in expected} == expected


@both
def test_a_label_in_any_case_names_its_pipeline_or_stage(client: Client, helper: Helper) -> None:
    contact_id = known(client)
    pipelines = client.get(f"/pipelines/{helper.resource}").json["results"]  # type: ignore[index]
    first = pipelines[0]
    stage = first["stages"][1]
    for n, sent in enumerate(
        (
            {helper.pipeline: first["label"].upper(), helper.stage: stage["id"]},
            {helper.stage: stage["label"]},
            {helper.stage: stage["label"].lower()},
        )
    ):
        answer = _create(client, helper, contact_id, **sent, **{helper.title: f"Title {n}"})
        assert answer.status_code == 200, answer.text
        made = client.get(f"/{helper.resource}/{answer.json[helper.id]}").json
        properties = made["properties"]  # type: ignore[index]
        assert (properties[helper.pipeline], properties[helper.stage]) == (first["id"], stage["id"])
    again = client.get(f"/pipelines/{helper.resource}").json
    assert again["results"] == pipelines  # type: ignore[index]


@both
@pytest.mark.parametrize("place", ["pipeline", "stage"])
@pytest.mark.parametrize("name", ["two\nlines", "a\x01b", "x" * 101])
def test_a_place_that_no_pipeline_could_be_given_by_hand_adds_none(
    client: Client, helper: Helper, place: str, name: str
) -> None:
    answer = _create(client, helper, known(client), **{getattr(helper, place): name})
    assert (answer.status_code, getattr(helper, place) in answer.json["message"]) == (422, True)
    assert total(client, helper.resource) == 0
    pipelines = f"/pipelines/{helper.resource}"
    for each in client.get(pipelines).json["results"]:  # type: ignore[index]
        same = client.patch(f"{pipelines}/{each['id']}", {"stages": each["stages"]})
        assert (same.status_code, same.json) == (200, each)


@both
def test_a_stage_of_another_pipeline_is_422(client: Client, helper: Helper) -> None:
    contact_id = known(client)
    _create(client, helper, contact_id, **{helper.pipeline: "sales", helper.stage: "fresh"})
    wrong = {helper.pipeline: "sales", helper.stage: helper.second}
    answer = _create(client, helper, contact_id, **wrong)
    assert (answer.status_code, helper.stage in answer.json["message"]) == (422, True)
    assert total(client, helper.resource) == 1


@both
@pytest.mark.parametrize("place", ["pipeline", "stage"])
def test_an_unknown_place_is_422_once_the_account_has_made_its_own(
    hub: Hub, client: Client, helper: Helper, place: str
) -> None:
    hub.database.transact(
        lambda tx: tx.run(
            "update account set pipelines_edited = :yes where id = :id",
            {"yes": True, "id": client.account.id},
        )
    )
    hub.directory.forget(client.account.id)
    name = getattr(helper, place)
    answer = _create(client, helper, known(client), **{name: "unknown", "city": "Rome"})
    assert (answer.status_code, name in answer.json["message"]) == (422, True)
    assert total(client, helper.resource) == 0


@both
@pytest.mark.parametrize("place", ["pipeline", "stage"])
def test_an_unreplaced_place_is_422(client: Client, helper: Helper, place: str) -> None:
    answer = _create(client, helper, known(client), **{getattr(helper, place): "{{place}}"})
    assert answer.status_code == 422
    assert total(client, helper.resource) == 0


def test_a_priority_is_taken_in_any_case(client: Client) -> None:
    answer = _create(client, TICKET, known(client), hs_ticket_priority="high")
    assert _record(client, TICKET, answer)["properties"]["hs_ticket_priority"] == "HIGH"


def test_an_id_of_a_connection_that_was_left_is_not_used_again(
    app: flask.Flask, hub: Hub, client: Client
) -> None:
    lead(client)
    with hub.database.reading() as connection:
        hub_id = connection.scalar(
            "select hub_id from binding where account_id = :id", {"id": client.account.id}
        )
    hub.database.transact(
        lambda tx: tx.run(
            "update binding set connection_id = 99 where account_id = :id",
            {"id": client.account.id},
        )
    )
    with hub.database.reading() as connection:
        assert bindings.of_token(connection, client.account, "t") is None
    assert _create(client, DEAL, hub_id).status_code == 404


@pytest.mark.databases("sqlite")
@both
def test_a_record_whose_title_the_crm_refuses_is_422_and_not_made_without_it(
    app: flask.Flask, helper: Helper
) -> None:
    calls: list[str] = []

    def refuse_once(call: str) -> None:
        calls.append(call)
        if calls.count("create_for_contact") == 1:
            raise Conflict("another one has this title", existing_id="5", name=helper.title)

    with adapters(app, FAKE):
        client, crm = fake_client(app)
        contact_id = lead(client).json["contactId"]
        crm.during = refuse_once
        answer = _create(client, helper, contact_id, city="Rome")
    assert (answer.status_code, helper.title in answer.json["message"]) == (422, True)
    assert crm.linked == []
