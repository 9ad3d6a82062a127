"""What is the matter, above every page."""

from __future__ import annotations

import re

import flask
import pytest
from flask_babel import Babel

from crmhub.console import banner
from crmhub.database.connection import now_ms
from crmhub.errors import Unavailable
from crmhub.operators.alerts.alerts import Alert
from crmhub.operators.users.console_users import create_token, revoke_token
from tests.api.helpers.helper_calls import known
from tests.clients import TESTS
from tests.consoles import Operator
from tests.queue.working import change

pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def look(app, operator):
    """Opens a page whose banner is not that of a moment ago."""

    def look(path="/accounts"):
        app.extensions["crmhub.console.banner"].forget()
        return operator.get(path)

    return look


def lines(answer):
    return answer.text.partition('class="banner"')[2].partition("</section>")[0]


def test_dead_actions_stand_above_every_page_with_a_link(client, hub, look, monkeypatch):
    monkeypatch.setattr(banner, "_MAX_ACCOUNTS", 10_000)
    known(client)
    link = f"/console/activity?account={client.account.client_id}&amp;state=dead,parked"
    assert link not in lines(look())
    change(hub, client, "state = 'dead', finished_at = :now", now=now_ms())
    for path in ("/accounts", "/accounts/new", "/activity", "/audit", "/accounts/nobody"):
        assert f'href="{link}"' in lines(look(path)).replace("%2C", ","), path
    assert '<li class="act">' in look(link.removeprefix("/console").replace("&amp;", "&")).text


def test_how_many_are_not_named_is_said_behind_those_that_are(
    client, other, hub, look, monkeypatch
):
    monkeypatch.setattr(banner, "_MAX_ACCOUNTS", 1)
    for one in (client, other):
        known(one)
        change(hub, one, "state = 'dead', finished_at = :now", now=now_ms())
    assert re.search(r"</a> and <a [^>]*>\d+ others?</a>", lines(look()))


def test_refused_credentials_and_old_queues_stand_there(client, hub, look, monkeypatch):
    monkeypatch.setattr(banner, "_MAX_ACCOUNTS", 10_000)
    known(client)
    old = now_ms() - hub.settings.alert_queue_age - 60_000
    change(hub, client, "state = 'queued', created_at = :old", old=old)
    hub.database.transact(
        lambda tx: tx.run(
            "insert into outage (account_id, connection_id, since, until, failures, reason, cause)"
            " values (:account, :connection, :now, :now, 1, 'The token is wrong.', 'credentials')",
            {
                "account": client.account.id,
                "connection": client.account.connection.id,
                "now": now_ms(),
            },
        )
    )
    shown = lines(look())
    name = client.account.client_id
    # There they are fixed.
    assert f'href="/console/accounts/{name}/crm"' in shown
    assert f'href="/console/activity?account={name}&amp;state=queued,running"' in shown.replace(
        "%2C", ","
    )


def test_what_was_seen_a_moment_ago_is_not_looked_for_again(app, operator, look, monkeypatch):
    look()
    monkeypatch.setattr(banner.alerts, "current", lambda *_, **__: pytest.fail("looked again"))
    assert operator.get("/accounts").status_code == 200


def test_who_is_not_signed_in_is_told_nothing(app, client, hub, look):
    known(client)
    change(hub, client, "state = 'dead', finished_at = :now", now=now_ms())
    look()
    assert 'class="banner"' not in Operator(app).get("/sign-in").text


def test_a_page_without_a_database_has_no_banner(look, monkeypatch):
    def away(*_, **__):
        raise Unavailable("The database is away.")

    monkeypatch.setattr(banner.alerts, "current", away)
    assert 'class="banner"' not in look().text


def test_many_accounts_are_counted_and_not_all_named():
    found = [Alert(i, 1, "credentials", 0, 0, 0, f"a{i}", "hubspot") for i in range(9)]
    app = flask.Flask(__name__)
    Babel(app)
    app.add_url_rule("/<client_id>", "console.crm", lambda: "")
    with app.test_request_context():
        line = banner._line("credentials", found)
    assert line.said == "9 CRMs cannot be used:"
    assert ([name for name, _ in line.accounts], line.others) == (["a0", "a1", "a2"], 6)


def test_keys_that_end_soon_stand_there_with_a_link_to_them(client, hub, look, monkeypatch):
    monkeypatch.setattr(banner, "_MAX_ACCOUNTS", 10_000)
    name, day = client.account.client_id, 86_400_000
    assert f"/accounts/{name}/keys" not in lines(look())
    change(hub, client, "expires_at = :soon, created_at = :long_ago", "api_key",
           soon=now_ms() + 10 * day, long_ago=now_ms() - 300 * day)  # fmt: skip
    shown = lines(look())
    assert f'href="/console/accounts/{name}/keys"' in shown
    assert "soon:" in shown
    assert "expires soon" in look(f"/accounts/{name}/keys").text


def test_admin_tokens_that_end_soon_are_told_to_owners(hub, look):
    day = 86_400_000
    token = create_token(
        hub, "Shift", scopes=[], expires_at=now_ms() + 100 * day, by=TESTS
    ).token_id
    assert "admin token" not in lines(look())
    hub.database.transact(
        lambda tx: tx.run(
            "update admin_token set expires_at = expires_at - :ms, created_at = created_at - :ms"
            " where id = :id",
            {"ms": 90 * day, "id": token},
        )
    )
    assert "1 admin token expires soon:" in lines(look())
    revoke_token(hub, token, by=TESTS)
    assert "admin token" not in lines(look())
