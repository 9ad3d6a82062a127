"""The access tokens of a fake, the grants of its token endpoint, and its OAuth page."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from adapters.fakes import tokens
from adapters.fakes.authorizing import Authorizations
from adapters.fakes.tokens import Tokens
from tests.adapters.fakes.conftest import Client
from tests.adapters.fakes.tiny_crm import TinyCrm
from tests.clocks import clock_of

FORM = {
    "grant_type": "refresh_token",
    "client_id": "fake-client-id",
    "client_secret": "fake-client-secret",
    "refresh_token": "fake-refresh-token",
}
BACK = "http://127.0.0.1:9/callback?tenant=1"
VERIFIER = "v" * 64
ASKED = {
    "client_id": "fake-client-id",
    "redirect_uri": BACK,
    "scope": "read write",
    "state": "s-1",
    "code_challenge": create_s256_code_challenge(VERIFIER),
    "code_challenge_method": "S256",
}


def granted(client: Client, **form: str) -> requests.Response:
    return client("POST", "/token", data={**FORM, **form}, headers={"X-Token": ""})


def use(client: Client, token: str) -> str:
    answer = client("GET", "/contacts/1", headers={"X-Token": token})
    return "valid" if answer.status_code == 404 else str(answer.json()["message"])


def test_a_refreshed_token_is_valid_until_it_expires(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = clock_of(tokens, monkeypatch)
    client.change(expires_in=60)
    token = granted(client).json()["access_token"]
    assert use(client, token) == "valid"
    clock.forward(61)
    assert use(client, token) == "the token is expired"
    assert use(client, "x") == "the token is unknown"


def test_expired_tokens_come_back_by_a_refresh_only(client: Client) -> None:
    former = granted(client).json()["access_token"]
    client("POST", "/_control/expire")
    assert {use(client, one) for one in ("tiny-key", former)} == {"the token is expired"}
    assert use(client, granted(client).json()["access_token"]) == "valid"


def test_a_refresh_token_rotates_where_it_is_wanted(client: Client) -> None:
    assert granted(client).json()["refresh_token"] == FORM["refresh_token"]
    client.change(rotates=True)
    following = granted(client).json()["refresh_token"]
    assert granted(client).json() == {"error": "invalid_grant", "field": "refresh_token"}
    assert granted(client, refresh_token=following).status_code == 200
    state = client.state()
    assert (state["refreshes"], state["refusedRefreshes"]) == (3, 1)


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ("grant_type", "unsupported_grant_type"),
        ("client_id", "invalid_client"),
        ("client_secret", "invalid_client"),
        ("refresh_token", "invalid_grant"),
    ],
)
def test_a_wrong_field_is_named(client: Client, field: str, error: str) -> None:
    assert granted(client, **{field: "x"}).json() == {"error": error, "field": field}


def test_a_further_token_ends_the_oldest_one() -> None:
    few = Tokens(most_live=2, prefix="p-")
    issued = [few.issue() for _ in range(3)]
    assert [few.state(token) for token in issued] == ["unknown", "valid", "valid"]
    assert issued[0].startswith("p-")
    assert Tokens().state("") == "unknown"


def test_a_person_lets_an_app_in(crm: TinyCrm, client: Client) -> None:
    page = requests.get(f"{crm.url}/oauth/authorize", ASKED, timeout=30)
    assert "Connect an app to your tiny &lt;CRM&gt; account" in page.text
    assert "<li>read</li><li>write</li>" in page.text
    decided = requests.post(
        f"{crm.url}/oauth/authorize",
        {**ASKED, "decision": "approve"},
        timeout=30,
        allow_redirects=False,
    )
    back = parse_qs(urlsplit(decided.headers["Location"]).query)
    assert (back["tenant"], back["state"]) == (["1"], ["s-1"])
    form = {
        "grant_type": "authorization_code",
        "code": back["code"][0],
        "redirect_uri": BACK,
        "code_verifier": VERIFIER,
    }
    assert use(client, granted(client, **form).json()["access_token"]) == "valid"
    assert granted(client, **form).json()["field"] == "code"


def test_scopes_that_are_chosen_elsewhere_are_not_asked_for() -> None:
    page = Authorizations("Acme", "me")
    asked = {"client_id": "me", "redirect_uri": BACK}
    assert page.answer("GET", asked).status == 200
    with_scopes = Authorizations("Acme", "me", known_scopes=frozenset({"a.b", "c"}), separator=",")
    assert with_scopes.answer("GET", asked).status == 400
    shown = with_scopes.answer("GET", {**asked, "scope": "a.b,c"})
    assert b"<li>a.b</li><li>c</li>" in shown.body
