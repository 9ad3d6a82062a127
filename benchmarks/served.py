"""Requests per second of the service, compared with a bare Flask view on the same server.

The bare views answer the same JSON from one query, without keys, limits, checks and metrics: the
least that a service in Flask can do. Lists and gets read the hub's own tables. A search runs twice:
on the floor, whose index contains a value together with the sort column, and on the hub's tables,
which support searches by any property and any sort order. A create of the bare view is one insert
of a document into a table with a unique email, without index rows for searches. Both servers run
with the same numbers of processes and threads, and are measured alternately.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flask
import orjson
import requests
import sqlalchemy

from benchmarks import crowd
from benchmarks.load import Figures, request, run
from benchmarks.places import BENCHMARKS, Place, Service, administer, end, free_port, wait_for
from crmhub.accounts import keys
from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection
from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.properties.kinds import CONTACTS
from crmhub.records.search.filters import iso

_BATCH = 100
# Per second; more than most machines take.
_MOST_BATCHES = 150
_RARE = 200
_NAMES = 44
_BATCH_AIM = 3000
_MEMORY_AIM = 1.7
_FIRST_ANSWER_AIM_S = 1.6
_PATIENCE_S = 120.0

Make = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Call:
    """A call to both services, and the share of the bare view's rate that it should reach."""

    name: str
    hub: Make
    bare: Make
    aim: float


# --- The bare view ----------------------------------------------------------------------------

_RECORD = "id, created_at, updated_at, cast(properties as text)"
_OF_ACCOUNT = f"account_id = %(account)s and kind = {CONTACTS.code}"
_ORDERED = "order by updated_at desc, id desc limit 21"
_LIST = (
    f"select {_RECORD}, (select cast(sum(n) as bigint) from record_count where {_OF_ACCOUNT})"
    f" from records where {_OF_ACCOUNT} {_ORDERED}"
)
_GET = f"select {_RECORD} from records where {_OF_ACCOUNT} and id = %(id)s"


def _searching(column: str) -> str:
    found = f"from floor where account_id = %(account)s and {column} = %(value)s"
    return (
        f"select {_RECORD}, (select count(*) {found}) from records where {_OF_ACCOUNT}"
        f" and id = any(array(select id {found} {_ORDERED})) {_ORDERED}"
    )


_SEARCH = {column: _searching(column) for column in ("email", "lastname")}
_SEARCH_STORED = (
    "with found (id, updated_at) as (select record_id, updated_at from ix_text"
    " where account_id = %(account)s and prop_id = %(prop)s and value = %(value)s)"
    f" select {_RECORD}, (select count(*) from found) from records where {_OF_ACCOUNT}"
    f" and id = any(array(select id from found {_ORDERED})) {_ORDERED}"
)
_PROPERTIES = f"select name, prop_id from property_def where {_OF_ACCOUNT}"
_CREATE = "insert into bare (email, properties) values (%s, %s) returning id, created_at"


