"""The page of the fake HubSpot on which a person lets an app in, and the exchange of its code."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from tests.adapters.fakes.hubspot.calls import Api, refreshed

VERIFIER = "v" * 64
BACK = "http://127.0.0.1:9/callback"
ASKED = {
    "client_id": "fake-client-id",
    "redirect_uri": BACK,
    "scope": "oauth tickets",
    "state": "s-1",
    "code_challenge": create_s256_code_challenge(VERIFIER),
    "code_challenge_method": "S256",
}


def decided(api: Api, decision: str) -> dict[str, str]:
    """Return the parameters with which the browser is sent back."""
    answer = requests.post(
        f"{api.fake.url}/oauth/authorize",
        {**ASKED, "decision": decision},
        timeout=30,
        allow_redirects=False,
    )
    assert answer.status_code == 302
    target = urlsplit(answer.headers["Location"])
    assert f"{target.scheme}://{target.netloc}{target.path}" == BACK
    return {name: values[0] for name, values in parse_qs(target.query).items()}


def exchanged(api: Api, code: str, **form: str) -> requests.Response:
    form = {"redirect_uri": BACK, "code_verifier": VERIFIER, **form}
    return refreshed(api, grant_type="authorization_code", code=code, refresh_token="", **form)


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_id": "x"},
        {"redirect_uri": "javascript:alert(1)"},
        {"scope": "no.such.scope"},
        {"code_challenge_method": "plain"},
    ],
)
def test_a_wrong_request_leads_nowhere(api: Api, wrong: dict[str, str]) -> None:
    assert api.get("/oauth/authorize", **{**ASKED, **wrong}).status_code == 400


def test_denied_tells_the_app(api: Api) -> None:
    back = decided(api, "deny")
    assert (back["error"], back["state"], "code" in back) == ("access_denied", "s-1", False)


@pytest.mark.parametrize(
    "wrong",
    [{"code": "x"}, {"redirect_uri": "http://127.0.0.1:9/other"}, {"code_verifier": "w" * 64}],
)
def test_who_did_not_ask_gets_no_tokens(api: Api, wrong: dict[str, str]) -> None:
    form = {"code": decided(api, "approve")["code"], **wrong}
    assert exchanged(api, form.pop("code"), **form).json()["error"] == "invalid_grant"
