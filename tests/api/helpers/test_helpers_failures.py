"""What callers are told when the CRM fails them, and errors for builders that show none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import flask
import pytest
from werkzeug.test import TestResponse

from crmhub.adapter import (
    Adapter,
    AdapterError,
    BadConfig,
    Conflict,
    Denied,
    LacksRight,
    Problem,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
    Unsupported,
)
from crmhub.adapter.registry import Registry
from crmhub.crm.connection import check, in_words
from crmhub.helpers import enrolments
from crmhub.hub import Hub
from crmhub.secrets import new_secret
from tests.api.helpers.helper_calls import (
    BODIES,
    CREATE_DEAL,
    CREATE_LEAD,
    CREATE_TICKET,
    GET_PROPERTIES,
    GET_RANDOM_INT,
    GET_TYPE,
    OWN,
    SET_PROPERTIES,
    body_for,
    known,
    lead,
    switch,
)
from tests.clients import Client, open_client
from tests.fakes import BROKEN, FAKE, FakeAdapter, FakeCrm, adapters, connect, fake_client
from tests.queue.working import change, finish_all, states

KEYS: dict[str, list[str]] = {
    CREATE_LEAD: ["contactId"],
    GET_PROPERTIES: ["email", "properties", "missing"],
    SET_PROPERTIES: ["contactId"],
    GET_TYPE: ["workflowId", "reason"],
    GET_RANDOM_INT: ["value", "text"],
    CREATE_DEAL: ["dealId", "contactId"],
    CREATE_TICKET: ["ticketId", "contactId"],
}
PHONE = BODIES[GET_TYPE]["contactnumber"]
WRITING = [CREATE_LEAD, SET_PROPERTIES, CREATE_DEAL, CREATE_TICKET]
writing = pytest.mark.parametrize("path", WRITING)
FAILURES = [
    (BadConfig("the address is wrong"), "60", "connection to its CRM (fake) does not work"),
    (Denied("the token is revoked"), "60", "the token is revoked"),
    (Throttled("burst", retry_after=7.2, scope="burst"), "8", "wants fewer calls"),
    (Unavailable("no route"), "5", "is unavailable; nothing was written"),
    (Unavailable("moving", retry_after=3600), "3600", "is unavailable"),
    (Uncertain("read timeout"), "5", "is not known"),
]
failing = pytest.mark.parametrize(
    ("failure", "retry_after", "word"),
    FAILURES,
    ids=lambda value: type(value).__name__ if isinstance(value, AdapterError) else None,
)
of_the_crm = pytest.mark.parametrize("path", [path for path in KEYS if path != GET_RANDOM_INT])


@pytest.fixture(autouse=True)
def fakes(app: flask.Flask) -> Iterator[None]:
    with adapters(app, FAKE, BROKEN):
        yield


def queued(answer: TestResponse) -> str:
    """Return the contact's id of an answer that must be `queued`."""
    said: dict[str, str] = answer.json  # type: ignore[assignment]
    assert (answer.status_code, said["status"]) == (202, "queued")
    assert said["actionId"].startswith("act-")
    assert said["message"]
    return said["contactId"]


@writing
@failing
def test_what_a_crm_cannot_take_now_is_queued_under_the_hubs_own_id(
    hub: Hub,
    bot: Client,
    crm: FakeCrm,
    path: str,
    failure: AdapterError,
    retry_after: str,
    word: str,
) -> None:
    body = body_for(bot, path)
    before = dict(crm.contacts["c-1"]) if crm.contacts else {}
    crm.failure = failure
    contact_id = queued(bot.helper(path, body))
    assert contact_id.startswith("hub-")
    assert (crm.contacts.get("c-1", {}), crm.linked) == (before, [])
    crm.failure = None
    finish_all(hub, bot)
    assert crm.contacts["c-1"]["email"] == "ann@x.org"
    assert len(crm.linked) == (path in (CREATE_DEAL, CREATE_TICKET))


def test_an_adapter_that_the_running_service_does_not_have_is_named_in_the_queued_answer(
    app: flask.Flask, hub: Hub
) -> None:
    client = open_client(app)
    connect(app, client, "fake", crm="of-an-adapter-installed-later")
    with adapters(app):
        app.extensions["crmhub"] = replace(hub, registry=Registry([]))
        answer = client.helper(CREATE_LEAD, BODIES[CREATE_LEAD])
    queued(answer)
    assert "No adapter named 'fake' is installed" in answer.json["message"]  # type: ignore[index]
    assert "restart the service" in answer.json["message"]  # type: ignore[index]


