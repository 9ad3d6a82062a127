"""Two accounts: nothing of one can be seen, used or changed from the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import flask
import pytest
from werkzeug.test import TestResponse

from crmhub.database.connection import Connection
from crmhub.hub import Hub
from crmhub.properties.kinds import KINDS
from tests import depth
from tests.api.endpoints import endpoints
from tests.api.refusals import refused
from tests.catalogue_properties import define
from tests.clients import Client, needed
from tests.pages import fetch, walk

RESOURCES = ("contacts", "deals", "companies", "tickets")
TEXT = {"contacts": "city", "deals": "hs_next_step", "companies": "city", "tickets": "content"}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@dataclass(frozen=True)
class Call:
    """A request; `{id}` and `{to}` stand for two records, `{key}` for a unique value."""

    method: str
    path: str
    body: Any = None

    def send(self, client: Client, resource: str, id: int, to: int, key: str) -> TestResponse:
        def filled(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: filled(each) for name, each in value.items()}
            if isinstance(value, list):
                return [filled(each) for each in value]
            return {"{id}": id, "{to}": to, "{key}": key}.get(value, value)

        path = self.path.format(res=resource, id=id, to=to, key=key)
        return client.call(self.method, path, filled(self.body))


def calls(resource: str) -> Iterator[Call]:
    """Give a call to every endpoint of the record API that names a record."""
    changed = {TEXT[resource]: "changed"}
    new = needed(resource)
    yield Call("GET", "/{res}/{id}")
    yield Call("GET", "/{res}/{key}?idProperty=code")
    yield Call("PATCH", "/{res}/{id}", {"properties": changed})
    yield Call("GET", "/{res}/{id}/associations/companies")
    yield Call("PUT", "/{res}/{id}/associations/companies/{to}")
    yield Call("DELETE", "/{res}/{id}/associations/companies/{to}")
    yield Call("GET", "/{res}/{id}/notes")
    yield Call("POST", "/{res}/{id}/notes", {"text": "a note"})
    yield Call("DELETE", "/{res}/{id}/notes/{to}")
    yield Call("POST", "/{res}", {"properties": new, "associations": {"companies": ["{to}"]}})
    linked = {"properties": new, "associations": {resource: ["{id}"]}}
    yield Call("POST", "/{res}/batch/create", {"inputs": [{"properties": new}, linked]})
    yield Call("POST", "/{res}/batch/read", {"inputs": [{"id": "{id}"}]})
    by_key = {"inputs": [{"id": "{key}"}], "idProperty": "code"}
    yield Call("POST", "/{res}/batch/read", by_key)
    yield Call("POST", "/{res}/batch/update", {"inputs": [{"id": "{id}", "properties": changed}]})
    equal = [{"propertyName": "id", "operator": "EQ", "value": "{id}"}]
    yield Call("POST", "/{res}/search", {"filters": equal})
    same = [{"propertyName": "code", "operator": "EQ", "value": "{key}"}]
    yield Call("POST", "/{res}/search", {"filters": same})
    yield Call("POST", "/{res}/batch/archive", {"inputs": [{"id": "{id}"}]})
    yield Call("POST", "/{res}/{id}/restore")
    if resource in ("contacts", "companies"):
        yield Call("POST", "/{res}/merge", {"keep": "{id}", "merge": "{to}"})
    yield Call("DELETE", "/{res}/{id}")


# What names no record of the account: only what comes of it can be looked at.
NAMELESS = {("GET", ""), ("POST", "/batch/upsert")}


def everything(client: Client) -> Any:
    """Return all that an account holds."""
    query = "?limit=100&include=associations,createdAt,updatedAt"
    return [
        [fetch(client, f"/{resource}", None, query) for resource in RESOURCES],
        client.get("/usage").get_json(),
        [client.get(f"/properties/{resource}").get_json() for resource in RESOURCES],
        client.get("/pipelines/deals").get_json(),
    ]


def said(answer: TestResponse, *names: object) -> tuple[int, str]:
    """Return what an answer says, with the names of what was asked for left out."""
    text = _MOMENT.sub("", answer.text)
    for each in names:
        text = text.replace(str(each), "…")
    return answer.status_code, text


@pytest.fixture
def pair(client: Client, other: Client, hub: Hub) -> tuple[Client, Client]:
    """Two accounts whose records have a unique property; their ids are the same numbers."""
    block = {"account_id": "int", "kind": "int", "next_id": "bigint"}
    rows = [
        (each.account.id, kind.code, 10**6) for each in (client, other) for kind in KINDS.values()
    ]

    def reserve(tx: Connection) -> None:
        tx.insert("id_block", block, rows)

    hub.database.transact(reserve)
    for each in (client, other):
        for resource in RESOURCES:
            define(each, resource, "code", unique=True)
    return client, other


@pytest.mark.parametrize("resource", RESOURCES)
def test_the_calls_below_are_all_there_are(app: flask.Flask, resource: str) -> None:
    prefix = f"/<client_id>/api/v1/{resource}"
    known = {(each.method, each.rule) for each in endpoints(app) if each.rule.startswith(prefix)}
    adapter = app.url_map.bind("localhost")
    tested = {(method, prefix + path) for method, path in NAMELESS}
    for call in calls(resource):
        path = call.path.partition("?")[0].format(res=resource, id=1, to=2, key="k")
        rule, _ = adapter.match(f"/x/api/v1{path}", method=call.method, return_rule=True)
        tested.add((call.method, rule.rule))
    assert tested == known


@pytest.mark.parametrize("resource", depth.KINDS)
def test_a_foreign_record_is_answered_like_none(
    client: Client, other: Client, resource: str
) -> None:
    for each in (client, other):
        define(each, resource, "code", unique=True)
    theirs, friend = other.make(resource, code="secret"), other.make("companies", name="Friend")
    other.put(f"/{resource}/{theirs}/associations/companies/{friend}")
    nobody, nothing = theirs + 10**6, friend + 10**6
    before = everything(other)
    for call in calls(resource):
        foreign = call.send(client, resource, theirs, friend, "secret")
        unknown = call.send(client, resource, nobody, nothing, "unknown")
        expected = said(unknown, nobody, nothing, "unknown")
        assert said(foreign, theirs, friend, "secret") == expected, call
    assert everything(other) == before
    assert fetch(client, f"/{resource}")["total"] == 0


@pytest.mark.parametrize("resource", depth.KINDS)
def test_the_same_id_in_another_account_is_another_record(
    pair: tuple[Client, Client], resource: str
) -> None:
    records = [
        (
            each.make(resource, code="same", **{TEXT[resource]: name}),
            each.make("companies", name=f"{name}s friend"),
        )
        for each, name in zip(pair, ("ours", "theirs"), strict=True)
    ]
    assert records[0] == records[1]
    id, friend = records[0]
    ours, theirs = pair
    theirs.put(f"/{resource}/{id}/associations/companies/{friend}")
    before = everything(theirs)
    for call in calls(resource):
        answer = call.send(ours, resource, id, friend, "same")
        assert answer.status_code < 500
        assert "theirs" not in answer.text, call
        assert everything(theirs) == before, call
    refused(ours.get(f"/{resource}/{id}"), 404)
    assert theirs.get(f"/{resource}/{id}").get_json()["properties"][TEXT[resource]] == "theirs"
    assert walk(theirs, f"/{resource}/{id}/associations/companies") == [friend]


@pytest.mark.parametrize("resource", depth.KINDS)
def test_a_unique_value_is_unique_in_its_account_only(
    pair: tuple[Client, Client], resource: str
) -> None:
    ours, theirs = pair
    theirs.make(resource, code="same")
    before = everything(theirs)
    body = {"properties": {**needed(resource), "code": "same"}}
    upsert = {"idProperty": "code", "id": "other", **body, "properties": needed(resource)}
    created = ours.post(f"/{resource}", body)
    assert created.status_code == 201
    assert refused(ours.post(f"/{resource}", body), 409).endswith(str(created.get_json()["id"]))
    [upserted] = ours.post(f"/{resource}/batch/upsert", {"inputs": [upsert]}).get_json()
    assert upserted["new"] is True
    change = {"properties": {"code": "new"}}
    assert ours.patch(f"/{resource}/{created.get_json()['id']}", change).status_code == 200
    assert everything(theirs) == before


@pytest.mark.parametrize("resource", depth.KINDS)
def test_lists_searches_and_totals_hold_the_accounts_own(
    pair: tuple[Client, Client], resource: str
) -> None:
    ours, theirs = pair
    for _ in range(3):
        theirs.make(resource, **{TEXT[resource]: "same"})
    mine = ours.make(resource, **{TEXT[resource]: "same"})
    for operator in ("EQ", "CONTAINS_TOKEN", "NOT_CONTAINS_TOKEN", "NOT_HAS_PROPERTY"):
        value = {} if operator.endswith("PROPERTY") else {"value": "same"}
        filters = [{"propertyName": TEXT[resource], "operator": operator, **value}]
        page = fetch(ours, f"/{resource}/search", {"filters": filters})
        found = [each["id"] for each in page["results"]]
        assert (page["total"], found) == ((0, []) if "NOT" in operator else (1, [mine]))
    assert [each["id"] for each in walk(ours, f"/{resource}")] == [mine]
    assert ours.get("/usage").get_json()["resources"][resource]["used"] == 1


@pytest.mark.parametrize("resource", depth.KINDS)
def test_a_foreign_cursor_is_refused(pair: tuple[Client, Client], resource: str) -> None:
    companies = []
    for each in pair:
        ids = [each.make(resource) for _ in range(3)]
        companies.append([each.make("companies", name=f"{n}") for n in range(3)])
        for company in companies[-1]:
            each.put(f"/{resource}/{ids[0]}/associations/companies/{company}")
    ours, theirs = pair
    links = f"/{resource}/{ids[0]}/associations/companies"
    for path, body in (
        (f"/{resource}", None),
        (f"/{resource}/search", {"filters": []}),
        (links, None),
    ):
        link = fetch(theirs, path, body, "?limit=1")["cursor"]["nextLink"]
        assert fetch(theirs, path, body, link)["results"]
        answer = ours.get(path + link) if body is None else ours.post(path + link, body)
        assert "cursor" in refused(answer, 400)


@pytest.mark.parametrize("resource", depth.KINDS)
def test_a_foreign_key_opens_nothing(
    app: flask.Flask, pair: tuple[Client, Client], resource: str
) -> None:
    ours, theirs = pair
    id, friend = theirs.make(resource, code="same"), theirs.make("companies", name="Friend")
    before = everything(theirs)
    intruder = Client(app, theirs.account, ours.ids)
    stranger = Client(app, theirs.account, ours.ids)
    stranger.base = "/nobody-has-this-name/api/v1"
    for call in [*calls(resource), Call("GET", "/{res}"), Call("GET", "/usage")]:
        answer = call.send(intruder, resource, id, friend, "same")
        refused(answer, 401)
        assert said(answer) == said(call.send(stranger, resource, id, friend, "same"))
    assert everything(theirs) == before


@pytest.mark.parametrize("resource", depth.KINDS)
def test_properties_are_the_accounts_own(client: Client, other: Client, resource: str) -> None:
    define(other, resource, "their_secret_property")
    id = client.make(resource)
    sent = {"properties": {**needed(resource), "their_secret_propert": "x"}}
    filters = [{"propertyName": "their_secret_property", "operator": "HAS_PROPERTY"}]
    exact = {"properties": {"their_secret_property": "x"}}
    for answer in (
        client.post(f"/{resource}", sent),
        client.patch(f"/{resource}/{id}", exact),
        client.post(f"/{resource}/search", {"filters": filters}),
    ):
        message = refused(answer, 422)
        assert "did you mean their_secret_property" not in message
    path = f"/properties/{resource}/their_secret_property"
    for answer in (client.get(path), client.patch(path, {"label": "Ours"}), client.delete(path)):
        refused(answer, 404)
    assert other.get(f"/properties/{resource}/their_secret_property").status_code == 200


def test_pipelines_are_the_accounts_own(client: Client, other: Client) -> None:
    stages = [{"id": "their_stage", "label": "Their stage"}]
    body = {"id": "theirs", "label": "Theirs", "stages": stages}
    assert other.post("/pipelines/deals", body).status_code == 201
    for place in (
        {"pipeline": "theirs"},
        {"dealstage": "their_stage"},
        {"dealstage": "Their stage"},
    ):
        sent = {"properties": {"dealname": "x", **place}}
        message = refused(client.post("/deals", sent), 422)
        assert "send the value" not in message
    for answer in (
        client.get("/pipelines/deals/theirs"),
        client.patch("/pipelines/deals/theirs", {"label": "Ours"}),
        client.delete("/pipelines/deals/theirs"),
    ):
        refused(answer, 404)
    assert other.get("/pipelines/deals/theirs").get_json()["label"] == "Theirs"
