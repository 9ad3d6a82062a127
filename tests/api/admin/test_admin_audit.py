"""/admin/v1/audit: every change has its entry, with before and after, and never a secret."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import flask
import pytest

from crmhub.database.connection import Connection
from crmhub.database.statements import Statement
from crmhub.hub import Hub
from crmhub.secrets import BASE36, token
from tests.admin import Admin, open_admin
from tests.api.admin.test_admin_actions import end
from tests.api.endpoints import endpoints
from tests.api.helpers.helper_calls import known
from tests.api.refusals import refused
from tests.clients import Client
from tests.console.past import give_cause
from tests.duplicates import listed_pair, merge
from tests.events.receivers import HOOK, subscribe
from tests.fakes import CRMS, FAKE, FakeCrm, adapters
from tests.operators.traces import left
from tests.queue.working import rows

Json = Any


@pytest.fixture
def admin(app: flask.Flask, monkeypatch: pytest.MonkeyPatch) -> Admin:
    # Links begin with the public address.
    hub = app.extensions["crmhub"]
    public = replace(hub, settings=replace(hub.settings, public_url="https://hub.example.com"))
    monkeypatch.setitem(app.extensions, "crmhub", public)
    return open_admin(app)


@pytest.fixture
def name() -> str:
    """The name of a fake CRM of its own."""
    name = token(60, BASE36)
    CRMS[name] = FakeCrm()
    return name


def log(admin: Admin, **params: str) -> list[Json]:
    """Return the entries of one of the tests' programs, the newest first."""
    answer = admin.get("/audit", query_string={"limit": "100", **params})
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.get_json()["results"]
    return found


def of_account(admin: Admin, client: Client, **params: str) -> list[Json]:
    """Return the account's entries but the one that opened it."""
    return log(admin, account=client.account.client_id, **params)[:-1]


CHANGES: dict[str, tuple[str, Json, str]] = {
    # Operation, then request, body, and what the audit log says.
    "createAccount": ("POST /accounts", {"name": "x"}, "open account"),
    "updateAccount": ("PATCH {acc}", {"switches": {"strict": True}}, "change account"),
    "rotateWebhookId": ("POST {acc}/webhook-ids/rotate", {"what": "portal"}, "rotate webhookId"),
    "createKey": ("POST {acc}/keys", {}, "create key"),
    "revokeKey": ("DELETE {acc}/keys/{key}", None, "revoke key"),
    "setFieldMap": ("PUT {acc}/field-map", {"contacts": {"topic": "city"}}, "change fieldMap"),
    "setConnection": (
        "PUT {acc}/connection?check=false",
        {"adapter": "hubspot", "secrets": {"access_token": "x"}},
        "change connection",
    ),
    "createConnectLink": (
        "POST {acc}/connection/link",
        {"adapter": "hubspot", "secrets": {"client_id": "x", "client_secret": "y"}},
        "create connectLink",
    ),
    "enrolContactOfAccount": ("PUT {acc}/workflows/w/enrolments/{contact}", None, "enrol workflow"),
    "unenrolContactOfAccount": (
        "DELETE {acc}/workflows/w/enrolments/{contact}",
        None,
        "unenrol workflow",
    ),
    "setTeam": ("PUT {acc}/teams/New", {"members": ["a@x.org"]}, "create team"),
    "createTeamOfRotation": (
        "POST {acc}/teams/New/from-rotation",
        {"owners": ["a@x.org"]},
        "create team",
    ),
    "setTeamMember": ("PUT {acc}/teams/Old/members/a@x.org", {"weight": 2}, "change team"),
    "deleteTeamMember": ("DELETE {acc}/teams/Old/members/a@x.org", None, "change team"),
    "deleteTeam": ("DELETE {acc}/teams/Old", None, "remove team"),
    "mergeDuplicate": ("POST {acc}/duplicates/{pair}/merge", {"version": "1-1"}, "merge duplicate"),
    "unmergeDuplicate": ("POST {acc}/duplicates/{pair}/unmerge", None, "unmerge duplicate"),
    "dismissDuplicate": (
        "POST {acc}/duplicates/{pair}/dismiss",
        {"reason": "different"},
        "dismiss duplicate",
    ),
    "createEventSubscription": (
        "POST {acc}/events/subscriptions",
        {"url": HOOK, "types": ["lead.failed"]},
        "create eventSubscription",
    ),
    "updateEventSubscription": (
        "PATCH {acc}/events/subscriptions/{subscription}",
        {"types": ["lead.stored"]},
        "change eventSubscription",
    ),
    "deleteEventSubscription": (
        "DELETE {acc}/events/subscriptions/{subscription}",
        None,
        "remove eventSubscription",
    ),
    "replayEventSubscription": (
        "POST {acc}/events/subscriptions/{subscription}/replay",
        {"since": "2026-01-01T00:00:00Z"},
        "replay eventSubscription",
    ),
    "retryAction": ("POST /actions/{action}/retry", None, "retry actions"),
    "fixCause": ("POST /causes/{cause}/fix", {"how": "retry"}, "retry actions"),
    "retryActions": ("POST /actions/retry", {"ids": ["{action}"]}, "retry actions"),
    "editAction": ("POST /actions/{action}/edit", {"properties": {"name": "Bea"}}, "edit actions"),
    "discardAction": ("POST /actions/{action}/discard", {"reason": "x"}, "discard actions"),
    "discardActions": (
        "POST /actions/discard",
        {"ids": ["{action}"], "reason": "x"},
        "discard actions",
    ),
}
CHANGES_NOTHING = {
    "checkConnection",
    "previewCause",
    "previewFieldMap",
    "createAlertTest",
    "testEventSubscription",
}


