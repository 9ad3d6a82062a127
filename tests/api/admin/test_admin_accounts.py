"""/admin/v1/accounts, keys, plans, usage and enrolments: what operators set by program."""

from __future__ import annotations

from typing import Any

import flask
import pytest

from crmhub.hub import Hub
from crmhub.secrets import BASE36, token
from tests.admin import Admin, ok
from tests.api.helpers.helper_calls import known
from tests.api.refusals import refused
from tests.clients import Client

Json = Any


def of(client: Client, tail: str = "") -> str:
    return f"/accounts/{client.account.client_id}{tail}"


# --- accounts ----------------------------------------------------------------------------------


def test_an_opened_account_can_be_called_at_once(app: flask.Flask, admin: Admin) -> None:
    name = token(40, BASE36)
    made = ok(admin.post("/accounts", {"name": f"Acme {name}", "plan": "free"}), 201)
    assert list(made) == ["clientId", "apiKey", "generatedId", "portalId", "webhookSecret"]
    assert made["clientId"] == f"acme-{name}"
    headers = {"service-apikey": made["apiKey"]}
    contacts = app.test_client().get(f"/{made['clientId']}/api/v1/contacts", headers=headers)
    assert contacts.status_code == 200
    shown = ok(admin.get(f"/accounts/{made['clientId']}"))
    assert (shown["generatedId"], shown["portalId"]) == (made["generatedId"], made["portalId"])
    assert (shown["name"], shown["plan"], shown["adapter"]) == (f"Acme {name}", "free", "local")
    assert shown["connection"] == {"id": 1, "settings": {}, "secrets": []}
    assert made["apiKey"] not in str(shown)
    assert made["webhookSecret"] not in str(shown)


@pytest.mark.databases("sqlite")
def test_an_account_that_cannot_be_is_refused(admin: Admin) -> None:
    for body, status, words in [
        ({}, 400, "name: is missing"),
        ({"name": "x", "color": "red"}, 400, "color: is not known here; known are name, clientId"),
        ({"name": " "}, 422, "cannot be the name of an account"),
        ({"name": "x", "clientId": "X"}, 422, "'X' is not a client id"),
        ({"name": "x", "clientId": "admin"}, 422, "path of the service itself"),
        ({"name": "x", "plan": "gold"}, 422, "plan: there is no plan 'gold'; known are default"),
        ({"name": "x", "adapter": "nocrm"}, 422, "adapter: No adapter named 'nocrm'"),
    ]:
        assert words in refused(admin.post("/accounts", body), status)


def test_a_taken_client_id_is_409(admin: Admin, client: Client) -> None:
    body = {"name": "x", "clientId": client.account.client_id}
    assert "is taken" in refused(admin.post("/accounts", body), 409)


def test_pages_hold_every_account_once(hub: Hub, admin: Admin, client: Client) -> None:
    link, seen = "?limit=100", []
    while link:
        page = ok(admin.get(f"/accounts{link}"))
        assert list(page) == ["results", "cursor", "hasMore"]
        seen += [one["clientId"] for one in page["results"]]
        link = page["cursor"]["nextLink"]
        assert page["hasMore"] is bool(link)
    assert len(seen) == len(set(seen))
    assert client.account.client_id in seen


def test_a_cursor_of_another_list_is_400(admin: Admin, client: Client, other: Client) -> None:
    cursor = ok(admin.get("/accounts?limit=1"))["cursor"]["next"]
    assert "no cursor" in refused(admin.get(f"/audit?cursor={cursor}"), 400)
    assert len(ok(admin.get(f"/accounts?cursor={cursor}"))["results"]) == 1


def test_what_is_not_named_stays(admin: Admin, client: Client) -> None:
    changed = ok(admin.patch(of(client), {"switches": {"strict": True, "deadline_s": 4.5}}))
    assert changed["switches"]["strict"] is True
    assert changed["switches"]["deadline_s"] == 4.5
    body = {"name": "New  name", "plan": "free", "switches": {"region": "de", "portal_alias": ""}}
    changed = ok(admin.patch(of(client), body))
    assert (changed["name"], changed["plan"]) == ("New name", "free")
    assert (changed["switches"]["strict"], changed["switches"]["region"]) == (True, "DE")
    assert ok(admin.get(of(client))) == changed
    assert ok(admin.patch(of(client), {})) == changed


