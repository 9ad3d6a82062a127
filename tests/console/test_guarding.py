"""What protects every page: tokens in forms, headers, errors in the caller's language."""

from __future__ import annotations

import re

import pytest

from crmhub.errors import Unavailable
from crmhub.secrets import BASE36, token
from tests.consoles import Operator, open_console, text_of

pytestmark = pytest.mark.databases("sqlite")


def opened(operator, **options):
    return operator.send("/accounts/new", {"name": f"Made by a form {token(8, BASE36)}"}, **options)


@pytest.mark.parametrize("csrf", ["", "0" * 32, "é"])
def test_a_form_without_its_token_changes_nothing(operator, csrf):
    form = {"name": "Forged", "csrf": csrf}
    answer = operator.open("POST", "/accounts/new", data=form)
    assert answer.status_code == 403
    assert "belongs to another session" in text_of(answer)
    assert "No account matches" in text_of(operator.get("/accounts?q=Forged"))


def test_each_form_needs_its_token_and_is_taken_by_post_alone(app, operator):
    taking = [rule for rule in app.url_map.iter_rules() if rule.rule.startswith("/console/")]
    taking = [rule for rule in taking if "POST" in rule.methods]
    assert len(taking) > 40
    for rule in taking:
        assert "GET" not in rule.methods, rule
        path = re.sub("<[^>]*>", "1", rule.rule).removeprefix("/console")
        assert operator.open("POST", path, data={"csrf": "0" * 32}).status_code == 403, rule


def test_a_token_of_another_session_is_none(app, operator):
    other = open_console(app)
    page = other.get("/accounts/new").text
    token = re.search(r'name="csrf" value="(\w+)"', page)[1]
    answer = operator.open("POST", "/accounts/new", data={"name": "Forged", "csrf": token})
    assert answer.status_code == 403


def test_a_form_that_a_browser_says_is_from_elsewhere_is_refused(operator):
    for name, value, status in (
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-site", 403),
        ("Origin", "https://evil.example", 403),
        ("Origin", "null", 403),
        ("Origin", "http://[", 403),
        ("Sec-Fetch-Site", "same-origin", 201),
        ("Origin", "http://localhost", 201),
    ):
        assert opened(operator, headers={name: value}).status_code == status, (name, value)


@pytest.mark.parametrize("form", [{"email": "a\0b@example.com"}, {"a\0b": "x"}])
def test_a_form_with_a_character_that_no_text_has_is_refused(app, form):
    answer = Operator(app).send("/sign-in", form)
    assert answer.status_code == 400
    assert "U+0000" in text_of(answer)


def test_a_browser_without_cookies_is_told_so(app):
    answer = Operator(app).open("POST", "/sign-in", data={"email": "a@b.c", "password": "x"})
    assert answer.status_code == 403
    assert "Allow cookies" in text_of(answer)


def test_pages_allow_no_foreign_and_no_inline_code(operator):
    answer = operator.get("/accounts")
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    for part in ("form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert answer.headers["Cache-Control"] == "no-store"


def test_pages_load_from_here_and_hold_no_style_or_script_of_their_own(operator):
    text = operator.get("/accounts/new").text
    for address in re.findall(r'(?:src|href|action)="([^"]*)"', text):
        assert address.startswith(("/console", "/bootstrap/static/", "/docs/", "#")), address
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]* src=)", text)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/accounts/nobody", 404),
        ("DELETE", "/accounts", 405),
        ("GET", "/static/nothing.css", 404),
    ],
)
def test_an_error_is_a_page_for_browsers_and_json_for_programs(operator, method, path, status):
    shown = operator.open(method, path)
    told = operator.open(method, path, headers={"Accept": "*/*"})
    assert (shown.status_code, told.status_code) == (status, status)
    assert shown.mimetype == "text/html"
    assert sorted(told.json) == ["category", "message", "status", "timestamp"]
    assert told.json["message"].replace("`", "") in text_of(shown)
    assert shown.headers.get("Allow") == told.headers.get("Allow")
    assert "default-src 'none'" in shown.headers["Content-Security-Policy"]


def test_the_page_of_an_unknown_path_names_no_document_for_programs(operator):
    answer = operator.get("/nothing")
    assert answer.status_code == 404
    assert "Page not found Check the address. Go to the accounts" in text_of(answer)


def test_who_is_signed_in_stays_so_on_a_page_that_is_none(operator):
    assert operator.email in text_of(operator.get("/nothing"))


def test_a_database_that_is_away_is_told_on_a_page(operator, monkeypatch):
    def away(*_args):
        raise Unavailable("The database is away.", retry_after=5)

    monkeypatch.setattr("crmhub.console.sessions.signing_in.signed_in", away)
    answer = operator.get("/accounts")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "The hub is unavailable The database is away." in text_of(answer)


def test_a_form_that_is_refused_is_json_for_programs(operator):
    answer = operator.send("/accounts/new", {"name": " "}, headers={"Accept": "*/*"})
    assert answer.status_code == 422
    assert answer.json["category"] == "SemanticError"


def test_a_bug_is_a_page_that_says_nothing_of_it(app, operator, monkeypatch):
    def broken(*_args, **_named):
        raise RuntimeError("the secret is hunter2")

    monkeypatch.setattr("crmhub.console.accounts.stored.search_accounts", broken)
    answer = operator.get("/accounts")
    assert answer.status_code == 500
    assert "X-Request-Id" in text_of(answer)
    assert "hunter2" not in answer.text


def test_an_account_may_be_named_like_the_console(app):
    answer = app.test_client().get("/console-2/api/v1/contacts", headers={"Accept": "text/html"})
    assert answer.status_code == 401
    assert "Content-Security-Policy" not in answer.headers
    assert answer.mimetype == "application/json"