def test_no_operation_that_changes_something_is_forgotten(app: flask.Flask) -> None:
    changing = {
        each.operation["operationId"]
        for each in endpoints(app)
        if each.of_admin and each.method != "GET"
    }
    assert changing == CHANGES.keys() | CHANGES_NOTHING


@pytest.mark.parametrize("operation", CHANGES)
def test_each_change_has_one_entry(hub: Hub, admin: Admin, client: Client, operation: str) -> None:
    request, body, what = CHANGES[operation]
    account = f"/accounts/{client.account.client_id}"
    contact_id = known(client)
    values = {"acc": account, "contact": contact_id, "key": _first_key(admin, account)}
    if "EventSubscription" in operation:
        made = subscribe(hub, client, "lead.accepted")
        values["subscription"] = made.subscription.id
    if "Action" in operation:
        ((values["action"],),) = rows(hub, client, "id")
        end(hub, client, values["action"], "dead")
    if "Team" in operation:
        admin.put(f"{account}/teams/Old", {"members": ["a@x.org"]})
    if operation == "fixCause":
        ((id,),) = rows(hub, client, "id")
        end(hub, client, id, "dead", f"{client.account.client_id}: is not a number")
        values["cause"] = give_cause(hub, client.account, id)
    if "Duplicate" in operation:
        pair = listed_pair(hub, client, contact_id, client.make())
        values["pair"] = "/".join(pair.ids)
    if operation == "unmergeDuplicate":
        merge(hub, client, *pair.ids)
    if operation == "unenrolContactOfAccount":
        admin.put(f"{account}/workflows/w/enrolments/{contact_id}")
    newest = log(admin)[0]["id"]
    method, _, path = request.format(**values).partition(" ")
    body = body and json.loads(json.dumps(body).replace("{action}", values.get("action", "")))
    answer = admin.call(method, path, body)
    assert answer.status_code < 300, answer.text
    (entry,) = (entry for entry in log(admin) if entry["id"] > newest)
    assert f"{entry['verb']} {entry['object']}" == what
    assert (entry["by"]["kind"], entry["by"]["name"]) == ("token", "tests")
    assert re.fullmatch("adm_[0-9A-Za-z]+", entry["by"]["id"])
    if operation != "createAccount":
        assert entry["clientId"] == client.account.client_id
    assert list(entry) == [
        "id", "at", "by", "verb", "object", "objectId", "clientId", "before", "after",
    ]  # fmt: skip


def _first_key(admin: Admin, account: str) -> str:
    key: str = admin.get(f"{account}/keys").get_json()["results"][0]["keyId"]
    return key