def test_every_faulty_switch_is_named_with_its_place(admin: Admin, client: Client) -> None:
    switches = {"deadline_s": 26, "region": "XX", "rotation": "often", "portal_alias": "a b"}
    body = {"plan": "gold", "name": "\t", "switches": switches}
    message = refused(admin.patch(of(client), body), 422)
    for words in (
        "switches.deadline_s: '26' is not a number of seconds",
        "switches.region: 'XX'",
        "switches.rotation: 'often' is not a rotation",
        "switches.portal_alias: give 1 to 64",
        "plan: there is no plan 'gold'",
        "name: '\\t' cannot be",
    ):
        assert words in message
    wrong = refused(admin.patch(of(client), {"switches": {"strict": "true", "x": 1}}), 400)
    assert "switches.strict: must be true or false" in wrong
    assert "switches.x: is not known here" in wrong


def test_a_disabled_account_is_refused_until_it_is_enabled(admin: Admin, client: Client) -> None:
    assert ok(admin.patch(of(client), {"disabled": True}))["disabled"] is True
    assert client.get("/contacts").status_code == 401
    assert ok(admin.patch(of(client), {"disabled": False}))["disabled"] is False
    assert client.get("/contacts").status_code == 200


def test_an_alias_of_another_account_is_409(admin: Admin, client: Client, other: Client) -> None:
    alias = {"switches": {"portal_alias": token(40)}}
    ok(admin.patch(of(client), alias))
    assert "by another account" in refused(admin.patch(of(other), alias), 409)


@pytest.mark.parametrize(
    ("method", "tail", "body"),
    [
        ("GET", "", None),
        ("PATCH", "", {}),
        ("GET", "/keys", None),
        ("POST", "/keys", {}),
        ("DELETE", "/keys/key_x", None),
        ("GET", "/connection", None),
        ("PUT", "/connection", {"adapter": "local"}),
        ("POST", "/connection/check", {}),
        ("POST", "/webhook-ids/rotate", {"what": "secret"}),
        ("GET", "/usage", None),
        ("GET", "/enrolments", None),
        ("PUT", "/workflows/w/enrolments/1", None),
        ("DELETE", "/workflows/w/enrolments/1", None),
    ],
)
def test_an_account_that_is_not_there_is_404(
    admin: Admin, method: str, tail: str, body: Json
) -> None:
    for client_id in ("nobody", "X", "%20", "x" * 300):
        answer = admin.call(method, f"/accounts/{client_id}{tail}", body)
        assert "no account with the client id" in refused(answer, 404)


# --- webhook ids -------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["generated", "portal"])
def test_a_replaced_id_stays_valid_for_a_week(admin: Admin, client: Client, what: str) -> None:
    rotated = ok(admin.post(of(client, "/webhook-ids/rotate"), {"what": what}))
    assert list(rotated) == [what, "oldValidUntil"]
    shown = ok(admin.get(of(client)))
    assert shown[f"{what}Id"] == rotated[what]
    (old,) = shown["oldIds"][what]
    assert old["expiresAt"][:16] == rotated["oldValidUntil"][:16]
    assert old["id"] in (client.ids.generated_id, client.ids.portal_id)


def test_a_replaced_secret_ends_at_once_when_told(hub: Hub, admin: Admin, client: Client) -> None:
    body = {"what": "secret", "keepOld": "0s"}
    rotated = ok(admin.post(of(client, "/webhook-ids/rotate"), body))
    assert hub.directory.by_secret(client.ids.webhook_secret) is None
    found = hub.directory.by_secret(rotated["secret"])
    assert found is not None
    assert found.id == client.account.id


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"what": "alias"}, 400, "what: must be one of generated, portal, secret"),
        ({"what": "secret", "keepOld": "soon"}, 400, "keepOld: must be a number and s"),
        ({"what": "secret", "keepOld": "999999w"}, 422, "3650d at most"),
    ],
)
def test_a_rotation_that_makes_no_sense_is_refused(
    admin: Admin, client: Client, body: Json, status: int, words: str
) -> None:
    assert words in refused(admin.post(of(client, "/webhook-ids/rotate"), body), status)


# --- keys --------------------------------------------------------------------------------------


