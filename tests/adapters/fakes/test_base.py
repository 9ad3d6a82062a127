"""The base of a fake: the order in which a call is processed, its record, and the control."""

from __future__ import annotations

import textwrap
import threading
from contextlib import suppress
from typing import Any

import pytest
import requests

import adapters.fakes
from adapters.fakes import limits, records
from adapters.fakes.answers import Answer, Refused
from adapters.fakes.fake import Fake, Options
from adapters.fakes.fields import Field
from adapters.fakes.limits import AtOnce, Window
from adapters.fakes.server import Received
from tests.adapters.fakes.conftest import Client
from tests.adapters.fakes.tiny_crm import SEARCH_COST, TinyCrm
from tests.clocks import clock_of
from tests.queue.working import soon


def test_the_documented_example_works() -> None:
    lines = str(adapters.fakes.__doc__).splitlines()
    example = "\n".join(line for line in lines if line.startswith("    ") or not line)
    found: dict[str, Any] = {"Fake": Fake, "Field": Field, "Received": Received}
    exec(textwrap.dedent(example), found | {"Answer": Answer, "Refused": Refused}, found)
    with found["FakeAcme"](Options()) as acme:
        url, token = f"{acme.url}/people", {"X-Token": "secret"}
        made = requests.post(
            url, json={"name": "Ada", "email": "a@b.org"}, headers=token, timeout=9
        )
        read = requests.get(f"{url}/{made.json()['id']}", headers=token, timeout=9)
        again = requests.post(
            url, json={"name": "Bo", "email": "A@b.org"}, headers=token, timeout=9
        )
        wrong = requests.post(url, json={"email": 1, "age": 3}, headers=token, timeout=9)
    assert read.json() == {"name": "Ada", "email": "a@b.org"}
    assert (again.status_code, again.json()["id"]) == (409, made.json()["id"])
    assert (wrong.status_code, {*wrong.json()["errors"]}) == (422, {"name", "email", "age"})


def test_a_call_is_executed_and_recorded(crm: TinyCrm, client: Client) -> None:
    made = client.create("Ada")
    assert (made.status_code, made.json()) == (201, {"id": "1"})
    assert client("GET", "/contacts/1").json() == {"name": "Ada"}
    assert client("DELETE", "/contacts/1").content == b""
    assert [f"{one.method} {one.path} {one.status}" for one in crm.take_requests()] == [
        "POST /contacts 201",
        "GET /contacts/1 200",
        "DELETE /contacts/1 204",
    ]
    assert crm.requests == []


def test_a_token_is_looked_at_before_a_limit_and_a_limit_before_the_call(client: Client) -> None:
    client.change(limit="0/600s", retry_after="seconds")
    assert client("GET", "/contacts/1", headers={"X-Token": "wrong"}).status_code == 401
    over = client("GET", "/contacts/1")
    assert (over.status_code, over.json()) == (429, {"message": "over the limit general"})
    assert over.headers["Retry-After"] == "600"
    client.change(limit="none")
    assert client("GET", "/contacts/1").status_code == 404


def test_a_call_counts_with_its_cost(crm: TinyCrm, client: Client) -> None:
    client.change(limit=f"{SEARCH_COST + 1}/600s")
    client.create("Ada")
    assert client.found("Ada") == ["1"]
    assert client.create("Bob").status_code == 429
    general = client.state()["windows"]["general"]
    assert (general["calls"], general["spent"], general["refused"]) == (3, SEARCH_COST + 1, 1)
    assert general["peak"] == SEARCH_COST + 2


def test_only_so_many_calls_at_once(crm: TinyCrm, client: Client) -> None:
    assert client.change(at_once=1).status_code == 200
    crm.fail(kind="latency", seconds=100, path="/contacts")

    def create() -> None:
        with suppress(requests.ConnectionError):
            client.create("Ada")

    slow = threading.Thread(target=create)
    slow.start()
    soon(lambda: crm.at_once.now == 1)
    refused = Client(crm)("GET", "/contacts/1")
    assert refused.json() == {"message": "over the limit at_once"}
    assert client.state()["atOnce"] == {"limit": 1, "peak": 1, "refused": 1}
    crm.stop()
    slow.join()
    assert crm.at_once.now == 0