def test_an_entry_holds_what_differs_and_nothing_else(admin: Admin, client: Client) -> None:
    path = f"/accounts/{client.account.client_id}"
    admin.patch(path, {"name": "Acme", "switches": {"region": "DE", "strict": False}})
    admin.patch(path, {"disabled": True})
    disabled, changed = of_account(admin, client)
    assert changed["before"] == {"name": client.account.name, "region": ""}
    assert changed["after"] == {"name": "Acme", "region": "DE"}
    assert (disabled["before"], disabled["after"]) == ({"disabled": False}, {"disabled": True})
    assert disabled["objectId"] == client.account.client_id


def test_what_changes_nothing_has_no_entry(admin: Admin, client: Client) -> None:
    path = f"/accounts/{client.account.client_id}"
    admin.patch(path, {"switches": {"strict": False}, "plan": "unlimited", "disabled": False})
    admin.put(f"{path}/connection", {"adapter": "local"})
    admin.post(f"{path}/connection/check", {"adapter": "local"})
    key_id = _first_key(admin, path)
    for _ in range(3):
        admin.delete(f"{path}/keys/{key_id}")
    assert [entry["verb"] for entry in of_account(admin, client)] == ["revoke"]


def test_a_change_that_fails_has_no_entry(admin: Admin, client: Client, other: Client) -> None:
    alias = {"switches": {"portal_alias": token(40)}}
    admin.patch(f"/accounts/{other.account.client_id}", alias)
    path = f"/accounts/{client.account.client_id}"
    refused(admin.patch(path, {**alias, "name": "Not this"}), 409)
    refused(admin.put(f"{path}/connection?check=false", {"adapter": "hubspot"}), 422)
    refused(admin.put(f"{path}/workflows/w/enrolments/1"), 404)
    assert of_account(admin, client) == []
    assert admin.get(path).get_json()["name"] == client.account.name


