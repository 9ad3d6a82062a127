"""The audit log, as the console shows it."""

from __future__ import annotations

import re

import pytest

from crmhub.audit import OBJECTS, VERBS
from crmhub.console import audit_log
from crmhub.operators.accounts import change_account
from crmhub.operators.crm import field_map_reading, map_fields
from tests.clients import TESTS
from tests.consoles import text_of

pytestmark = pytest.mark.databases("sqlite")

HOSTILE = "<b>Acme</b>"


@pytest.fixture
def of(hub, client):
    """The account's entries: it was opened, got a key, and another name."""
    change_account.create_key(
        hub, client.account.client_id, scopes=["contacts:read"], expires_at=None, by=TESTS
    )
    change_account.change(hub, client.account.client_id, {"name": HOSTILE}, by=TESTS)
    return {"account": client.account.client_id}


def entries(answer):
    """What was done by each sentence: a verb and a noun."""
    said = re.findall(r'<span class="said">(.*?)</span>\n', answer.text, re.S)
    return [re.search(r"(\w+ (?:the|an) [A-Za-z ]*?\w+)(?: of)?\s*<", one)[1] for one in said]


def test_changes_are_listed_the_newest_first_with_before_and_after(client, of, operator):
    answer = operator.get("/audit", query_string=of)
    words = text_of(answer)
    assert words.index("changed the account") < words.index("created an API key")
    assert words.index("created an API key") < words.index("opened the account")
    assert "Today" in words
    assert "tests (at the command line) changed the account" in words
    assert "&lt;b&gt;Acme" in answer.text
    assert "<b>Acme" not in answer.text


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"verb": "create"}, ["created an API key"]),
        ({"object": "account", "verb": "change"}, ["changed the account"]),
        ({"by": "nobody"}, []),
        ({"newerThan": "1h", "object": "key"}, ["created an API key"]),
        ({"olderThan": "1h"}, []),
        ({"when": "24h", "object": "key"}, ["created an API key"]),
        ({"from": "2000-01-01", "object": "key"}, ["created an API key"]),
        ({"to": "2000-01-01"}, []),
    ],
)
def test_the_log_is_narrowed(of, operator, given, found):
    assert entries(operator.get("/audit", query_string={**of, **given})) == found


@pytest.mark.parametrize(
    "given", [{"verb": "x"}, {"object": "x"}, {"newerThan": "x"}, {"when": "x"}]
)
def test_a_filter_that_cannot_be_is_said_so_above_the_form(operator, given):
    answer = operator.get("/audit", query_string=given)
    assert answer.status_code == 400
    assert "'x' is" in text_of(answer)


def test_pages_of_the_log_hold_everything_once(of, operator, monkeypatch):
    monkeypatch.setattr("crmhub.console.audit_log._PAGE_SIZE", 1)
    seen, path = [], f"/audit?account={of['account']}"
    while path:
        answer = operator.get(path)
        seen += entries(answer)
        after = answer.text.partition('rel="next"')[0].rpartition('href="/console')[2]
        path = after.partition('"')[0].replace("&amp;", "&") if 'rel="next"' in answer.text else ""
    assert seen[:2] == ["changed the account", "created an API key"]
    assert len(seen) == len(set(seen)) >= 3


def test_changes_alike_are_one_sentence_and_none_is_lost(client, of, operator, hub):
    for name in ("One", "Two", "Three"):
        change_account.change(hub, client.account.client_id, {"name": name}, by=TESTS)
    answer = operator.get("/audit", query_string={**of, "verb": "change"})
    assert entries(answer) == ["changed the account"]
    assert "and 3 more like it" in text_of(answer)
    assert all(name in answer.text for name in ("One", "Two", "Three", "&lt;b&gt;Acme"))


def test_objects_have_names_for_people(client, operator, hub):
    id = client.account.client_id
    rules = field_map_reading.read({"contacts": {"topic": "jobtitle"}})
    map_fields.set_field_map(hub, id, rules, by=TESTS, test=False)
    page = operator.get("/audit", query_string={"account": id, "object": "fieldMap"})
    # The number of the connection tells nobody anything.
    assert re.search(rf"changed the field map of {id} · \d\d:\d\d", text_of(page))
    assert '<option value="fieldMap" selected>field map</option>' in page.text


def test_an_error_shows_commands_as_code(operator):
    page = operator.get("/accounts/nobody`<i>`")
    assert page.status_code == 404
    assert "<code>crmhub account list</code>" in operator.get("/accounts/nobody").text
    assert "<i>" not in page.text


@pytest.mark.parametrize(
    ("language", "sentence", "day"),
    [
        ("es", "tests (en la línea de comandos) cambió la cuenta <b>Acme</b>", "Hoy"),
        ("pt", "tests (na linha de comando) alterou a conta <b>Acme</b>", "Hoje"),
    ],
)
def test_a_change_is_a_sentence_in_each_language(of, operator, language, sentence, day):
    page = operator.get("/audit", query_string=of, headers={"Accept-Language": language})
    words = text_of(page)
    assert sentence in words
    assert day in words


def test_each_verb_and_object_has_its_words():
    assert set(VERBS) == set(audit_log._VERBS)
    assert set(OBJECTS) == set(audit_log._OBJECTS)
