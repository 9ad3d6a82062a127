"""Activity and the audit log as CSV files: the present filter, as far as the role sees it."""

from __future__ import annotations

import csv
from io import StringIO

import pytest

from crmhub.operators.accounts import change_account
from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.users.console_users import set_role
from crmhub.users import user_sessions, users
from tests.clients import TESTS
from tests.console.past import HOUR, put
from tests.consoles import open_console

FORMULA = "=1+1: ann@example.com is wrong"


def rows_of(answer):
    assert answer.status_code == 200
    assert answer.mimetype == "text/csv"
    return list(csv.DictReader(StringIO(answer.data.decode("utf-8-sig"))))


def session_of(hub, email):
    def start(tx):
        return user_sessions.start_session(tx, users.load(tx, email).user_id, "none")

    return hub.database.transact(start)


@pytest.fixture
def past(hub, client):
    """Three failed actions and a done one."""
    return put(
        hub, client.account, *[(2 * HOUR, HOUR, "dead")] * 3, (HOUR, HOUR, "done"), reason=FORMULA
    )


def test_an_export_of_actions_holds_the_present_filter_once(
    client, hub, operator, past, monkeypatch
):
    monkeypatch.setattr("crmhub.operators.files.export_lists._PAGE_SIZE", 2)
    other, _ = open_account(hub, name="Other", by=TESTS)
    put(hub, other, (2 * HOUR, HOUR, "dead"))
    query = {"account": client.account.client_id, "state": ["dead", "parked"]}
    rows = rows_of(operator.get("/activity/export", query_string=query))
    assert sorted(row["action"] for row in rows) == sorted(past[:3])
    assert {row["state"] for row in rows} == {"failed"}
    assert {row["reason"] for row in rows} == {f"'{FORMULA}"}


def test_an_export_hides_what_a_role_does_not_see(app, client, hub, operator, past):
    query = {"account": client.account.client_id}
    seen = rows_of(operator.get("/activity/export", query_string=query))
    assert "ann@example.com" in seen[0]["reason"] + seen[1]["reason"]
    assert {"name", "email", "phone"} <= seen[0].keys()
    support = open_console(app)
    set_role(hub, support.email, "support", None, by=TESTS)
    support.http.set_cookie("crmhub_console", session_of(hub, support.email), path="/console")
    hidden = support.get("/activity/export", query_string=query)
    assert len(rows_of(hidden)) == 4
    assert "ann@example.com" not in hidden.text
    assert "email" not in rows_of(hidden)[0]
    assert support.get("/audit/export", query_string=query).status_code == 403


def test_an_export_is_in_the_audit_log(client, operator, past):
    account = {"account": client.account.client_id}
    rows_of(operator.get("/activity/export", query_string={**account, "state": "dead"}))
    (entry,) = rows_of(operator.get("/audit/export", query_string={**account, "verb": "export"}))
    assert entry["object"] == "actions"
    assert entry["after"] == '{"actions": 3, "filters": ["account", "states"]}'
    assert entry["author"] == operator.email


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_export_that_the_browser_ends_is_in_the_audit_log(
    client, operator, past, monkeypatch, method
):
    monkeypatch.setattr("crmhub.operators.files.export_lists._PAGE_SIZE", 2)
    query = {"account": client.account.client_id}
    answer = operator.open(method, "/activity/export", query_string=query)
    assert answer.status_code == 200
    next(answer.response, None)
    answer.close()
    (entry,) = rows_of(operator.get("/audit/export", query_string={**query, "verb": "export"}))
    assert entry["after"] == '{"actions": 2, "filters": ["account"]}'


def test_an_export_of_the_audit_log_holds_the_present_filter(client, hub, operator, monkeypatch):
    monkeypatch.setattr("crmhub.operators.files.export_lists._PAGE_SIZE", 1)
    for name in ("=cmd", "B"):
        change_account.change(hub, client.account.client_id, {"name": name}, by=TESTS)
    query = {"account": client.account.client_id, "verb": "change"}
    rows = rows_of(operator.get("/audit/export", query_string=query))
    assert [row["after"] for row in rows] == ['{"name": "B"}', '{"name": "=cmd"}']


def test_a_wrong_filter_is_no_file(operator):
    for path in ("/activity/export?state=lost", "/audit/export?verb=lost"):
        assert operator.get(path).status_code == 400
