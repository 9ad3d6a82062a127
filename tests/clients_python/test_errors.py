"""What goes wrong has a class of its own, and tells no secret."""

from __future__ import annotations

import ast
import logging
import pickle
import ssl
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

import crmhub_client
from crmhub import errors as hub_errors
from crmhub_client import (
    ApiError,
    AsyncHub,
    BadRequestError,
    ConflictError,
    ConnectionFailedError,
    Hub,
    InternalError,
    NoAnswerError,
    ProxyFailedError,
    Retry,
    TimedOutError,
    UnavailableError,
    UnexpectedAnswerError,
)
from tests import coroutines
from tests.clients_python.callers import answers, fake

ONCE = Retry(attempts=1)
KINDS = pytest.mark.parametrize("kind", ["sync", "async"])


def _refusal(status: int, category: str) -> httpx.Response:
    headers = {"X-Request-Id": "r-1", "Location": "/acme/api/v1/contacts/12"}
    message = "properties.email: taken. Existing ID: 12"
    body = {"category": category, "message": message, "timestamp": "t", "status": "error"}
    return httpx.Response(status, headers=headers, json=body)


@KINDS
def test_each_error_of_the_hub_has_a_class_named_after_its_category(kind: str) -> None:
    todo = hub_errors.HubError.__subclasses__()
    seen = set()
    while todo:
        error = todo.pop()
        todo += error.__subclasses__()
        caller = fake(kind, answers(_refusal(error.status, error.category)), retry=ONCE)
        with pytest.raises(ApiError) as raised:
            caller.call(lambda hub: hub.contacts.get(1))
        name = type(raised.value).__name__
        assert name == ("UnavailableError" if error.status == 503 else error.category)
        seen.add(error.status)
    assert seen >= {400, 401, 402, 403, 404, 409, 422, 429, 500, 503}


def test_an_error_holds_what_the_answer_says() -> None:
    caller = fake("sync", answers(_refusal(409, "ConflictError")))
    with pytest.raises(ApiError) as raised:
        caller.call(lambda hub: hub.contacts.create({"email": "a@example.com"}))
    error = raised.value
    assert (error.status, error.category, error.request_id) == (409, "ConflictError", "r-1")
    assert (error.existing_id, error.location) == (12, "/acme/api/v1/contacts/12")
    assert str(error) == error.message == "properties.email: taken. Existing ID: 12"
    assert error.body["timestamp"] == "t"


def test_an_error_is_whole_in_another_process() -> None:
    caller = fake("sync", answers(_refusal(409, "ConflictError")))
    with pytest.raises(ApiError) as raised:
        caller.call(lambda hub: hub.contacts.create_many([{"email": "a@example.com"}]))
    copy = pickle.loads(pickle.dumps(raised.value))
    assert type(copy) is ConflictError
    assert vars(copy) == vars(raised.value)
    assert str(copy) == str(raised.value)


@pytest.mark.parametrize("status", [405, 413, 415, 418])
def test_statuses_of_http_itself_are_bad_requests(status: int) -> None:
    caller = fake("sync", answers(_refusal(status, "BadRequestError")))
    with pytest.raises(BadRequestError) as raised:
        caller.call(lambda hub: hub.usage())
    assert raised.value.status == status


@KINDS
@pytest.mark.parametrize(
    ("response", "words"),
    [
        ({"status_code": 404, "html": "<h1>nginx</h1>"}, "Check the URL"),
        ({"status_code": 200, "html": "<h1>Welcome</h1>"}, "Check the URL"),
        ({"status_code": 301, "headers": {"Location": "https://x.test/"}}, "another address"),
        ({"status_code": 400, "json": ["no"]}, "Check the URL"),
    ],
    ids=["not found", "no JSON", "redirected", "no object"],
)
def test_an_answer_of_another_service_says_so(
    kind: str, response: dict[str, Any], words: str
) -> None:
    caller = fake(kind, answers(httpx.Response(**response)))
    with pytest.raises(UnexpectedAnswerError, match=words) as raised:
        caller.call(lambda hub: hub.usage())
    assert raised.value.status == response["status_code"]


def test_a_proxys_page_is_unavailability() -> None:
    caller = fake("sync", lambda request: httpx.Response(504, html="<h1>Timeout</h1>"))
    with pytest.raises(UnavailableError) as raised:
        caller.call(lambda hub: hub.usage())
    assert isinstance(raised.value, InternalError)
    assert len(caller.network.requests) == caller.retry.attempts


