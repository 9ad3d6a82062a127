"""Two server processes on one database: what one writes, the other knows at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import flask
import pytest

from crmhub.app import create_app
from crmhub.settings import Settings
from tests import depth
from tests.api.refusals import refused
from tests.catalogue_properties import define
from tests.clients import Client, needed, open_client
from tests.pages import fetch, walk
from tests.records.meanwhile import at_once

RESOURCES = ("contacts", "deals", "companies", "tickets")


@pytest.fixture(scope="module")
def second(settings: Settings, app: flask.Flask) -> Iterator[flask.Flask]:
    """A second process's application, which shares nothing with the first but the database."""
    another = create_app(settings)
    yield another
    another.extensions["crmhub"].close()


@pytest.fixture
def two(app: flask.Flask, second: flask.Flask) -> tuple[Client, Client]:
    """A caller of each process, of one account that both have heard of."""
    here = open_client(app)
    there = Client(second, here.account, here.ids)
    for each in (here, there):
        for resource in RESOURCES:
            fetch(each, f"/{resource}/search", SOME)
    return here, there


SOME = {"filters": [{"propertyName": "createdAt", "operator": "HAS_PROPERTY"}]}


def search(client: Client, resource: str, name: str, value: str) -> list[int]:
    body = {"filters": [{"propertyName": name, "operator": "EQ", "value": value}]}
    return [each["id"] for each in walk(client, f"/{resource}/search", body)]


@pytest.mark.parametrize("resource", depth.KINDS)
def test_a_record_written_here_is_there_at_once(two: tuple[Client, Client], resource: str) -> None:
    here, there = two
    name = next(iter(needed(resource)))
    id = here.make(resource, **{name: "Here"})
    assert there.get(f"/{resource}/{id}").status_code == 200
    assert search(there, resource, name, "Here") == [id]
    assert there.patch(f"/{resource}/{id}", {"properties": {name: "There"}}).status_code == 200
    assert search(here, resource, name, "Here") == []
    assert here.delete(f"/{resource}/{id}").status_code == 204
    refused(there.get(f"/{resource}/{id}"), 404)
    assert fetch(there, f"/{resource}")["total"] == 0


@pytest.mark.parametrize("resource", depth.KINDS)
def test_a_property_defined_here_may_be_used_there_at_once(
    two: tuple[Client, Client], resource: str
) -> None:
    here, there = two
    define(here, resource, "fresh", "number")
    assert search(there, resource, "fresh", "7") == []
    define(here, resource, "fresher", "number")
    id = there.make(resource, fresher="7.0")
    assert search(here, resource, "fresher", "7") == [id]


@pytest.mark.parametrize("resource", depth.KINDS)
def test_a_property_deleted_here_is_not_written_there(
    two: tuple[Client, Client], resource: str
) -> None:
    here, there = two
    define(here, resource, "passing")
    id = there.make(resource, passing="x")
    assert here.delete(f"/properties/{resource}/passing?force=true").status_code == 204
    sent = {"properties": {**needed(resource), "passing": "y"}}
    assert "passing" in refused(there.post(f"/{resource}", sent), 422)
    assert "passing" not in there.get(f"/{resource}/{id}").get_json()["properties"]
    define(here, resource, "passing", "number")
    assert "passing" in refused(there.post(f"/{resource}", sent), 422)
    again = there.make(resource, passing="7")
    assert search(here, resource, "passing", "7.0") == [again]


@pytest.mark.parametrize("resource", depth.KINDS)
def test_a_property_defined_anew_here_is_found_by_there_at_once(
    two: tuple[Client, Client], resource: str
) -> None:
    here, there = two
    define(here, resource, "code", unique=True)
    assert search(there, resource, "code", "7") == []
    assert here.delete(f"/properties/{resource}/code").status_code == 204
    define(here, resource, "code", "number", unique=True)
    id = here.make(resource, code="10.0")
    body = {"filters": [{"propertyName": "code", "operator": "GT", "value": "9"}]}
    assert [each["id"] for each in walk(there, f"/{resource}/search", body)] == [id]
    assert here.delete(f"/properties/{resource}/code?force=true").status_code == 204
    define(here, resource, "code", unique=True)
    id = here.make(resource, code="10")
    assert there.get(f"/{resource}/10?idProperty=code").get_json()["id"] == id