@failing
def test_a_read_of_a_crm_that_fails_is_503_in_words(
    bot: Client, crm: FakeCrm, failure: AdapterError, retry_after: str, word: str
) -> None:
    crm.failure = failure
    answer = bot.helper(GET_TYPE, BODIES[GET_TYPE])
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == retry_after
    assert answer.json["category"] == "InternalError"  # type: ignore[index]
    assert word in answer.json["message"]  # type: ignore[index]


@failing
def test_the_workflow_of_somebody_known_is_told_while_the_crm_fails(
    hub: Hub,
    bot: Client,
    crm: FakeCrm,
    failure: AdapterError,
    retry_after: str,
    word: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    phone = BODIES[GET_TYPE]["contactnumber"]
    contact_id = known(bot, phone=phone)
    # The hub keeps the enrolments; of a CRM that does so itself nothing is known without it.
    with monkeypatch.context() as patched:
        patched.setattr(FakeAdapter, "active_workflow", Adapter.active_workflow)
        enrolments.enrol(hub, bot.account, workflow_id="w7", contact_id=contact_id)
        crm.failure = failure
        # The second time the hub may know without a call.
        for _ in range(2):
            answer = bot.helper(GET_TYPE, BODIES[GET_TYPE]).json
            assert (answer["workflowId"], answer["stale"]) == ("w7", "true")  # type: ignore[index]
            quiet = BODIES[GET_TYPE] | {"lastChatInterval": 1}
            answer = bot.helper(GET_TYPE, quiet).json
            assert (answer["workflowId"], answer["stale"]) == ("", "true")  # type: ignore[index]
            assert "last chat" in answer["reason"]  # type: ignore[index]
    assert bot.helper(GET_TYPE, BODIES[GET_TYPE]).status_code == 503


def _type(client: Client, number: str = PHONE) -> Any:
    return client.helper(GET_TYPE, BODIES[GET_TYPE] | {"contactnumber": number})


@pytest.mark.parametrize("down", [True, False])
def test_a_phone_whose_lead_still_waits_is_told_so(
    hub: Hub, bot: Client, crm: FakeCrm, down: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeAdapter, "active_workflow", Adapter.active_workflow)
    crm.failure = Unavailable("no route")
    assert lead(bot, phone=PHONE).status_code == 202
    if not down:
        # The CRM is back, and the lead's turn has not come.
        crm.failure = None
        hub.health.answered(bot.account.id, bot.account.connection.id)
    for written in (PHONE, "001 (202) 555-0100"):
        answer = _type(bot, written)
        assert (answer.status_code, answer.json["workflowId"]) == (200, "")
        assert answer.json["stale"] == "true"
        assert "has not reached the CRM yet" in answer.json["reason"]
    other = _type(bot, "+12025550199")
    assert other.status_code == (503 if down else 200)
    crm.failure = None
    finish_all(hub, bot)
    enrolments.enrol(hub, bot.account, workflow_id="w1", contact_id="c-1")
    answer = _type(bot)
    assert (answer.json["workflowId"], answer.json["stale"]) == ("w1", "")


def test_a_lead_that_was_refused_does_not_wait(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    crm.required = ("city",)
    assert lead(bot, phone=PHONE).status_code == 422
    assert states(hub, bot) == ["refused"]
    assert _type(bot).json["reason"] == f"no contact has the phone {PHONE}"


@failing
def test_properties_of_a_crm_that_fails_are_the_last_known_ones(
    hub: Hub, bot: Client, crm: FakeCrm, failure: AdapterError, retry_after: str, word: str
) -> None:
    known(bot)
    crm.failure = failure
    body = {"contactToken": "t", "props": ["email", "name", "city"]}
    answer = bot.helper(GET_PROPERTIES, body)
    assert (answer.status_code, answer.json["stale"]) == (200, "true")  # type: ignore[index]
    values = {"email": "ann@x.org", "name": "Ann Lee", "city": ""}
    assert answer.json["properties"] == values  # type: ignore[index]
    assert answer.json["missing"] == "city"  # type: ignore[index]
    change(hub, bot, "last_values = null", "binding")
    change(hub, bot, "until = 0", "outage")
    answer = bot.helper(GET_PROPERTIES, body)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, retry_after)


@of_the_crm
@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (Rejected([], "not on a Sunday"), 422),
        (Unsupported("no such thing here"), 422),
        (Conflict("it exists"), 409),
    ],
    ids=["Rejected", "Unsupported", "Conflict"],
)
def test_what_the_caller_can_mend_is_told_as_such(
    bot: Client, crm: FakeCrm, path: str, failure: AdapterError, status: int
) -> None:
    body = body_for(bot, path)
    crm.failure = failure
    answer = bot.helper(path, body)
    assert answer.status_code == status
    assert failure.message in answer.json["message"]  # type: ignore[index]


