"""The HTTP calls of an attempt: what is recorded of them, and what is not."""

from __future__ import annotations

from contextlib import suppress

import pytest

from crmhub.adapter import AdapterError
from crmhub.adapter.calls import (
    MOST_CALLS,
    from_stored,
    record,
    recording,
    shown_path,
    to_stored,
)
from crmhub.adapter.http import Http
from tests.adapter.http_contexts import answering, closed_port, http_context, server
from tests.loops import for_each

pytestmark = pytest.mark.databases("sqlite")


def make_http(url, secrets=()):
    return Http(
        http_context(),
        url,
        crm="Acme",
        authorize=lambda: {"Authorization": "Bearer the-token"},
        secrets=lambda: secrets,
    )


@for_each(
    ("url", "shown"),
    [
        ("https://crm.example/v3/contacts/70812", "/v3/contacts/70812"),
        ("https://crm.example/contacts/ann%40example.com", "/contacts/…"),
        ("https://crm.example/contacts/+4930123", "/contacts/…"),
        ("https://crm.example/contacts/Ann%20Lee", "/contacts/…"),
        ("https://crm.example/contacts/%61nn%40example.com", "/contacts/…"),
        ("https://crm.example/c?idProperty=email&q=ann@example.com", "/c?idProperty=…&q=…"),
        ("https://crm.example/c?ann@example.com=1", "/c?…=…"),
        ("https://crm.example", ""),
    ],
)
def test_a_path_names_no_person(url, shown):
    assert shown_path(url) == shown


def test_a_path_is_no_longer_than_200_characters():
    assert len(shown_path(f"https://crm.example/{'/'.join('abc' for _ in range(99))}")) == 200


def test_each_call_is_recorded_with_status_and_the_crms_id():
    answer = answering("200 OK", b"{}", "X-Request-Id: r-1")
    with server(answer) as (url, _), recording() as recorded:
        make_http(url).send("POST", "contacts", body={"email": "ann@example.com"})
    [call] = recorded.calls
    assert (call.number, call.method, call.path, call.status) == (1, "POST", "/contacts", 200)
    assert call.correlation_id == "r-1"
    assert "ann" not in str(to_stored(recorded.calls))


def test_a_call_without_an_answer_is_recorded_with_each_repetition(monkeypatch):
    monkeypatch.setattr("crmhub.adapter.http._BACKOFF", 0.001)
    with recording() as recorded, suppress(AdapterError):
        make_http(closed_port()).send("GET", "contacts")
    assert [call.status for call in recorded.calls] == [0, 0, 0]


def test_a_secret_in_the_address_is_not_recorded():
    with server(answering("200 OK")) as (url, _), recording() as recorded:
        make_http(f"{url}/hooks/s3cr3t-token", ["s3cr3t-token"]).send("POST", "leads")
    assert recorded.calls[0].path == "/hooks/…/leads"


def test_the_last_calls_are_kept_with_their_numbers():
    with recording() as recorded:
        for status in range(MOST_CALLS + 5):
            record("GET", "/", status, 1, "")
    assert [call.number for call in recorded.calls] == list(range(6, MOST_CALLS + 6))
    assert from_stored(to_stored(recorded.calls)) == tuple(recorded.calls)


def test_a_call_outside_of_an_attempt_is_not_recorded():
    with recording() as recorded:
        pass
    with server(answering("200 OK")) as (url, _):
        make_http(url).send("GET", "contacts")
    assert not recorded.calls
