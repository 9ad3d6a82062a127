"""Pages of an account's allowed origins may call its helpers; pages of others may not."""

from __future__ import annotations

from typing import Any

import flask
import pytest
from werkzeug.test import TestResponse

from crmhub.errors import Semantic, Unavailable
from crmhub.helpers import create_lead
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from tests.api.refusals import refused
from tests.clients import TESTS, Client, open_client

# What calls look like; what they store is tested on each database by test_helpers_create_lead.py.
pytestmark = pytest.mark.databases("sqlite")

PAGE, OTHER = "https://www.example.com", "https://evil.example"
LEAD = {"contactToken": "chat-17", "name": "Ada Lovelace", "email": "ada@example.com"}
HELPERS = (
    "/chatbot/createLead/{generated}",
    "/chatbot/getProperties/{generated}",
    "/chatbot/setProperties/{generated}",
    "/chatbot/getType/{generated}",
    "/crm-api-interface/getRandomInt/{portal}",
    "/crm-api-interface/createDeal/{portal}",
    "/crm-api-interface/createTicket/{portal}",
)


def choose(client: Client, hub: Hub, **values: str) -> None:
    change_account.change(hub, client.account.client_id, values, by=TESTS)


@pytest.fixture
def widget(client: Client, hub: Hub) -> Client:
    """An account whose helpers may be called by two sites."""
    choose(client, hub, allowed_origins=f"{PAGE} http://localhost:3000")
    return client


def preflight(client: Client, path: str, origin: str = PAGE) -> TestResponse:
    path = path.format(generated=client.ids.generated_id, portal=client.ids.portal_id)
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    return client._http.open(path, method="OPTIONS", headers=headers)


def post(client: Client, path: str, body: Any, origin: str = PAGE, **headers: str) -> TestResponse:
    return client.helper(path, body, headers={"Origin": origin, **headers})


def cors(answer: TestResponse) -> dict[str, str]:
    """Return what an answer tells a browser."""
    return {
        name.removeprefix("Access-Control-"): value
        for name, value in answer.headers
        if name.startswith("Access-Control-")
    }


SHOWN = {
    "Allow-Origin": PAGE,
    "Expose-Headers": "Retry-After, X-Request-Id, Idempotent-Replayed",
}


@pytest.mark.parametrize("path", HELPERS)
def test_a_preflight_allows_the_origins_of_the_account(widget: Client, path: str) -> None:
    for origin in (PAGE, "http://localhost:3000"):
        answer = preflight(widget, path, origin)
        assert (answer.status_code, answer.data) == (204, b"")
        assert answer.headers["Vary"] == "Origin"
        assert cors(answer) == {
            "Allow-Origin": origin,
            "Allow-Methods": "POST",
            "Allow-Headers": "Content-Type, Idempotency-Key",
            "Max-Age": "600",
        }


@pytest.mark.parametrize(
    "origin",
    [
        OTHER,
        "https://www.example.com:8443",
        "http://www.example.com",
        "https://example.com",
        "https://www.example.com.evil.example",
        "null",
        f"{PAGE},http://localhost:3000",
        "",
    ],
)
def test_no_other_origin_is_allowed(widget: Client, origin: str) -> None:
    answer = preflight(widget, HELPERS[0], origin)
    assert (answer.status_code, cors(answer)) == (204, {})
    assert answer.headers["Vary"] == "Origin"
    created = post(widget, HELPERS[0], LEAD, origin)
    assert (created.status_code, cors(created)) == (200, {})


def test_an_account_allows_none_by_default(client: Client) -> None:
    answer = preflight(client, HELPERS[0])
    assert (answer.status_code, cors(answer)) == (204, {})
    created = post(client, HELPERS[0], LEAD)
    assert cors(created) == {}
    assert "Vary" not in created.headers


def test_the_answer_is_shown_to_the_asking_origin(widget: Client) -> None:
    answer = post(widget, HELPERS[0], LEAD)
    assert answer.json["status"] == "created"
    assert answer.headers["Vary"] == "Origin"
    assert cors(answer) == SHOWN
    without = widget.helper(HELPERS[0], LEAD)
    assert (cors(without), without.headers["Vary"]) == ({}, "Origin")