@of_the_crm
def test_a_broken_plugin_breaks_its_own_accounts_only(app: flask.Flask, path: str) -> None:
    broken, whole = open_client(app), open_client(app)
    bodies = {each.account.id: body_for(each, path) for each in (broken, whole)}
    hub = app.extensions["crmhub"]
    hub.database.transact(
        lambda tx: tx.run(
            "update connection set adapter = 'broken' where account_id = :id",
            {"id": broken.account.id},
        )
    )
    hub.directory.forget(broken.account.id)
    answer = broken.helper(path, bodies[broken.account.id])
    if path == GET_TYPE:
        assert (answer.status_code, "(broken)" in answer.json["message"]) == (503, True)  # type: ignore[index]
    elif path == GET_PROPERTIES:
        assert (answer.status_code, answer.json["stale"]) == (200, "true")  # type: ignore[index]
    else:
        assert queued(answer)
    assert whole.helper(path, bodies[whole.account.id]).status_code == 200


def test_the_crms_pages_are_answered_where_it_has_some(bot: Client) -> None:
    contact_id = known(bot)
    assert contact_id == "c-1"
    for path in (CREATE_LEAD, GET_PROPERTIES, SET_PROPERTIES, CREATE_DEAL, CREATE_TICKET):
        body = {**BODIES[path], "contactId": contact_id}
        answer = bot.helper(path, body).json
        assert answer["url"].startswith("https://crm.example.test/")  # type: ignore[index]


def test_the_crm_tells_the_workflow_where_it_can(bot: Client) -> None:
    known(bot, phone="+12025550100")
    answer = bot.helper(GET_TYPE, BODIES[GET_TYPE]).json
    assert answer["workflowId"] == "w-of-the-crm"  # type: ignore[index]


def test_a_right_that_only_workflows_need_stops_no_lead(bot: Client, crm: FakeCrm) -> None:
    known(bot, phone="+12025550100")

    def lacking(call: str) -> None:
        if call == "active_workflow":
            raise LacksRight("It needs automation.")

    crm.during = lacking
    for _ in range(2):
        answer = bot.helper(GET_TYPE, BODIES[GET_TYPE])
        assert (answer.status_code, "automation" in answer.text) == (503, True)
    assert lead(bot, "u", email="ben@x.org").status_code == 200


def test_properties_are_left_out_one_by_one_where_the_crm_names_only_the_first(
    bot: Client,
    crm: FakeCrm,
) -> None:
    known(bot)
    props = {"shoe_size": "38", "hat_size": "7", "city": "Rome"}
    answer = bot.helper(SET_PROPERTIES, {"contactToken": "t", "props": props}).json
    assert answer["refused"] == "shoe_size,hat_size"  # type: ignore[index]
    assert crm.contacts["c-1"]["city"] == "Rome"


def test_what_the_crm_demands_beyond_the_call_is_422_by_name(bot: Client, crm: FakeCrm) -> None:
    crm.required = ("city",)
    answer = lead(bot)
    remedy = "Set a constant for city in the field map, or send a value"
    assert answer.status_code == 422
    assert answer.json["message"] == f"city: it is required. {remedy}"  # type: ignore[index]


def test_after_a_switch_of_crm_no_old_contact_is_used(app: flask.Flask) -> None:
    client, _ = fake_client(app)
    old = known(client)
    connect(app, client, "local")
    answer = client.helper(GET_PROPERTIES, BODIES[GET_PROPERTIES])
    assert answer.status_code == 404
    assert known(client) != old


@pytest.mark.parametrize("path", list(KEYS))
@pytest.mark.parametrize("wrong", ["empty object", "no JSON", "blank", "too large"])
def test_soft_errors_are_answers_with_every_key(
    app: flask.Flask, client: Client, path: str, wrong: str
) -> None:
    body = body_for(client, path)
    switch(app, client, soft_errors="true")
    raw: dict[str, Any] = {
        "empty object": {"json": {}},
        "no JSON": {"data": b"{", "content_type": "application/json"},
        "blank": {"json": dict.fromkeys(body, "")},
        "too large": {"data": b"{" + b" " * 1024 * 1024, "content_type": "application/json"},
    }[wrong]
    url = path.format(generated=client.ids.generated_id, portal=client.ids.portal_id)
    answer = client._http.post(url, **raw)
    own = [key for key in KEYS[path] if key != "email"]
    assert answer.status_code == 200
    assert set(answer.json) == {*OWN, *own, "category"}  # type: ignore[arg-type]
    assert answer.json["status"] == "error"  # type: ignore[index]
    assert answer.json["message"]  # type: ignore[index]
    assert answer.json["category"] in ("BadRequestError", "SemanticError")  # type: ignore[index]
    assert {answer.json[key] for key in own} == {""}  # type: ignore[index]


