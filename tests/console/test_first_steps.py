"""The checklist of a new hub, step by step, and the documents that the console's Help opens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import flask
import pytest

from crmhub.api import documents
from crmhub.app import create_app
from crmhub.console import help
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from tests import databases
from tests.api.helpers.helper_calls import known
from tests.clients import TESTS
from tests.console.test_roles import console_routes, signed_in
from tests.consoles import Operator, open_console, text_of
from tests.fakes import FAKE, adapters, fake_client
from tests.own_databases import KINDS, own_database


@pytest.fixture(params=KINDS)
def new_app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[flask.Flask]:
    """A hub of its own without accounts, on each database in turn."""
    with own_database(request.param, tmp_path) as url:
        app = create_app(databases.new_settings(url, tmp_path))
        yield app
        app.extensions["crmhub"].close()


def _done(operator: Operator) -> list[str]:
    """Return the titles of the steps that are done, [] without a checklist."""
    page = operator.get("")
    assert page.status_code == 200
    return re.findall(
        r'<span class="fw-semibold">([^<]*)</span> <span class="state state-good">', page.text
    )


def _links(operator: Operator) -> list[str]:
    listed = re.search(r'<ol class="steps">(.*?)</ol>', operator.get("").text, re.DOTALL)
    return re.findall(r'href="([^"]*)"', listed[1]) if listed else []


def test_each_step_is_done_by_what_has_happened(new_app: flask.Flask) -> None:
    hub: Hub = new_app.extensions["crmhub"]
    operator = open_console(new_app)
    assert "/console/accounts/new" in _links(operator)
    with adapters(new_app, FAKE):
        client, _ = fake_client(new_app)
        name = client.account.client_id
        assert _done(operator) == ["Your user", "CRM"]
        assert f"/console/accounts/{name}/bots#test" in _links(operator)
        page = operator.get(f"/accounts/{name}/bots")
        body = re.search(r'name="body"[^>]*>\n(.*?)</textarea>', page.text, re.DOTALL)
        assert body
        sent = {"helper": "createLead", "body": body[1].replace("&#34;", '"')}
        answer = operator.send(f"/accounts/{name}/bots/test", sent, at=f"/accounts/{name}/bots")
        assert "created" in text_of(answer)
        assert _done(operator) == ["Your user", "CRM", "Test call"]
        known(client, "a-bot", email="someone@example.com")
        assert _done(operator) == ["Your user", "CRM", "Test call", "Your bot"]
    alerted = create_app(replace(hub.settings, alert_url="https://alerts.example.com/"))
    operator = open_console(alerted)
    assert _links(operator) == []
    assert "Nothing needs attention" in text_of(operator.get(""))
    alerted.extensions["crmhub"].close()


def test_an_account_without_a_crm_and_a_disabled_one_do_no_step(new_app: flask.Flask) -> None:
    hub: Hub = new_app.extensions["crmhub"]
    operator = open_console(new_app)
    with adapters(new_app, FAKE):
        client, _ = fake_client(new_app)
        known(client, "a-bot")
        assert "Your bot" in _done(operator)
        change_account.change(hub, client.account.client_id, {}, disabled=True, by=TESTS)
        assert _done(operator) == ["Your user"]


def test_a_user_hides_the_list_for_themselves_and_shows_it_again(new_app: flask.Flask) -> None:
    operator, other = open_console(new_app), open_console(new_app)
    operator.send("/first-steps", {"hidden": "true"}, at="")
    assert _done(operator) == []
    assert "No accounts yet" in text_of(operator.get(""))
    assert _done(other) == ["Your user"]
    assert "Show the first steps" not in other.get("/profile").text
    operator.send("/first-steps", {"hidden": "false"}, at="/profile")
    assert _done(operator) == ["Your user"]


def test_who_may_not_do_the_steps_sees_no_list(new_app: flask.Flask) -> None:
    for role in ("support", "reader"):
        assert _done(signed_in(new_app, role)) == []
    assert _done(signed_in(new_app, "operator")) == ["Your user"]


@pytest.mark.databases("sqlite")
def test_every_page_of_help_and_its_anchor_exist(app: flask.Flask) -> None:
    """The pages of the console, and the fields, lead to places of the built documents."""
    addresses = {
        f"{documents.PREFIX}/{page}" for page in (*help.PAGES.values(), *help.FIELDS.values())
    }
    for endpoint, rule, methods in console_routes(app):
        if "GET" in methods:
            values = dict.fromkeys(re.findall(r"<(?:\w+:)?(\w+)>", rule), "1")
            with app.test_request_context(flask_path(app, endpoint, values)):
                addresses.add(help.of_page())
    assert len(addresses) > 30
    for address in addresses:
        path, _, anchor = address.removeprefix(f"{documents.PREFIX}/").partition("#")
        text = (documents.BUILT / path / "index.html").read_text("utf-8")
        assert not anchor or f'id="{anchor}"' in text, address


def flask_path(app: flask.Flask, endpoint: str, values: dict[str, str]) -> str:
    with app.test_request_context():
        return flask.url_for(endpoint, **values)


@pytest.mark.databases("sqlite")
def test_no_entry_of_help_is_without_its_page_or_field(app, client, operator) -> None:
    endpoints = {name.removeprefix("console.") for name, _, _ in console_routes(app)}
    assert help.PAGES.keys() <= endpoints
    name = client.account.client_id
    page = operator.get(f"/accounts/{name}").text
    for field, address in (
        ("strict", "bot-builder/#the-answer"),
        ("account.rotation", "bots/owners/"),
    ):
        id = field.rpartition(".")[2]
        help_text = re.search(rf'id="h-{id}">.*?</div>', page, re.DOTALL)
        assert help_text
        assert f'href="/docs/{address}' in help_text[0]
    teams = operator.get(f"/accounts/{name}/teams").text
    assert "/docs/operator/teams/#owners-by-hours-and-capacity" in teams


@pytest.mark.databases("sqlite")
def test_help_fits_the_page(app, client, operator) -> None:
    name = client.account.client_id
    for path, page in (
        ("", "first-steps/"),
        (f"/accounts/{name}/bots", "bot-builder/"),
        (f"/accounts/{name}/crm?adapter=hubspot", "crms/hubspot/"),
        (f"/accounts/{name}/crm", "operator/crm/"),
        (f"/accounts/{name}/nothing", "operator/console/"),
    ):
        text = operator.get(path).text
        assert f'<a href="/docs/{page}" target="_blank" rel="noopener" title=' in text, path
    outside = Operator(app).get("/sign-in").text
    assert 'href="/docs/operator/runbook/#nobody-can-sign-in"' in outside
