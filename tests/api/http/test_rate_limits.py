"""How often an account may call, and how much it may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import flask
import pytest

from crmhub.accounts import keys
from crmhub.app import create_app
from crmhub.hub import Hub
from crmhub.settings import Settings
from tests.api.refusals import header_faults, refused
from tests.clients import Client, needed, open_client

PLANS = """
[three]
rate_limit = "3/600s"
[five]
rate_limit = "5/60s"
[keys]
rate_limit = "5/60s"
key_rate_limit = "2/60s"
[small]
rate_limit = ""
contacts = 2
deals = 0
tickets = 3
"""
CREATE_LEAD = "/chatbot/createLead/{generated}"

MakeApp = Callable[..., flask.Flask]


@pytest.fixture
def make_app(settings: Settings, tmp_path: Path) -> Iterator[MakeApp]:
    """Makes server processes' applications that know the plans of this file."""
    plans = tmp_path / "plans.toml"
    plans.write_text(PLANS)

    with ExitStack() as stack:

        def make(**options: Any) -> flask.Flask:
            app = create_app(replace(settings, **{"plans": plans, "workers": 1, **options}))
            stack.callback(app.extensions["crmhub"].close)
            return app

        yield make


@pytest.fixture
def limited(make_app: MakeApp) -> flask.Flask:
    return make_app()


def key_of(app: flask.Flask, client: Client) -> str:
    hub: Hub = app.extensions["crmhub"]
    issued = hub.database.transact(lambda tx: keys.create(tx, client.account.id))
    return issued.api_key


def status(client: Client, key: str = "") -> int:
    return client.get("/contacts", headers={"service-apikey": key or client.key}).status_code


# --- the rate --------------------------------------------------------------------------------


def test_more_calls_than_the_plan_allows_are_429(limited: flask.Flask) -> None:
    client = open_client(limited, plan="five")
    assert [status(client) for _ in range(7)] == [200] * 5 + [429] * 2
    answer = client.get("/contacts")
    message = refused(answer, 429)
    assert answer.headers["RateLimit-Remaining"] == "0"
    seconds = int(answer.headers["Retry-After"])
    assert 1 <= seconds <= 60
    assert f"try again in {seconds} s" in message


def test_headers_count_down(limited: flask.Flask) -> None:
    client = open_client(limited, plan="five")
    headers = [client.get("/contacts").headers for _ in range(5)]
    assert {each["RateLimit-Limit"] for each in headers} == {"5"}
    assert [int(each["RateLimit-Remaining"]) for each in headers] == [4, 3, 2, 1, 0]
    assert all(0 < int(each["RateLimit-Reset"]) <= 60 for each in headers)


def test_every_answer_counts_whatever_its_status(limited: flask.Flask) -> None:
    client = open_client(limited, plan="five")
    for method, path in (
        ("GET", "/nothing"),
        ("PUT", "/contacts"),
        ("POST", "/contacts"),
        ("GET", "/contacts/1"),
        ("OPTIONS", "/contacts"),
    ):
        assert client.call(method, path).status_code != 429
    refused(client.get("/contacts"), 429)


def test_every_answer_carries_the_headers(limited: flask.Flask, client: Client) -> None:
    of_three = open_client(limited, plan="three")
    answers = [of_three.get("/contacts") for _ in range(4)]
    answers += [
        client.get("/contacts"),
        client.get("/contacts/1"),
        client.get("/nothing"),
        client.put("/contacts"),
        client.post("/contacts", {}),
        client.get("/contacts", headers={"service-apikey": "wrong"}),
        client.delete(f"/contacts/{client.make()}"),
        client.call("HEAD", "/contacts"),
        client.call("OPTIONS", "/contacts"),
    ]
    assert {each.status_code for each in answers} == {200, 204, 400, 401, 404, 405, 429}
    assert [found for each in answers for found in header_faults(each)] == []