def test_a_property_that_is_unique_no_more_here_makes_no_twin_there(
    two: tuple[Client, Client],
) -> None:
    here, there = two
    define(here, "deals", "code", unique=True)
    here.make("deals", code="7")
    inputs = [{"idProperty": "code", "id": "7", "properties": needed("deals")}]
    path, body = "/deals/batch/upsert", {"inputs": inputs}
    assert there.post(path, body).get_json()[0]["new"] is False
    assert here.patch("/properties/deals/code", {"unique": False}).status_code == 200
    assert "inputs[0].idProperty" in refused(there.post(path, body), 400)
    refused(there.get("/deals/7?idProperty=code"), 400)
    assert fetch(here, "/deals")["total"] == 1


def test_a_property_made_required_or_unique_here_is_so_there(two: tuple[Client, Client]) -> None:
    here, there = two
    define(here, "deals", "code")
    first = there.make("deals", code="same")
    path = "/properties/deals/code"
    assert here.patch(path, {"unique": True, "required": True}).status_code == 200
    sent: Any = {"properties": {"dealname": "x"}}
    assert "code" in refused(there.post("/deals", sent), 422)
    sent["properties"]["code"] = "same"
    assert refused(there.post("/deals", sent), 409).endswith(f"Existing ID: {first}")
    assert there.get("/deals/same?idProperty=code").get_json()["id"] == first


def test_options_and_stages_changed_here_are_taken_there(two: tuple[Client, Client]) -> None:
    here, there = two
    define(here, "deals", "size", "enumeration", options=["small"])
    assert there.make("deals", size="small")
    options = [{"value": each, "label": each} for each in ("small", "large")]
    assert here.patch("/properties/deals/size", {"options": options}).status_code == 200
    assert there.make("deals", size="large")
    stages = [{"id": "only", "label": "Only"}]
    body = {"id": "fresh", "label": "Fresh", "stages": stages}
    assert here.post("/pipelines/deals", body).status_code == 201
    assert there.make("deals", dealstage="only", pipeline="fresh")


def test_a_cursor_given_here_continues_there(two: tuple[Client, Client]) -> None:
    here, there = two
    ids = sorted(here.make() for _ in range(5))
    first = fetch(here, "/contacts", None, "?limit=3&sort=createdAt&order=asc")
    last = fetch(there, "/contacts", None, first["cursor"]["nextLink"])
    assert [each["id"] for each in first["results"] + last["results"]] == ids


def test_both_at_once_give_each_record_its_own_id(two: tuple[Client, Client]) -> None:
    def make_some(client: Client) -> list[int]:
        inputs = {"inputs": [{"properties": needed("contacts")} for _ in range(60)]}
        made = []
        for _ in range(5):
            answer = client.post("/contacts/batch/create", inputs)
            made += [each["id"] for each in answer.get_json()]
        return made

    ids = [id for made in at_once(*(partial(make_some, each) for each in two)) for id in made]
    assert len(set(ids)) == len(ids) == 600
    assert fetch(two[0], "/contacts")["total"] == 600


def test_both_at_once_may_define_and_write(two: tuple[Client, Client]) -> None:
    def define_and_write(client: Client, prefix: str) -> None:
        for n in range(6):
            define(client, "contacts", f"{prefix}_{n}")
            client.make("contacts", **{f"{prefix}_{n}": "x"})

    here, there = two
    at_once(partial(define_and_write, here, "here"), partial(define_and_write, there, "there"))
    for each in two:
        for n in range(6):
            assert len(search(each, "contacts", f"here_{n}", "x")) == 1
            assert len(search(each, "contacts", f"there_{n}", "x")) == 1
