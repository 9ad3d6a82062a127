"""getType: the newest enrolment within the hours asked for, after enough silence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import flask
import pytest
import time_machine

from crmhub.helpers import enrolments
from crmhub.hub import Hub
from tests.api.helpers.helper_calls import GET_TYPE, OWN, known, switch
from tests.clients import Client

PHONE = "+12025550100"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _ask(client: Client, phone: Any = PHONE, interval: Any = 48, silence: Any = 0) -> Any:
    body = {"contactnumber": phone, "interval": interval, "lastChatInterval": silence}
    answer = client.helper(GET_TYPE, body)
    assert answer.status_code == 200, answer.text
    return answer.json


def _enrol(hub: Hub, client: Client, contact_id: str, workflow_id: str = "w1") -> None:
    enrolments.enrol(hub, client.account, workflow_id=workflow_id, contact_id=contact_id)


def test_the_workflow_of_a_contact_is_told(hub: Hub, client: Client) -> None:
    _enrol(hub, client, known(client, phone=PHONE))
    answer = _ask(client)
    assert list(answer) == [*OWN, "workflowId", "reason"]
    assert answer == {
        "status": "ok",
        "message": "",
        "actionId": "",
        "stale": "",
        "refused": "",
        "workflowId": "w1",
        "reason": "",
    }


def test_nobody_with_this_phone_is_a_reason(client: Client) -> None:
    answer = _ask(client)
    assert (answer["workflowId"], answer["status"]) == ("", "ok")
    assert answer["reason"] == f"no contact has the phone {PHONE}"


def test_no_workflow_is_a_reason(client: Client) -> None:
    known(client, phone=PHONE)
    answer = _ask(client)
    assert (answer["workflowId"], "no workflow" in answer["reason"]) == ("", True)


_DECIMALS = "1." + "3" * 100_000


@pytest.mark.parametrize(
    ("phone", "interval", "silence"),
    [("ä" * 100_000, "48", "0"), (PHONE, _DECIMALS, "0"), (PHONE, "48", _DECIMALS)],
    ids=["phone", "interval", "silence"],
)
def test_a_reason_is_short_whatever_is_asked(
    client: Client, phone: str, interval: str, silence: str
) -> None:
    known(client, phone=PHONE)
    _ask(client)
    body = f'{{"contactnumber": "{phone}", "interval": {interval}, "lastChatInterval": {silence}}}'
    answer = client.helper(GET_TYPE, None, data=body.encode(), content_type="application/json")
    assert (answer.status_code, answer.json["status"]) == (200, "ok")
    assert answer.json["reason"]
    assert len(answer.get_data()) < 2000


def test_a_national_number_is_read_with_the_accounts_region(
    app: flask.Flask, hub: Hub, client: Client
) -> None:
    switch(app, client, region="DE")
    _enrol(hub, client, known(client, phone="0151 12345678"))
    for written in ("0151 12345678", "+49 151 12345678", "0049 151 12345678", "4915112345678"):
        assert _ask(client, written)["workflowId"] == "w1"


def test_a_number_stored_without_its_plus_is_found_with_it(hub: Hub, client: Client) -> None:
    _enrol(hub, client, known(client, phone="12025550100"))
    assert _ask(client, PHONE)["workflowId"] == "w1"


def test_the_newest_enrolment_within_the_interval_counts(hub: Hub, client: Client) -> None:
    with time_machine.travel(NOON - timedelta(hours=50), tick=False) as clock:
        contact_id = known(client, phone=PHONE)
        _enrol(hub, client, contact_id, "older")
        clock.shift(timedelta(hours=10))
        _enrol(hub, client, contact_id, "newer")
        clock.move_to(NOON)
        assert _ask(client)["workflowId"] == "newer"
        assert _ask(client, interval=40)["workflowId"] == "newer"
        assert _ask(client, interval="39.9")["workflowId"] == ""
        assert _ask(client, interval=0)["workflowId"] == ""
        _enrol(hub, client, contact_id, "older")
        assert _ask(client)["workflowId"] == "older"


def test_silence_is_counted_from_the_last_helper_call(hub: Hub, client: Client) -> None:
    with time_machine.travel(NOON, tick=False) as clock:
        _enrol(hub, client, known(client, phone=PHONE))
        clock.shift(timedelta(hours=4))
        answer = _ask(client, silence=4.5)
        assert answer["workflowId"] == ""
        assert "last chat was 4.0 hours ago" in answer["reason"]
        clock.shift(timedelta(hours=4))
        assert _ask(client, silence=4.5)["workflowId"] == ""
        clock.shift(timedelta(hours=4.5))
        assert _ask(client, silence=4.5)["workflowId"] == "w1"
        assert _ask(client, silence=0)["workflowId"] == "w1"


@pytest.mark.parametrize("call", ["getProperties", "setProperties", "createDeal", "createTicket"])
def test_every_helper_call_of_the_contact_is_a_chat(hub: Hub, client: Client, call: str) -> None:
    bodies: dict[str, tuple[str, dict[str, Any]]] = {
        "getProperties": ("/chatbot/getProperties/{generated}", {"props": ["email"]}),
        "setProperties": ("/chatbot/setProperties/{generated}", {"props": {"city": "Rome"}}),
        "createDeal": ("/crm-api-interface/createDeal/{portal}", {"properties": {"dealname": "D"}}),
        "createTicket": (
            "/crm-api-interface/createTicket/{portal}",
            {"properties": {"subject": "S"}},
        ),
    }
    with time_machine.travel(NOON, tick=False) as clock:
        contact_id = known(client, phone=PHONE)
        _enrol(hub, client, contact_id)
        clock.shift(timedelta(hours=10))
        path, body = bodies[call]
        answer = client.helper(path, {"contactToken": "t", "contactId": contact_id, **body})
        assert answer.status_code == 200
        clock.shift(timedelta(hours=2))
        assert _ask(client, silence=5)["workflowId"] == ""


def test_a_contact_no_helper_was_ever_called_for_has_been_silent(hub: Hub, client: Client) -> None:
    _enrol(hub, client, str(client.make(phone=PHONE)))
    assert _ask(client, silence=1000)["workflowId"] == "w1"
    assert _ask(client, silence=1000)["workflowId"] == ""


@pytest.mark.parametrize("key", ["contactnumber", "interval", "lastChatInterval"])
def test_a_missing_key_is_400_and_a_blank_one_422(client: Client, key: str) -> None:
    body = {"contactnumber": PHONE, "interval": 48, "lastChatInterval": 0}
    missing = client.helper(GET_TYPE, {k: v for k, v in body.items() if k != key})
    assert (missing.status_code, key in missing.json["message"]) == (400, True)  # type: ignore[index]
    for blank in ("", " ", None, "{{x}}"):
        answer = client.helper(GET_TYPE, body | {key: blank})
        assert (answer.status_code, key in answer.json["message"]) == (422, True)  # type: ignore[index]


@pytest.mark.databases("sqlite")
def test_hours_that_cannot_be_are_refused(client: Client) -> None:
    for key in ["interval", "lastChatInterval"]:
        for value, status in [
            ("48h", 400),
            ("４８", 400),
            ("1e3", 400),
            (True, 400),
            ([48], 400),
            ({}, 400),
            (-1, 422),
            ("-0.5", 422),
            ("9" * 40, 400),
        ]:
            body = {"contactnumber": PHONE, "interval": 48, "lastChatInterval": 0, key: value}
            answer = client.helper(GET_TYPE, body)
            assert (answer.status_code, key in answer.json["message"]) == (status, True)  # type: ignore[index]


def test_an_enrolment_is_kept_until_it_is_taken_back(hub: Hub, client: Client) -> None:
    contact_id = known(client, phone=PHONE)
    _enrol(hub, client, contact_id)
    enrolments.unenrol(hub, client.account, workflow_id="w1", contact_id=contact_id)
    assert _ask(client)["workflowId"] == ""
