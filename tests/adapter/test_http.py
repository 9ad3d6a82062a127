"""JSON over HTTP for adapters: what is sent, what failures become, what is sent again."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

import pytest
import requests
import responses

from crmhub import egress
from crmhub.adapter import (
    AdapterError,
    BadConfig,
    Conflict,
    Denied,
    LacksRight,
    NotFound,
    NotYet,
    Problem,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
    Unreachable,
)
from crmhub.adapter import http as module
from crmhub.adapter.http import QUOTA, Answer, Http, Limit, TooLarge
from tests.adapter.http_contexts import (
    URL,
    FakeBudget,
    PlainSession,
    Vault,
    answering,
    closed_port,
    cut_short,
    http_context,
    reset,
    server,
)
from tests.clocks import clock_of
from tests.loops import for_each
from tests.queue.working import soon

SECRET = 'pat-eu1/7f+"é secret'


@pytest.fixture
def wire():
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crmhub.adapter.http._BACKOFF", 0.001)


def make_http(
    url: str = URL,
    *,
    seconds: float = 20.0,
    budgets: Mapping[str, FakeBudget] = {},
    headers: tuple[str, str] = ("", ""),
    **options: Any,
) -> Http:
    context = replace(http_context(seconds=seconds), budget=lambda lane, **limit: budgets[lane])
    limits = [Limit(100, 10.0, lane, headers=headers) for lane in budgets]
    given = {"crm": "Acme", "authorize": lambda: {"Authorization": "Bearer the-token"}}
    return Http(context, url, limits=limits, **{**given, **options})


def failed(http: Http, method: str = "GET", *path: str, **more: Any) -> AdapterError:
    with pytest.raises(AdapterError) as caught:
        http.send(method, *(path or ("contacts",)), **more)
    return caught.value


# What is sent.


@for_each(
    "segment",
    [
        "a b",
        "ada+x@example.com",
        "50%",
        "%2e%2e",
        "..%2f",
        "x?y",
        "x#y",
        "..;",
        "é",
        "a&b=c",
        "...",
    ],
)
def test_a_segment_arrives_as_it_was_given(segment: str) -> None:
    with server(answering("200 OK")) as (url, received):
        make_http(url).send("GET", "contacts", segment, "notes")
    path = received[0].split(b" ")[1].decode()
    assert path == f"/contacts/{quote(segment, safe='')}/notes"


@for_each(
    "segment",
    ["", ".", "..", "a/b", "../x", "..\\x", "a\0", "a\nb", "\ud800", "\u202e", "x" * 501],
    fresh="wire",
)
def test_a_segment_that_could_lead_elsewhere_is_not_sent(
    wire: responses.RequestsMock, segment: str
) -> None:
    error = failed(make_http(), "GET", "contacts", segment)
    assert isinstance(error, NotFound)
    assert len(wire.calls) == 0


def test_a_refused_segment_is_not_repeated() -> None:
    error = failed(make_http(), "GET", "contacts", "ada@example.com/..")
    assert "ada" not in error.message


def test_parameters_are_encoded(wire: responses.RequestsMock) -> None:
    wire.get(f"{URL}/contacts", json={})
    make_http().send("GET", "contacts", params={"q": "a&b=c d+é", "n": "1"})
    assert wire.calls[0].request.url == f"{URL}/contacts?q=a%26b%3Dc+d%2B%C3%A9&n=1"


def test_a_parameter_with_several_values_is_repeated(wire: responses.RequestsMock) -> None:
    wire.get(f"{URL}/contacts", json={})
    make_http().send("GET", "contacts", params={"phone": ["+1", "02"], "limit": "5"})
    assert (wire.calls[0].request.url or "").endswith("?phone=%2B1&phone=02&limit=5")


@for_each("end", ["", "/"], fresh="wire")
def test_an_address_ends_with_a_slash_where_the_crm_wants_it(
    wire: responses.RequestsMock, end: str
) -> None:
    wire.post(f"{URL}/rpc/", json={})
    wire.post(f"{URL}/", json={})
    http = make_http(f"{URL}{end}", trailing_slash=True)
    http.send("POST", "rpc")
    http.send("POST")
    assert [call.request.url for call in wire.calls] == [f"{URL}/rpc/", f"{URL}/"]


def test_an_address_may_come_with_the_token(wire: responses.RequestsMock) -> None:
    """The function is asked after `authorize`, and again after a renewal."""
    addresses = [f"{URL}/eu", f"{URL}/us"]
    wire.get(f"{URL}/eu/me", status=401, json={})
    wire.get(f"{URL}/us/me", json={})
    asked: list[str] = []

    def authorize() -> Mapping[str, str]:
        asked.append("token")
        return {}

    def address() -> str:
        assert asked
        return addresses[len(asked) - 1]

    http = Http(http_context(), address, crm="Acme", authorize=authorize, renew=lambda: True)
    assert http.send("GET", "me").status == 200


def test_an_address_that_comes_with_the_token_is_checked() -> None:
    http = make_http()
    http._base_url = Http(http_context(), lambda: "", crm="Acme", authorize=dict)._base_url
    assert isinstance(failed(http), BadConfig)


# Errors in successes.


def says_error(answer: Answer) -> AdapterError | None:
    match answer.body:
        case {"error": {"code": "busy", "message": str(text)}}:
            return Throttled(text, retry_after=0.001)
        case {"error": {"code": "expired", "message": str(text)}}:
            return Denied(text)
        case {"error": {"code": "right", "message": str(text)}}:
            return LacksRight(text)
        case {"error": {"code": "invalid", "message": str(text)}}:
            return Rejected([Problem("email", text)], text)
        case {"error": str()}:
            answer.items()
    return None


def error_body(code: str, text: str = "no") -> dict[str, Any]:
    return {"error": {"code": code, "message": text}}


def test_an_error_in_a_success_is_tried_again_and_pauses_the_budget(
    wire: responses.RequestsMock,
) -> None:
    wire.post(f"{URL}/contacts", json=error_body("busy"))
    wire.post(f"{URL}/contacts", json={"id": 1})
    budget = FakeBudget()
    http = make_http(failure=says_error, budgets={"general": budget})
    assert http.send("POST", "contacts").id() == "1"
    assert budget.paused == [0.001]


def test_a_session_that_expired_in_a_success_is_renewed_once(wire: responses.RequestsMock) -> None:
    wire.post(f"{URL}/contacts", json=error_body("expired"))
    renewed: list[int] = []
    http = make_http(failure=says_error, renew=lambda: not renewed.append(1))
    assert isinstance(failed(http, "POST"), Denied)
    assert (len(renewed), len(wire.calls)) == (1, 2)


@for_each("status", [200, 401, 403], fresh="wire")
def test_a_missing_right_renews_nothing(wire: responses.RequestsMock, status: int) -> None:
    wire.get(f"{URL}/contacts", status=status, json=error_body("right"))
    http = make_http(failure=says_error, renew=lambda: pytest.fail("it renews"))
    assert isinstance(failed(http), LacksRight)


def test_the_texts_of_an_error_in_a_success_are_masked(wire: responses.RequestsMock) -> None:
    wire.get(f"{URL}/contacts", json=error_body("invalid", f"no {SECRET} by Bearer the-token"))
    error = failed(make_http(failure=says_error, secrets=lambda: [SECRET]))
    assert isinstance(error, Rejected)
    assert [problem.reason for problem in error.problems] == [error.message] == ["no *** by ***"]


def test_a_success_of_an_unexpected_form_is_in_doubt_for_writes_only(
    wire: responses.RequestsMock,
) -> None:
    for method in ("GET", "POST"):
        wire.add(method, f"{URL}/contacts", json={"error": "what?"})
    http = make_http(failure=says_error)
    assert isinstance(failed(http), Unavailable)
    assert isinstance(failed(http, "POST"), Uncertain)


# Tokens, credits, simultaneous calls.


def test_every_request_takes_its_cost_from_the_quota(wire: responses.RequestsMock) -> None:
    wire.get(f"{URL}/contacts", json={})
    calls, quota = FakeBudget(), FakeBudget()
    http = make_http(budgets={"general": calls, QUOTA: quota})
    http.send("GET", "contacts", cost=20)
    http.send("GET", "contacts", lane="search")
    http.send("GET", "contacts", lane=QUOTA, cost=3)
    assert (calls.taken, quota.taken) == (1, 24)


@for_each(("scope", "paused"), [("", "calls"), (QUOTA, "quota")], fresh="wire")
def test_a_refused_call_pauses_the_limit_that_is_used_up(
    wire: responses.RequestsMock, scope: str, paused: str
) -> None:
    wire.get(f"{URL}/contacts", status=429, json={})
    budgets = {"calls": FakeBudget(), "quota": FakeBudget()}
    http = make_http(
        failure=lambda answer: Throttled("stop", retry_after=60.0, scope=scope),
        budgets={"general": budgets["calls"], QUOTA: budgets["quota"]},
    )
    failed(http)
    assert [name for name, budget in budgets.items() if budget.paused] == [paused]


def test_a_call_without_a_place_is_not_sent(wire: responses.RequestsMock) -> None:
    vault = Vault()
    http = Http(http_context(vault, seconds=0.2), URL, crm="Acme", authorize=dict, at_once=2)
    with vault.lock:
        assert isinstance(failed(http), NotYet)
    assert len(wire.calls) == 0


def test_a_body_is_sent_as_json(wire: responses.RequestsMock) -> None:
    wire.post(f"{URL}/contacts", json={"id": 7})
    answer = make_http().send("POST", "contacts", body={"name": "Zoë"})
    request = wire.calls[0].request
    assert json.loads(request.body or b"") == {"name": "Zoë"}
    assert request.headers["Content-Type"] == "application/json"
    assert answer.id() == "7"


def test_a_form_is_sent_as_a_form(wire: responses.RequestsMock) -> None:
    wire.post(f"{URL}/token", json={})
    make_http().send("POST", "token", form={"a": "b&c", "d": "é"})
    request = wire.calls[0].request
    assert request.body == b"a=b%26c&d=%C3%A9"
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"


@for_each("part", ["params", "form"])
def test_half_a_character_is_a_value_that_cannot_be_sent(part: str) -> None:
    assert isinstance(failed(make_http(), "POST", **{part: {"q": "\ud83d"}}), Rejected)


def test_an_anonymous_call_proves_nothing(wire: responses.RequestsMock) -> None:
    wire.post(f"{URL}/token", json={})
    make_http(authorize=lambda: pytest.fail("asked")).send("POST", "token", anonymous=True)
    assert "Authorization" not in wire.calls[0].request.headers


@for_each(
    "url",
    [
        "",
        "crm.example.test",
        "ftp://crm.example.test",
        "https://",
        "https://user:the-password@crm.example.test",
        "https://crm.example.test/?a=b",
        "https://crm.example.test/#x",
        "https://[::1",
        "https://crm.example.test:99999",
    ],
)
def test_an_address_that_cannot_be_called_is_bad_config(url: str) -> None:
    with pytest.raises(BadConfig) as caught:
        make_http(url)
    assert "the-password" not in str(caught.value)


# What comes back.


@for_each("status", [200, 201, 202, 204, 205, 206], fresh="wire")
def test_an_empty_answer_has_no_body(wire: responses.RequestsMock, status: int) -> None:
    wire.delete(f"{URL}/contacts/1", status=status)
    assert make_http().send("DELETE", "contacts", "1").body is None


def test_blanks_are_no_body(wire: responses.RequestsMock) -> None:
    wire.delete(f"{URL}/contacts/1", body=" \r\n")
    assert make_http().send("DELETE", "contacts", "1").body is None


BROKEN = [b"<html>", b'{"id": ', b"[" * 100_000, b"\xff\xfe\xfa", b'{"a": NaN}', b"9" * 5000]


@for_each("content", BROKEN, fresh="wire")
@for_each(("method", "expected"), [("GET", Unavailable), ("POST", Uncertain)], fresh="wire")
def test_a_success_that_is_no_json_is_in_doubt_for_writes_only(
    wire: responses.RequestsMock, content: bytes, method: str, expected: type[AdapterError]
) -> None:
    wire.add(method, f"{URL}/contacts", body=content)
    assert type(failed(make_http(), method)) is expected


@for_each(("method", "expected"), [("GET", TooLarge), ("POST", Uncertain)], fresh="wire")
def test_an_answer_that_is_too_large_is_not_asked_for_again(
    wire: responses.RequestsMock, method: str, expected: type[AdapterError]
) -> None:
    wire.add(method, f"{URL}/contacts", body=egress.TooLarge("crm.example.test answered more"))
    assert type(failed(make_http(), method)) is expected
    assert len(wire.calls) == 1


@for_each("status", [400, 401, 404, 429, 503], fresh="wire")
def test_a_failure_with_any_body_is_an_error_of_the_contract(
    wire: responses.RequestsMock, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_of(module, monkeypatch)
    for content in (*BROKEN, b"null", b"[]", b"7", b'"x"', b'[{"message": 7}]'):
        wire.reset()
        wire.get(f"{URL}/contacts", status=status, body=content)
        error = failed(make_http())
        assert error.args == (error.message,), content
        assert len(error.message) < 400, content


@for_each(
    ("body", "part"),
    [
        (None, lambda answer: answer.object()),
        ([], lambda answer: answer.object()),
        ({}, lambda answer: answer.items()),
        ({"results": [1]}, lambda answer: answer.items()),
        ({"id": ""}, lambda answer: answer.id()),
        ({"id": True}, lambda answer: answer.id()),
        ({"id": 1.5}, lambda answer: answer.id()),
        ({"id": None}, lambda answer: answer.id()),
    ],
)
@for_each(("reads", "expected"), [(True, Unavailable), (False, Uncertain)])
def test_a_part_that_is_missing_is_in_doubt_for_writes_only(
    body: Any, part: Any, reads: bool, expected: type[AdapterError]
) -> None:
    with pytest.raises(expected) as caught:
        part(Answer("Acme", 200, {}, body, reads, "corr-1"))
    assert caught.value.correlation_id == "corr-1"


def test_half_a_character_in_an_answer_is_replaced(wire: responses.RequestsMock) -> None:
    wire.get(f"{URL}/contacts", body=b'{"a": "x\\ud83d", "b": "\\uD83D\\uDE00", "c": "\\\\ud83d"}')
    body = make_http().send("GET", "contacts").object()
    assert body == {"a": "x?", "b": "😀", "c": "\\ud83d"}


# What a status means.

READS: Mapping[int, type[AdapterError]] = {
    status: error
    for error, statuses in {
        Unavailable: (101, 303, 304, 408, 421, 499, 500, 502, 503, 504, 520, 527, 599, 999),
        BadConfig: (301, 302, 308, 405, 406, 411, 415, 431, 477),
        Rejected: (400, 413, 414, 422),
        Denied: (401,),
        LacksRight: (402, 403, 451),
        NotFound: (404, 410),
        Conflict: (409,),
        Throttled: (423, 425, 429),
    }.items()
    for status in statuses
}
DOUBTFUL = {101, 303, 304, 408, 499}
WRITES = {
    status: Uncertain if status >= 500 or status in DOUBTFUL else error
    for status, error in READS.items()
}


@for_each("method", ["GET", "POST", "PUT", "PATCH", "DELETE"], fresh="wire")
def test_every_status_says_what_the_caller_can_do(
    wire: responses.RequestsMock, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_of(module, monkeypatch)
    expected = READS if method == "GET" else WRITES
    for status in READS:
        wire.reset()
        wire.add(method, f"{URL}/contacts", status=status, json={"message": "because"})
        assert type(failed(make_http(), method)) is expected[status], status


@for_each("status", [s for s in READS if s >= 500 or s in DOUBTFUL], fresh="wire")
def test_a_post_that_only_reads_leaves_no_doubt(wire: responses.RequestsMock, status: int) -> None:
    wire.post(f"{URL}/search", status=status)
    assert type(failed(make_http(), "POST", "search", reads=True)) is Unavailable


def test_a_304_answers_a_request_with_a_condition_only(wire: responses.RequestsMock) -> None:
    wire.get(f"{URL}/contacts", status=304)
    condition = {"If-Modified-Since": "2026-11-28T17:00:00+00:00"}
    answer = make_http().send("GET", "contacts", headers=condition)
    assert (answer.status, answer.body) == (304, None)
    assert type(failed(make_http(), "GET", "contacts", headers={"X-Other": "x"})) is Unavailable


def test_head_writes_nothing() -> None:
    with server(answering("503 Away", b"")) as (url, received):
        error = failed(make_http(url), "HEAD")
    assert type(error) is Unavailable
    assert len(received) == 3


@for_each("status", [404, 409, 410], fresh="wire")
def test_a_page_instead_of_data_says_nothing_of_records(
    wire: responses.RequestsMock, status: int
) -> None:
    wire.get(f"{URL}/contacts", status=status, body="default backend - 404")
    error = failed(make_http())
    assert isinstance(error, Unavailable)
    assert "address is wrong" in error.message


def test_a_page_of_403_names_the_firewall(wire: responses.RequestsMock) -> None:
    wire.get(f"{URL}/contacts", status=403, body="<html>Blocked</html>")
    assert "firewall" in failed(make_http()).message


@for_each("status", [403, 413, 477], fresh="wire")
def test_a_refusal_that_says_when_to_come_back_wants_fewer_calls(
    wire: responses.RequestsMock, status: int
) -> None:
    wire.post(f"{URL}/contacts", status=status, headers={"Retry-After": "30"})
    error = failed(make_http(), "POST")
    assert isinstance(error, Throttled)
    assert error.retry_after == 30


@for_each(
    "body",
    [
        {"message": "because\nof  this."},
        {"error": "because of this"},
        {"error": {"code": 7, "message": "because of this"}},
        {"error": "invalid", "error_description": "because of this"},
        [{"message": "because of this", "errorCode": "X"}],
    ],
    fresh="wire",
)
def test_the_words_of_the_crm_are_passed_on(wire: responses.RequestsMock, body: Any) -> None:
    wire.get(f"{URL}/contacts", status=422, json=body)
    assert failed(make_http()).message == "Acme does not take these values: because of this"


def test_an_adapter_reads_the_errors_of_its_crm(wire: responses.RequestsMock) -> None:
    wire.post(f"{URL}/contacts", status=400, json={"field": "size", "options": ["s", "m"]})

    def failure(answer: Answer) -> AdapterError | None:
        said = answer.object()
        return Rejected([Problem(said["field"], "no such size", tuple(said["options"]))])

    error = failed(make_http(failure=failure), "POST")
    assert isinstance(error, Rejected)
    assert error.problems == (Problem("size", "no such size", ("s", "m")),)
    assert error.args == (error.message,) == ("size: no such size",)


def test_an_error_body_the_adapter_cannot_read_leaves_the_status(
    wire: responses.RequestsMock,
) -> None:
    wire.post(f"{URL}/contacts", status=429, body="<html>", headers={"Retry-After": "60"})
    http = make_http(failure=lambda answer: NotFound(answer.id()))
    assert isinstance(failed(http, "POST"), Throttled)


# Retry-After.


@for_each(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (" 1.5 ", 1.5),
        ("0", 0.0),
        ("9" * 400, 86_400.0),
        ("Sat, 01 Jan 2000 00:00:00 GMT", 0.0),
        ("Sat, 01 Jan 2000 00:00:00", 0.0),
        ("Fri, 31 Dec 9998 23:59:59 GMT", 86_400.0),
        ("", None),
        ("-5", None),
        ("1e5", None),
        ("٣", None),
        ("²", None),
        ("soon", None),
        ("Fri, 31 Dec 99999 23:59:59 GMT", None),
        ("Fri, 31 Dec 99999999999999999999999 23:59:59 GMT", None),
        ("Fri, 31 Dec 2026 23:59:59 +99999999", None),
    ],
)
def test_retry_after_is_read_or_left(text: str, seconds: float | None) -> None:
    assert Answer("Acme", 429, {"Retry-After": text}, None).seconds() == seconds


@for_each("usegmt", [True, False])
def test_retry_after_may_be_a_date(usegmt: bool) -> None:
    soon = formatdate(time.time() + 100, usegmt=usegmt)
    assert 90 < (Answer("Acme", 503, {"Retry-After": soon}, None).seconds() or 0) <= 100


# What is sent again.


@for_each("method", ["GET", "POST"])
def test_what_could_not_be_sent_wrote_nothing(method: str) -> None:
    error = failed(make_http(closed_port()), method)
    assert type(error) is Unreachable


def test_a_write_that_could_not_be_sent_is_sent_again() -> None:
    deaf = [closed_port()]

    class Session:
        def request(self, method: str, url: str, **more: Any) -> requests.Response:
            return PlainSession().request(method, deaf.pop() if deaf else live, **more)

    with server(answering("201 Created", b'{"id": 1}')) as (live, received):
        context = http_context(session=Session())
        answer = Http(context, URL, crm="Acme", authorize=dict).send("POST", "contacts", body={})
    assert answer.id() == "1"
    assert len(received) == 1


@for_each("script", [reset, cut_short, answering("500 Oops")])
def test_a_write_that_broke_is_sent_once(script: Any) -> None:
    with server(script) as (url, received):
        error = failed(make_http(url), "POST", body={"a": 1})
    assert type(error) is Uncertain
    assert len(received) == 1


@for_each("script", [reset, cut_short, answering("500 Oops"), answering("200 OK", b"<html>")])
def test_a_read_that_broke_is_sent_again(script: Any) -> None:
    with server(script, script, answering("200 OK", b'{"id": 5}')) as (url, received):
        answer = make_http(url).send("GET", "contacts", "5")
    assert answer.id() == "5"
    assert len(received) == 3


def test_a_read_is_given_up_after_three_tries() -> None:
    with server(reset) as (url, received):
        error = failed(make_http(url))
    assert type(error) is Unavailable
    assert len(received) == 3


def test_a_write_that_was_one_too_many_waits_and_is_sent_again() -> None:
    too_many = answering("429 Too Many", b"{}", "Retry-After: 0.2")
    budget = FakeBudget()
    started = time.monotonic()
    with server(too_many, answering("201 Created", b'{"id": 1}')) as (url, received):
        answer = make_http(url, budgets={"general": budget}).send("POST", "contacts", body={})
    assert (answer.id(), len(received)) == ("1", 2)
    assert time.monotonic() - started >= 0.2
    assert (budget.paused, budget.taken) == ([0.2], 2)


def test_nobody_waits_longer_than_there_is_time(wire: responses.RequestsMock) -> None:
    wire.get(f"{URL}/contacts", status=429, headers={"Retry-After": "30"})
    started = time.monotonic()
    error = failed(make_http(seconds=20))
    assert isinstance(error, Throttled)
    assert (error.retry_after, len(wire.calls)) == (30, 1)
    assert time.monotonic() - started < 30


def test_retry_after_zero_still_pauses(
    wire: responses.RequestsMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crmhub.adapter.http._BACKOFF", 0.2)
    wire.get(f"{URL}/contacts", status=429, headers={"Retry-After": "0"})
    started = time.monotonic()
    failed(make_http())
    assert time.monotonic() - started >= 0.1 + 0.2


def test_tries_end_with_the_deadline() -> None:
    over = threading.Event()
    with server(reset, lambda connection: over.wait(120)) as (url, received):
        # What is left when none, one and two requests have arrived.
        context = replace(http_context(), remaining=lambda: (20.0, 2.0, 0.0)[len(received)])
        error = failed(Http(context, url, crm="Acme", authorize=dict))
        over.set()
    assert isinstance(error, Unavailable)
    assert len(received) == 2


@for_each("method", ["GET", "POST"], fresh="wire")
def test_without_time_nothing_is_sent(wire: responses.RequestsMock, method: str) -> None:
    budget = FakeBudget()
    error = failed(make_http(seconds=0, budgets={"general": budget}), method)
    assert type(error) is NotYet
    assert (len(wire.calls), budget.taken) == (0, 0)


def test_a_write_that_would_be_broken_off_is_not_begun() -> None:
    left = [20.0]
    context = replace(http_context(), remaining=lambda: left[0])

    def slow(connection: socket.socket) -> None:
        time.sleep(0.3)
        answering("200 OK")(connection)

    with server(slow) as (url, received):
        http = Http(context, url, crm="Acme", authorize=dict)
        http.send("GET", "contacts")
        left[0] = 0.35
        error = failed(http, "POST")
        assert (type(error), len(received)) == (NotYet, 1)
        # However slow it is, a second is always worth a try.
        http._usual, left[0] = 60.0, 1.1
        with suppress(Unavailable):
            http.send("GET", "contacts")
        soon(lambda: len(received) >= 2)


# Budgets.


def test_every_request_takes_from_the_budget_of_its_lane(wire: responses.RequestsMock) -> None:
    wire.get(f"{URL}/contacts", status=500)
    wire.post(f"{URL}/search", json={})
    general, search = FakeBudget(), FakeBudget()
    http = make_http(budgets={"general": general, "search": search})
    failed(http)
    http.send("POST", "search", lane="search")
    assert (general.taken, search.taken) == (3, 1)


def test_an_exhausted_budget_sends_nothing(wire: responses.RequestsMock) -> None:
    error = failed(make_http(budgets={"general": FakeBudget(full=True)}), "POST")
    assert isinstance(error, Throttled)
    assert len(wire.calls) == 0


@for_each("status", [200, 400, 429, 500], fresh="wire")
def test_a_limit_follows_the_headers_of_every_answer(
    wire: responses.RequestsMock, status: int
) -> None:
    wire.post(f"{URL}/contacts", status=status, json={}, headers={"X-Max": "7", "X-Ms": "2000"})
    budgets = {"general": FakeBudget(), "search": FakeBudget()}
    http = make_http(seconds=5, budgets=budgets, headers=("X-Max", "X-Ms"))
    try:
        http.send("POST", "contacts")
    except AdapterError:
        assert status != 200
    assert {*budgets["general"].followed} == {(7, 2.0)}
    assert budgets["search"].followed == []


# Credentials.


def test_refused_credentials_are_renewed_once(wire: responses.RequestsMock) -> None:
    wire.post(f"{URL}/contacts", status=401)
    renewals: list[bool] = []

    def renew() -> bool:
        renewals.append(True)
        return True

    error = failed(make_http(renew=renew), "POST")
    assert type(error) is Denied
    assert (len(renewals), len(wire.calls)) == (1, 2)


def test_a_write_goes_out_again_under_renewed_credentials(wire: responses.RequestsMock) -> None:
    wire.post(f"{URL}/contacts", status=401)
    wire.post(f"{URL}/contacts", json={"id": 1})
    tokens = ["old"]
    http = make_http(
        authorize=lambda: {"Authorization": tokens[-1]}, renew=lambda: not tokens.append("new")
    )
    http.send("POST", "contacts")
    assert [call.request.headers["Authorization"] for call in wire.calls] == ["old", "new"]


@for_each("status", [400, 403, 404, 500], fresh="wire")
def test_other_failures_renew_nothing(wire: responses.RequestsMock, status: int) -> None:
    wire.post(f"{URL}/contacts", status=status)
    failed(make_http(renew=lambda: pytest.fail("renewed")), "POST")
    assert len(wire.calls) == 1


def test_a_refused_anonymous_call_renews_nothing(wire: responses.RequestsMock) -> None:
    wire.post(f"{URL}/token", status=401)
    http = make_http(renew=lambda: pytest.fail("renewed"))
    assert isinstance(failed(http, "POST", "token", anonymous=True), Denied)


def test_a_renewal_that_fails_is_what_is_told(wire: responses.RequestsMock) -> None:
    wire.get(f"{URL}/contacts", status=401)

    def renew() -> bool:
        raise Unavailable("the token endpoint is away")

    error = failed(make_http(renew=renew))
    assert error.message == "the token endpoint is away"
    assert len(wire.calls) == 1


# Correlation ids.


@for_each(
    ("given", "kept"),
    [("abc-1", "abc-1"), ("x" * 5000, "x" * 100), ("a\x1bb", ""), ("", "")],
    fresh="wire",
)
@for_each("place", ["header", "hook"], fresh="wire")
def test_a_correlation_id_is_kept_as_far_as_it_can_be_shown(
    wire: responses.RequestsMock, given: str, kept: str, place: str
) -> None:
    header = {"X-Corr": given} if place == "header" else {}
    wire.get(f"{URL}/contacts", status=404, headers=header, json={"correlationId": given})

    def failure(answer: Answer) -> AdapterError | None:
        error = NotFound("none")
        error.correlation_id = answer.object()["correlationId"] if place == "hook" else ""
        return error

    assert failed(make_http(failure=failure, correlation_header="X-Corr")).correlation_id == kept


def test_a_refusal_of_credentials_keeps_the_adapters_error(wire: responses.RequestsMock) -> None:
    class OnHold(Denied):
        pass

    def failure(answer: Answer) -> AdapterError:
        error = OnHold("on hold")
        error.correlation_id = "from-body"
        return error

    wire.get(f"{URL}/contacts", status=401, headers={"X-Request-Id": "from-header"})
    error = failed(make_http(failure=failure))
    assert (type(error), error.correlation_id) == (OnHold, "from-body")


# Nothing private.


@for_each(
    "written",
    [SECRET, quote(SECRET), quote(SECRET, safe=""), json.dumps(SECRET)[1:-1]],
    fresh="wire",
)
@for_each("at", [0, 290, 595], fresh="wire")
def test_a_secret_the_crm_repeats_is_blotted_out(
    wire: responses.RequestsMock, written: str, at: int
) -> None:
    wire.get(f"{URL}/contacts", status=403, json={"message": f"{'x' * at}{written} is wrong"})
    error = failed(make_http(secrets=lambda: [SECRET[:8], SECRET]))
    assert "pat-eu1" not in error.message
    assert at or "*** is wrong" in error.message


@for_each(
    "said", ["/rest/13/k32t88gf3azp/profile", "key=a+b%2Fc-secret", "a b/c-secret"], fresh="wire"
)
def test_a_part_of_a_secret_address_is_blotted_out(wire: responses.RequestsMock, said: str) -> None:
    address = "https://crm.example.test/rest/13/k32t88gf3azp?key=a%20b%2Fc-secret#top"
    wire.get(f"{URL}/contacts", status=403, json={"message": f"{said} lacks a right"})
    error = failed(make_http(secrets=lambda: [address]))
    assert "***" in error.message
    assert "k32t88gf3azp" not in error.message
    assert "secret" not in error.message


def test_headers_of_one_call_go_with_it_and_the_credentials_stay(
    wire: responses.RequestsMock,
) -> None:
    wire.post(f"{URL}/contacts", json={"id": "1"})
    wire.post(f"{URL}/contacts", json={"id": "2"})
    http = make_http(authorize=lambda: {"Authorization": "Bearer ours"})
    http.send("POST", "contacts", body={}, headers={"Idempotency-Key": "m-1", "Authorization": ""})
    http.send("POST", "contacts", body={})
    first, second = (call.request.headers for call in wire.calls)
    assert (first["Idempotency-Key"], first["Authorization"]) == ("m-1", "Bearer ours")
    assert "Idempotency-Key" not in second


def test_a_secret_in_a_problem_is_blotted_out(wire: responses.RequestsMock) -> None:
    wire.post(f"{URL}/contacts", status=400, json={"size": [f"what is {SECRET}?"]})
    http = make_http(
        secrets=lambda: [SECRET],
        failure=lambda answer: Rejected([Problem("size", answer.object()["size"][0])]),
    )
    error = failed(http, "POST")
    assert isinstance(error, Rejected)
    assert error.problems[0].reason == "what is ***?"
    assert error.message == "size: what is ***?"


@for_each(
    ("said", "shown"),
    [
        ("no access for tiger", "no access for ***"),
        ("tiger, wrong!", "***, wrong!"),
        ("the tigers", "the tigers"),
    ],
)
def test_a_short_secret_is_blotted_out_as_a_whole_word(said: str, shown: str) -> None:
    assert make_http(secrets=lambda: ["tiger"]).mask(said) == shown


def test_a_header_the_crm_repeats_is_blotted_out(wire: responses.RequestsMock) -> None:
    basic = b64encode(f"user:{SECRET}".encode()).decode()
    wire.get(f"{URL}/contacts", status=403, json={"message": f"{basic} has no right"})
    error = failed(make_http(authorize=lambda: {"Authorization": f"Basic {basic}"}))
    assert error.message.endswith(": *** has no right.")


def test_data_that_looks_like_a_secret_stays(wire: responses.RequestsMock) -> None:
    wire.get(f"{URL}/contacts", json={"id": "1", "note": "the-token"})
    answer = make_http(secrets=lambda: ["the-token"]).send("GET", "contacts")
    assert answer.object()["note"] == "the-token"


@for_each("method", ["GET", "POST"], fresh="wire")
@for_each(
    "exc",
    [
        requests.ConnectionError("Max retries exceeded with url: /x?email=ada@example.com"),
        requests.ReadTimeout("https://crm.example.test/api?email=ada@example.com"),
        requests.exceptions.InvalidURL("Failed to parse: https://h/p?email=ada@example.com"),
        requests.exceptions.SSLError("ada@example.com"),
        requests.exceptions.InvalidHeader("in header value: 'Bearer the-token\\n'"),
    ],
    fresh="wire",
)
def test_an_error_of_the_wire_tells_nothing_private(
    wire: responses.RequestsMock, caplog: pytest.LogCaptureFixture, method: str, exc: Exception
) -> None:
    caplog.set_level(logging.DEBUG)
    wire.add(method, f"{URL}/contacts", body=exc)
    error = failed(make_http(), method, params={"email": "ada@example.com"})
    told = error.message + repr(error) + caplog.text
    assert (error.__cause__, error.__context__) == (None, None)
    assert "ada@" not in told
    assert "the-token" not in told


def test_a_log_line_names_status_account_time_and_correlation_id(
    wire: responses.RequestsMock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="crmhub.adapter")
    wire.post(f"{URL}/contacts", status=500, headers={"X-Request-Id": "corr-1"}, body="ada@x.org")
    failed(make_http(), "POST", params={"email": "ada@x.org"}, body={"email": "ada@x.org"})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.messages[0].startswith("Acme answered 500 to a POST for acme after ")
    assert caplog.messages[0].endswith(" ms: Uncertain (correlation id corr-1)")


@for_each(("status", "level"), [(404, "INFO"), (409, "INFO"), (401, "WARNING")], fresh="wire")
def test_what_only_the_caller_can_mend_is_no_warning(
    wire: responses.RequestsMock, caplog: pytest.LogCaptureFixture, status: int, level: str
) -> None:
    caplog.clear()
    caplog.set_level(logging.DEBUG, logger="crmhub.adapter")
    wire.get(f"{URL}/contacts", status=status)
    failed(make_http())
    assert [record.levelname for record in caplog.records] == [level]


def test_an_answer_that_never_came_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with server(reset) as (url, _):
        failed(make_http(url), "POST")
    assert "answered nothing to a POST" in caplog.text


def test_the_repr_of_an_answer_shows_no_data() -> None:
    answer = Answer("Acme", 200, {"Set-Cookie": "s3cret"}, {"email": "ada@example.com"})
    assert "ada" not in repr(answer)
    assert "s3cret" not in repr(answer)


# Threads.


def test_threads_get_their_own_answers() -> None:
    class Session:
        def request(self, method: str, url: str, **more: Any) -> requests.Response:
            response = requests.Response()
            response.status_code = 200
            response._content = json.dumps({"id": url.rpartition("/")[2]}).encode()
            return response

    http = Http(http_context(session=Session()), URL, crm="Acme", authorize=dict)
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda n: http.send("GET", "contacts", str(n)).id(), range(200)))
    assert found == [str(n) for n in range(200)]
