"""The fake's faults, as a client on the other side of the socket meets them."""

from __future__ import annotations

import email.utils
import time
from datetime import UTC, datetime
from typing import Any

import pytest
import requests
from requests.exceptions import ChunkedEncodingError, ConnectionError, JSONDecodeError

from adapters.fakes.hubspot import Fault
from tests.adapters.fakes.hubspot.calls import Api, refreshed
from tests.queue.working import soon

_DETAILS = "/account-info/2026-09/details"
# Time to connect, and to wait for an answer.
_IMPATIENT = (30, 0.3)
_ADA = {"properties": {"firstname": "Ada"}, "associations": []}


@pytest.mark.parametrize("status", [400, 403, 404, 423, 429, 477, 500, 503])
def test_a_status_comes_with_hubspots_body(api: Api, status: int) -> None:
    api.fake.fail(status)
    answer = api.get(_DETAILS)
    assert answer.status_code == status
    assert answer.json()["correlationId"] == answer.headers["x-hubspot-correlation-id"]
    assert api.get(_DETAILS).status_code == 200


@pytest.mark.parametrize("status", [502, 504, 521, 524])
def test_a_status_of_the_edge_comes_with_a_page(api: Api, status: int) -> None:
    api.fake.fail(status)
    answer = api.get(_DETAILS)
    assert (answer.status_code, answer.text[:9]) == (status, "<!DOCTYPE")
    assert answer.headers["Content-Type"].startswith("text/html")


def test_a_body_and_headers_of_ones_own(api: Api) -> None:
    api.fake.fail(418, body={"short": "stout"}, headers={"X-Pot": "tea"})
    answer = api.get(_DETAILS)
    assert (answer.json(), answer.headers["X-Pot"]) == ({"short": "stout"}, "tea")


def test_retry_after_in_each_form(api: Api) -> None:
    for form in ("none", "seconds", "date"):
        api.fake.fail(429, retry_after=form, retry_seconds=30)
    told = [api.get(_DETAILS).headers.get("Retry-After") for _ in range(3)]
    assert told[:2] == [None, "30"]
    at = email.utils.parsedate_to_datetime(str(told[2]))
    assert 20 < (at - datetime.now(UTC)).total_seconds() < 40


def test_a_moved_account_says_when_in_seconds(api: Api) -> None:
    api.fake.fail(477, retry_seconds=3_600)
    assert api.get(_DETAILS).headers["Retry-After"] == "3600"


def test_a_conflict_names_the_id_it_is_told(api: Api) -> None:
    api.fake.fail(409, existing_id="4711")
    assert api.get(_DETAILS).json()["message"] == "Contact already exists. Existing ID: 4711"


def test_a_partial_success(api: Api) -> None:
    api.fake.fail(207)
    assert api.get(_DETAILS).json()["numErrors"] == 1


def test_a_reset_before_the_write_leaves_nothing(api: Api) -> None:
    api.fake.fail(kind="reset")
    with pytest.raises(ConnectionError, match="reset by peer"):
        api.create("contacts", firstname="Ada")
    assert not api.fake.contacts


def test_a_close_before_the_write_leaves_nothing(api: Api) -> None:
    api.fake.fail(kind="close")
    with pytest.raises(ConnectionError, match="without response"):
        api.create("contacts", firstname="Ada")
    assert not api.fake.contacts


@pytest.mark.parametrize(("kind", "words"), [("reset", "reset by peer"), ("close", "closed")])
def test_an_answer_lost_after_the_write(api: Api, kind: str, words: str) -> None:
    api.fake.fail(kind=kind, written=True)
    with pytest.raises(ConnectionError, match=words):
        api.create("contacts", firstname="Ada")
    assert len(api.fake.contacts) == 1


@pytest.mark.parametrize("status", [500, 502, 524])
def test_a_failure_after_the_write(api: Api, status: int) -> None:
    api.fake.fail(status, written=True)
    assert api.create("contacts", firstname="Ada").status_code == status
    assert len(api.fake.contacts) == 1