def test_a_change_whose_entry_cannot_be_written_does_not_happen(
    hub: Hub, admin: Admin, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[str] = []

    def full(self: Connection, sql: str | Statement, params: Any = None) -> int:
        text = sql.text(self.dialect) if isinstance(sql, Statement) else sql
        if text.lower().startswith("insert into audit"):
            failed.append(text)
            raise RuntimeError("no room")
        return run(self, sql, params)

    run = Connection.run
    monkeypatch.setattr(Connection, "run", full)
    path = f"/accounts/{client.account.client_id}"
    for answer in (
        admin.patch(path, {"name": "Acme"}),
        admin.post(f"{path}/keys", {}),
        admin.put(f"{path}/connection?check=false", {"adapter": "hubspot", **_TOKEN}),
    ):
        assert answer.status_code == 500
    assert len(failed) == 3
    monkeypatch.undo()
    assert admin.get(path).get_json()["name"] == client.account.name
    assert admin.get(f"{path}/connection").get_json()["adapter"] == "local"
    assert len(admin.get(f"{path}/keys").get_json()["results"]) == 1


_TOKEN = {"secrets": {"access_token": "pat-planted"}}


def test_a_change_of_crm_shows_settings_and_hides_secrets(
    app: flask.Flask, admin: Admin, client: Client, name: str
) -> None:
    path = f"/accounts/{client.account.client_id}/connection?check=false"
    with adapters(app, FAKE):
        body = {"adapter": "fake", "settings": {"crm": name}}
        for secret in ("planted-one", "planted-one", "planted-two", None):
            admin.put(path, {**body, "secrets": {"access_token": secret}})
    gone, anew, came = of_account(admin, client)
    assert came["before"] == {"adapter": "local", "settings": {}, "secrets": {}}
    assert came["after"] == {
        "adapter": "fake",
        "settings": {"crm": name},
        "secrets": {"access_token": "set"},
    }
    assert anew["before"] == {"secrets": {"access_token": "set"}}
    assert anew["after"] == {"secrets": {"access_token": "set anew"}}
    assert gone["after"] == {"secrets": {}}


def test_no_secret_is_in_the_database(
    app: flask.Flask, hub: Hub, client: Client, name: str
) -> None:
    """Not in any form; ids that open something are where they are looked up only."""
    admin = open_admin(app)
    path = f"/accounts/{client.account.client_id}"
    planted = [f"planted-{token(80)}" for _ in range(3)]
    with adapters(app, FAKE):
        for check, secret in zip(("true", "false", "true"), planted, strict=True):
            body = {"adapter": "fake", "settings": {"crm": name}, "secrets": {}}
            body["secrets"] = {"access_token": secret}
            admin.put(f"{path}/connection?check={check}", body)
            admin.post(f"{path}/connection/check", body)
        admin.put(f"{path}/connection", {"adapter": planted[0], **_TOKEN})
    key = admin.post(f"{path}/keys", {}).get_json()["apiKey"]
    opened = admin.post("/accounts", {"name": "x"}).get_json()
    rotated = [
        admin.post(f"{path}/webhook-ids/rotate", {"what": what}).get_json()[what]
        for what in ("generated", "portal", "secret")
    ]
    secrets = [*planted, key, admin.token, opened["apiKey"], opened["webhookSecret"], rotated[2]]
    ids = [*rotated[:2], opened["generatedId"], client.ids.generated_id, client.ids.portal_id]
    theirs = hub.load_account(opened["clientId"])
    accounts = (client.account.id, theirs.id)
    assert [left(hub, secrets, account_id) for account_id in accounts] == [[], []]
    kept = [place for account_id in accounts for place in left(hub, ids, account_id)]
    assert {place.partition(":")[0] for place in kept} == {"webhook_id.value"}


def test_a_log_is_narrowed(app: flask.Flask, admin: Admin, client: Client) -> None:
    other = open_admin(app)
    path = f"/accounts/{client.account.client_id}"
    admin.patch(path, {"name": "One"})
    admin.post(f"{path}/keys", {})
    other.post(f"{path}/keys", {})
    assert len(of_account(admin, client)) == 3
    first, second = log(admin, account=client.account.client_id, object="key")
    assert first["by"]["id"] != second["by"]["id"]
    only = log(admin, account=client.account.client_id, by=second["by"]["id"])
    assert [entry["verb"] for entry in only] == ["create", "change"]
    assert len(log(admin, account=client.account.client_id, verb="open")) == 1
    assert len(log(admin, account=client.account.client_id, newerThan="1h")) == 4
    assert len(log(admin, account=client.account.client_id, when="24h")) == 4
    assert log(admin, account=client.account.client_id, when="..2000-01-01") == []
    assert log(admin, by="nobody") == []
    opened = log(admin, account=client.account.client_id, by="tests", verb="open")
    assert [(each["by"]["kind"], each["by"]["id"]) for each in opened] == [("cli", "")]


def test_pages_of_the_log_hold_everything_once(admin: Admin, client: Client) -> None:
    path = f"/accounts/{client.account.client_id}"
    for n in range(6):
        admin.patch(path, {"name": f"Name {n}"})
    link, seen = f"?account={client.account.client_id}&when=1d&limit=3", []
    while link:
        page = admin.get(f"/audit{link}").get_json()
        seen += [entry["after"].get("name") for entry in page["results"]]
        link = page["cursor"]["nextLink"]
        # Who repeats the filters beside the cursor gets the next page, too.
        link = link and f"{link}&when=1d&account={client.account.client_id}"
    assert seen == [f"Name {n}" for n in reversed(range(6))] + [client.account.name]


@pytest.mark.databases("sqlite")
def test_a_query_that_cannot_be_read_is_refused(admin: Admin) -> None:
    for query, status, words in [
        ("nope=1", 400, "known are"),
        ("object=contact", 400, "object: must be one of account"),
        ("verb=look", 400, "verb: must be one of open"),
        ("by=%20", 400, "by: is blank"),
        ("when=soon", 400, "when: must be today, yesterday"),
        ("when=2026-11-24.." + "0" * 80, 400, "when: must be today, yesterday"),
        ("newerThan=soon", 400, "newerThan: must be a number and s"),
        ("account=nobody", 404, "clientId 'nobody'"),
        ("cursor=x", 400, "this is no cursor"),
    ]:
        assert words in refused(admin.get(f"/audit?{query}"), status)
