"""Who may call the fake: tokens, scopes, refreshes, paths and methods."""

from __future__ import annotations

import pytest
import requests

from tests.adapters.fakes.hubspot.calls import Api, refreshed

_DETAILS = "/account-info/2026-09/details"


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic abc", "wrong"])
def test_a_call_without_a_known_token_is_refused(api: Api, header: str) -> None:
    answer = requests.get(api.fake.url + _DETAILS, headers={"Authorization": header}, timeout=30)
    assert answer.status_code == 401
    assert answer.json()["category"] == "INVALID_AUTHENTICATION"
    assert answer.headers["x-hubspot-correlation-id"] == answer.json()["correlationId"]


@pytest.mark.parametrize("version", ["2026-09", "2026-03", "v3", "v1"])
def test_a_refresh_in_every_version(api: Api, version: str) -> None:
    answer = refreshed(api, f"/oauth/{version}/token").json()
    assert answer["hub_id"] == 62515
    assert (answer["expires_in"], answer["token_type"]) == (1800, "bearer")
    assert answer["refresh_token"] == "fake-refresh-token"
    assert api.fake.tokens.refreshes == 1


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"refresh_token": "x"}, "BAD_REFRESH_TOKEN"),
        ({"client_secret": "x"}, "BAD_CLIENT_SECRET"),
        ({"client_id": "x"}, "BAD_CLIENT_ID"),
        ({"grant_type": "password"}, "BAD_GRANT_TYPE"),
    ],
)
def test_wrong_credentials_refresh_nothing(api: Api, form: dict[str, str], status: str) -> None:
    answer = refreshed(api, **form)
    assert answer.status_code == 400
    assert answer.json()["status"] == status


def test_credentials_belong_in_the_form(api: Api) -> None:
    assert refreshed(api, "/oauth/2026-09/token?client_secret=x").status_code == 400
    answer = api.post("/oauth/2026-09/token", {"grant_type": "refresh_token"})
    assert answer.status_code == 415


def test_the_token_endpoint_has_a_limit_of_its_own(api: Api) -> None:
    api.post("/_control/settings", {"token_limit": "1/60s"})
    assert refreshed(api).status_code == 200
    answer = refreshed(api)
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 60


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "contacts", "crm.objects.contacts.read"),
        ("POST", "contacts", "crm.objects.contacts.write"),
        ("POST", "deals/batch/update", "crm.objects.deals.write"),
        ("POST", "tickets", "tickets"),
        ("GET", "/crm/owners/2026-09", "crm.objects.owners.read"),
    ],
)
def test_a_missing_scope_is_named(api: Api, method: str, path: str, scope: str) -> None:
    api.post("/_control/settings", {"scopes": ["oauth"]})
    answer = api(method, path, json={} if method == "POST" else None)
    assert (answer.status_code, answer.json()["category"]) == (403, "MISSING_SCOPES")
    assert scope in answer.json()["errors"][0]["context"]["requiredGranularScopes"]


def test_reading_needs_no_scope_to_write(api: Api) -> None:
    api.post("/_control/settings", {"scopes": ["crm.objects.contacts.read"]})
    assert api.search("contacts").status_code == 200
    assert api.get("/crm/properties/2026-09/contacts").status_code == 200
    assert api.get(_DETAILS).status_code == 200
    assert api.create("contacts", firstname="A").status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/crm",
        "/crm/objects/2025-01/contacts",
        "/crm/v4/objects/contacts",
        "/crm/v3/associations/deals/contacts/labels",
        "/crm/objects/2026-09/contacts/1/2",
        "/contacts/v1/contact",
    ],
)
def test_a_path_that_hubspot_does_not_have(api: Api, path: str) -> None:
    answer = api.get(path)
    assert (answer.status_code, answer.headers["Content-Type"][:9]) == (404, "text/html")


def test_an_unknown_object_type(api: Api) -> None:
    answer = api.get("unicorns")
    assert answer.status_code == 400
    assert answer.json()["message"] == "Unable to infer object type from: unicorns"


def test_a_method_that_a_path_does_not_take(api: Api) -> None:
    answer = api("PUT", "contacts")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, POST")


def test_an_overlong_address(api: Api) -> None:
    assert api.get("contacts", properties="x" * 9_000).status_code == 414


def test_a_body_that_is_not_called_json(api: Api) -> None:
    answer = api("POST", "contacts", data={"email": "a@b.co"})
    assert answer.status_code == 415