def test_every_answer_is_decorated(client: Client) -> None:
    client.change(limit="5/600s")
    left = [
        client("GET", "/contacts/9", headers={"X-Token": one}).headers["X-Left"] for one in "ab"
    ]
    assert left == ["4", "3"]


def test_a_fault_has_the_crms_own_body(crm: TinyCrm, client: Client) -> None:
    crm.fail(409, existing_id="7", retry_after="seconds")
    crm.fail(kind="expired", times=5)
    conflict, expired = client.create("Ada"), client.create("Ada")
    assert (conflict.status_code, conflict.json()["id"]) == (409, "7")
    assert conflict.headers["Retry-After"] == "10"
    assert (expired.status_code, expired.json()["message"]) == (401, "status 401")
    assert crm.stored("contacts") == {}


def test_a_written_fault_is_applied_after_the_write(crm: TinyCrm, client: Client) -> None:
    crm.fail(500, written=True)
    assert client.create("Ada").status_code == 500
    assert crm.records("contacts") == {"1": {"name": "Ada"}}


def test_a_search_lags_until_the_index_is_brought_up(
    crm: TinyCrm, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = clock_of(records, monkeypatch)
    client.change(search_lag=5)
    client.create("Ada")
    assert client.found("Ada") == []
    clock.forward(6)
    assert client.found("Ada") == ["1"]
    client.create("Bob")
    assert client.found("Bob") == []
    client("POST", "/_control/index")
    assert client.found("Bob") == ["2"]


def test_a_search_sees_former_values_until_the_lag_has_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = clock_of(records, monkeypatch)
    record = records.Record("contacts", "1", 0, 0, lambda record: None)
    for name in ("Ada", "Bob"):
        record.write({"name": name}, 0)
        clock.forward(10)
    assert record.searchable(0) == record.searchable(5) == {"name": "Bob"}
    assert record.searchable(15) == {"name": "Ada"}
    assert record.searchable(25) is None


def test_records_over_http(crm: TinyCrm, client: Client) -> None:
    made = client("POST", "/_control/records/contacts", json={"properties": {"name": "Ada"}})
    assert (made.status_code, made.json()) == (201, {"id": "1"})
    held = client("GET", "/_control/records/contacts").json()
    assert held == {"1": {"properties": {"name": "Ada"}, "associations": {"contacts": []}}}
    refused = client("POST", "/_control/records/contacts", json={"properties": {"name": 1}})
    assert refused.status_code == 422
    with pytest.raises(Refused):
        crm.add("contacts", {})


@pytest.mark.parametrize(
    "settings",
    [
        {"limit": "5"},
        {"at_once": -1},
        {"scopes": ["admin"]},
        {"latency": 1, "nonsense": 1},
        {"rotates": 1},
        [],
    ],
)
def test_wrong_settings_change_nothing(client: Client, settings: Any) -> None:
    before = client.state()
    answer = client("POST", "/_control/settings", json=settings)
    assert answer.status_code == 400
    assert client.state() == before


def test_a_reset_begins_afresh(crm: TinyCrm, client: Client) -> None:
    client.create("Ada")
    client.change(latency=0.001, limit="1/600s")
    crm.fail(500)
    assert client("POST", "/_control/reset").status_code == 204
    assert (crm.records("contacts"), crm.requests, crm.latency, crm.faults.waiting) == (
        {},
        [],
        0.0,
        [],
    )
    assert [client.create("Ada").status_code for _ in range(2)] == [201, 201]


def test_a_refused_cost_waits_until_enough_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = clock_of(limits, monkeypatch)
    window = Window("general", 10, 60)
    for cost in (6, 4):
        assert window.take(cost) is None
        clock.forward(20)
    assert window.take(3) == pytest.approx(20, abs=1)
    assert window.take(7) == pytest.approx(40, abs=1)
    assert window.take(11) == 60
    assert window.resets_in() == pytest.approx(40, abs=1)
    clock.forward(20.5)
    assert (window.take(6), window.remaining()) == (None, 0)


def test_a_limit_at_once_of_none_refuses_nothing() -> None:
    unlimited = AtOnce()
    assert [unlimited.enter() for _ in range(3)] == [True] * 3
    assert unlimited.peak == 3
