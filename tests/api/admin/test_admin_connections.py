"""/admin/v1/…/connection: an account's CRM is asked before it is saved, in the CRM's own words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import flask
import pytest

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.adapter import Setting
from crmhub.adapter.oauth import KEPT
from crmhub.adapter.registry import GROUP
from crmhub.crm.stored_connections import open_credentials
from crmhub.hub import Hub
from tests.admin import Admin
from tests.api.helpers.helper_calls import known
from tests.api.refusals import refused
from tests.clients import Client
from tests.fakes import BROKEN, FAKE, FakeAdapter, adapters

Json = Any


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeHubSpot]:
    with FakeHubSpot() as fake:
        yield fake


def put(admin: Admin, client: Client, body: Json, query: str = "") -> Any:
    return admin.put(f"/accounts/{client.account.client_id}/connection{query}", body)


def stored(admin: Admin, client: Client) -> Json:
    return admin.get(f"/accounts/{client.account.client_id}/connection").get_json()


def credentials(hub: Hub, client: Client) -> dict[str, str]:
    return open_credentials(hub.vault, hub.load_account(client.account.client_id))


def hubspot(fake: FakeHubSpot, **secrets: Any) -> Json:
    return {"adapter": "hubspot", "settings": {"base_url": fake.url}, "secrets": secrets}


NO_WEBHOOKS = {"address": "", "byHub": False, "setAt": None, "until": None, "problem": ""}
LOCAL = {
    "adapter": "local",
    "id": 1,
    "settings": {},
    "secrets": [],
    "former": [],
    "restorable": [],
    "webhooks": NO_WEBHOOKS,
}


def test_a_crm_that_says_yes_is_used_at_once(
    admin: Admin, client: Client, fake: FakeHubSpot
) -> None:
    answer = put(admin, client, hubspot(fake, access_token=fake.token))
    assert answer.status_code == 200, answer.text
    assert answer.get_json() == stored(admin, client)
    now = stored(admin, client)
    assert f"/crm-changes/{client.account.client_id}/2-" in now["webhooks"].pop("address")
    assert now == {
        "adapter": "hubspot",
        "id": 2,
        "settings": {"base_url": fake.url},
        "secrets": ["access_token"],
        "former": [],
        "restorable": [],
        "webhooks": {name: one for name, one in NO_WEBHOOKS.items() if name != "address"},
    }
    assert known(client, email="at-once@x.org") in fake.contacts


def test_a_crm_that_says_no_is_not_saved_and_says_why(
    admin: Admin, client: Client, fake: FakeHubSpot
) -> None:
    wrong = hubspot(fake, access_token="pat-planted-and-wrong")
    message = refused(put(admin, client, wrong), 422)
    assert message.startswith("Not saved. HubSpot")
    assert "planted" not in message
    assert stored(admin, client) == LOCAL
    # Whoever knows better saves it all the same.
    assert put(admin, client, wrong, "?check=false").status_code == 200
    checked = admin.post(f"/accounts/{client.account.client_id}/connection/check", {})
    assert checked.get_json()["ok"] is False
    assert message.endswith(checked.get_json()["message"])


def test_what_would_be_set_is_tried_without_saving(
    admin: Admin, client: Client, fake: FakeHubSpot
) -> None:
    path = f"/accounts/{client.account.client_id}/connection/check"
    good, bad = hubspot(fake, access_token=fake.token), hubspot(fake, access_token="x")
    assert admin.post(path, good).get_json() == {"ok": True, "message": ""}
    assert admin.post(path, bad).get_json()["ok"] is False
    assert stored(admin, client) == LOCAL
    assert admin.post(path, {}).get_json() == {"ok": True, "message": ""}
    away = {**good, "settings": {"base_url": "http://127.0.0.1:9"}}
    told = admin.post(path, away).get_json()
    assert told["ok"] is False
    assert "Couldn't connect to http://127.0.0.1:9. Check the API address." in told["message"]


def test_secrets_stay_when_they_are_not_named_and_settings_do_not(
    admin: Admin, client: Client, fake: FakeHubSpot
) -> None:
    put(admin, client, hubspot(fake, access_token=fake.token))
    body = {"adapter": "hubspot", "settings": {"base_url": fake.url, "api_version": "2026-03"}}
    put(admin, client, body, "?check=false")
    assert stored(admin, client)["settings"]["api_version"] == "2026-03"
    assert put(admin, client, {**hubspot(fake), "secrets": {}}).status_code == 200
    assert stored(admin, client)["settings"] == {"base_url": fake.url}
    assert stored(admin, client)["secrets"] == ["access_token"]
    gone = put(admin, client, hubspot(fake, access_token=None), "?check=false")
    assert "access token" in refused(gone, 422)


def test_a_stored_secret_is_sent_to_no_other_address(
    admin: Admin, client: Client, fake: FakeHubSpot
) -> None:
    put(admin, client, hubspot(fake, access_token=fake.token))
    with FakeHubSpot() as thief:
        elsewhere = {"adapter": "hubspot", "settings": {"base_url": thief.url}}
        check = f"/accounts/{client.account.client_id}/connection/check"
        for answer in (
            put(admin, client, elsewhere),
            put(admin, client, elsewhere, "?check=false"),
            put(admin, client, {"adapter": "hubspot"}, "?check=false"),
            admin.post(check, elsewhere),
        ):
            message = refused(answer, 422)
            assert message.startswith("settings.base_url: it is another address than before")
            assert "send access_token again" in message
        assert stored(admin, client)["settings"] == {"base_url": fake.url}
        anew = {**elsewhere, "secrets": {"access_token": thief.token}}
        assert put(admin, client, anew).status_code == 200


class Webhook(FakeAdapter):
    """Its address is a secret, and not the only one."""

    settings = (*FakeAdapter.settings, Setting("webhook_url", "Webhook", "url", secret=True))


def test_a_stored_secret_is_sent_to_no_other_address_that_is_a_secret(
    app: flask.Flask, admin: Admin, client: Client
) -> None:
    webhook = EntryPoint("webhook", f"{__name__}:Webhook", GROUP)
    body: Json = {"adapter": "webhook", "settings": {"crm": "x"}}
    ours, theirs = "https://crm.example.test/rest/1", "https://thief.example.test/rest/1"
    with adapters(app, webhook):
        both = {"webhook_url": ours, "access_token": "t"}
        assert put(admin, client, {**body, "secrets": both}).status_code == 200
        message = refused(put(admin, client, {**body, "secrets": {"webhook_url": theirs}}), 422)
        assert message.startswith("secrets.webhook_url: it is another address than before")
        assert "send access_token again" in message
        astray = {"crm": "x", "webhook_url": theirs}
        message = refused(put(admin, client, {**body, "settings": astray}), 422)
        assert "webhook_url: Fake has no such setting" in message
        anew = {"webhook_url": theirs, "access_token": "u"}
        assert put(admin, client, {**body, "secrets": anew}).status_code == 200


def test_a_refresh_token_that_was_tried_is_kept_with_what_came_for_it(
    hub: Hub, admin: Admin, client: Client, fake: FakeHubSpot
) -> None:
    names = ("client_id", "client_secret", "refresh_token")
    given = {name: getattr(fake.options, name) for name in names}
    answer = put(admin, client, hubspot(fake, **given))
    assert answer.status_code == 200, answer.text
    assert stored(admin, client)["secrets"] == sorted(names)
    kept = credentials(hub, client)
    assert kept[KEPT], "the access token that the check was made with"
    assert {name: kept[name] for name in given} == given
    # Trying it again as it is stored renews nothing that is still good.
    assert put(admin, client, hubspot(fake)).status_code == 200
    assert credentials(hub, client) == kept


@pytest.mark.databases("sqlite")
def test_what_the_adapter_does_not_declare_is_422(
    app: flask.Flask, admin: Admin, client: Client
) -> None:
    for body, words in [
        ({"adapter": "nocrm"}, "adapter: No adapter named 'nocrm' is installed"),
        ({"adapter": "broken"}, "adapter: The adapter 'broken'"),
        ({"adapter": "local", "settings": {"colour": "red"}}, "colour: local has no such setting"),
        ({"adapter": "hubspot", "settings": {"access_token": "x"}}, "has no such setting"),
        ({"adapter": "hubspot", "secrets": {"access_grant": "x"}}, "the adapter keeps this itself"),
        ({"adapter": "hubspot", "settings": {"base_url": "ftp://x"}}, "base_url: 'ftp://x'"),
    ]:
        for query in ["", "?check=false"]:
            with adapters(app, BROKEN):
                assert words in refused(put(admin, client, body, query), 422)
            assert stored(admin, client) == LOCAL, (body, query)


@pytest.mark.parametrize(
    ("body", "query", "words"),
    [
        ({"adapter": "local", "settings": []}, "", "settings: must be an object"),
        ({"adapter": "local", "secrets": {"a": {}}}, "", "secrets.a: "),
        ({"adapter": "local"}, "?check=no", "check: must be one of true, false"),
        ({"adapter": "local"}, "?ask=true", "ask: is not known here"),
    ],
)
def test_a_connection_that_cannot_be_read_is_400(
    admin: Admin, client: Client, body: Json, query: str, words: str
) -> None:
    assert words in refused(put(admin, client, body, query), 400)


def test_an_adapter_that_cannot_ask_is_saved(
    app: flask.Flask, admin: Admin, client: Client
) -> None:
    with adapters(app, FAKE):
        body = {"adapter": "fake", "settings": {"crm": "x"}}
        assert put(admin, client, body).status_code == 200
        checked = admin.post(f"/accounts/{client.account.client_id}/connection/check", {})
    assert "Its settings are complete" in checked.get_json()["message"]


def test_adapters_are_listed_with_what_can_be_set(app: flask.Flask, admin: Admin) -> None:
    with adapters(app, BROKEN):
        listed = {one["name"]: one for one in admin.get("/adapters").get_json()["results"]}
    assert listed["broken"]["error"]
    one = admin.get("/adapters/hubspot").get_json()
    assert one == listed["hubspot"]
    settings = {each["name"]: each for each in one["settings"]}
    assert settings["access_token"]["secret"] is True
    assert KEPT not in settings
    assert settings["base_url"]["default"] == "https://api.hubapi.com"
    assert "installed are" in refused(admin.get("/adapters/nocrm"), 404)
    assert json.dumps(one).count("kept") == 0


def test_a_former_crm_is_restored(admin: Admin, client: Client, fake: FakeHubSpot) -> None:
    put(admin, client, hubspot(fake, access_token=fake.token))
    put(admin, client, {"adapter": "local"})
    [kept] = stored(admin, client)["restorable"]
    assert (kept["id"], kept["adapter"], kept.keys()) == (2, "hubspot", {"id", "adapter", "leftAt"})
    answer = put(admin, client, {"adapter": "hubspot", "restore": True})
    assert answer.status_code == 200, answer.text
    assert answer.get_json()["settings"] == {"base_url": fake.url}
    assert answer.get_json()["secrets"] == ["access_token"]
    assert answer.get_json()["id"] == 4
    again = {"adapter": "hubspot", "restore": True}
    assert "uses hubspot now" in refused(put(admin, client, again), 422)


def test_a_link_for_a_customer_needs_the_public_address(
    app: flask.Flask, admin: Admin, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/accounts/{client.account.client_id}/connection/link"
    body = {"adapter": "hubspot", "secrets": {"client_id": "a", "client_secret": "b"}, "days": 2}
    assert "CRMHUB_PUBLIC_URL" in refused(admin.post(path, body), 422)
    hub = app.extensions["crmhub"]
    public = replace(hub, settings=replace(hub.settings, public_url="https://hub.example.com"))
    monkeypatch.setitem(app.extensions, "crmhub", public)
    made = admin.post(path, body)
    assert made.status_code == 201, made.text
    assert made.get_json()["url"].startswith("https://hub.example.com/console/connect/")
    assert "days" in refused(admin.post(path, body | {"days": 31}), 400)


def test_a_test_warns_of_required_properties_that_nothing_fills(
    admin: Admin, client: Client, fake: FakeHubSpot
) -> None:
    fake.require("contacts", "email", "jobtitle", "city")
    fake.require("deals", "dealname", "amount")
    put(admin, client, hubspot(fake, access_token=fake.token))
    path = f"/accounts/{client.account.client_id}"
    admin.put(f"{path}/field-map", {"contacts": {"city": {"constant": "Rome", "set": "empty"}}})
    checked = admin.post(f"{path}/connection/check", {}).get_json()
    assert (checked["ok"], checked["message"]) == (True, "")
    assert checked["warnings"] == [
        "The CRM requires jobtitle of new contacts. Set a constant for jobtitle in the field map.",
        "The CRM requires amount of new deals. Set a constant for amount in the field map, or let"
        " the bot send it.",
    ]
    sent = {"contactToken": "t", "name": "Ann Lee", "email": "ann@example.com"}
    answer = client.helper("/chatbot/createLead/{generated}", sent)
    assert answer.status_code == 422
    assert "Set a constant for jobtitle in the field map" in answer.get_json()["message"]
