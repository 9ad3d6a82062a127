"""How a fake is started, looked into and steered, in Python and over HTTP."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest
import requests

from adapters.fakes.hubspot import FakeHubSpot, Options, Refused
from adapters.fakes.hubspot.definitions import KINDS
from tests.adapters.fakes.hubspot.calls import Api

_DETAILS = "/account-info/2026-09/details"


def test_a_stopped_fake_answers_no_more_and_starts_again_with_its_records() -> None:
    fake = FakeHubSpot()
    url = fake.start().url
    id_ = fake.add_contact(firstname="Ada")
    fake.stop()
    with pytest.raises(requests.ConnectionError):
        requests.get(url + _DETAILS, timeout=30)
    with fake:
        assert fake.url == url
        assert id_ in fake.contacts
        assert requests.get(url + _DETAILS, timeout=30).status_code == 401


def test_a_stop_ends_calls_that_wait(fake: FakeHubSpot, api: Api) -> None:
    fake.fail(kind="latency", seconds=200)
    failed = threading.Event()

    def call() -> None:
        try:
            api("GET", _DETAILS, timeout=100)
        except requests.ConnectionError:
            failed.set()

    caller = threading.Thread(target=call)
    caller.start()
    while fake.general.calls == 0:
        time.sleep(0.01)
    fake.stop()
    caller.join()
    assert failed.is_set()


def test_no_thread_outlives_a_fake() -> None:
    before = threading.active_count()
    with FakeHubSpot() as fake, socket.create_connection(("127.0.0.1", int(fake.url[-5:]))):
        requests.get(fake.url + _DETAILS, timeout=30)
    assert threading.active_count() <= before + 1


def test_a_taken_port_is_an_error(fake: FakeHubSpot) -> None:
    with pytest.raises(OSError, match="in use"):
        FakeHubSpot(Options(port=int(fake.url.rsplit(":", 1)[1]))).start()


def test_what_a_fake_refuses_it_refuses_in_python_too(fake: FakeHubSpot) -> None:
    with pytest.raises(Refused, match="PROPERTY_DOESNT_EXIST"):
        fake.add_contact(emial="ada@example.com")


def test_changes_made_in_hubspot_itself(fake: FakeHubSpot) -> None:
    contact = fake.add_contact(firstname="Ada")
    deal = fake.add("deals", {"dealname": "x"}, contacts=[contact])
    fake.set("deals", deal, amount="5")
    assert fake.deals[deal]["amount"] == "5"
    fake.delete("deals", deal)
    assert fake.linked("contacts", contact, "deals") == []


def test_calls_are_remembered_with_what_was_answered(fake: FakeHubSpot, api: Api) -> None:
    api.create("contacts", firstname="Ada")
    fake.fail(kind="close")
    with pytest.raises(requests.ConnectionError):
        api.get("contacts", limit=5)
    made, listed = fake.requests
    assert (made.method, made.status, b"Ada" in made.body) == ("POST", 201, True)
    assert (listed.query, listed.status, listed.fault) == ("limit=5", 0, "close")
    assert fake.count("GET", "*/contacts") == 1
    assert "Bearer" not in repr(fake.requests)


def test_a_long_body_is_not_remembered_whole(fake: FakeHubSpot, api: Api) -> None:
    api.create("contacts", firstname="x" * 60_000)
    assert len(fake.requests[0].body) == 16_384


def test_control_needs_no_token_and_counts_as_no_call(fake: FakeHubSpot) -> None:
    state = requests.get(f"{fake.url}/_control/state", timeout=30).json()
    assert state["records"] == dict.fromkeys(KINDS, 0)
    assert state["windows"]["general"]["calls"] == 0
    assert fake.requests == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("settings", {"serch_lag": 1}),
        ("settings", {"search_lag": "soon"}),
        ("settings", {"search_lag": -1}),
        ("settings", {"latency": True}),
        ("settings", {"limit": "100"}),
        ("settings", {"retry_after": "soon"}),
        ("settings", {"scopes": "all"}),
        ("settings", {"scopes": ["crm.objects.contact.read"]}),
        ("settings", []),
        ("records/unicorns", {"properties": {}}),
    ],
)
def test_a_wrong_order_changes_nothing(api: Api, path: str, body: Any) -> None:
    before = api.get("/_control/state").json()
    answer = api.post(f"/_control/{path}", body)
    assert answer.status_code == 400
    assert answer.json()["message"]
    assert api.get("/_control/state").json() == before


def test_an_unknown_order_lists_the_known_ones(api: Api) -> None:
    answer = api.get("/_control/nonsense")
    assert answer.status_code == 404
    assert "POST /_control/faults" in answer.json()["message"]