def test_errors_are_shown_too(widget: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    deal = {"contactId": "999999999999", "properties": {"dealname": "x"}}
    for path, body, status in (
        (HELPERS[0], {}, 400),
        (HELPERS[0], LEAD | {"email": "{{email}}"}, 422),
        (HELPERS[5], deal, 404),
    ):
        answer = post(widget, path, body)
        refused(answer, status)
        assert cors(answer) == SHOWN
    wrong = post(widget, HELPERS[0], LEAD, **{"X-Webhook-Secret": "no"})
    refused(wrong, 401)
    assert cors(wrong) == SHOWN

    def away(*_: Any, **__: Any) -> Any:
        raise Unavailable("The database is gone.", retry_after=7)

    monkeypatch.setattr(create_lead, "create_lead", away)
    unavailable = post(widget, HELPERS[0], LEAD)
    refused(unavailable, 503)
    assert cors(unavailable) == SHOWN
    choose(widget, hub, require_secret="true")
    missing = post(widget, HELPERS[0], LEAD)
    refused(missing, 401)
    assert cors(missing) == SHOWN


def test_the_429_of_a_busy_account_is_shown(
    widget: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crmhub.helpers import random_int
    from crmhub.queue.slots import too_many_at_once

    def busy(*_: Any, **__: Any) -> Any:
        raise too_many_at_once()

    monkeypatch.setattr(random_int, "int_of_account", busy)
    answer = post(widget, HELPERS[4], {"min": 1, "max": 2})
    refused(answer, 429)
    assert cors(answer) == SHOWN


def test_a_preflight_tells_no_more_of_ids_than_a_call(widget: Client, app: flask.Flask) -> None:
    for path in ("/chatbot/createLead/unknown", "/crm-api-interface/createDeal/12345678"):
        told = preflight(widget, path), post(widget, path, LEAD)
        messages = [refused(each, 404) for each in told]
        assert messages[0] == messages[1]
        assert [cors(each) for each in told] == [{}, {}]
    # The other purpose's id is none here.
    assert preflight(widget, "/chatbot/createLead/{portal}").status_code == 404
    guesser = open_client(app)
    answers = [preflight(guesser, f"/chatbot/createLead/guess-{n}") for n in range(80)]
    assert answers[-1].status_code == 429
    assert preflight(guesser, HELPERS[0]).status_code == 204


def test_a_disabled_account_is_unknown(widget: Client, hub: Hub) -> None:
    change_account.change(hub, widget.account.client_id, {}, disabled=True, by=TESTS)
    assert preflight(widget, HELPERS[0]).status_code == post(widget, HELPERS[0], LEAD).status_code


def test_a_path_without_an_id_allows_none_among_several_accounts(widget: Client) -> None:
    for path in (
        "/chatbot/getProperties",
        "/chatbot/setProperties",
        "/crm-api-interface/getRandomInt",
    ):
        answer = preflight(widget, path)
        assert (answer.status_code, cors(answer)) == (204, {})


def test_a_path_without_an_id_means_the_only_account(
    widget: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = hub.directory.by_client_id(widget.account.client_id)
    monkeypatch.setattr(hub.directory, "only_account", lambda: only)
    assert cors(preflight(widget, "/chatbot/getProperties"))["Allow-Origin"] == PAGE
    assert cors(preflight(widget, "/crm-api-interface/getRandomInt")) == {}
    asked = {"contactToken": "chat-17", "props": ["firstname"]}
    assert cors(post(widget, "/chatbot/getProperties", asked)) == SHOWN


def test_other_options_requests_stay_as_they_are(widget: Client) -> None:
    path = HELPERS[0].format(generated=widget.ids.generated_id)
    for headers in ({}, {"Origin": PAGE}, {"Access-Control-Request-Method": "POST"}):
        answer = widget._http.open(path, method="OPTIONS", headers=headers)
        assert answer.status_code == 200
        assert "POST" in answer.headers["Allow"]
        assert "Access-Control-Allow-Methods" not in answer.headers


def test_the_public_api_stays_without_cors(widget: Client) -> None:
    headers = {"Origin": PAGE, "Access-Control-Request-Method": "GET"}
    path = f"{widget.base}/contacts"
    for answer in (
        widget._http.open(path, method="OPTIONS", headers=headers),
        widget.call("OPTIONS", "/contacts", headers=headers),
        widget.get("/contacts", headers={"Origin": PAGE}),
        widget._http.get("/openapi.json", headers={"Origin": PAGE}),
    ):
        assert cors(answer) == {}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("", ""),
        (
            " https://A.Example.com:443 ,http://a.example.com:80",
            "https://a.example.com,http://a.example.com",
        ),
        ("http://localhost:3000 http://localhost:3000", "http://localhost:3000"),
        ("https://[::1]:8443", "https://[::1]:8443"),
        ("https://xn--bcher-kva.example", "https://xn--bcher-kva.example"),
    ],
)
def test_origins_get_the_form_that_browsers_send(
    client: Client, hub: Hub, given: str, stored: str
) -> None:
    choose(client, hub, allowed_origins=given)
    account = hub.directory.by_client_id(client.account.client_id)
    assert account is not None
    assert account.switches.allowed_origins == stored


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("*", "name each site"),
        ("https://*.example.com", "name each site"),
        ("null", "sandboxed"),
        ("https://a.example/", "leave out the path: https://a.example"),
        ("https://a.example/chat", "leave out the path: https://a.example"),
        ("a.example", "write the scheme, too: https://a.example"),
        ("https://bücher.example", "xn--"),
        ("https://a.example:0", "scheme, host and port"),
        ("https://a.example:99999", "scheme, host and port"),
        ("ftp://a.example", "scheme, host and port"),
        ("https://user@a.example", "scheme, host and port"),
        ("https://a.example?x", "scheme, host and port"),
        (",".join(f"https://{n}.example" for n in range(21)), "at most 20"),
    ],
)
def test_what_is_no_origin_is_refused_in_words(
    client: Client, hub: Hub, given: str, reason: str
) -> None:
    with pytest.raises(Semantic) as refusal:
        choose(client, hub, allowed_origins=given)
    assert "allowed_origins: " in refusal.value.message
    assert reason in refusal.value.message
