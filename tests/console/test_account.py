"""One account: its settings, keys, webhook ids and addresses, as forms change them."""

from __future__ import annotations

import json
import re
import shlex
from html import unescape

import pytest

from crmhub import audit
from crmhub.accounts.keys import list_keys, new_id
from crmhub.audit import Wanted
from crmhub.console import snippets
from crmhub.database.connection import now_ms
from crmhub.operators.accounts import change_account
from tests.clients import TESTS
from tests.consoles import fault_of, text_of, value_of

pytestmark = pytest.mark.databases("postgresql")


@pytest.fixture
def path(client):
    return f"/accounts/{client.account.client_id}"


def present(hub, client):
    return hub.load_account(client.account.client_id)


def settings(hub, client, **changed):
    account = present(hub, client)
    as_shown = {
        "name": account.name,
        "plan": account.plan.name,
        "lead_requires": "email",
        "deadline_s": "3",
        "region": "",
        "rotation": "random",
        "portal_alias": "",
        "bare_tokens": "true",
    }
    return as_shown | changed


def test_settings_are_saved_and_say_who_did_it(hub, client, operator, path):
    form = settings(hub, client, strict="true", region="de", deadline_s="4.5", plan="free")
    del form["bare_tokens"]
    answer = operator.send(path, form)
    assert (answer.status_code, answer.location) == (303, f"/console{path}")
    page = operator.get(path)
    assert "Saved. The change takes effect within a second." in text_of(page)
    assert "Saved" not in text_of(operator.get(path))
    account = present(hub, client)
    switches = account.switches
    assert (switches.strict, switches.region, switches.deadline_s) == (True, "DE", 4.5)
    assert (switches.bare_tokens, account.plan.name) == (False, "free")
    with hub.database.reading() as db:
        entry = audit.listed(db, Wanted(account_id=account.id), limit=1)[0]
    assert (entry.by.kind, entry.by.name, entry.after["region"]) == ("user", operator.email, "DE")


def test_settings_that_cannot_be_are_shown_again_and_nothing_is_saved(hub, client, operator, path):
    form = settings(hub, client, region="XX", deadline_s="99", name="Other", strict="true")
    answer = operator.send(path, form)
    assert answer.status_code == 422
    assert fault_of(answer, "region").startswith("'XX' is not a region")
    assert fault_of(answer, "deadline_s").startswith("'99' is not a number of seconds")
    assert "Not saved. Correct the marked fields." in text_of(answer)
    # The first of them has the cursor.
    assert re.findall(r'id="f-(\w+)"[^>]* autofocus', answer.text) == ["deadline_s"]
    assert 'value="99"' in answer.text
    assert re.search(r'id="f-strict"[^>]* checked', answer.text)
    assert present(hub, client).name != "Other"


def test_usage_is_told_beside_its_limit(hub, client, operator, path):
    client.make("contacts")
    change_account.change(hub, client.account.client_id, {"plan": "free"}, by=TESTS)
    assert "Contacts 1 of 1,000" in text_of(operator.get(path))


# --- keys ----------------------------------------------------------------------------------------


def test_a_key_is_shown_once_works_and_is_revoked(hub, client, operator, path):
    scopes = ["contacts:read", "deals:write"]
    form = {"key_id": new_id(), "name": "Import job", "scope": scopes, "life": "90"}
    answer = operator.send(f"{path}/keys", form)
    assert answer.status_code == 201
    assert "Import job" in text_of(operator.get(f"{path}/keys"))
    key = value_of(answer, "api-key")
    config = json.loads(re.search(r"\{.mcpServers.*\}", unescape(answer.text))[0])
    agent = config["mcpServers"]["crmhub"]
    assert agent["url"].endswith("/mcp")
    assert agent["headers"] == {"Authorization": f"Bearer {key}"}
    caller = hub.directory.by_api_key(key)
    assert caller.scopes == {"contacts:read", "deals:write"}
    page = operator.get(f"{path}/keys")
    assert key not in page.text
    assert f"…{key[-4:]}" in page.text
    answer = operator.send(f"{path}/keys/{caller.key_id}/revoke", at=f"{path}/keys")
    assert answer.status_code == 303
    assert hub.directory.by_api_key(key) is None
    assert "revoked" in text_of(operator.get(f"{path}/keys"))


def test_a_key_without_a_choice_says_that_it_has_full_access(operator, path):
    answer = operator.send(f"{path}/keys", {"key_id": new_id(), "name": "All", "life": "90"})
    assert "Scopes full access" in text_of(answer)
    assert "valid expires" in text_of(operator.get(f"{path}/keys"))


def test_a_form_that_is_sent_twice_makes_one_key(hub, client, operator, path):
    page = operator.get(f"{path}/keys").text
    form = dict(re.findall(r'type="hidden" name="(key_id|csrf)" value="(.*?)"', page))
    form["name"] = "Import job"
    answers = [operator.open("POST", f"{path}/keys", data=form) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 409]
    assert f"The key {form['key_id']} exists already; it was shown once" in text_of(answers[1])
    with hub.database.reading() as db:
        made = [one.key_id for one in list_keys(db, client.account.id)]
    assert made.count(form["key_id"]) == 1
    assert len(made) == 2


@pytest.mark.parametrize("key_id", ["", "key_short", "key_\x00aaaaaaaaaa"])
def test_a_key_is_made_from_its_form_alone(operator, path, key_id):
    assert operator.send(f"{path}/keys", {"key_id": key_id, "name": "x"}).status_code == 400


