"""Sign-in by OpenID Connect, against a provider on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_network
from urllib.parse import parse_qs, urlsplit

import flask
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from crmhub.egress import Egress
from crmhub.hub import Hub
from crmhub.operators.users.console_users import invite, set_disabled
from crmhub.users.openid import OpenId
from tests.clients import TESTS
from tests.console.openid_provider import CLIENT_ID, CLIENT_SECRET, Provider
from tests.console.test_users import enter, later, turn_on
from tests.consoles import PASSWORD, Operator, new_user, text_of, unused_email

pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.close()


@pytest.fixture
def app(app: flask.Flask, provider: Provider) -> Iterator[flask.Flask]:
    """The application, whose users may sign in with the provider."""
    hub: Hub = app.extensions["crmhub"]
    egress = Egress(allow=[ip_network("127.0.0.0/8")])
    openid = OpenId(egress, provider.issuer, CLIENT_ID, CLIENT_SECRET)
    app.extensions["crmhub"] = with_provider = replace(hub)
    vars(with_provider)["openid"] = openid
    yield app
    app.extensions["crmhub"] = hub
    egress.close()


@pytest.fixture
def email(hub: Hub) -> str:
    return new_user(hub)


def go(browser: Operator, provider: Provider, email: str, **query: str) -> dict[str, str]:
    """Go to the provider and sign in there; return what the browser brings back."""
    answer = browser.get("/sign-in/provider", query_string=query)
    assert answer.status_code == 303, text_of(answer)
    assert answer.location.startswith(f"{provider.issuer}/authorize?")
    return provider.authorize(answer.location, email)


def come_back(browser: Operator, back: dict[str, str]):
    return browser.get("/sign-in/provider/back", query_string=back)


def test_a_user_signs_in_with_the_provider(app, provider, email):
    browser = Operator(app)
    assert "Sign in with single sign-on" in text_of(browser.get("/sign-in"))
    back = go(browser, provider, email.upper(), next="/console/audit")
    answer = come_back(browser, back)
    assert (answer.status_code, answer.location) == (303, "/console/audit")
    assert email in text_of(browser.get("/accounts"))


def test_the_pages_of_the_provider_are_asked_for_with_the_hosts_own_address(app, provider):
    answer = Operator(app).get("/sign-in/provider", base_url="https://hub.example.com")
    asked = parse_qs(urlsplit(answer.location).query)
    assert asked["redirect_uri"] == ["https://hub.example.com/console/sign-in/provider/back"]
    for secret in (CLIENT_SECRET, "code_verifier"):
        assert secret not in answer.location


def test_an_invited_person_joins_with_the_provider_and_nobody_else_does(app, hub, provider):
    stranger = Operator(app)
    answer = come_back(stranger, go(stranger, provider, "stranger@example.com"))
    assert answer.status_code == 401
    assert "Ask an owner for an invitation" in text_of(answer)
    assert stranger.get("/accounts").status_code == 303
    email = unused_email()
    link = invite(hub, email, role="reader", by=TESTS)
    invited = Operator(app)
    assert come_back(invited, go(invited, provider, email)).status_code == 303
    assert invited.get("/accounts").status_code == 200
    assert invited.get("/users").status_code == 403
    # The link, which may lie in a mailbox, is of no more use.
    assert Operator(app).get(f"/join/{link}").status_code == 404


def test_an_invitation_that_has_ended_and_a_disabled_user_do_not_get_in(
    app, hub, provider, email, time_machine
):
    late = unused_email()
    invite(hub, late, role="reader", by=TESTS)
    set_disabled(hub, email, True, by=TESTS)
    time_machine.move_to(time.time() + 8 * 24 * 3600, tick=True)
    for one in (late, email):
        browser = Operator(app)
        assert come_back(browser, go(browser, provider, one)).status_code == 401


def test_a_token_that_says_anything_else_lets_nobody_in(app, provider, email):
    for claims in (
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another client"},
        {"aud": [CLIENT_ID, "another client"]},
        {"aud": [CLIENT_ID], "azp": "another client"},
        {"aud": None},
        {"iss": "https://evil.example"},
        # In 2001.
        {"exp": 1_000_000_000},
        {"exp": None},
        {"exp": "tomorrow"},
        # In 2096.
        {"iat": 4_000_000_000},
        {"email_verified": False},
        {"email_verified": "true"},
        {"email_verified": None},
        {"email": None},
        {"email": ["a@example.com"]},
        {"sub": None},
    ):
        provider.claims = claims
        browser = Operator(app)
        answer = come_back(browser, go(browser, provider, email))
        assert answer.status_code == 401, claims
        assert browser.get("/accounts").status_code == 303, claims


@pytest.mark.parametrize("verified", [True, "true", "1"])
def test_entra_id_verifies_the_domain_of_the_email(app, provider, email, verified):
    provider.claims = {"email_verified": None, "xms_edov": verified}
    browser = Operator(app)
    assert come_back(browser, go(browser, provider, email)).status_code == 303


@pytest.mark.parametrize(
    "claims",
    [
        {"email_verified": None, "xms_edov": False},
        {"email_verified": None, "xms_edov": "0"},
        {"email_verified": False, "xms_edov": True},
    ],
)
def test_an_email_of_a_domain_that_is_not_verified_lets_nobody_in(app, provider, email, claims):
    provider.claims = claims
    browser = Operator(app)
    assert come_back(browser, go(browser, provider, email)).status_code == 401


def test_a_short_token_leaves_the_email_to_the_userinfo_endpoint(app, provider, email):
    provider.claims = {"email_verified": None}
    provider.user_info = {"sub": "1234", "email": email, "email_verified": True}
    browser = Operator(app)
    assert come_back(browser, go(browser, provider, email)).status_code == 303
    assert provider.calls[-1] == "/realm/info"


@pytest.mark.parametrize(
    ("claims", "info"),
    [
        ({"email_verified": None}, {"sub": "another"}),
        ({"email_verified": None}, {"email_verified": False}),
        ({"email_verified": None}, {"email_verified": "true"}),
        ({"email_verified": None}, {"email": None}),
        ({"email_verified": False}, {}),
    ],
)
def test_userinfo_of_anybody_else_or_unverified_lets_nobody_in(app, provider, email, claims, info):
    provider.claims = claims
    provider.user_info = {"sub": "1234", "email": email, "email_verified": True, **info}
    browser = Operator(app)
    assert come_back(browser, go(browser, provider, email)).status_code == 401


def test_a_token_without_the_providers_signature_lets_nobody_in(app, provider, email):
    for how in ("unsigned", "signed_by_another", "signed_with_the_public_key", "broken"):
        provider.sign = getattr(provider, how, lambda _: "no.token")
        browser = Operator(app)
        assert come_back(browser, go(browser, provider, email)).status_code == 401, how
        assert browser.get("/accounts").status_code == 303, how


def test_a_code_is_for_one_browser_once(app, provider, email):
    browser, thief = Operator(app), Operator(app)
    back = go(browser, provider, email)
    # A code that a thief got hold of, with the state of the victim and with their own.
    thief.get("/sign-in")
    assert come_back(thief, back).status_code == 401
    own = go(thief, provider, "thief@example.com")
    assert come_back(thief, {"code": back["code"], "state": own["state"]}).status_code == 401
    assert thief.get("/accounts").status_code == 303
    # The attempt has used up the code.
    assert come_back(browser, back).status_code == 401
    back = go(browser, provider, email)
    assert come_back(browser, back).status_code == 303
    browser.send("/sign-out", at="/accounts")
    assert come_back(browser, back).status_code == 401


@pytest.mark.parametrize(
    "back", [{}, {"error": "access_denied"}, {"code": "x"}, {"code": "x", "state": "é.\0"}]
)
def test_what_comes_back_without_a_state_is_refused(app, provider, back):
    browser = Operator(app)
    browser.get("/sign-in")
    assert come_back(browser, back).status_code == 401
    assert provider.calls == []


def test_a_sign_in_that_takes_too_long_begins_again(app, provider, email, time_machine):
    browser = Operator(app)
    back = go(browser, provider, email)
    time_machine.move_to(time.time() + 601, tick=True)
    assert "Too much time has passed" in text_of(come_back(browser, back))


def test_the_second_factor_is_asked_for_as_well(app, provider, email):
    browser = Operator(app, email)
    browser.sign_in()
    codes, _ = turn_on(browser)
    other = Operator(app)
    asked = come_back(other, go(other, provider, email, next="/console/audit"))
    assert other.get("/accounts").status_code == 303
    assert enter(other, asked, later(codes)).location == "/console/audit"
    assert other.get("/accounts").status_code == 200


def test_a_new_key_of_the_provider_is_read_when_a_token_names_it(app, provider, email, monkeypatch):
    monkeypatch.setattr("crmhub.users.openid._KEYS_EVERY_S", 0.0)
    for key_id in ("1", "2"):
        provider.key = RSAKey.generate_key(2048, {"kid": key_id})
        provider.sign = lambda claims, key_id=key_id: jwt.encode(
            {"alg": "RS256", "kid": key_id}, claims, provider.key
        )
        browser = Operator(app)
        assert come_back(browser, go(browser, provider, email)).status_code == 303
    assert provider.calls.count("/realm/keys") == 2
    assert provider.calls.count("/realm/.well-known/openid-configuration") == 1


def test_a_provider_that_is_away_or_another_one_is_told(app, provider, email, monkeypatch):
    provider.metadata = {"issuer": "https://evil.example"}
    answer = Operator(app).get("/sign-in/provider")
    assert answer.status_code == 503
    assert "Set it to exactly this text" in text_of(answer)
    provider.close()
    # A failure is remembered for some seconds.
    assert "exactly this text" in text_of(Operator(app).get("/sign-in/provider"))
    monkeypatch.setattr("crmhub.users.openid._PAUSE_S", 0.0)
    away = Operator(app).get("/sign-in/provider")
    assert away.status_code == 503
    assert "sign in with your password" in text_of(away)
    browser = Operator(app, email)
    assert browser.sign_in(PASSWORD).status_code == 303


def test_a_provider_leads_to_no_script(app, provider):
    provider.metadata = {"authorization_endpoint": "javascript:alert(1)"}
    assert Operator(app).get("/sign-in/provider").status_code == 503


def test_calls_to_the_provider_go_through_the_guard(app, provider):
    hub: Hub = app.extensions["crmhub"]
    guarded = OpenId(Egress(), provider.issuer, CLIENT_ID, CLIENT_SECRET)
    app.extensions["crmhub"] = with_guard = replace(hub)
    vars(with_guard)["openid"] = guarded
    assert Operator(app).get("/sign-in/provider").status_code == 503
    assert provider.calls == []


def test_attempts_of_one_address_are_limited(app, provider):
    browser = Operator(app)
    statuses = [browser.get("/sign-in/provider").status_code for _ in range(61)]
    assert (statuses[0], statuses[-1]) == (303, 429)


def test_without_a_provider_its_pages_are_not_there(app):
    app.extensions["crmhub"] = replace(app.extensions["crmhub"])
    browser = Operator(app)
    assert "single sign-on" not in text_of(browser.get("/sign-in"))
    assert browser.get("/sign-in/provider").status_code == 404
