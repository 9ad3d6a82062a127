"""Several actions that an operator selects by their checkboxes are retried or discarded."""

from __future__ import annotations

import re

import pytest

from crmhub import audit
from crmhub.audit import Wanted
from tests.console.past import HOUR, put
from tests.consoles import text_of
from tests.queue.working import rows

# The queries behind the pages are tested on each database.
pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def dead(hub, client):
    """Three failed actions, the oldest first."""
    return put(hub, client.account, *[(HOUR, HOUR // 2, "dead")] * 3, reason="no such stage")


def path(client, what, ids, **more):
    query = "&".join(
        [f"account={client.account.client_id}", "selected=1", *(f"id={id}" for id in ids)]
    )
    return f"/activity/{what}?{query}"


def test_the_list_offers_what_can_be_decided(hub, client, operator, dead):
    (done,) = put(hub, client.account, (HOUR, HOUR // 2, "done"))
    page = operator.get("/activity", query_string={"account": client.account.client_id})
    offered = re.findall(r'name="id" value="([^"]+)"', page.text)
    assert sorted(offered) == sorted(dead)
    assert done in page.text


def test_selected_actions_are_retried_and_no_other(hub, client, operator, dead):
    confirm = path(client, "retry", dead[:2])
    assert "2 actions : 2 failed" in text_of(operator.get(confirm))
    answer = operator.send(confirm)
    assert answer.location == f"/console/activity?account={client.account.client_id}"
    assert "2 actions will be retried now." in text_of(operator.get(answer.location[8:]))
    assert dict(rows(hub, client, "id, state")) == dict(
        zip(dead, ["queued", "queued", "dead"], strict=True)
    )
    with hub.database.reading() as db:
        (entry, *_) = audit.listed(db, Wanted(verb="retry", by=operator.email), limit=2)
    assert entry.after["retried"] == 2


def test_selected_actions_are_discarded_with_a_reason(hub, client, operator, dead):
    confirm = path(client, "discard", dead[1:])
    assert operator.send(confirm, {"reason": ""}).status_code == 422
    assert operator.send(confirm, {"reason": "of a test"}).status_code == 303
    assert dict(rows(hub, client, "id, state")) == dict(
        zip(dead, ["dead", "discarded", "discarded"], strict=True)
    )


@pytest.mark.parametrize("what", ["retry", "discard"])
@pytest.mark.parametrize("ids", [[], ["x"], ["act-" + "0" * 24]])
def test_nothing_selected_is_never_everything(hub, client, operator, dead, what, ids):
    page = operator.get(path(client, what, ids))
    assert f"Nothing to {what}" in page.text
    sent = operator.send(path(client, what, ids), {"reason": "x"}, at="/accounts/new")
    assert sent.status_code == 303
    assert {state for (state,) in rows(hub, client, "state")} == {"dead"}


def test_the_rows_of_a_list_are_a_part_of_its_page(client, operator, dead):
    query = {"account": client.account.client_id, "state": "dead"}
    answer = operator.get("/activity/rows", query_string=query)
    assert answer.status_code == 200
    assert answer.text.count('name="id"') == 3
    assert "<main" not in answer.text
    assert operator.get("/activity/rows", query_string={"state": "x"}).status_code == 400
