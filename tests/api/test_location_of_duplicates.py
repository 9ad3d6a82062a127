"""`Location`: a 409 for a unique value says where the record is that has it."""

from __future__ import annotations

import pytest
from werkzeug.test import TestResponse

from tests.api.refusals import refused
from tests.clients import Client

ADA = {"properties": {"email": "ada@x.org"}}


def check(client: Client, answer: TestResponse, path: str, id: int) -> None:
    assert refused(answer, 409).endswith(f"Existing ID: {id}")
    location = answer.headers["Location"]
    assert location == f"{client.base}{path}/{id}"
    assert client.get(location.removeprefix(client.base)).json["id"] == id  # type: ignore[index]


def define(client: Client, kind: str, **options: bool) -> None:
    body = {"name": "code", "label": "Code", "type": "string", **options}
    assert client.post(f"/properties/{kind}", body).status_code == 201


@pytest.fixture
def ada(client: Client) -> int:
    return client.make(email="ada@x.org")


def test_a_create_and_an_update_are_told_where(client: Client, ada: int) -> None:
    check(client, client.post("/contacts", ADA), "/contacts", ada)
    bob = client.make(email="bob@x.org")
    check(client, client.patch(f"/contacts/{bob}", ADA), "/contacts", ada)


def test_a_batch_is_told_where_the_first_of_them_is(client: Client, ada: int) -> None:
    define(client, "contacts", unique=True)
    bob = client.make(email="bob@x.org")
    for what, inputs in (
        ("create", [{"properties": {"email": "new@x.org"}}, ADA]),
        ("update", [{"id": bob, **ADA}]),
        ("upsert", [{"idProperty": "code", "id": "7", **ADA}]),
    ):
        answer = client.post(f"/contacts/batch/{what}", {"inputs": inputs})
        check(client, answer, "/contacts", ada)


@pytest.mark.parametrize("kind", ["deals", "companies", "tickets"])
def test_a_value_that_an_account_made_unique_is_told_where(client: Client, kind: str) -> None:
    define(client, kind, unique=True)
    first = client.make(kind, code="7")
    second = client.make(kind)
    answer = client.patch(f"/{kind}/{second}", {"properties": {"code": "7"}})
    check(client, answer, f"/{kind}", first)


def test_a_property_that_cannot_become_unique_is_told_where(client: Client) -> None:
    define(client, "contacts")
    first = client.make(code="7")
    client.make(code="7")
    answer = client.patch("/properties/contacts/code", {"unique": True})
    check(client, answer, "/contacts", first)


def test_it_is_told_again_under_an_idempotency_key(client: Client, ada: int) -> None:
    for _ in range(2):
        answer = client.post("/contacts", ADA, headers={"Idempotency-Key": "k"})
        check(client, answer, "/contacts", ada)
    assert answer.headers["Idempotent-Replayed"] == "true"


def test_another_conflict_has_no_place(client: Client, ada: int) -> None:
    answer = client.patch(f"/contacts/{ada}", ADA, headers={"If-Match": '"999"'})
    assert (answer.status_code, "Location" in answer.headers) == (409, False)
    twice = client.post(
        "/contacts/batch/create", {"inputs": [{"properties": {"email": "n@x.org"}}] * 2}
    )
    assert (twice.status_code, "Location" in twice.headers) == (409, False)