def test_a_key_is_shown_once_and_does_what_its_scopes_say(admin: Admin, client: Client) -> None:
    body = {"scopes": ["deals:read"], "expiresAt": "2031-12-31"}
    made = ok(admin.post(of(client, "/keys"), body), 201)
    assert list(made) == ["keyId", "apiKey", "scopes", "expiresAt"]
    assert (made["scopes"], made["expiresAt"]) == (["deals:read"], "2031-12-31T00:00:00.000Z")
    headers = {"service-apikey": made["apiKey"]}
    assert client.get("/deals", headers=headers).status_code == 200
    assert client.get("/contacts", headers=headers).status_code == 403
    first, second = ok(admin.get(of(client, "/keys")))["results"]
    assert (second["keyId"], second["hint"]) == (made["keyId"], made["apiKey"][-4:])
    assert len(first["scopes"]) == 9
    assert made["apiKey"] not in str(second)


def test_a_revoked_key_ends_at_once(admin: Admin, client: Client, other: Client) -> None:
    made = ok(admin.post(of(client, "/keys"), {}), 201)
    headers = {"service-apikey": made["apiKey"]}
    assert client.get("/deals", headers=headers).status_code == 200
    theirs = of(other, f"/keys/{made['keyId']}")
    assert "has no key" in refused(admin.delete(theirs), 404)
    for _ in range(2):
        ok(admin.delete(of(client, f"/keys/{made['keyId']}")), 204)
    assert client.get("/deals", headers=headers).status_code == 401


@pytest.mark.databases("sqlite")
def test_a_key_that_cannot_be_is_refused(admin: Admin, client: Client) -> None:
    for body, status, words in [
        ({"scopes": ["all"]}, 400, "does not know 'all'; known are contacts:read"),
        ({"scopes": []}, 400, "scopes: is empty"),
        ({"expiresAt": "soon"}, 400, "expiresAt: must be a date such as"),
        ({"expiresAt": "2031-12-31T08:00"}, 400, "expiresAt: must be a date such as"),
        ({"expiresAt": "2031-02-30"}, 422, "expiresAt: 2031-02-30 is not in the calendar."),
        ({"expiresAt": "9999-12-31T23:59:59-14:00"}, 422, "is not in the calendar"),
        ({"expiresAt": "2001-01-01"}, 422, "the time has passed already"),
    ]:
        assert words in refused(admin.post(of(client, "/keys"), body), status)


# --- plans, usage, enrolments ------------------------------------------------------------------


def test_plans_show_their_limits(admin: Admin) -> None:
    plans = {one["name"]: one for one in ok(admin.get("/plans"))["results"]}
    assert plans["unlimited"]["rateLimit"] is None
    assert plans["free"]["rateLimit"] == "100/10s"
    assert plans["free"]["quotas"]["contacts"] == 1000


def test_usage_is_what_the_account_itself_is_told(admin: Admin, client: Client) -> None:
    client.make()
    usage = ok(admin.get(of(client, "/usage")))
    assert usage["resources"]["contacts"]["used"] == 1
    assert usage == client.get("/usage").get_json()


def test_enrolments_come_are_listed_and_go(admin: Admin, client: Client, other: Client) -> None:
    ids = [known(client, f"t{n}", email=f"t{n}@x.org") for n in range(3)]
    for contact_id in ids:
        ok(admin.put(of(client, f"/workflows/a/enrolments/{contact_id}")), 204)
    ok(admin.put(of(client, f"/workflows/b/enrolments/{ids[0]}")), 204)
    link, seen = "?limit=3", []
    while link:
        page = ok(admin.get(of(client, f"/enrolments{link}")))
        seen += [(one["contactId"], one["workflowId"]) for one in page["results"]]
        link = page["cursor"]["nextLink"]
    assert seen == sorted([(ids[0], "b"), *((id, "a") for id in ids)])
    assert len(ok(admin.get(of(client, "/enrolments?workflowId=a")))["results"]) == 3
    assert len(ok(admin.get(of(client, f"/enrolments?contactId={ids[0]}")))["results"]) == 2
    assert ok(admin.get(of(other, "/enrolments")))["results"] == []
    ok(admin.delete(of(client, f"/workflows/b/enrolments/{ids[0]}")), 204)
    refused(admin.delete(of(client, f"/workflows/b/enrolments/{ids[0]}")), 404)
    refused(admin.put(of(client, "/workflows/b/enrolments/1")), 404)
    assert len(ok(admin.get(of(client, "/enrolments")))["results"]) == 3