def bare() -> flask.Flask:
    """Return an application of five views, each with one query on a pooled connection."""
    account, cursor = int(os.environ["BARE_ACCOUNT"]), os.environ["BARE_CURSOR"].encode()
    engine = sqlalchemy.create_engine(
        os.environ["BARE_DATABASE_URL"],
        pool_size=20,
        max_overflow=0,
        pool_reset_on_return=None,
        isolation_level="AUTOCOMMIT",
    )
    app = flask.Flask(__name__)

    def rows(sql: str, params: Any) -> list[Any]:
        pooled = engine.raw_connection()
        driver: Any = pooled.driver_connection
        try:
            found: list[Any] = driver.execute(sql, params).fetchall()
            return found
        finally:
            pooled.close()

    properties = dict(rows(_PROPERTIES, {"account": account}))

    def answer(body: bytes, status: int = 200) -> flask.Response:
        return flask.Response(body, status=status, mimetype="application/json")

    def page(found: list[Any]) -> flask.Response:
        shown = b",".join(_item(row) for row in found[:20])
        after = cursor if len(found) > 20 else b""
        return answer(
            b'{"total":%d,"results":[%b],"cursor":{"next":"%b","nextLink":"%b"},"hasMore":%b}'
            % (
                found[0][4] if found else 0,
                shown,
                after,
                b"?cursor=" + after if after else b"",
                b"true" if after else b"false",
            )
        )

    @app.get("/contacts")
    def list_contacts() -> flask.Response:
        return page(rows(_LIST, {"account": account}))

    @app.get("/contacts/<int:id>")
    def get(id: int) -> flask.Response:
        [row] = rows(_GET, {"account": account, "id": id})
        return answer(_whole(row))

    @app.post("/contacts/search")
    def search() -> flask.Response:
        [one] = json.loads(flask.request.get_data())["filters"]
        given = {"account": account, "value": one["value"]}
        return page(rows(_SEARCH[one["propertyName"]], given))

    @app.post("/stored/contacts/search")
    def search_stored() -> flask.Response:
        [one] = json.loads(flask.request.get_data())["filters"]
        given = {"account": account, "prop": properties[one["propertyName"]], "value": one["value"]}
        return page(rows(_SEARCH_STORED, given))

    @app.post("/contacts")
    def create() -> flask.Response:
        properties = json.loads(flask.request.get_data())["properties"]
        stored = orjson.dumps(properties).decode()
        [(id, moment)] = rows(_CREATE, (properties["email"], stored))
        return answer(_whole((id, moment, moment, stored)), 201)

    return app


def _item(row: Any) -> bytes:
    return b'{"id":%d,"properties":%b}' % (row[0], row[3].encode())


def _whole(row: Any) -> bytes:
    return (
        b'{"id":%d,"properties":%b,"associations":{"deals":[],"companies":[]},'
        b'"createdAt":"%b","updatedAt":"%b"}'
        % (row[0], row[3].encode(), iso(row[1]).encode(), iso(row[2]).encode())
    )


_BARE_TABLE = (
    "create table bare (id bigserial primary key, email text not null unique,"
    " properties jsonb not null,"
    " created_at bigint not null default extract(epoch from clock_timestamp()) * 1000)"
)


@contextmanager
def bare_table(here: Place) -> Iterator[None]:
    """Create the empty table into which the bare view writes; delete it when the block ends."""
    for statement in ("drop table if exists bare", _BARE_TABLE):
        administer(here.url, statement)
    try:
        yield
    finally:
        administer(here.url, "drop table bare")


@contextmanager
def _bare_server(
    here: Place, account: Account, cursor: str, options: argparse.Namespace
) -> Iterator[Service]:
    port = free_port()
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--factory", "--http", "1"]
    command += ["--port", str(port), "--no-log", "--backlog", "1024"]
    command += ["--workers", str(options.workers), "--blocking-threads", str(options.threads)]
    environment = {"BARE_DATABASE_URL": here.url, "BARE_CURSOR": cursor}
    with bare_table(here):
        process = subprocess.Popen(
            [*command, "benchmarks.served:bare"],
            env={**os.environ, **environment, "BARE_ACCOUNT": str(account.id)},
        )
        try:
            wait_for(port, process)
            yield Service(("127.0.0.1", port), process)
        finally:
            end(process)


# --- Both beside each other -------------------------------------------------------------------


def compare(here: Place, hub: Hub, account: Account, options: argparse.Namespace) -> None:
    """Print requests per second and memory of both, and the start time of the service."""
    key = hub.database.transact(lambda tx: keys.create(tx, account.id)).api_key
    name = f"http-{uuid.uuid4().hex[:8]}"
    other, issued = open_account(hub, name=name, client_id=name, plan="unlimited", by=BENCHMARKS)
    base = f"/{account.client_id}/api/v1/contacts"
    headers = {"service-apikey": key}
    with here.server(workers=options.workers, threads=options.threads) as service:
        _answer(service, base, headers)
    began = time.perf_counter()
    with here.server(workers=options.workers, threads=options.threads) as service:
        shown = _answer(service, base, headers)
        first = time.perf_counter() - began
        began = time.perf_counter()
        with _bare_server(here, account, shown["cursor"]["next"], options) as beside:
            _answer(beside, "/contacts", {})
            print(
                f"second start to the first answer: {first:.2f} s"
                f" (aim: ≤ {_FIRST_ANSWER_AIM_S:g}), of the bare server"
                f" {time.perf_counter() - began:.2f} s"
            )
            made = calls(hub, base, headers, other, issued.api_key)
            for each in made[:-1]:
                _same(service, beside, each)
            print(f"{'per second':<{_NAMES}}{'hub':>9}{'bare':>9}{'share':>8}   aim")
            for each in made:
                _take_turns(service, beside, each, options)
            _batches(service, other, issued.api_key, options)
            _memory(service, beside, options.workers)


