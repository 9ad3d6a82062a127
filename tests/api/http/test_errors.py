"""The one shape of every answer outside 2xx, whatever goes wrong, and what the log says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import flask
import pytest
from werkzeug.exceptions import MethodNotAllowed, default_exceptions
from werkzeug.test import TestResponse

from crmhub.accounts.directory import Directory
from crmhub.api.helpers import answers
from crmhub.app import create_app
from crmhub.errors import Unavailable
from crmhub.records.store import RecordStore
from crmhub.secrets import new_api_key
from crmhub.settings import Settings
from tests import databases
from tests.api.endpoints import Endpoint, endpoints, example
from tests.api.helpers.helper_calls import CREATE_LEAD
from tests.api.refusals import assert_no_faults, faults, refused
from tests.clients import Client, open_client


def test_an_error_has_exactly_four_keys_and_a_time_of_now(client: Client) -> None:
    answer = client.get("/contacts/1")
    assert list(answer.json) == ["category", "message", "timestamp", "status"]  # type: ignore[arg-type]
    told = datetime.fromisoformat(answer.json["timestamp"])  # type: ignore[index]
    assert abs(datetime.now(UTC) - told) < timedelta(minutes=5)
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.databases("sqlite")
def test_a_path_of_nothing_is_404(app: flask.Flask) -> None:
    for path in [
        "/nothing",
        "/chatbot",
        "/chatbot/nothing",
        "/healthz/x",
        "/%20",
        "/a/api/v2/b",
    ]:
        for method in ["GET", "POST", "DELETE"]:
            refused(app.test_client().open(path, method=method), 404)


def test_a_path_of_nothing_under_the_api_is_404(client: Client) -> None:
    for path in ("", "/", "/nothing", "/contacts/1/nothing", "/contact", "/contacts/1/2/3/4/5"):
        refused(client.get(path), 404)


@pytest.mark.databases("sqlite")
def test_a_page_takes_get_alone(app: flask.Flask) -> None:
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs/"]:
        answer = app.test_client().post(path)
        message = refused(answer, 405)
        assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS"}, path
        assert "GET" in message, path
        assert "POST" in message, path


def test_a_helper_takes_post_alone(client: Client, app: flask.Flask) -> None:
    path = f"/chatbot/createLead/{client.ids.generated_id}"
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        answer = app.test_client().open(path, method=method)
        refused(answer, 405)
        assert set(answer.headers["Allow"].split(", ")) == {"OPTIONS", "POST"}


def test_what_is_wrong_is_said_at_all_places_at_once(client: Client) -> None:
    body = {"properties": [], "associations": {"deals": ["1", None], "cars": []}, "id": 5}
    message = refused(client.post("/contacts", body), 400)
    for place in (
        "properties: must be an object",
        "associations.deals[0]: must be an integer",
        "associations.deals[1]: must be an integer, not null",
        "associations.cars: is not known here; known are contacts, deals, companies, tickets",
        "id: is not known here; known are properties, associations",
    ):
        assert place in message


def test_a_thousand_faults_are_told_in_a_short_message(client: Client) -> None:
    ids = ["x"] * 1000
    message = refused(
        client.post("/contacts", {"properties": {}, "associations": {"deals": ids}}), 400
    )
    assert len(message) < 2000


@pytest.mark.databases("sqlite")
def test_every_status_of_http_has_the_shape(app: flask.Flask) -> None:
    """Whatever Flask or Werkzeug may raise, also where nobody thought of it."""
    for code, error in sorted(default_exceptions.items()):
        with _crashing(app, MethodNotAllowed(["GET"]) if code == 405 else error()):
            answer = app.test_client().get("/healthz")
        refused(answer, code)


def test_a_crash_is_500_and_tells_nothing(app: flask.Flask) -> None:
    with _crashing(app, RuntimeError("someone@example.com and a password")):
        answer = app.test_client().get("/healthz")
    assert "X-Request-Id" in refused(answer, 500)
    assert "someone" not in answer.text
    assert "RuntimeError" not in answer.text


@pytest.mark.parametrize("place", [(RecordStore, "page"), (Directory, "by_api_key")])
def test_a_crash_deep_down_or_while_finding_the_caller_is_500(
    client: Client, monkeypatch: pytest.MonkeyPatch, place: tuple[type, str]
) -> None:
    monkeypatch.setattr(*place, lambda *_, **__: 1 / 0)
    refused(client.get("/contacts"), 500)


def test_unavailable_is_503_with_retry_after(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: object, **kwargs: object) -> None:
        raise Unavailable("The database is away.", retry_after=2.4)

    monkeypatch.setattr(RecordStore, "page", away)
    answer = client.get("/contacts")
    assert refused(answer, 503) == "The database is away."
    assert answer.headers["Retry-After"] == "3"


class _crashing:
    """Makes /healthz raise an error."""

    def __init__(self, app: flask.Flask, error: Exception) -> None:
        self._views = app.view_functions
        self._error = error

    def __enter__(self) -> None:
        self._usual = self._views["healthz"]
        self._views["healthz"] = self._raise

    def __exit__(self, *_: object) -> None:
        self._views["healthz"] = self._usual

    def _raise(self) -> flask.Response:
        raise self._error


# --- the database is away --------------------------------------------------------------------


@pytest.fixture(params=["no server", "no directory"])
def away(
    request: pytest.FixtureRequest,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Wire]:
    """Calls an application whose database cannot be reached, with a key that may be right."""
    # Helpers would wait for it: tests/api/helpers/test_helpers_database_away.py says how long.
    monkeypatch.setattr(answers, "_PATIENCE_S", 0.01)
    urls = {
        "no server": "postgresql+psycopg://nobody@127.0.0.1:9/nothing",
        "no directory": f"sqlite:///{tmp_path}/gone/crmhub.db",
    }
    app = create_app(replace(settings, database_url=urls[request.param]))
    yield Wire(app, new_api_key())
    app.extensions["crmhub"].close()


class Wire:
    """Calls every endpoint without an account."""

    def __init__(self, app: flask.Flask, key: str) -> None:
        self.http = app.test_client()
        self.endpoints = endpoints(app)
        self._key = key

    def send(self, endpoint: Endpoint) -> TestResponse:
        options: dict[str, Any] = {}
        if endpoint.body_schema is not None:
            options["json"] = example(endpoint.body_schema, endpoint.document)
        path = re.sub("<[^>]+>", "x", endpoint.rule)
        headers = {"service-apikey": self._key}
        return self.http.open(path, method=endpoint.method, headers=headers, **options)


@pytest.mark.databases("sqlite")
def test_without_database_every_call_of_an_account_is_503(away: Wire) -> None:
    of_accounts = [
        each
        for each in away.endpoints
        if each.of_api or (each.of_helper and each.rule != "/crm-api-interface/getRandomInt")
    ]
    assert_no_faults((each, faults(away.send(each), 503)) for each in of_accounts)


@pytest.mark.databases("sqlite")
def test_without_database_the_process_is_alive_but_not_ready(away: Wire) -> None:
    assert away.http.get("/healthz").status_code == 200
    refused(away.http.get("/readyz"), 503)


@pytest.mark.databases("sqlite")
def test_without_database_pages_are_served(away: Wire) -> None:
    for path in ("/openapi.json", "/docs/"):
        assert away.http.get(path, buffered=True).status_code == 200


@pytest.mark.databases("sqlite")
def test_without_database_a_path_of_nothing_is_404(away: Wire) -> None:
    refused(away.http.get("/nothing"), 404)


def test_no_webhook_id_is_logged_when_an_answer_fails_at_its_end(
    app: flask.Flask,
    client: Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr("crmhub.metrics.answered", fail)
    refused(client.helper(CREATE_LEAD, {}), 500)
    told = "".join(record.getMessage() for record in caplog.records)
    assert "Request finalizing failed" in told
    assert client.ids.generated_id not in told


def test_a_database_that_cannot_be_written_still_reads(
    settings: Settings, tmp_path: Path, client: Client
) -> None:
    url = databases.sqlite_database(tmp_path)
    writable = create_app(replace(settings, database_url=url))
    caller = open_client(writable)
    id = caller.make()
    writable.extensions["crmhub"].close()
    read_only = url.replace("sqlite:///", "sqlite:///file:") + "?mode=ro&uri=true"
    app = create_app(replace(settings, database_url=read_only))
    again = Client(app, caller.account, caller.ids)
    assert again.get(f"/contacts/{id}").status_code == 200
    refused(again.post("/contacts", {"properties": {"firstname": "x"}}), 503)
    refused(again.delete(f"/contacts/{id}"), 503)
    app.extensions["crmhub"].close()
