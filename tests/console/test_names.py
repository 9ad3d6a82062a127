"""Activity names persons, and filters by time lead from charts to their actions."""

from __future__ import annotations

import html
import re

import pytest

from crmhub.operators.accounts import change_account
from tests.api.helpers.helper_calls import CREATE_DEAL, known
from tests.clients import TESTS, open_client
from tests.console.past import HOUR, put
from tests.consoles import fault_of, text_of
from tests.queue.working import change, rows

# The queries behind the pages are tested on each database.
pytestmark = pytest.mark.databases("sqlite")


def test_an_action_and_its_contact_are_named_by_the_person(hub, client, operator):
    contact_id = known(client, name="Ann <Lee>", email="ann@x.org", phone="+12025550134")
    client.helper(CREATE_DEAL, {"contactId": contact_id, "properties": {"dealname": "Big"}})
    for id, helper in rows(hub, client, "id, kind"):
        page = operator.get(f"/activity/{id}")
        assert f"{helper} of Ann <Lee>" in text_of(page)
        assert "All actions of Ann <Lee>" in text_of(page)
    of = {"account": client.account.client_id, "contact": contact_id}
    page = operator.get("/activity/contact", query_string=of)
    assert re.search(r"<h1><bdi>Ann &lt;Lee&gt;</bdi></h1>", page.text)
    assert "ann@x.org" in text_of(page)
    assert contact_id in text_of(page)


def test_a_contact_of_another_account_lends_no_name(hub, app, client, operator):
    other = open_client(app)
    known(client, name="Ann Lee")
    (hub_id,) = rows(hub, client, "hub_id")[0]
    put(hub, other.account, (HOUR, 0, "done"))
    change(hub, other, "hub_id = :it, person = :it", it=hub_id)
    page = operator.get("/activity", query_string={"account": other.account.client_id})
    assert "Ann Lee" not in page.text
    assert hub_id in page.text


def test_a_contact_without_a_name_is_shown_by_what_there_is(hub, client, operator):
    known(client, name="Ann Lee", email="ann@x.org", phone="+12025550134")
    for values, shown in (
        ('{"lastname": "Lee"}', "Lee ann@x.org"),
        ('{"name": "Ann Maria Lee"}', "Ann Maria Lee ann@x.org"),
        ("{}", "ann@x.org createLead"),
    ):
        change(hub, client, "last_values = :it", "binding", it=values)
        page = operator.get("/activity", query_string={"account": client.account.client_id})
        assert shown in text_of(page)


def test_accounts_are_read_and_found_by_their_names(hub, client, operator):
    name = f"Bäckerei {client.account.client_id}"
    change_account.change(hub, client.account.client_id, {"name": name}, by=TESTS)
    known(client, name="Ann Lee")
    (action_id,) = rows(hub, client, "id")[0]
    put(hub, client.account, (2 * HOUR, HOUR, "dead"))
    for path in ("/activity", "/audit", "/activity/charts"):
        page = operator.get(path, query_string={"account": name.upper()})
        assert page.status_code == 200, path
    assert f"Account {name}" in text_of(operator.get(f"/activity/{action_id}"))
    query = {"account": client.account.client_id, "state": "dead"}
    confirm = text_of(operator.get("/activity/discard", query_string=query))
    assert f"Account {name} State failed" in confirm
    assert name in text_of(operator.get("/audit", query_string={"account": name}))


def test_numbers_of_charts_lead_to_their_actions(hub, client, operator):
    put(hub, client.account, *[(2 * HOUR, HOUR, "done")] * 3, (2 * HOUR, HOUR, "refused"))
    put(hub, client.account, (2 * HOUR, HOUR, "dead"), (26 * HOUR, HOUR, "done"))
    page = operator.get("/activity/charts", query_string={"account": client.account.client_id})
    links = re.findall(r'<td class="text-end"><a href="/console([^"]+)">(\d+)</a>', page.text)
    assert sorted(int(count) for _, count in links) == [1, 1, 4, 5]
    for path, count in links:
        listed = operator.get(html.unescape(path)).text.count('<li class="act">')
        assert listed == int(count), path


def test_the_error_of_a_time_stands_at_its_field(operator):
    names = ("acceptedFrom", "acceptedUntil", "endedFrom", "endedUntil", "endedUntil")
    times = ("soon", "0001-01-01", "9999-12-31", "2026-13-01", "-1")
    for name, given in zip(names, times, strict=True):
        answer = operator.get("/activity", query_string={name: given})
        assert answer.status_code == 400
        assert "is not a time. Write 2026-11-26 14:00." in fault_of(answer, name)


def test_a_time_may_name_its_zone(hub, client, operator):
    put(hub, client.account, (HOUR, 0, "done"))
    of = {"account": client.account.client_id}
    for zone in ("", "Z", "+00:00", "+02:00"):
        query = {**of, "acceptedFrom": f"2026-01-01T00:00{zone}", "acceptedUntil": "2199-01-01"}
        page = operator.get("/activity", query_string=query)
        assert page.text.count('<li class="act">') == 1
