"""Idempotency-Key: a POST that is sent twice is carried out once and answered twice alike."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flask
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from crmhub import idempotency
from crmhub.accounts import keys
from crmhub.accounts.limits import Limits, RateStatus
from crmhub.bounds import MAX_KEPT_ANSWER_BYTES
from crmhub.database.connection import Connection
from crmhub.database.drivers import Deadlocked
from crmhub.database.expired import ANSWERS, ANSWERS_MS, delete_expired
from crmhub.errors import Conflict, Unavailable
from crmhub.hub import Hub
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import CONTACTS
from crmhub.records import definitions, writing
from crmhub.records.store import RecordStore
from tests.api.endpoints import endpoints
from tests.api.http.crashing import CRASHED, create_and_crash
from tests.api.refusals import header_faults, refused
from tests.catalogue_properties import define
from tests.clients import Client, open_client
from tests.pages import fetch, total
from tests.processes import CONTEXT
from tests.records.meanwhile import at_once

REPLAYED = "Idempotent-Replayed"


def post(client: Client, path: str, body: Any, key: str = "k", **headers: str) -> TestResponse:
    return client.post(path, body, headers={"Idempotency-Key": key, **headers})


def ada(**properties: Any) -> dict[str, Any]:
    return {"properties": {"firstname": "Ada", **properties}}


def age(hub: Hub, client: Client, ms: int) -> None:
    """Let the answers that are kept for the account be older by `ms`."""
    hub.database.transact(
        lambda tx: tx.run(
            "update idempotency set created_at = created_at - :ms where account_id = :account",
            {"ms": ms, "account": client.account.id},
        )
    )


def rows(hub: Hub, client: Client) -> int:
    """Return how many answers are kept for the account."""
    sql = "select count(*) from idempotency where account_id = :account"
    with hub.database.reading() as connection:
        return int(connection.scalar(sql, {"account": client.account.id}))


def assert_replayed(again: TestResponse, first: TestResponse) -> None:
    fresh = {"X-Request-Id", "RateLimit-Remaining", "RateLimit-Reset", REPLAYED}
    kept = [[each for each in one.headers if each[0] not in fresh] for one in (again, first)]
    assert (again.status_code, again.data, kept[0]) == (first.status_code, first.data, kept[1])
    assert (first.headers.get(REPLAYED), again.headers.get(REPLAYED)) == (None, "true")
    assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert header_faults(again) == []


# --- the first answer, again -----------------------------------------------------------------


def writes(client: Client) -> dict[str, tuple[str, Any, int]]:
    """Return path, body and status of each POST that writes; carried out twice, none is the same.

    Each is there to fail the second time, or to make a second record.
    """
    id, gone = client.make(), client.make()
    define(client, "contacts", "code", unique=True)
    upsert = {"idProperty": "code", "id": "c1", "properties": {"firstname": "Ada"}}
    stages = [{"label": "First"}]
    return {
        "create": ("/contacts", ada(email="ada@example.com"), 201),
        "batch create": ("/contacts/batch/create", {"inputs": [ada(), ada()]}, 201),
        "batch update": (
            "/contacts/batch/update",
            {"inputs": [{"id": id, "properties": {"city": "Bonn"}}]},
            200,
        ),
        "batch upsert": ("/contacts/batch/upsert", {"inputs": [upsert]}, 200),
        "batch archive": ("/contacts/batch/archive", {"inputs": [{"id": gone}]}, 204),
        "property": ("/properties/deals", {"name": "fresh", "type": "string"}, 201),
        "pipeline": ("/pipelines/deals", {"label": "Other", "stages": stages}, 201),
    }


def test_each_write_is_carried_out_once_and_answered_twice_alike(client: Client) -> None:
    for key, (path, body, status) in writes(client).items():
        first = post(client, path, body, key)
        assert first.status_code == status, first.text
        before = (total(client), fetch(client, "/pipelines/deals"))
        assert_replayed(post(client, path, body, key), first)
        assert (total(client), fetch(client, "/pipelines/deals")) == before


def test_the_first_answer_comes_whatever_happened_since(client: Client) -> None:
    first = post(client, "/contacts", ada(city="Bonn"))
    path = f"/contacts/{first.json['id']}"  # type: ignore[index]
    assert first.headers["ETag"] == '"1"'
    client.patch(path, {"properties": {"city": "Rome"}})
    assert_replayed(post(client, "/contacts", ada(city="Bonn")), first)
    assert client.get(path).json["properties"]["city"] == "Rome"  # type: ignore[index]
    client.delete(path)
    assert_replayed(post(client, "/contacts", ada(city="Bonn")), first)
    assert total(client) == 0


def test_a_batch_of_a_hundred_is_answered_whole(client: Client) -> None:
    body = {"inputs": [ada(city="Ä" * 100, email=f"{i}@example.com") for i in range(100)]}
    first = post(client, "/contacts/batch/create", body)
    assert len(first.json) == 100  # type: ignore[arg-type]
    assert_replayed(post(client, "/contacts/batch/create", body), first)
    assert total(client) == 100


# --- an answer that is too long to be kept ----------------------------------------------------

LONG = "Ä" * 40_000


def kept(hub: Hub, client: Client) -> list[str]:
    """Return the bodies that are kept for the account."""
    sql = "select body from idempotency where account_id = :account"
    with hub.database.reading() as connection:
        bodies = [body for (body,) in connection.rows(sql, {"account": client.account.id})]
    assert all(len(body.encode()) <= MAX_KEPT_ANSWER_BYTES for body in bodies)
    return bodies


def assert_made_anew(again: TestResponse, first: TestResponse) -> None:
    """Assert that an answer says the same as the first one, whatever blanks its JSON has."""
    fresh = {"X-Request-Id", "RateLimit-Remaining", "RateLimit-Reset", "Content-Length", REPLAYED}
    told = [[each for each in one.headers if each[0] not in fresh] for one in (again, first)]
    assert (again.status_code, again.json, told[0]) == (first.status_code, first.json, told[1])
    assert again.headers[REPLAYED] == "true"
    assert header_faults(again) == []


def test_a_long_answer_is_made_anew_from_its_records(client: Client, hub: Hub) -> None:
    deal, id = client.make("deals"), client.make(city=LONG)
    define(client, "contacts", "code", unique=True)
    associations = {"deals": [deal], "tickets": []}
    upserts = [
        {"idProperty": "code", "id": code, "properties": {"city": LONG, "firstname": "Ada"}}
        for code in ("c1", "c2")
    ]
    client.make(code="c2")
    calls: list[tuple[str, Any]] = [
        ("/contacts", {**ada(city=LONG), "associations": associations}),
        ("/contacts/batch/create", {"inputs": [{**ada(city=LONG), "associations": associations}]}),
        ("/contacts/batch/update", {"inputs": [{"id": id, "properties": {"zip": "1"}}]}),
        ("/contacts/batch/upsert", {"inputs": upserts}),
    ]
    for key, (path, body) in enumerate(calls):
        first = post(client, path, body, str(key))
        assert len(first.data) > MAX_KEPT_ANSWER_BYTES
        assert_made_anew(post(client, path, body, str(key)), first)
    assert [each["new"] for each in first.json] == [True, False]  # type: ignore[union-attr]
    assert LONG not in "".join(kept(hub, client))


def test_a_long_answer_has_the_values_of_now_and_none_of_what_is_archived(client: Client) -> None:
    body = {"inputs": [ada(city=LONG), ada(city=LONG)]}
    first: Any = post(client, "/contacts/batch/create", body).json
    one, gone = (f"/contacts/{each['id']}" for each in first)
    now = client.patch(one, {"properties": {"city": "Rome"}}).json
    client.delete(gone)
    again = post(client, "/contacts/batch/create", body)
    assert again.json == [now, {**first[1], "properties": {}}]
    assert total(client) == 1


def test_a_long_answer_of_one_record_that_is_archived_stays_an_answer(client: Client) -> None:
    first = post(client, "/contacts", ada(city=LONG))
    client.delete(f"/contacts/{first.json['id']}")  # type: ignore[index]
    again = post(client, "/contacts", ada(city=LONG))
    assert (again.status_code, again.json) == (201, {**first.json, "properties": {}})  # type: ignore[dict-item]
    assert total(client) == 0


def test_a_long_definition_is_made_anew(client: Client, hub: Hub) -> None:
    options = [{"value": f"o{n}", "label": "Ä" * 200} for n in range(400)]
    choice = {"name": "choice", "type": "enumeration", "options": options}
    stages = [{"label": f"{n} {chr(0x1F600) * 240}", "probability": "0.5"} for n in range(100)]
    pipeline = {"label": "Long", "stages": stages}
    for path, sent, name, rest in (
        ("/properties/deals", choice, "name", "options"),
        ("/pipelines/deals", pipeline, "id", "stages"),
    ):
        first: Any = post(client, path, sent, path)
        assert len(first.data) > MAX_KEPT_ANSWER_BYTES
        assert_made_anew(post(client, path, sent, path), first)
        assert client.delete(f"{path}/{first.json[name]}").status_code == 204
        again: Any = post(client, path, sent, path)
        assert (again.status_code, again.json) == (201, {**first.json, rest: []})
    assert len(kept(hub, client)) == 2


def test_a_hundred_long_records_are_kept_as_their_ids(client: Client, hub: Hub) -> None:
    ids = [client.make(city=LONG) for _ in range(10)]
    inputs = [{"id": id, "properties": {"zip": "1"}} for id in ids]
    assert post(client, "/contacts/batch/update", {"inputs": inputs}).status_code == 200
    assert len(kept(hub, client)[0]) < 200 * len(ids)
    # None of them counts twice.
    refused(post(client, "/contacts/batch/update", {"inputs": inputs * 2}, "twice"), 400)


def test_without_a_key_nothing_is_kept(client: Client, hub: Hub) -> None:
    for _ in range(2):
        assert client.post("/contacts", ada()).status_code == 201
    assert (total(client), rows(hub, client)) == (2, 0)


def test_what_only_reads_or_is_no_post_takes_no_key(client: Client, hub: Hub) -> None:
    id = client.make(city="Bonn")
    read, search = {"inputs": [{"id": id}]}, {"filters": []}
    for path, body in (("/contacts/batch/read", read), ("/contacts/search", search)):
        before = post(client, path, body)
        client.patch(f"/contacts/{id}", ada(city=path), headers={"Idempotency-Key": "k"})
        after = post(client, path, body)
        assert (before.status_code, after.status_code) == (200, 200)
        assert after.data != before.data
    assert rows(hub, client) == 0


def test_every_post_that_writes_takes_a_key_and_says_so(app: flask.Flask) -> None:
    # A test message may be sent again.
    reading = ("/search", "/batch/read", "/test")
    for each in (each for each in endpoints(app) if each.of_api):
        named = [one["name"] for one in each.operation.get("parameters", ())]
        writing = each.method == "POST" and not each.rule.endswith(reading)
        assert ("Idempotency-Key" in named) == writing, each
        told = [r.get("headers", {}) for code, r in each.operation["responses"].items()]
        assert any(REPLAYED in headers for headers in told) == writing, each


# --- another request -------------------------------------------------------------------------


def test_a_key_with_another_request_is_422(client: Client) -> None:
    first = post(client, "/contacts", ada())
    for path, body in (
        ("/contacts", ada(city="Bonn")),
        ("/contacts/batch/create", ada()),
        ("/companies", ada()),
    ):
        answer = post(client, path, body)
        assert "Idempotency-Key: was sent with another request" in refused(answer, 422)
        assert REPLAYED not in answer.headers
    assert_replayed(post(client, "/contacts", ada()), first)
    assert (total(client), total(client, "companies")) == (1, 0)


def test_a_request_is_compared_byte_by_byte(client: Client) -> None:
    options: dict[str, Any] = {"content_type": "application/json"}
    headers = {"Idempotency-Key": "k"}
    text = json.dumps(ada())
    assert client.post("/contacts", None, data=text, headers=headers, **options).status_code == 201
    answer = client.post("/contacts", None, data=f" {text}", headers=headers, **options)
    refused(answer, 422)


def test_accounts_do_not_share_keys(client: Client, other: Client) -> None:
    mine, theirs = post(client, "/contacts", ada()), post(other, "/contacts", ada(city="Bonn"))
    assert (mine.status_code, theirs.status_code) == (201, 201)
    assert_replayed(post(client, "/contacts", ada()), mine)
    assert_replayed(post(other, "/contacts", ada(city="Bonn")), theirs)


@pytest.mark.databases("sqlite")
def test_a_key_that_cannot_be_one_is_400(client: Client) -> None:
    for key in ["", " ", "é", "a\tb", "\x7f", "k" * 256]:
        assert "Idempotency-Key" in refused(post(client, "/contacts", ada(), key), 400)
        assert total(client) == 0, key


@pytest.mark.parametrize("key", ["k" * 255, "0", '"a key, in quotes; with=signs"', "%s :x ' \\"])
def test_any_printable_key_will_do(client: Client, key: str) -> None:
    first = post(client, "/contacts", ada(), key)
    assert_replayed(post(client, "/contacts", ada(), f" {key} "), first)


# --- who may ---------------------------------------------------------------------------------


def test_another_key_of_the_account_gets_the_same_answer(client: Client, hub: Hub) -> None:
    first = post(client, "/contacts", ada())
    issued = hub.database.transact(lambda tx: keys.create(tx, client.account.id))
    again = post(client, "/contacts", ada(), **{"service-apikey": issued.api_key})
    assert_replayed(again, first)


def test_rights_are_checked_before_an_answer_is_given_again(client: Client, hub: Hub) -> None:
    calls = {
        "/contacts": ada(),
        "/properties/contacts": {"name": "fresh", "type": "string"},
    }
    reader = hub.database.transact(
        lambda tx: keys.create(tx, client.account.id, scopes=["contacts:read"])
    )
    for path, body in calls.items():
        assert post(client, path, body, path).status_code == 201
        for api_key, status in ((reader.api_key, 403), ("nonsense", 401)):
            refused(post(client, path, body, path, **{"service-apikey": api_key}), status)


# --- refusals and failures -------------------------------------------------------------------


def test_a_refusal_is_kept(client: Client) -> None:
    taken = client.make(email="ada@example.com")
    body = ada(email="ada@example.com")
    first = post(client, "/contacts", body)
    refused(first, 409)
    client.delete(f"/contacts/{taken}")
    assert_replayed(post(client, "/contacts", body), first)
    assert post(client, "/contacts", body, "another").status_code == 201


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/contacts", {"properties": {"nonsense": "1"}}, 422),
        ("/contacts", {"nonsense": 1}, 400),
        ("/contacts/batch/archive", {"inputs": [{"id": 1}]}, 404),
    ],
)
def test_what_cannot_be_done_is_kept(client: Client, path: str, body: Any, status: int) -> None:
    first = post(client, path, body)
    refused(first, status)
    assert_replayed(post(client, path, body), first)


def test_a_refusal_undoes_what_was_written_before_it(
    client: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = RecordStore.create

    def refuse(*args: Any, **options: Any) -> None:
        create(*args, **options)
        raise Conflict("Too late.")

    with monkeypatch.context() as patch:
        patch.setattr(RecordStore, "create", refuse)
        first = post(client, "/contacts", ada())
    assert refused(first, 409) == "Too late."
    assert_replayed(post(client, "/contacts", ada()), first)
    assert (total(client), rows(hub, client)) == (0, 1)


def failing(monkeypatch: pytest.MonkeyPatch, fail: Callable[[Connection], None]) -> None:
    """Let the next write of new records fail after it has written them, and no later one."""
    create = writing.create

    def once(tx: Connection, *args: Any, **options: Any) -> Any:
        created = create(tx, *args, **options)
        monkeypatch.setattr(writing, "create", create)
        fail(tx)
        return created

    monkeypatch.setattr(writing, "create", once)


def go_away(tx: Connection) -> None:
    if tx.dialect == "postgresql":
        tx.run("select pg_terminate_backend(pg_backend_pid())")
    raise Unavailable("The disk is full.")


def stumble(_: Connection) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(("fail", "status"), [(go_away, 503), (stumble, 500)])
def test_a_failure_is_not_kept(
    client: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch, fail: Any, status: int
) -> None:
    failing(monkeypatch, fail)
    refused(post(client, "/contacts", ada()), status)
    assert (total(client), rows(hub, client)) == (0, 0)
    first = post(client, "/contacts", ada())
    assert first.status_code == 201
    assert_replayed(post(client, "/contacts", ada()), first)
    assert total(client) == 1


def test_too_many_requests_are_not_kept(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    full = RateStatus(1, 0, 1, allowed=False, retry_after=1)
    with monkeypatch.context() as patch:
        patch.setattr(Limits, "hit", lambda *_: full)
        refused(post(client, "/contacts", ada()), 429)
    first = post(client, "/contacts", ada())
    assert first.status_code == 201
    with monkeypatch.context() as patch:
        patch.setattr(Limits, "hit", lambda *_: full)
        refused(post(client, "/contacts", ada()), 429)


def test_a_deadlock_in_the_middle_is_tried_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_way(_: Connection) -> None:
        raise Deadlocked("give way")

    failing(monkeypatch, give_way)
    first = post(client, "/contacts", ada())
    assert first.status_code == 201, first.text
    assert_replayed(post(client, "/contacts", ada()), first)
    assert total(client) == 1


def test_a_definition_that_came_to_nothing_is_not_remembered(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = {"name": "fresh", "type": "string"}
    with monkeypatch.context() as patch:
        patch.setattr(idempotency, "_store_answer", lambda tx, *_: go_away(tx))
        refused(post(client, "/properties/contacts", fresh), 503)
    refused(client.post("/contacts", ada(fresh="1")), 422)
    assert post(client, "/properties/contacts", fresh).status_code == 201
    assert client.post("/contacts", ada(fresh="1")).status_code == 201


def test_a_catalogue_of_what_came_to_nothing_is_not_remembered(client: Client, hub: Hub) -> None:
    account, catalogues = client.account, hub.records.catalogues

    def define_and_fail(_: Connection) -> None:
        definitions.define(hub.records, account, CONTACTS, Property(0, "fresh", "", "string"))
        assert catalogues.reload(account.id, CONTACTS).get("fresh")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hub.database.transact(define_and_fail)
    assert catalogues.get(account.id, CONTACTS, version=0).get("fresh") is None


def test_an_account_as_it_was_before_the_commit_is_not_remembered(
    client: Client, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> int:
        account = hub.directory.by_client_id(client.account.client_id)
        return account.catalogue_version if account else 0

    keep, before = idempotency._store_answer, found()
    seen: list[Any] = []

    def look(*args: Any) -> None:
        seen.extend(at_once(found))
        keep(*args)

    monkeypatch.setattr(idempotency, "_store_answer", look)
    post(client, "/pipelines/deals", {"label": "Other", "stages": [{"label": "First"}]})
    assert (seen, found()) == ([before], before + 1)


# --- crashes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_crash_leaves_neither_the_record_nor_the_answer(
    client: Client, hub: Hub, database_url: str, tmp_path: Path, where: str
) -> None:
    given = (database_url, tmp_path, f"{client.base}/contacts", client.key, where)
    process = CONTEXT.Process(target=create_and_crash, args=given)
    process.start()
    process.join()
    assert process.exitcode == CRASHED
    assert (total(client), rows(hub, client)) == (0, 0)
    end = time.monotonic() + 120
    # PostgreSQL hears a moment later that nobody is there who goes on with it.
    while (first := post(client, "/contacts", ada())).status_code == 409:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert first.status_code == 201
    assert REPLAYED not in first.headers
    assert total(client) == 1


# --- at once ---------------------------------------------------------------------------------


def test_twenty_at_once_make_one_record(client: Client) -> None:
    answers = at_once(*[lambda: post(client, "/contacts", ada())] * 20)
    done = [each for each in answers if each.status_code == 201]
    assert len([each for each in done if REPLAYED not in each.headers]) == 1
    assert len({each.data for each in done}) == 1
    for each in answers:
        if each not in done:
            refused(each, 409)
            assert each.headers["Retry-After"] == "1"
    assert total(client) == 1


def stalled(
    client: Client, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]
) -> TestResponse:
    """Send a create that stops before it writes until `meanwhile` returns; return its answer."""
    arrived, go_on = threading.Event(), threading.Event()
    create = writing.create
    answers: list[TestResponse] = []

    def stall(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(writing, "create", create)
        arrived.set()
        assert go_on.wait(120)
        return create(*args, **options)

    monkeypatch.setattr(writing, "create", stall)
    thread = threading.Thread(target=lambda: answers.append(post(client, "/contacts", ada())))
    thread.start()
    try:
        assert arrived.wait(120)
        meanwhile()
    finally:
        go_on.set()
        thread.join()
    return answers[0]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_while_the_first_one_runs_the_second_is_409(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile() -> None:
        answer = post(client, "/contacts", ada())
        assert "still running" in refused(answer, 409)
        assert answer.headers["Retry-After"] == "1"
        assert post(client, "/contacts", ada(), "another").status_code == 201

    client.make()
    first = stalled(client, monkeypatch, meanwhile)
    assert_replayed(post(client, "/contacts", ada()), first)
    assert total(client) == 3


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_on_sqlite_the_second_waits_for_the_first(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    second: list[TestResponse] = []
    waiting = threading.Thread(target=lambda: second.append(post(client, "/contacts", ada())))

    def meanwhile() -> None:
        waiting.start()
        waiting.join(0.3)
        assert not second

    first = stalled(client, monkeypatch, meanwhile)
    waiting.join()
    assert_replayed(second[0], first)
    assert total(client) == 1


# --- how long --------------------------------------------------------------------------------


def test_an_answer_is_kept_for_a_day(client: Client, hub: Hub) -> None:
    first = post(client, "/contacts", ada())
    age(hub, client, ANSWERS_MS - 60_000)
    assert_replayed(post(client, "/contacts", ada()), first)
    age(hub, client, 60_000)
    later = post(client, "/contacts", ada(city="Bonn"))
    assert (later.status_code, later.headers.get(REPLAYED)) == (201, None)
    assert_replayed(post(client, "/contacts", ada(city="Bonn")), later)
    assert total(client) == 2


def test_old_answers_are_forgotten_some_at_a_time(client: Client, other: Client, hub: Hub) -> None:
    while delete_expired(hub.database, ANSWERS):
        pass
    for i in range(3):
        post(client, "/contacts", ada(), f"k{i}")
        post(other, "/contacts", ada(), f"k{i}")
    age(hub, client, ANSWERS_MS)
    assert [delete_expired(hub.database, ANSWERS, most=2) for _ in range(3)] == [2, 1, 0]
    assert (rows(hub, client), rows(hub, other)) == (0, 3)


# --- any sequence ----------------------------------------------------------------------------

EMAILS = st.sampled_from(["a@example.com", "b@example.com", "c@example.com"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "upsert", "both", "define", "archive"]),
        EMAILS,
        st.sampled_from(["", "k1", "k2", "k3"]),
    ),
    max_size=12,
)


def step(client: Client, what: str, email: str, key: str) -> TestResponse:
    """Carry out one step, with the key if there is one and the step takes one."""
    if what == "archive":
        found = client.get(f"/contacts/{email}?idProperty=email")
        id = found.json["id"] if found.status_code == 200 else 1  # type: ignore[index]
        return client.delete(f"/contacts/{id}")
    upsert = {"idProperty": "email", "id": email, "properties": {"firstname": email[0]}}
    path, body = {
        "create": ("/contacts", ada(email=email)),
        "upsert": ("/contacts/batch/upsert", {"inputs": [upsert]}),
        "both": (
            "/contacts/batch/create",
            {"inputs": [ada(email=email), ada(email="a@example.com")]},
        ),
        "define": ("/properties/contacts", {"name": f"p_{email[0]}", "type": "string"}),
    }[what]
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(path, body, headers=headers)


def state(client: Client) -> Any:
    people = [each["properties"] for each in fetch(client, "/contacts")["results"]]
    names = [each["name"] for each in fetch(client, "/properties/contacts")["results"]]
    return sorted((each["email"], each["firstname"]) for each in people), names


@settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(steps=STEPS)
def test_repeats_change_nothing_whatever_comes_between(
    app: flask.Flask, steps: list[tuple[str, str, str]]
) -> None:
    # An account that gets each request once, without a key, is the model of one with repeats.
    client, model = open_client(app), open_client(app)
    sent: dict[str, tuple[tuple[str, str], TestResponse]] = {}
    for what, email, key in steps:
        answer = step(client, what, email, key)
        key = "" if what == "archive" else key
        if key in sent:
            request, first = sent[key]
            if request == (what, email):
                assert_replayed(answer, first)
            else:
                refused(answer, 422)
        else:
            assert answer.status_code == step(model, what, email, "").status_code
            if key:
                sent[key] = ((what, email), answer)
    assert state(client) == state(model)