def _answer(
    service: Service,
    path: str,
    headers: Mapping[str, str],
    *,
    method: str = "GET",
    data: bytes = b"",
) -> dict[str, Any]:
    """Return the answer to a call; repeat the call while the server accepts no connection."""
    host, port = service.address
    url, until = f"http://{host}:{port}{path}", time.monotonic() + _PATIENCE_S
    while True:
        answer = requests.request(method, url, headers=headers, data=data, timeout=_PATIENCE_S)
        if answer.status_code < 500 or time.monotonic() > until:
            answer.raise_for_status()
            found: dict[str, Any] = answer.json()
            return found
        time.sleep(0.1)


def calls(
    hub: Hub, base: str, headers: dict[str, str], other: Account, other_key: str
) -> list[Call]:
    """Return the calls: reads of the big account at `base`, and creates in another account."""
    with hub.database.reading() as connection:
        big = crowd.big_account(hub).id
        ids, emails = _sample(connection, big, "id"), _sample(connection, big, "email")
        last_names = _rare(connection, big)
    domain = f"{uuid.uuid4().hex[:8]}.example.com"

    def search(path: str, headers: dict[str, str], name: str, values: list[str]) -> Make:
        def make(i: int) -> bytes:
            value = values[i % len(values)]
            one = {"propertyName": name, "operator": "EQ", "value": value}
            return request(
                "POST", f"{path}/search", headers, json.dumps({"filters": [one]}).encode()
            )

        return make

    def create(path: str, headers: dict[str, str], tag: str) -> Make:
        counter = iter(range(10**9))

        def make(i: int) -> bytes:
            new = _new(f"{tag}{next(counter)}@{domain}", i)
            return request("POST", path, headers, json.dumps(new).encode())

        return make

    def get(path: str, headers: dict[str, str]) -> Make:
        return lambda i: request("GET", f"{path}/{ids[i % len(ids)]}", headers)

    others = f"/{other.client_id}/api/v1/contacts"
    return [
        Call(
            "list (page of 20, exact total)",
            lambda i: request("GET", base, headers),
            lambda i: request("GET", "/contacts", {}),
            0.6,
        ),
        Call("get by id", get(base, headers), get("/contacts", {}), 0.6),
        *(
            Call(
                f"search, {matches} ({of})",
                search(base, headers, name, values),
                search(path, {}, name, values),
                0.55,
            )
            for matches, name, values in (
                ("one match", "email", emails),
                (f"{_RARE} matches at most", "lastname", last_names),
            )
            for of, path in (("of the floor", "/contacts"), ("same tables", "/stored/contacts"))
        ),
        Call(
            "create",
            create(others, {"service-apikey": other_key}, "hub"),
            create("/contacts", {}, "bare"),
            0.6,
        ),
    ]


def _new(email: str, number: int) -> dict[str, Any]:
    return {"properties": {**crowd.contact(0, number % 100_000, 100_000), "email": email}}


def _sample(connection: Connection, account_id: int, column: str) -> list[Any]:
    rows = connection.rows(
        f"select {column} from floor where account_id = :account and id % 97 = 0"
        " order by random() limit 5000",
        {"account": account_id},
    )
    return [value for (value,) in rows]


def _rare(connection: Connection, account_id: int) -> list[str]:
    rows = connection.rows(
        "select lastname from floor where account_id = :account"
        " group by lastname having count(*) <= :rare order by lastname limit 1000",
        {"account": account_id, "rare": _RARE},
    )
    return [name for (name,) in rows]


