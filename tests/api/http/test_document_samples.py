"""The samples of the API reference: those in Python run, those for curl send the same."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import flask
import pytest
import requests
from werkzeug.test import TestResponse

from crmhub.api.http.document import PATHS
from tests.admin import open_admin
from tests.clients import Client

pytestmark = pytest.mark.databases("sqlite")

# Of a sample's path, what stands for the account of the test.
_ACCOUNT = re.compile(r"(?<=hub\.example\.com/)demo(?=/)")
# A sample with one of these does not have the form that the operation wants.
_WRONG_FORM = (400, 401, 405, 413, 415, 500)
# They name a unique property, which the account must define first.
_OF_A_UNIQUE_PROPERTY = {
    "upsertBatchOfCompanies",
    "upsertBatchOfDeals",
    "upsertBatchOfTickets",
}
# Answers of samples that need nothing but the account.
_ANSWERED = {
    "createContact": 201,
    "listContacts": 200,
    "searchContacts": 200,
    "upsertBatchOfContacts": 200,
    "listProperties": 200,
    "getUsage": 200,
    "getRandomInt": 200,
    "listAccounts": 200,
    "createAccount": 201,
}


def _operations(app: flask.Flask) -> Iterator[dict[str, Any]]:
    """Yield all operations of both documents."""
    for path in PATHS.values():
        document = app.test_client().get(path).json
        assert document is not None
        for item in document["paths"].values():
            yield from (one for one in item.values() if isinstance(one, dict))


@pytest.fixture
def send(app: flask.Flask, client: Client) -> Callable[..., TestResponse]:
    """Sends a request of a sample to the test's hub, with the credentials of the test."""
    secrets = {
        "YOUR_API_KEY": client.key,
        "Bearer YOUR_ADMIN_TOKEN": f"Bearer {open_admin(app).token}",
    }

    def call(method: str, url: str, headers: dict[str, str], body: Any) -> TestResponse:
        url = _ACCOUNT.sub(client.account.client_id, url)
        known = {name: secrets.get(value, value) for name, value in headers.items()}
        path = url.removeprefix("https://hub.example.com")
        return app.test_client().open(path, method=method.upper(), headers=known, json=body)

    return call


def test_every_sample_in_python_runs(
    app: flask.Flask,
    send: Callable[..., TestResponse],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    statuses: list[int] = []

    def request(
        method: str, url: str, *, timeout: int, headers: Any = None, json: Any = None, **_: Any
    ) -> requests.Response:
        sent = send(method, url, headers or {}, json)
        statuses.append(sent.status_code)
        answer = requests.Response()
        answer.status_code, answer._content = sent.status_code, sent.data
        return answer

    monkeypatch.setattr(requests.api, "request", request)
    found = {}
    for operation in _operations(app):
        [source] = [one["source"] for one in operation["x-codeSamples"] if one["lang"] == "Python"]
        exec(compile(source, operation["operationId"], "exec"), {})
        found[operation["operationId"]] = statuses.pop()
    assert len(found) > 100
    wrong = {name for name, status in found.items() if status in _WRONG_FORM}
    assert wrong == _OF_A_UNIQUE_PROPERTY
    assert {name: found.get(name) for name in _ANSWERED} == _ANSWERED
    capsys.readouterr()


def test_curl_sends_what_python_sends(app: flask.Flask) -> None:
    for operation in _operations(app):
        by_language = {one["lang"]: one["source"] for one in operation["x-codeSamples"]}
        sent: list[tuple[str, str, Any, Any]] = []

        class _Requests:
            def __getattr__(self, method: str) -> Callable[..., requests.Response]:
                def call(url: str, *, timeout: int, headers: Any = None, json: Any = None) -> Any:
                    sent.append((method.upper(), url, headers or {}, json))  # noqa: B023
                    answer = requests.Response()
                    answer.status_code, answer._content = 200, b"{}"
                    return answer

                return call

        program = by_language["Python"].removeprefix("import requests\n")
        exec(program, {"requests": _Requests(), "print": lambda *_: None})
        assert [_sent_by_curl(by_language["Shell"])] == sent, operation["operationId"]


def _sent_by_curl(command: str) -> tuple[str, str, dict[str, str], Any]:
    """Return method, URL, headers without Content-Type, and body of a command."""
    words = shlex.split(command.replace("\\\n", " "))
    assert words[0] == "curl"
    options = list(zip(words[2::2], words[3::2], strict=True))
    headers = dict(value.split(": ", 1) for option, value in options if option == "-H")
    [body] = [json.loads(value) for option, value in options if option == "-d"] or [None]
    methods = [value for option, value in options if option == "-X"]
    assert (headers.pop("Content-Type", None) is None) == (body is None)
    return *(methods or ["GET" if body is None else "POST"]), words[1], headers, body