@KINDS
@pytest.mark.parametrize(
    ("failure", "expected", "attempts"),
    [
        (httpx.ConnectError("refused"), ConnectionFailedError, 12),
        (httpx.RemoteProtocolError("Server disconnected"), ConnectionFailedError, 12),
        (httpx.ReadTimeout("silence"), TimedOutError, 12),
        (httpx.PoolTimeout(""), TimedOutError, 12),
        (httpx.ProxyError("407 Proxy Authentication Required"), ProxyFailedError, 1),
    ],
    ids=["connect", "disconnected", "read", "pool", "proxy"],
)
def test_a_lost_answer_has_a_class_and_is_retried_where_that_may_help(
    kind: str, failure: httpx.RequestError, expected: type[NoAnswerError], attempts: int
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise failure

    caller = fake(kind, answer)
    with pytest.raises(expected) as raised:
        caller.call(lambda hub: hub.usage())
    assert type(raised.value) is expected
    assert raised.value.__cause__ is failure
    assert len(caller.network.requests) == attempts
    standard = TimeoutError if expected is TimedOutError else ConnectionError
    assert isinstance(raised.value, standard)


def test_a_refused_certificate_is_recognised_by_its_cause() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no") from ssl.SSLCertVerificationError("self-signed")

    caller = fake("sync", answer)
    with pytest.raises(ConnectionFailedError):
        caller.call(lambda hub: hub.usage())
    assert len(caller.network.requests) == 1


def test_no_secret_is_in_a_repr_an_error_or_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = ("crmhub_topsecret", "gen-secret", "por-secret", "hook-secret")
    body = {"status": "ok", "message": "", "actionId": "", "stale": "", "refused": ""}

    def answer(request: httpx.Request) -> httpx.Response:
        if "usage" in request.url.path:
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(200, json=body if request.method == "POST" else {})

    transport = httpx.MockTransport(answer)
    with (
        httpx.Client(transport=transport) as http,
        Hub("http://hub.test", "acme", "crmhub_topsecret", retry=ONCE, http=http) as hub,
    ):
        helpers = hub.helpers(
            generated_id="gen-secret", portal_id="por-secret", secret="hook-secret"
        )
        helpers.get_properties("t", ["email"])
        helpers.create_deal("1", {"dealname": "D"})
        with pytest.raises(ConnectionFailedError) as raised:
            hub.usage()
        with pytest.raises(UnexpectedAnswerError):
            hub.contacts.get("person@example.com", id_property="email")
        shown = [hub, helpers, hub.contacts, hub._driver, raised.value, vars(hub)]
    text = repr(shown) + str(raised.value) + caplog.text
    assert "HTTP Request: POST" in caplog.text
    assert "/chatbot/getProperties/" in caplog.text
    for secret in (*secrets, "person@example.com"):
        assert secret not in text, secret


@pytest.mark.parametrize("client", [Hub, AsyncHub])
@pytest.mark.parametrize(
    "url", ["hub.example.com", "ftp://hub.example.com", "http://", "", "https://a:secret@hub.test"]
)
def test_an_unusable_address_is_refused_at_once(client: Any, url: str) -> None:
    with pytest.raises(ValueError, match="URL") as raised:
        client(url, "acme", "k")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("key", ["", "clé-secret", "k\nsecret"])
def test_an_unusable_key_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ValueError, match="ASCII") as raised:
        Hub("http://hub.test", "acme", key)
    assert "secret" not in str(raised.value)


def test_only_a_client_of_its_own_is_closed() -> None:
    with httpx.Client() as http:
        Hub("http://hub.test", "acme", "k", http=http).close()
        assert not http.is_closed
    hub = Hub("http://hub.test", "acme", "k")
    hub.close()
    assert hub._driver._http.is_closed  # type: ignore[attr-defined]
    other = AsyncHub("http://hub.test", "acme", "k")
    coroutines.run(other.aclose())
    assert other._driver._http.is_closed  # type: ignore[attr-defined]


def test_the_client_needs_nothing_of_the_service() -> None:
    allowed = {"anyio", "crmhub_client", "httpx", *sys.stdlib_module_names}
    files = list(Path(crmhub_client.__file__).parent.glob("*.py"))
    assert len(files) > 5
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names.append(node.module or "")
            assert {name.partition(".")[0] for name in names} <= allowed, file.name
