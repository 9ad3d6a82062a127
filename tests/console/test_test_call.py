"""A test call from the page for bots takes the way of a bot's call."""

from __future__ import annotations

import html
import json
import re

import pytest

from crmhub.operators.accounts import change_account
from crmhub.operators.actions.action_queries import Wanted, listed
from tests.api.helpers.helper_calls import switch
from tests.clients import TESTS
from tests.consoles import text_of
from tests.helpers.test_assign_owner import make_team

# The queries behind the pages are tested on each database.
pytestmark = pytest.mark.databases("sqlite")


def path(client):
    return f"/accounts/{client.account.client_id}/bots"


def call(operator, client, helper, body=None):
    """Send a test call; without a body, the one that the page offers."""
    page = operator.get(f"{path(client)}?helper={helper}").text
    offered = html.unescape(re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)[1])
    form = {"helper": helper, "body": offered if body is None else body}
    return operator.send(f"{path(client)}/test", form, at=path(client))


def answer_of(page):
    return json.loads(
        html.unescape(re.search(r'id="c-test-answer-text">(.*?)</code>', page.text, re.DOTALL)[1])
    )


def test_the_offered_calls_work_one_after_the_other(app, hub, client, operator):
    make_team(app, client, "Sales", ["Ana <ana@x.org>"])
    lead = call(operator, client, "createLead")
    assert answer_of(lead)["status"] == "created"
    [action] = listed(hub.database, Wanted(account=client.account, contact_token="crmhub-test"))
    assert f'href="/console/activity/{action.id}"' in lead.text
    for helper, status in (
        ("getProperties", "ok"),
        ("setProperties", "updated"),
        ("getType", "ok"),
        ("addNote", "created"),
        ("assignOwner", "updated"),
        ("createDeal", "created"),
        ("createTask", "created"),
        ("createTicket", "created"),
        ("getRandomInt", "ok"),
    ):
        page = call(operator, client, helper)
        assert page.status_code == 200
        assert answer_of(page)["status"] == status, helper


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("", 400, "body"),
        ("[]", 400, "send a JSON object"),
        ('{"contactToken": "t"}', 400, "name"),
        ('{"contactToken": "{{token}}", "name": "A", "email": "a@x.org"}', 422, "contactToken"),
        ('"' + "x" * 10_001 + '"', 400, "10,000"),
    ],
)
def test_a_call_that_cannot_be_is_answered_like_a_bots(client, operator, body, status, words):
    page = call(operator, client, "createLead", body)
    assert page.status_code == 200
    assert f"Answer: {status}" in text_of(page)
    assert words in answer_of(page)["message"]


def test_soft_errors_are_answered_with_200(app, client, operator):
    switch(app, client, soft_errors=True)
    page = call(operator, client, "createLead", "{}")
    assert "Answer: 200" in text_of(page)
    assert answer_of(page)["status"] == "error"


def test_a_required_secret_is_not_needed_here(app, client, operator):
    switch(app, client, require_secret=True)
    assert answer_of(call(operator, client, "createLead"))["status"] == "created"


def test_a_disabled_account_is_not_called(hub, client, operator):
    change_account.change(hub, client.account.client_id, {}, disabled=True, by=TESTS)
    assert call(operator, client, "createLead").status_code == 409
    assert listed(hub.database, Wanted(account=client.account)) == []
