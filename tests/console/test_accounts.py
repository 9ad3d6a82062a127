"""The list of accounts, and how another one is opened."""

from __future__ import annotations

import pytest

from crmhub import audit
from crmhub.audit import Wanted
from crmhub.operators.accounts import change_account
from crmhub.secrets import BASE36, token
from tests.api.helpers.helper_calls import known
from tests.clients import open_client
from tests.consoles import text_of, value_of
from tests.queue.working import change

pytestmark = pytest.mark.databases("postgresql")


def named(hub, client, name):
    change_account.change(
        hub, client.account.client_id, {"name": name}, by=audit.Author("cli", "tests")
    )


def test_an_account_is_opened_and_its_key_shown_once(app, hub, operator):
    name = f"Müller & Söhne {token(30, BASE36)}"
    answer = operator.send("/accounts/new", {"name": name, "client_id": "", "plan": "free"})
    assert answer.status_code == 201
    key = value_of(answer, "api-key")
    client_id = hub.directory.by_api_key(key).account.client_id
    assert hub.directory.by_secret(value_of(answer, "secret")).client_id == client_id
    assert hub.directory.by_webhook_id(value_of(answer, "generated-id"))[0].plan.name == "free"
    for path in ("/accounts", f"/accounts/{client_id}"):
        assert key not in operator.get(path).text
    with hub.database.reading() as db:
        account = hub.load_account(client_id)
        (entry,) = audit.listed(db, Wanted(account_id=account.id), limit=9)
    assert (entry.by.kind, entry.by.name) == ("user", operator.email)


def test_a_form_that_is_sent_twice_opens_one_account(hub, operator):
    name = f"Twice {token(30, BASE36)}"
    answers = [operator.send("/accounts/new", {"name": name}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 409]
    client_id = name.replace(" ", "-").lower()
    assert f"The client id '{client_id}' is taken" in text_of(answers[1])
    assert hub.load_account(client_id).name == name


def test_what_cannot_be_opened_is_shown_again_with_what_was_typed(operator):
    form = {"name": "<b>Acme</b>", "client_id": "Not An Id", "plan": "free"}
    answer = operator.send("/accounts/new", form)
    assert answer.status_code == 422
    assert "'Not An Id' is not a client id" in text_of(answer)
    assert 'value="&lt;b&gt;Acme&lt;/b&gt;"' in answer.text
    assert '<option value="free" selected>' in answer.text


def test_the_list_tells_what_waits_and_what_died(client, hub, operator):
    known(client, "chat-1")
    change(hub, client, "state = 'dead', reason = 'no such stage'")
    page = text_of(operator.get(f"/accounts?q={client.account.client_id}"))
    assert (
        f"{client.account.client_id} {hub.registry.load('local').title} stored in crmhub 0 1 failed"
        in page
    )


def test_accounts_are_found_by_name_and_client_id_in_any_case(app, client, hub, operator):
    name = f"ÉCLAIR_{token(30, BASE36)}%"
    named(hub, client, name)
    for words in (name.lower(), client.account.client_id, name[-4:]):
        page = text_of(operator.get("/accounts", query_string={"q": words}))
        assert client.account.client_id in page, words
    assert "No account matches" in text_of(operator.get("/accounts?q=nobody-is-named-so"))


def test_pages_of_the_list_hold_every_account_once(app, hub, operator, monkeypatch):
    monkeypatch.setattr("crmhub.console.accounts._PAGE_SIZE", 2)
    name, clients = token(60, BASE36), [open_client(app) for _ in range(5)]
    for client in clients:
        named(hub, client, f"Paged {name}")
    seen, path = [], f"/accounts?q={name}"
    while path:
        page = operator.get(path).text
        seen += [one.account.client_id for one in clients if one.account.client_id in page]
        after = page.partition('rel="next"')[0].rpartition('href="/console')[2]
        path = after.partition('"')[0].replace("&amp;", "&") if 'rel="next"' in page else ""
    assert sorted(seen) == sorted(one.account.client_id for one in clients)
    assert len(seen) == 5
