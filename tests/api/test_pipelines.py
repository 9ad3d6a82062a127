"""Pipelines and their stages: `/pipelines/{deals|tickets}`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from crmhub.bounds import MAX_PIPELINES, MAX_STAGES
from tests.api.refusals import refused
from tests.clients import Client

Json = Any
KINDS = ["deals", "tickets"]
PLACES = {"deals": ("pipeline", "dealstage"), "tickets": ("hs_pipeline", "hs_pipeline_stage")}
TWO = [{"label": "Open"}, {"label": "Done", "closed": True}]


def add(client: Client, resource: str = "deals", **more: Json) -> Json:
    """Add a pipeline of two stages, which must work, and return it."""
    answer = client.post(f"/pipelines/{resource}", {"label": "New", "stages": TWO, **more})
    assert answer.status_code == 201, answer.text
    return answer.json


def ids(pipeline: Json) -> list[str]:
    return [stage["id"] for stage in pipeline["stages"]]


def placed(client: Client, resource: str, id: int) -> tuple[str, str]:
    """Return the pipeline and the stage that a record is in."""
    properties = client.get(f"/{resource}/{id}").json["properties"]
    pipeline, stage = PLACES[resource]
    return properties[pipeline], properties[stage]


def make_in(client: Client, resource: str, pipeline: str, stage: str = "") -> int:
    names = PLACES[resource]
    given = dict(zip(names, (pipeline, stage), strict=True))
    return client.make(resource, **{name: value for name, value in given.items() if value})


# --- reading ---------------------------------------------------------------------------------


def test_an_account_starts_with_hubspots_pipelines(client: Client) -> None:
    page = client.get("/pipelines/deals").json
    assert set(page) == {"total", "results", "cursor", "hasMore"}
    assert (page["total"], page["hasMore"]) == (1, False)
    assert page["cursor"] == {"next": "", "nextLink": ""}
    [deals] = page["results"]
    assert (deals["id"], deals["label"]) == ("default", "Sales Pipeline")
    assert deals["stages"][0] == {
        "id": "appointmentscheduled",
        "label": "Appointment Scheduled",
        "probability": "0.2",
        "closed": False,
    }
    [tickets] = client.get("/pipelines/tickets").json["results"]
    assert tickets == client.get("/pipelines/tickets/0").json
    assert tickets["stages"][3] == {"id": "4", "label": "Closed", "closed": True}


@pytest.mark.parametrize("resource", ["contacts", "companies", "leads", "Deals"])
def test_only_deals_and_tickets_have_pipelines(client: Client, resource: str) -> None:
    assert "deals or tickets" in refused(client.get(f"/pipelines/{resource}"), 404)
    body = {"label": "x", "stages": TWO}
    refused(client.post(f"/pipelines/{resource}", body), 404)


@pytest.mark.parametrize("id", ["none", "a/b", "%F0%9D%84%9E", "Default", "a" * 3000])
def test_an_unknown_pipeline_is_not_found(client: Client, id: str) -> None:
    path = f"/pipelines/deals/{id}"
    for answer in (client.get(path), client.patch(path, {"label": "x"}), client.delete(path)):
        refused(answer, 404)


# --- adding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", KINDS)
def test_a_pipeline_gets_short_ids_and_takes_records(client: Client, resource: str) -> None:
    made = add(client, resource)
    assert client.get(f"/pipelines/{resource}/{made['id']}").json == made
    assert client.get(f"/pipelines/{resource}").json["results"][-1] == made
    issued = [made["id"], *ids(made)]
    assert len(set(issued)) == 3
    assert all(id.isdigit() and len(id) <= 6 for id in issued)
    assert placed(client, resource, make_in(client, resource, made["id"])) == (issued[0], issued[1])
    assert placed(client, resource, make_in(client, resource, "", issued[2])) == (
        issued[0],
        issued[2],
    )


def test_a_stage_shows_what_was_given_and_what_was_not(client: Client) -> None:
    stages = [{"label": " Open "}, {"label": "Won", "probability": 1, "closed": True}]
    made = add(client, stages=stages)
    first, second = made["stages"]
    assert {**first, "id": ""} == {"id": "", "label": "Open", "closed": False}
    assert {**second, "id": ""} == {
        "id": "",
        "label": "Won",
        "probability": "1.0",
        "closed": True,
    }


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (0, "0.0"),
        (1, "1.0"),
        (0.25, "0.25"),
        ("0.5", "0.5"),
        ("1.00", "1.0"),
        ("00.10", "0.1"),
        ("1e-2", "0.01"),
        (" 0.2 ", "0.2"),
    ],
)
def test_a_probability_is_a_number_or_its_text(client: Client, given: Json, shown: str) -> None:
    stage = {"label": "Open", "probability": given}
    made = add(client, stages=[stage])
    assert made["stages"][0]["probability"] == shown
    assert Decimal(shown) == Decimal(str(given).strip())


@pytest.mark.parametrize("given", [None, ""])
def test_a_probability_can_be_left_open(client: Client, given: Json) -> None:
    made = add(client, stages=[{"label": "Open", "probability": given}])
    assert "probability" not in made["stages"][0]


@pytest.mark.databases("sqlite")
def test_what_is_no_probability_is_refused(client: Client) -> None:
    for given in [-0.1, 1.01, "2", "50 %", "x", "NaN", "1e999999999", 1 / 3]:
        body = {"label": "x", "stages": [{"label": "Open", "probability": given}]}
        message = refused(client.post("/pipelines/deals", body), 400)
        assert message.startswith("stages[0].probability: send a number from 0 to 1"), given


def test_ids_can_be_given(client: Client) -> None:
    stages = [{"id": "a.b-C_1", "label": "Open"}, {"label": "Done"}]
    made = add(client, id="partners", stages=stages)
    assert (made["id"], ids(made)[0]) == ("partners", "a.b-C_1")
    make_in(client, "deals", "partners", "a.b-C_1")


def test_an_id_that_is_taken_conflicts(client: Client) -> None:
    body = {"id": "default", "label": "x", "stages": TWO}
    assert refused(client.post("/pipelines/deals", body), 409).startswith("id: ")
    stages = [{"label": "Open"}, {"id": "closedwon", "label": "Won"}]
    message = refused(client.post("/pipelines/deals", {"label": "x", "stages": stages}), 409)
    assert "stages[1].id: closedwon is a stage of the pipeline default already" in message
    assert client.get("/pipelines/deals").json["total"] == 1


def test_deals_tickets_and_accounts_have_their_own_ids(client: Client, other: Client) -> None:
    stages = [{"id": "closedwon", "label": "Won"}]
    add(client, "tickets", id="default", stages=stages)
    add(other, "tickets", id="default", stages=stages)


def test_the_hub_never_issues_an_id_twice(client: Client) -> None:
    first = add(client)
    client.delete(f"/pipelines/deals/{first['id']}")
    second = add(client)
    assert not {first["id"], *ids(first)} & {second["id"], *ids(second)}


def test_the_hub_issues_no_id_that_was_given(client: Client) -> None:
    last = int(add(client)["stages"][-1]["id"])
    given = [str(last + i) for i in (1, 3)]
    stages = [{"id": id, "label": id} for id in given]
    made = add(client, stages=[*stages, {"label": "issued"}])
    assert len({made["id"], *ids(made)}) == 4


@pytest.mark.databases("sqlite")
def test_what_is_no_pipeline_is_a_bad_request(client: Client) -> None:
    for body, place in [
        ({"stages": TWO}, "label: is missing"),
        ({"label": "x"}, "stages: is missing"),
        ({"label": "x", "stages": []}, "stages: 0 stages"),
        ({"label": "x", "stages": None}, "stages: must be an array"),
        ({"label": "x", "stages": TWO * 51}, f"stages: 102 stages; send 1 to {MAX_STAGES}"),
        ({"label": "x", "stages": ["Open"]}, "stages[0]: must be a JSON object"),
        ({"label": "x", "stages": [{}]}, "stages[0].label: is missing"),
        ({"label": "x", "stages": [{"label": " "}]}, "stages[0].label: blank"),
        ({"label": "x", "stages": [{"label": 1}]}, "stages[0].label: must be a string"),
        ({"label": "x", "stages": [{"label": "x", "id": 1}]}, "stages[0].id: must be a string"),
        ({"label": "x", "stages": [{"label": "x", "id": ""}]}, "stages[0].id: an id is"),
        ({"label": "x", "stages": [{"label": "x", "id": "a/b"}]}, "stages[0].id: an id is"),
        ({"label": "x", "stages": [{"label": "x", "id": "a;b"}]}, "stages[0].id: an id is"),
        ({"label": "x", "stages": [{"label": "x", "closed": "no"}]}, "stages[0].closed: must"),
        ({"label": "x", "stages": [{"label": "x", "order": 1}]}, "stages[0].order: is not known"),
        ({"label": "", "stages": TWO}, "label: blank"),
        ({"label": "x" * 256, "stages": TWO}, "label: 256 characters"),
        ({"label": "a\nb", "stages": TWO}, "label: holds a line break"),
        ({"label": "x", "stages": TWO, "id": "ä"}, "id: an id is"),
        ({"label": "x", "stages": TWO, "id": "a" * 101}, "id: an id is"),
        ({"label": "x", "stages": TWO, "id": None}, "id: must be a string"),
        ({"label": "x", "stages": TWO, "displayOrder": 1}, "displayOrder: is not known"),
        (
            {"label": "x", "stages": [{"label": "x", "id": "s"}, {"label": "y", "id": "s"}]},
            "stages[1].id: the same as stages[0].id",
        ),
    ]:
        assert place in refused(client.post("/pipelines/deals", body), 400)
        assert client.get("/pipelines/deals").json["total"] == 1, (body, place)


def test_every_fault_of_a_pipeline_is_named_at_once(client: Client) -> None:
    stages = [{"id": "a b", "label": "x\ny"}, {"label": "", "probability": 2}]
    message = refused(
        client.post("/pipelines/deals", {"id": "", "label": "", "stages": stages}), 400
    )
    for place in ("id", "label", "stages[0].id", "stages[0].label", "stages[1].label"):
        assert f"{place}: " in message
    assert "stages[1].probability: " in message


def test_there_is_an_end_to_pipelines(client: Client) -> None:
    for _ in range(MAX_PIPELINES - 1):
        add(client, "tickets", stages=TWO[:1])
    body = {"label": "x", "stages": TWO}
    assert str(MAX_PIPELINES) in refused(client.post("/pipelines/tickets", body), 422)


# --- changing --------------------------------------------------------------------------------


def test_a_patch_changes_the_label_and_leaves_the_stages(client: Client) -> None:
    before = client.get("/pipelines/deals/default").json
    answer = client.patch("/pipelines/deals/default", {"label": "Sales"})
    assert (answer.status_code, answer.json) == (200, {**before, "label": "Sales"})
    assert client.get("/pipelines/deals/default").json == answer.json


def test_a_pipeline_can_be_sent_back_as_it_was_read(client: Client) -> None:
    for path in ("/pipelines/deals/default", "/pipelines/tickets/0"):
        pipeline = client.get(path).json
        change = {"label": pipeline["label"], "stages": pipeline["stages"]}
        answer = client.patch(path, change)
        assert (answer.status_code, answer.json) == (200, pipeline)
    assert client.patch("/pipelines/deals/default", {}).status_code == 200


def test_a_stage_kept_by_its_id_keeps_what_is_not_named(client: Client) -> None:
    made = add(client, stages=[{"label": "Won", "probability": 1, "closed": True}, *TWO])
    path, (won, *others) = f"/pipelines/deals/{made['id']}", made["stages"]
    changed = client.patch(path, {"stages": [*others, {"id": won["id"], "label": "Gained"}]}).json
    assert changed["stages"] == [*others, {**won, "label": "Gained"}]
    stages = [{"id": won["id"], "probability": None, "closed": False}]
    [left] = client.patch(path, {"stages": stages}).json["stages"]
    assert left == {"id": won["id"], "label": "Gained", "closed": False}


def test_new_records_start_in_the_stage_that_is_first_now(client: Client) -> None:
    stages = client.get("/pipelines/deals/default").json["stages"]
    client.patch("/pipelines/deals/default", {"stages": stages[::-1]})
    assert placed(client, "deals", client.make("deals")) == ("default", "closedlost")


def test_a_new_stage_gets_an_id_and_takes_records_and_is_found(client: Client) -> None:
    stages = client.get("/pipelines/tickets/0").json["stages"]
    answer = client.patch("/pipelines/tickets/0", {"stages": [*stages, {"label": "Parked"}]})
    new = ids(answer.json)[-1]
    assert new not in ids({"stages": stages})
    id = make_in(client, "tickets", "0", new)
    condition = {"propertyName": "hs_pipeline_stage", "operator": "EQ", "value": new}
    page = client.post("/tickets/search", {"filters": [condition]}).json
    assert [each["id"] for each in page["results"]] == [id]


def test_a_new_stage_of_an_old_pipeline_needs_a_label(client: Client) -> None:
    answer = client.patch("/pipelines/tickets/0", {"stages": [{"id": "1"}, {"id": "new"}]})
    assert "stages[1].label: is missing" in refused(answer, 400)


@pytest.mark.parametrize("resource", KINDS)
def test_a_stage_that_records_are_in_stays(client: Client, resource: str) -> None:
    made = add(client, resource)
    path, (first, second) = f"/pipelines/{resource}/{made['id']}", made["stages"]
    id = make_in(client, resource, made["id"], second["id"])
    make_in(client, resource, made["id"], second["id"])
    message = refused(client.patch(path, {"stages": [first]}), 409)
    assert f"stages: 2 {resource} are in the stage {second['id']} (Done)" in message
    assert client.get(path).json == made
    assert client.patch(path, {"stages": [second]}).status_code == 200
    assert placed(client, resource, id) == (made["id"], second["id"])


def test_a_stage_can_go_when_its_records_have_gone(client: Client) -> None:
    made = add(client)
    path, (first, second) = f"/pipelines/deals/{made['id']}", made["stages"]
    moved, archived = (make_in(client, "deals", made["id"], second["id"]) for _ in range(2))
    client.patch(f"/deals/{moved}", {"properties": {"dealstage": first["id"]}})
    client.delete(f"/deals/{archived}")
    assert client.patch(path, {"stages": [first]}).status_code == 200
    answer = client.post("/deals", {"properties": {"dealname": "x", "dealstage": second["id"]}})
    assert "properties.dealstage" in refused(answer, 422)


def test_a_stage_of_another_pipeline_cannot_be_taken(client: Client) -> None:
    made = add(client)
    stages = [*made["stages"], {"id": "closedwon", "label": "Won"}]
    answer = client.patch(f"/pipelines/deals/{made['id']}", {"stages": stages})
    assert "closedwon is a stage of the pipeline default" in refused(answer, 409)


# --- deleting --------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", KINDS)
def test_a_pipeline_that_nothing_is_in_is_deleted(client: Client, resource: str) -> None:
    made = add(client, resource)
    path = f"/pipelines/{resource}/{made['id']}"
    client.make(resource)
    answer = client.delete(path)
    assert (answer.status_code, answer.data) == (204, b"")
    refused(client.get(path), 404)
    assert client.get(f"/pipelines/{resource}").json["total"] == 1


def test_a_pipeline_that_records_are_in_stays(client: Client) -> None:
    made = add(client)
    id = make_in(client, "deals", made["id"])
    path = f"/pipelines/deals/{made['id']}"
    assert f"1 deal is in the pipeline {made['id']}" in refused(client.delete(path), 409)
    client.delete(f"/deals/{id}")
    assert client.delete(path).status_code == 204


def test_the_last_pipeline_stays(client: Client) -> None:
    assert "the last pipeline" in refused(client.delete("/pipelines/deals/default"), 409)
    made = add(client)
    assert client.delete("/pipelines/deals/default").status_code == 204
    assert placed(client, "deals", client.make("deals")) == (made["id"], ids(made)[0])
    refused(client.delete(f"/pipelines/deals/{made['id']}"), 409)


# --- whoever else is there -------------------------------------------------------------------


def ticket_in(client: Client, stage: str) -> Any:
    body = {
        "contactId": str(client.make()),
        "properties": {"subject": "x", "hs_pipeline_stage": stage},
    }
    return client.helper("/crm-api-interface/createTicket/{portal}", body)


@pytest.mark.parametrize("edit", ["add", "change", "delete"])
def test_edited_pipelines_are_not_added_to_by_bots(client: Client, edit: str) -> None:
    assert ticket_in(client, "bot 1").status_code == 200
    assert "bot 1" in ids(client.get("/pipelines/tickets/0").json)
    if edit == "delete":
        named = {"subject": "x", "hs_pipeline": "bots/own"}
        body = {"contactId": str(client.make()), "properties": named}
        made = client.helper("/crm-api-interface/createTicket/{portal}", body)
        client.delete(f"/tickets/{made.json['ticketId']}")
        assert client.delete("/pipelines/tickets/bots/own").status_code == 204
    elif edit == "add":
        add(client, "deals")
    else:
        client.patch("/pipelines/tickets/0", {"label": "Support"})
    assert ticket_in(client, "bot 2").status_code == 422
    assert ticket_in(client, "bot 1").status_code == 200


def test_a_stage_that_a_bot_named_can_be_kept_by_its_id(client: Client) -> None:
    ticket_in(client, "Needs a human / now")
    pipeline = client.get("/pipelines/tickets/0").json
    stages = [{"id": id} for id in ids(pipeline)]
    answer = client.patch("/pipelines/tickets/0", {"stages": stages[::-1], "label": "x"})
    assert ids(answer.json) == ids(pipeline)[::-1]


def test_an_unknown_stage_names_the_stages_of_its_pipeline(client: Client) -> None:
    stages = [{"label": "Fresh"}, {"label": "Done"}]
    made = client.post("/pipelines/deals", {"label": "Orders", "stages": stages}).get_json()
    ids = [f'"{stage["id"]}" ({stage["label"]})' for stage in made["stages"]]
    deal = {"dealname": "D", "dealstage": "nowhere"}
    message = refused(client.post("/deals", {"properties": {**deal, "pipeline": made["id"]}}), 422)
    assert f'pipeline "{made["id"]}" (Orders) has no stage "nowhere"' in message
    assert all(id in message for id in ids)
    assert "appointmentscheduled" not in message
    message = refused(client.post("/deals", {"properties": deal}), 422)
    assert all(id in message for id in [*ids, '"closedwon" (Closed Won)'])
    deal = {"dealname": "D", "pipeline": "nowhere"}
    message = refused(client.post("/deals", {"properties": deal}), 422)
    assert 'there is no pipeline "nowhere"; send one of "default"' in message
    assert f'"{made["id"]}" (Orders)' in message
    deal = {"dealname": "D", "pipeline": made["id"], "dealstage": "closedwon"}
    message = refused(client.post("/deals", {"properties": deal}), 422)
    assert all(id in message for id in ids)