@pytest.mark.parametrize("default", ['[default]\nrate_limit = ""', '[default]\nrate_limit = "7/s"'])
def test_a_401_carries_the_headers_under_any_default_plan(
    make_app: MakeApp, tmp_path: Path, default: str
) -> None:
    plans = tmp_path / "other.toml"
    plans.write_text(default)
    http = make_app(plans=plans).test_client()
    answer = http.get("/nobody/api/v1/contacts")
    refused(answer, 401)


def test_helpers_and_pages_carry_none(client: Client, app: flask.Flask) -> None:
    for answer in (client.helper(CREATE_LEAD, {}), app.test_client().get("/healthz")):
        assert not [name for name, _ in answer.headers if name.startswith("RateLimit")]


def test_wrong_keys_use_up_nothing(limited: flask.Flask) -> None:
    client = open_client(limited, plan="five")
    for _ in range(10):
        assert status(client, "wrong") == 401
    assert client.get("/contacts").headers["RateLimit-Remaining"] == "4"


def test_a_key_has_a_rate_of_its_own(limited: flask.Flask) -> None:
    client = open_client(limited, plan="keys")
    second, third = key_of(limited, client), key_of(limited, client)
    assert [status(client) for _ in range(3)] == [200, 200, 429]
    assert [status(client, second) for _ in range(3)] == [200, 200, 429]
    # What a key's own limit stopped was not counted for the account.
    assert [status(client, third) for _ in range(2)] == [200, 429]


def test_429_comes_before_404_and_403(limited: flask.Flask) -> None:
    client = open_client(limited, plan="three")
    for _ in range(3):
        client.get("/contacts")
    refused(client.get("/nothing"), 429)
    refused(client.call("POST", "/contacts", data=b"{"), 429)


def test_processes_share_a_rate_through_redis(make_app: MakeApp, redis_url: str) -> None:
    one, two = (make_app(redis_url=redis_url, workers=2) for _ in range(2))
    client = open_client(one, plan="five")
    again = Client(two, client.account, client.ids)
    assert [status(each) for each in (client, again, client, again, client)] == [200] * 5
    assert status(again) == 429
    assert status(client) == 429


def test_processes_without_redis_hold_their_shares(make_app: MakeApp) -> None:
    one, two = (make_app(workers=2) for _ in range(2))
    client = open_client(one, plan="five")
    again = Client(two, client.account, client.ids)
    assert [status(client) for _ in range(3)] == [200, 200, 429]
    assert [status(again) for _ in range(3)] == [200, 200, 429]


def test_the_default_plan_allows_a_thousand_calls_in_ten_seconds(app: flask.Flask) -> None:
    answer = open_client(app, plan="default").get("/contacts")
    share = 1000 // app.extensions["crmhub"].settings.workers
    assert answer.headers["RateLimit-Limit"] == str(share)
    assert int(answer.headers["RateLimit-Reset"]) <= 10


# --- quotas ----------------------------------------------------------------------------------


def test_more_records_than_the_plan_allows_are_402(limited: flask.Flask) -> None:
    client = open_client(limited, plan="small")
    for _ in range(2):
        client.make()
    message = refused(client.post("/contacts", {"properties": needed("contacts")}), 402)
    assert "2 contacts" in message
    assert client.get("/contacts").json["total"] == 2  # type: ignore[index]
    refused(client.post("/deals", {"properties": needed("deals")}), 402)
    assert client.make("companies")


def test_archiving_makes_room(limited: flask.Flask) -> None:
    client = open_client(limited, plan="small")
    first, _ = client.make(), client.make()
    assert client.delete(f"/contacts/{first}").status_code == 204
    assert client.make()
    refused(client.post("/contacts", {"properties": needed("contacts")}), 402)


def test_changing_records_is_allowed_at_the_quota(limited: flask.Flask) -> None:
    client = open_client(limited, plan="small")
    id, _ = client.make(), client.make()
    assert client.patch(f"/contacts/{id}", {"properties": {"city": "Bonn"}}).status_code == 200
