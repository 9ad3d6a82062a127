"""OAuth on a HubSpot-like CRM: one renewal for all, and no call lost to an expired token."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs

import pytest

from adapters.fakes.hubspot import FakeHubSpot
from adapters.hubspot import HubSpotAdapter
from crmhub.adapter import BadConfig, Denied, Throttled, configured
from tests.adapters.hubspot.hubspot_crm import (
    OAUTH,
    TOKEN,
    VERSIONS,
    HubSpotCrm,
    adapted,
    connected,
)
from tests.loops import for_each


@pytest.fixture
def fake() -> Iterator[FakeHubSpot]:
    with HubSpotCrm(rotates=True) as crm:
        yield crm.fake


@for_each("version", VERSIONS, fresh="fake")
def test_a_token_is_asked_for_in_a_form_and_not_in_the_address(
    fake: FakeHubSpot, version: str
) -> None:
    adapted(fake, OAUTH, api_version=version).find_contact(email="ann@x.org")
    asked = fake.requests[0]
    assert (asked.method, asked.path, asked.query) == ("POST", f"/oauth/{version}/token", "")
    sent = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
    assert sent == {"grant_type": "refresh_token", **OAUTH}


def test_a_rotated_refresh_token_is_stored_and_used_next(fake: FakeHubSpot) -> None:
    connection = connected(fake, OAUTH)
    connection.adapter().find_contact(email="ann@x.org")
    stored = connection.credentials["refresh_token"]
    assert stored == fake.tokens.refresh_token != OAUTH["refresh_token"]
    fake.expire_tokens()
    connection.adapter().find_contact(email="ann@x.org")
    assert connection.credentials["refresh_token"] == fake.tokens.refresh_token != stored
    assert fake.tokens.refused_refreshes == 0


def test_the_limit_of_the_token_endpoint_is_kept(fake: FakeHubSpot) -> None:
    fake.fail(429, path="/oauth/*", times=None, retry_after="seconds", retry_seconds=3600)
    connection = connected(fake, OAUTH)
    with pytest.raises(Throttled) as caught:
        connection.adapter().find_contact(email="ann@x.org")
    assert caught.value.retry_after == 3600
    assert connection.budgets["oauth"].paused == [3600.0]
    assert connection.budgets["general"].paused == []


def test_a_refused_refresh_token_is_told_in_words(fake: FakeHubSpot) -> None:
    credentials = OAUTH | {"refresh_token": "revoked-refresh-token"}
    with pytest.raises(Denied) as caught:
        adapted(fake, credentials).check()
    assert "refresh token" in caught.value.message
    assert "revoked-refresh-token" not in caught.value.message


@for_each("left", [["client_id"], ["refresh_token"], ["client_id", "client_secret"]])
def test_half_of_oauth_is_no_credential(left: list[str]) -> None:
    some = {name: value for name, value in OAUTH.items() if name not in left}
    with pytest.raises(BadConfig) as caught:
        configured(HubSpotAdapter, {}, some)
    assert all(name in caught.value.message for name in ("access_token", *OAUTH))


@for_each("both", [{}, OAUTH | TOKEN, TOKEN | {"client_id": "some-client"}])
def test_a_token_and_oauth_together_or_neither_is_no_credential(both: dict[str, str]) -> None:
    with pytest.raises(BadConfig) as caught:
        configured(HubSpotAdapter, {}, both)
    assert not any(value in caught.value.message for value in both.values())


def test_people_approve_on_a_host_of_their_own() -> None:
    settings = {"base_url": "https://api.hubapi.com", "api_version": "2026-09"}
    oauth = HubSpotAdapter.oauth(settings)
    assert oauth
    assert oauth.authorize_url == "https://app.hubspot.com/oauth/authorize"
    assert oauth.token_url == "https://api.hubapi.com/oauth/2026-09/token"