def test_a_key_needs_a_name_and_ends_after_a_year_unless_chosen(hub, client, operator, path):
    answer = operator.send(f"{path}/keys", {"key_id": new_id(), "name": " "})
    assert answer.status_code == 422
    assert fault_of(answer, "name").startswith("Say what the key is for")
    assert '<option value="365" selected>' in operator.get(f"{path}/keys").text
    for life in ("365", "tomorrow", ""):
        form = {"key_id": new_id(), "name": f"life {life}", "life": life}
        assert operator.send(f"{path}/keys", form).status_code == 201
    with hub.database.reading() as db:
        ends = {one.name: one.expires_at for one in list_keys(db, client.account.id)}
    in_a_year = now_ms() + 365 * 24 * 3600 * 1000
    for name in ("life 365", "life tomorrow"):
        assert abs(ends[name] - in_a_year) < 3_600_000
    # A choice of its own, which the form sends as an empty text.
    assert ends["life"] is None


# --- bots ----------------------------------------------------------------------------------------


def test_the_form_of_answers_decides_which_snippets_name_it(hub, client, operator, path):
    page = operator.get(f"{path}/bots")
    assert page.text.count("?format=chatfuel") == page.text.count("?format=manychat") == 1
    assert "?format=flat" not in page.text
    form = {
        "answer_format": "chatfuel",
        "allowed_origins": "https://a.example",
    }
    operator.send(f"{path}/bots/answers", form, at=f"{path}/bots")
    account = hub.directory.by_client_id(client.account.client_id)
    assert account.switches.answer_format == "chatfuel"
    assert account.switches.allowed_origins == "https://a.example"
    page = operator.get(f"{path}/bots")
    assert "?format=chatfuel" not in page.text
    # An HTTP block, n8n and Node-RED read the flat answer.
    assert page.text.count("?format=flat") == 3
    assert page.text.count("?format=manychat") == 1


def test_a_test_call_finds_its_action_in_each_form(hub, client, operator, path):
    change_account.change(hub, client.account.client_id, {"answer_format": "manychat"}, by=TESTS)
    body = json.dumps({"contactToken": "t", "name": "Crmhub Test", "email": "t@example.com"})
    page = operator.send(
        f"{path}/bots/test", {"helper": "createLead", "body": body}, at=f"{path}/bots"
    )
    assert "set_field_value" in page.text
    assert "See what happened" in page.text


def rotate(operator, path, what, kept):
    return operator.send(f"{path}/bots/rotate", {"what": what, "kept": kept}, at=f"{path}/bots")


def test_an_id_is_replaced_and_the_old_one_stays_for_a_while(hub, client, operator, path):
    fresh = value_of(rotate(operator, path, "generated", "7d"), "rotated")
    for one in (client.ids.generated_id, fresh):
        assert hub.directory.by_webhook_id(one)[0].id == client.account.id
    page = operator.get(f"{path}/bots")
    assert value_of(page, "url-createLead").endswith(f"/chatbot/createLead/{fresh}")
    assert "previous, valid until" in text_of(page)


def test_what_cannot_be_replaced_is_refused(operator, path):
    for form in (("alias", "7d"), ("secret", "1000y"), ("", "")):
        assert rotate(operator, path, *form).status_code == 400, form


def test_an_address_is_the_one_that_a_proxy_was_asked_for(operator, path):
    page = operator.get(f"{path}/bots", base_url="https://localhost:8443")
    assert value_of(page, "url-createDeal").startswith("https://localhost:8443/crm-api-")


@pytest.mark.parametrize("helper", snippets.HELPERS, ids=lambda one: one.name)
def test_every_address_answers_what_its_curl_line_sends(client, operator, path, helper):
    client.helper(
        "/chatbot/createLead/{generated}",
        {"contactToken": "chat-17", "name": "Ada Lovelace", "email": "ada@example.com"},
    )
    page = operator.get(f"{path}/bots?helper={helper.name}")
    line = re.search(r'id="c-snippet-1">(.*?)</code>', page.text, re.DOTALL)[1]
    words = shlex.split(re.sub(r"&#34;|&#39;", lambda q: {"&#34;": '"', "&#39;": "'"}[q[0]], line))
    sent = json.loads(words[words.index("-d") + 1])
    answer = client.helper(words[1].removeprefix("http://localhost"), sent)
    expected = 404 if "contactId" in helper.body else 200
    # The sample has no contact's id: that is to come from createLead.
    assert answer.status_code == expected, answer.text


@pytest.mark.parametrize("secret", [False, True])
def test_builders_can_read_their_snippets(secret):
    for helper in snippets.HELPERS:
        _read_snippets(helper, secret)


def _read_snippets(helper, secret):
    url = "https://hub.example.com" + helper.path.format(generated="g", portal="p")
    node = json.loads(snippets.n8n(helper, url, secret=secret))["nodes"][1]["parameters"]
    body, flow, *_ = json.loads(snippets.node_red(helper, url, secret=secret))
    assert node["url"] == flow["url"] == url
    assert body["wires"] == [[flow["id"]]]
    block = snippets.http_block(helper, url, secret=secret)
    assert json.loads(block.partition("\n\n")[2]).keys() == helper.body.keys()
    for text in (json.dumps(node), json.dumps(flow), block):
        assert ("X-Webhook-Secret" in text) is secret
    for name in helper.body:
        assert f"{name}: " in node["jsonBody"]