def test_an_answer_cut_off_in_its_middle(api: Api) -> None:
    api.fake.fail(kind="cut")
    with pytest.raises(ChunkedEncodingError, match="IncompleteRead"):
        api.create("contacts", firstname="Ada")
    assert len(api.fake.contacts) == 1


def test_latency_outlasts_an_impatient_client(api: Api) -> None:
    api.fake.fail(kind="latency", seconds=20)
    with pytest.raises(requests.ReadTimeout):
        api("GET", _DETAILS, timeout=_IMPATIENT)


def test_a_written_record_may_be_answered_too_late(api: Api) -> None:
    api.fake.fail(kind="latency", seconds=60, written=True)
    with pytest.raises(requests.ReadTimeout):
        api("POST", "contacts", json=_ADA, timeout=_IMPATIENT)
    soon(lambda: len(api.fake.contacts) == 1)


def test_a_record_may_be_written_after_the_client_gave_up(api: Api) -> None:
    api.fake.fail(kind="latency", seconds=3.0)
    with pytest.raises(requests.ReadTimeout):
        api("POST", "contacts", json=_ADA, timeout=_IMPATIENT)
    assert not api.fake.contacts
    soon(lambda: len(api.fake.contacts) == 1)


def test_latency_ends_with_the_true_answer(api: Api) -> None:
    api.fake.fail(kind="latency", seconds=0.3)
    began = time.monotonic()
    assert api.get(_DETAILS).json()["portalId"] == 62515
    assert time.monotonic() - began >= 0.3


def test_a_page_with_status_200(api: Api) -> None:
    api.fake.fail(kind="html")
    answer = api.get(_DETAILS)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html")


@pytest.mark.parametrize("kind", ["broken_json", "empty"])
def test_a_body_that_is_no_json(api: Api, kind: str) -> None:
    api.fake.fail(kind=kind)
    answer = api.get(_DETAILS)
    assert answer.status_code == 200
    with pytest.raises(JSONDecodeError):
        answer.json()


def test_a_burst_of_expired_tokens_ends_with_a_refresh(api: Api) -> None:
    api.fake.fail(kind="expired", path="/account-info/*", times=50)
    first = api.get(_DETAILS)
    assert (first.status_code, first.json()["category"]) == (401, "EXPIRED_AUTHENTICATION")
    assert refreshed(api).status_code == 200
    assert api.get(_DETAILS).status_code == 200


def test_a_fault_strikes_what_matches_only(api: Api) -> None:
    fault = api.fake.fail(503, method="POST|PATCH", path="*/contacts*", skip=1, times=2)
    got = [api.create("contacts", firstname=name).status_code for name in "abcd"]
    assert got == [201, 503, 503, 201]
    assert api.get(_DETAILS).status_code == 200
    assert fault.struck == 2


def test_a_probable_fault_strikes_now_and_then(api: Api) -> None:
    api.fake.fail(503, times=None, probability=0.5)
    got = {api.get(_DETAILS).status_code for _ in range(60)}
    assert got == {200, 503}


def test_faults_are_ordered_over_http_too(api: Api) -> None:
    order = [{"status": 503, "times": 1}, {"kind": "reset", "written": True}]
    assert len(api.post("/_control/faults", order).json()["faults"]) == 2
    assert api.get(_DETAILS).status_code == 503
    assert api("DELETE", "/_control/faults").status_code == 204
    assert api.get(_DETAILS).status_code == 200


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"kind": "nonsense"},
        {"status": "503"},
        {"status": 503, "time": 1},
        {"status": 503, "times": "2"},
        {"status": 503, "written": 1},
        {"status": 429, "retry_after": "soon"},
        [1],
    ],
)
def test_a_wrong_order_is_refused(api: Api, order: Any) -> None:
    answer = api.post("/_control/faults", order)
    assert answer.status_code == 400
    assert answer.json()["message"]
    assert not api.fake.faults.waiting


def test_a_wrong_fault_is_refused_in_python() -> None:
    with pytest.raises(ValueError, match="kind: nonsense"):
        Fault(kind="nonsense")
