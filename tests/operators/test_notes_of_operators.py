"""Notes and tasks of operators: failed ones are corrected, and erasures take them."""

from __future__ import annotations

from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.errors import Semantic
from crmhub.hub import Hub
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.correct_action import correct, values_of
from crmhub.operators.actions.personal_data import hide_in_action
from crmhub.operators.erasure import erase_person
from tests.api.admin.test_admin_actions import end
from tests.api.helpers.helper_calls import ADD_NOTE, ADD_NOTE_TO, CREATE_DEAL, CREATE_TASK, known
from tests.clients import TESTS, Client
from tests.helpers.test_assign_owner import fake as fake
from tests.helpers.test_assign_owner import hubspot as hubspot
from tests.operators.traces import left
from tests.queue.working import rows, work_off

Json = Any


def failed(hub: Hub, client: Client, path: str, body: Json) -> str:
    """Call a helper while its CRM is unavailable, let the action fail, and return its id."""
    answer = client.helper(path, body)
    assert answer.status_code == 202, answer.text
    action_id: str = answer.json["actionId"]  # type: ignore[index]
    end(hub, client, action_id, "dead")
    return action_id


def test_a_failed_note_is_corrected_and_added(hub: Hub, hubspot: Client, fake: FakeHubSpot) -> None:
    known(hubspot)
    fake.fail(503, times=None, method="POST")
    body = {"contactToken": "t", "text": "Secret words", "author": "Bob"}
    action_id = failed(hub, hubspot, ADD_NOTE, body)
    action = action_queries.shown(hub.database, action_id)
    assert values_of("addNote", action.request) == {
        "text": "Secret words",
        "author": "Bob",
        "at": "",
    }
    hidden = hide_in_action(action)
    for shown in (hidden.summary.reason, hidden.request, hidden.mapped, hidden.tries):
        assert "Secret" not in str(shown)
    for wrong in ({"text": " "}, {"city": "Rome"}, {"at": "soon"}):
        with pytest.raises(Semantic):
            correct(hub, action_id, wrong, by=TESTS)
    fake.faults.clear()
    correct(hub, action_id, {"text": "Better words"}, by=TESTS)
    work_off(hub, hubspot)
    assert [state for (state,) in rows(hub, hubspot)] == ["done", "done"]
    [note] = fake.records("notes").values()
    assert "Better words" in str(note)


def test_a_failed_task_is_corrected_and_created(
    app: flask.Flask, hub: Hub, hubspot: Client, fake: FakeHubSpot
) -> None:
    contact_id = known(hubspot)
    fake.fail(503, times=None, method="POST")
    task = {"contactId": contact_id, "properties": {"subject": "Call"}}
    action_id = failed(hub, hubspot, CREATE_TASK, task)
    fake.faults.clear()
    correct(hub, action_id, {"subject": "Call back", "priority": "high"}, by=TESTS)
    work_off(hub, hubspot)
    assert [state for (state,) in rows(hub, hubspot)] == ["done", "done"]


def test_an_erasure_takes_the_notes_of_deals_that_are_in_the_crm(hub: Hub, hubspot: Client) -> None:
    contact_id = known(hubspot, "t", email="zoe@x.org")
    deal = {"contactId": contact_id, "properties": {"dealname": "A"}}
    deal_id = hubspot.helper(CREATE_DEAL, deal).json["dealId"]
    for path, body in ((ADD_NOTE, {"contactToken": "t"}), (ADD_NOTE_TO, {"dealId": deal_id})):
        answer = hubspot.helper(path, {**body, "text": "secret words"})
        assert answer.status_code == 200, answer.text
    person, _ = erase_person.find(hub, hubspot.account, "zoe@x.org")
    assert person is not None
    erase_person.erase(hub, hubspot.account, person, by=TESTS)
    assert left(hub, ["secret words"], hubspot.account.id) == []
