"""Causes: equal for actions that failed for the same reason, and without any value."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crmhub.adapter import Rejected, Unavailable
from crmhub.hub import Hub
from crmhub.queue.causes import Cause, cause_of
from tests.api.helpers.helper_calls import CREATE_DEAL, lead
from tests.clients import Client
from tests.fakes import FAKE, FakeCrm, adapters
from tests.queue.working import finish_all, rows

LEAD = {"contact_token": "t", "name": "Zephyrine Quixworthy", "email": "zed@x.org", "phone": ""}


def deal(**properties: str) -> dict[str, object]:
    return {"contact_id": "c-1", "properties": properties}


def found(message: str, request: dict[str, object] | None = None, word: str = "Rejected") -> Cause:
    cause = cause_of("hubspot", "createDeal", word, message, request or deal(dealstage="x"))
    assert cause is not None
    return cause


def test_a_hundred_invalid_values_of_one_property_have_one_cause() -> None:
    keys = {
        found(
            f'priority: "wrong {n}" is not among the options; send "{n}", "low"',
            deal(priority=f"wrong {n}"),
        ).key
        for n in range(100)
    }
    assert len(keys) == 1


def test_a_wrong_stage_has_one_cause_in_accounts_with_other_pipelines() -> None:
    one = found('dealstage: pipeline "default" (Sales) has no stage "won!"; send one of "a" (Won)')
    other = found('dealstage: there is no stage "gone"; send one of "b" (Lost; for good), "c"')
    assert one == other
    assert (one.name, one.fault, one.pattern) == ("dealstage", "option", "")


@pytest.mark.parametrize(
    ("message", "name", "fault"),
    [
        ("colour: deals have no such property in the CRM", "colour", "unknown"),
        ("amount: the CRM sets this property itself; leave it out", "amount", "read_only"),
        ("amount: is not a number; send digits", "amount", "format"),
        ("dealname: it is blank or missing; send a value", "dealname", "missing"),
        ("dealname: is too long; send at most 255 characters", "dealname", "long"),
        ("properties.amount: is not a number", "amount", "format"),
        # What was left out already is not why a deal in no stage fails.
        ('colour: no such property; dealstage: there is no stage "x"', "dealstage", "option"),
    ],
)
def test_a_cause_names_the_property_and_its_fault(message: str, name: str, fault: str) -> None:
    cause = found(message, deal(dealstage="x", amount="y"))
    assert (cause.name, cause.fault) == (name, fault)


def test_a_value_that_must_be_unique_is_taken() -> None:
    cause = found("email: HubSpot has another record, 123, with this email", word="Conflict")
    assert (cause.name, cause.fault) == ("email", "taken")


@pytest.mark.parametrize(
    "message",
    [
        "Zephyrine Quixworthy (zed@x.org) is on the black list 4711",
        'Neither "+49 30 901777" nor Zephyrine fits',
        "person zed@x.org of Quixworthy was not taken by rule 7-A",
        "zed@x.org: unsubscribed Zephyrine",
    ],
)
def test_no_personal_data_stands_in_a_cause(message: str) -> None:
    cause = cause_of("hubspot", "createLead", "Rejected", message, LEAD)
    assert cause is not None
    text = cause.to_text().lower()
    for value in ("zephyrine", "quixworthy", "zed@", "x.org", "901777", "4711"):
        assert value not in text, text


def test_ids_differ_in_actions_of_one_cause_and_states_of_http_do_not() -> None:
    first, second = (found(f"record {n} is locked (503)", word="Unavailable") for n in (17, 4_711))
    assert first == second
    assert "503" in first.pattern
    assert found("record 17 is locked (502)", word="Unavailable") != first


@pytest.mark.parametrize("word", ["NotYet", "Throttled", "Behind", "TooManyRequests"])
def test_an_action_that_only_waits_has_no_cause(word: str) -> None:
    assert cause_of("hubspot", "createDeal", word, "later", {}) is None


def test_a_cause_comes_back_from_its_text() -> None:
    cause = found('dealstage: there is no stage "x"')
    assert Cause.from_text(cause.to_text()) == cause


# --- stored with the outcome -------------------------------------------------------------------


@pytest.fixture(autouse=True)
def fakes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let an app know the fake adapter, if the test has one."""
    if "bot" not in request.fixturenames:
        yield
        return
    with adapters(request.getfixturevalue("app"), FAKE):
        yield


def test_a_failed_lead_and_what_it_blocks_have_its_cause(
    hub: Hub, bot: Client, crm: FakeCrm
) -> None:
    crm.failure = Unavailable("no route")
    assert lead(bot).status_code == 202
    crm.failure = Rejected([], "the CRM does not want it")
    finish_all(hub, bot)
    crm.failure = None
    (hub_id,) = rows(hub, bot, "hub_id")[0]
    body = {"contactId": hub_id, "properties": {"dealname": "A"}}
    assert bot.helper(CREATE_DEAL, body).status_code == 202
    ((key, text, _), *others) = rows(hub, bot, "cause, cause_text, state")
    assert others == [(key, text, "parked")]
    cause = Cause.from_text(text)
    assert (cause.key, cause.kind, cause.adapter) == (key, "createLead", "fake")


def test_what_succeeds_in_the_end_has_no_cause(hub: Hub, bot: Client, crm: FakeCrm) -> None:
    crm.failure = Unavailable("no route")
    assert lead(bot).status_code == 202
    ((text,),) = rows(hub, bot, "cause_text")
    assert Cause.from_text(text).pattern == "no route"
    crm.failure = None
    finish_all(hub, bot)
    assert rows(hub, bot, "state, cause, cause_text") == [("done", None, None)]