def test_a_soft_error_says_what_the_hard_one_says(app: flask.Flask, client: Client) -> None:
    said = []
    for soft in ("false", "true"):
        switch(app, client, soft_errors=soft)
        answer = client.helper(CREATE_LEAD, None, data=b"{" + b" " * 1024 * 1024)
        said.append(answer.json["message"])  # type: ignore[index]
    assert said == ["The body is larger than 1 MiB; send less at a time."] * 2


@pytest.mark.parametrize("path", [GET_TYPE, GET_PROPERTIES])
def test_a_failing_crm_is_a_soft_error_too(
    app: flask.Flask, hub: Hub, bot: Client, crm: FakeCrm, path: str
) -> None:
    body = body_for(bot, path)
    change(hub, bot, "last_values = null", "binding")
    switch(app, bot, soft_errors="true")
    crm.failure = Denied("the token is revoked")
    answer = bot.helper(path, body)
    assert answer.status_code == 200
    assert set(answer.json) == {*OWN, *KEYS[path], "category"}  # type: ignore[arg-type]
    assert (answer.json["status"], answer.json["category"]) == ("error", "InternalError")  # type: ignore[index]


@writing
def test_what_is_queued_is_no_error_where_errors_are_soft(
    app: flask.Flask, bot: Client, crm: FakeCrm, path: str
) -> None:
    body = body_for(bot, path)
    switch(app, bot, soft_errors="true")
    crm.failure = Denied("the token is revoked")
    assert queued(bot.helper(path, body))


def test_a_property_named_like_a_key_of_errors_does_not_hide_it(
    app: flask.Flask, client: Client
) -> None:
    switch(app, client, soft_errors="true")
    names = ["status", "category", "message"]
    answer = client.helper(GET_PROPERTIES, {"contactToken": "nobody", "props": names}).json
    assert (answer["status"], answer["category"]) == ("error", "NotFoundError")  # type: ignore[index]
    assert "createLead" in answer["message"]  # type: ignore[index]


@pytest.mark.parametrize("path", list(KEYS))
def test_who_is_turned_away_is_so_in_any_case(app: flask.Flask, client: Client, path: str) -> None:
    body = body_for(client, path)
    switch(app, client, soft_errors="true", require_secret="true")
    assert client.helper(path, body).status_code == 401
    wrong = {"X-Webhook-Secret": new_secret()}
    assert client.helper(path, body, headers=wrong).status_code == 401


def test_an_adapters_bug_is_one_more_failure_of_the_crm(
    app: flask.Flask,
    bot: Client,
    crm: FakeCrm,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeAdapter, "check", lambda adapter: adapter._crm("check"))
    known(bot, "known", name="Ada King", email="ada@x.org")
    crm.failure = RuntimeError("ann@x.org has a secret")  # type: ignore[assignment]
    for _ in range(5):
        answer = bot.helper(GET_PROPERTIES, {"contactToken": "known", "props": ["lastname"]})
        assert answer.get_json()["stale"] == "true"
        assert answer.get_json()["lastname"] == "King"
    answers = lead(bot), bot.helper(GET_TYPE, BODIES[GET_TYPE])
    assert queued(answers[0])
    assert answers[1].status_code == 503
    told = answers[0].text + answers[1].text
    told += in_words(check(app.extensions["crmhub"], bot.account))
    assert told.count("failed with RuntimeError, which is a bug of its own") == 2
    told += "".join(f"{record.getMessage()}{record.exc_text}" for record in caplog.records)
    assert "tests/fakes.py" in told
    assert "ann@x.org" not in told
    # It says nothing of the CRM, for which nobody has to wait.
    crm.failure = None
    assert lead(bot, "other", email="bob@x.org").status_code == 200


def test_reasons_of_an_answer_are_cut_and_the_names_kept(bot: Client, crm: FakeCrm) -> None:
    known(bot)
    crm.failure = Rejected([Problem("shoe_size", "x" * 5000)])
    answer = bot.helper(SET_PROPERTIES, {"contactToken": "t", "props": {"shoe_size": "1"}})
    assert answer.status_code == 422