def _same(service: Service, beside: Service, call: Call) -> None:
    """End the run unless both services answer the same, except for the time in cursors."""

    def body(server: Service, data: bytes) -> Any:
        head, _, content = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        method, path, _ = first.split(" ")
        headers = dict(line.split(": ", 1) for line in lines)
        found = _answer(server, path, headers, method=method, data=content)
        found.pop("cursor", None)
        return found

    ours, theirs = body(service, call.hub(1)), body(beside, call.bare(1))
    if ours != theirs:
        raise SystemExit(f"{call.name}: the hub answers {ours}, the bare view {theirs}")


def _take_turns(service: Service, beside: Service, call: Call, options: argparse.Namespace) -> None:
    ours, theirs = list[float](), list[float]()
    for _ in range(options.http_rounds):
        for server, make, rates in ((service, call.hub, ours), (beside, call.bare, theirs)):
            rates.append(_run(server, make, options, call.name).per_second)
    hub, by_hand = statistics.median(ours), statistics.median(theirs)
    share = hub / by_hand
    judged = "≥" if share >= call.aim else "UNDER"
    print(f"{call.name:<{_NAMES}}{hub:>9,.0f}{by_hand:>9,.0f}{share:>8.2f}   {judged} {call.aim:g}")


def _run(server: Service, make: Make, options: argparse.Namespace, name: str) -> Figures:
    figures = run(
        server.address, make, connections=options.connections, seconds=options.http_seconds
    )
    if figures.failures:
        print(f"  {name}: not all calls succeeded: {dict(figures.statuses)}")
    if not figures.per_second:
        raise SystemExit(f"{name}: no call succeeded")
    return figures


def _batches(service: Service, other: Account, key: str, options: argparse.Namespace) -> None:
    tag = uuid.uuid4().hex[:8]
    counter = iter(range(10**9))

    def batch(i: int) -> bytes:
        new = [
            _new(f"batch{n}@{tag}.example.com", n) for n in (next(counter) for _ in range(_BATCH))
        ]
        body = json.dumps({"inputs": new}).encode()
        path = f"/{other.client_id}/api/v1/contacts/batch/create"
        return request("POST", path, {"service-apikey": key}, body)

    # Made beforehand: making a hundred contacts takes the processor as long as writing some.
    most = int(_MOST_BATCHES * options.http_seconds) + options.connections
    ready = [batch(n) for n in range(options.http_rounds * most)]

    def next_batch(i: int) -> bytes:
        return ready.pop() if ready else batch(i)

    rates = []
    for _ in range(options.http_rounds):
        figures = _run(service, next_batch, options, "batch create")
        rates.append(figures.per_second * _BATCH)
    rate = statistics.median(rates)
    judged = "≥" if rate >= _BATCH_AIM else "UNDER"
    name = f"{'records created in batches of 100':<{_NAMES}}"
    print(f"{name}{rate:>9,.0f}{'':>20}{judged} {_BATCH_AIM:,}")


def _memory(service: Service, beside: Service, workers: int) -> None:
    ours, theirs = _servers(service, workers), _servers(beside, workers)
    if not (ours and theirs):
        raise SystemExit("the server processes have ended")
    ratio = sum(ours) / sum(theirs)
    judged = "≤" if ratio <= _MEMORY_AIM else "OVER"
    print(
        f"memory of the server processes {_in_mb(ours)}, of the bare ones {_in_mb(theirs)}:"
        f" {ratio:.2f} times as much (aim: {judged} {_MEMORY_AIM:g})"
    )
    whole = [_resident(pid) for pid in (service.process.pid, *service.children())]
    bare_whole = [_resident(pid) for pid in (beside.process.pid, *beside.children())]
    print(
        f"with supervisor and worker {sum(whole) / 2**20:.0f} MB,"
        f" the bare ones with their supervisor {sum(bare_whole) / 2**20:.0f} MB"
    )


def _servers(service: Service, workers: int) -> list[int]:
    """Return the memory (bytes) of each server process, but not of the small processes above."""
    servers = (pid for pid, command in service.children().items() if " worker " not in command)
    return sorted(filter(None, map(_resident, servers)), reverse=True)[:workers]


def _in_mb(sizes: list[int]) -> str:
    return " + ".join(f"{size / 2**20:.0f}" for size in sizes) + " MB"


def _resident(pid: int) -> int:
    """Return the memory (bytes) of a process, 0 if it has just ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0
