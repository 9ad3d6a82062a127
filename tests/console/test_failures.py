"""The pages on why actions fail, without a browser: groups, forecasts, and what fixes a group."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.operators.failures import fix_group, groups
from tests.console.test_roles import signed_in
from tests.consoles import fault_of, text_of
from tests.operators.test_failure_groups import fail_deals, group_of
from tests.queue.working import change, rows, states, work_off

pytestmark = pytest.mark.databases("sqlite")

SECRET = "Quixworthy stage"


@pytest.fixture
def hubspot() -> Iterator[FakeHubSpot]:
    with FakeHubSpot() as crm:
        yield crm


@pytest.fixture
def failed(app, hubspot):
    """An account with three failed deals for one cause."""
    return fail_deals(app, hubspot, SECRET, SECRET, "other stage")


def path_of(hub, client, what=""):
    group = group_of(hub, client)
    return f"/activity/causes/{group.key}{what}?account={client.account.client_id}"


def test_the_causes_of_an_account_are_listed(hub, operator, failed):
    address = f"/activity/causes?account={failed.account.client_id}"
    page = operator.get(address)
    assert "dealstage: the CRM has no such stage" in page.text
    assert "3 failed" in text_of(page)
    assert path_of(hub, failed).partition("?")[0] in page.text
    for where in ("/activity", "", f"/accounts/{failed.account.client_id}"):
        assert "/console/activity/causes" in operator.get(where).text


def test_what_failed_yesterday_is_listed_alone(hub, operator, failed):
    address = f"/activity/causes?account={failed.account.client_id}&when="
    assert "no such stage" in operator.get(f"{address}24h").text
    assert "Nothing that failed matches" in operator.get(f"{address}yesterday").text
    day_ms = 86_400_000
    change(hub, failed, f"finished_at = finished_at - {day_ms} where state = 'dead'")
    assert "no such stage" in operator.get(f"{address}yesterday").text
    assert "Nothing that failed matches" in operator.get(f"{address}today").text


def test_an_unknown_account_and_an_unknown_cause_are_told(operator):
    page = operator.get("/activity/causes?account=nobody")
    assert page.status_code == 404
    assert fault_of(page, "account")
    assert operator.get("/activity/causes/abc").status_code == 404
    assert operator.get("/activity/fixes/abc").status_code == 404


def test_a_group_is_corrected_with_an_option_of_the_crm(hub, operator, failed):
    page = operator.get(path_of(hub, failed))
    assert re.search(r'<option value="closedwon"', page.text)
    assert text_of(page).count(SECRET) >= 1
    address = path_of(hub, failed)
    sent = {"other": "closedwon"}
    told = operator.send(path_of(hub, failed, "/forecast"), {**sent, "verb": "correct"}, at=address)
    assert "Forecast: 3 of 3 will succeed." in text_of(told)
    assert '<option value="closedwon" selected>' in told.text
    answer = operator.send(path_of(hub, failed, "/correct"), sent, at=address)
    assert answer.status_code == 303
    page = operator.get(answer.location.removeprefix("/console"))
    assert "Corrected 3 of 3" in text_of(page)
    work_off(hub, failed)
    assert states(hub, failed) == ["done"] * 4
    assert "Stored in HubSpot 3" in text_of(operator.get(answer.location.removeprefix("/console")))


def test_each_value_gets_its_own(hub, operator, failed):
    sent = {"was": [SECRET, "other stage"], "to": ["closedwon", ""], "other": ""}
    address = path_of(hub, failed)
    answer = operator.send(path_of(hub, failed, "/correct"), sent, at=address)
    page = text_of(operator.get(answer.location.removeprefix("/console")))
    assert "Corrected 2 of 3" in page
    assert "1: It has another value" in page


def test_a_correction_without_a_value_is_refused_at_its_field(hub, operator, failed):
    address = path_of(hub, failed)
    answer = operator.send(path_of(hub, failed, "/correct"), {"other": ""}, at=address)
    assert answer.status_code == 422
    assert "choose a new value" in fault_of(answer, "other").lower()
    answer = operator.send(path_of(hub, failed, "/discard"), {"reason": ""}, at=address)
    assert answer.status_code == 422


def test_a_group_is_retried_and_discarded(hub, operator, failed):
    address = path_of(hub, failed)
    told = operator.send(path_of(hub, failed, "/forecast"), at=address)
    assert "0 of 3 will succeed" in text_of(told)
    operator.send(path_of(hub, failed, "/retry"), at=address)
    work_off(hub, failed)
    assert states(hub, failed) == ["done", "dead", "dead", "dead"]
    answer = operator.send(path_of(hub, failed, "/discard"), {"reason": "of a test"}, at=address)
    assert "Discarded 3 of 3" in text_of(operator.get(answer.location.removeprefix("/console")))
    assert {state for (state,) in rows(hub, failed)} == {"done", "discarded"}


def test_support_sees_groups_without_values_and_cannot_correct(app, hub, failed):
    support = signed_in(app, "support", failed)
    assert "no such stage" in support.get("/activity/causes").text
    page = support.get(path_of(hub, failed))
    assert page.status_code == 200
    for hidden in (SECRET, "other stage", "Quixworthy"):
        assert hidden not in page.text
    assert "/correct" not in page.text
    assert "/retry" in page.text
    address = path_of(hub, failed)
    answer = support.send(path_of(hub, failed, "/correct"), {"other": "closedwon"}, at=address)
    assert answer.status_code == 403
    told = support.send(path_of(hub, failed, "/forecast"), {"verb": "correct"}, at=address)
    assert "0 of 3 will succeed" in text_of(told)
    assert SECRET not in told.text


def test_a_reader_changes_nothing(app, hub, failed):
    reader = signed_in(app, "reader", failed)
    page = reader.get(path_of(hub, failed))
    assert "/retry" not in page.text
    assert "other stage" in page.text


def test_a_user_of_other_accounts_sees_no_group(app, hub, failed, other):
    stranger = signed_in(app, "operator", other)
    assert "no such stage" not in stranger.get("/activity/causes").text
    assert stranger.get(path_of(hub, failed)).status_code == 404
    key = path_of(hub, failed).partition("?")[0]
    assert stranger.get(key).status_code == 404


def test_only_actions_of_visible_accounts_are_fixed(app, hub, hubspot, failed):
    hidden = fail_deals(app, hubspot, "another")
    user = signed_in(app, "operator", failed)
    address = path_of(hub, failed).partition("?")[0]
    answer = user.send(f"{address}/correct", {"other": "closedwon"}, at=address)
    assert "Corrected 3 of 3" in text_of(user.get(answer.location.removeprefix("/console")))
    assert states(hub, hidden) == ["done", "dead"]


def test_a_fix_is_stopped(app, hub, operator, failed, monkeypatch):
    monkeypatch.setattr(fix_group, "run", lambda *_, **__: None)
    address = path_of(hub, failed)
    answer = operator.send(path_of(hub, failed, "/retry"), at=address)
    here = answer.location.removeprefix("/console")
    assert "waits for a worker" in text_of(operator.get(here))
    operator.send(f"{here}/stop", at=here)
    assert "stopped" in text_of(operator.get(here))
    assert groups.groups(hub.database, account=failed.account)[0][0].failed == 3


def test_a_failed_call_offers_the_correction_first_and_its_cause(hub, operator, failed):
    (*_, (id,)) = rows(hub, failed, "id")
    page = operator.get(f"/activity/{id}")
    main = page.text[page.text.index("<main") :]
    first = re.search(r'<(?:a|button) class="btn[^>]*>([^<]*)<', main)
    assert first is not None
    assert first[1] == "Correct and retry"
    assert '<details class="panel" id="correct" open>' in main
    assert path_of(hub, failed).partition("?")[0] in main


def test_the_list_shows_the_actions_of_a_cause(hub, operator, failed):
    group = group_of(hub, failed)
    page = operator.get(f"/activity?cause={group.key}&account={failed.account.client_id}")
    assert all(id in page.text for (id, state) in rows(hub, failed, "id, state") if state == "dead")
    assert "Actions that failed for one cause." in page.text
    assert f"/console/activity/causes/{group.key}" in page.text
