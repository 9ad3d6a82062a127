"""Requests per second of the public API at a given number of contacts.

    python -m benchmarks.api --records 100000 --workers 2

It makes a database of its own (PostgreSQL at CRMHUB_TEST_POSTGRES, or SQLite with --sqlite), fills
it, starts `crmhub serve` as the README says, measures, and drops all of it again. Figures of one
machine compare with each other only within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from benchmarks.load import request, run
from crmhub.accounts.accounts import Account
from crmhub.actions.hub import Hub
from crmhub.actions.opening import open_account
from crmhub.db import upgrade
from crmhub.records.kinds import CONTACTS
from crmhub.records.store import RecordStore
from crmhub.records.writing import NewRecord
from crmhub.settings import Settings

_POSTGRES = "postgresql+psycopg://root@127.0.0.1:5432/postgres"


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--sqlite", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _database(options.sqlite, folder) as url:
        upgrade(url)
        environment = {**os.environ, "CRMHUB_DATABASE_URL": url, "CRMHUB_LOG_LEVEL": "warning"}
        hub = Hub.open(Settings.load(environ=environment, root=Path(folder)))
        account, ids = open_account(hub, name="benchmark", plan="unlimited")
        began = time.perf_counter()
        sample = fill(hub.records, account, options.records)
        rate = options.records / (time.perf_counter() - began)
        print(f"{options.records:,} contacts in {url.partition(':')[0]}, written at {rate:,.0f}/s")
        _settle(hub)
        hub.close()
        with _server(environment, folder, options) as address:
            base = f"/{account.client_id}/api/v1/contacts"
            key = {"service-apikey": ids.api_key}
            for name, make in _requests(base, key, sample).items():
                figures = run(
                    address, make, connections=options.connections, seconds=options.seconds
                )
                print(
                    f"{name:<34}{figures.per_second:>8,.0f}/s   p50 {figures.p50:>6.1f} ms"
                    f"   p99 {figures.p99:>6.1f} ms   {figures.failures} failed"
                )


def fill(records: RecordStore, account: Account, n: int) -> list[int]:
    """Create `n` contacts of six properties and return some of their ids."""
    sample: list[int] = []
    for start in range(0, n, 100):
        batch = [NewRecord(_contact(i)) for i in range(start, min(n, start + 100))]
        sample.append(records.create(account, CONTACTS, batch)[0].id)
    return sample


def _contact(i: int) -> dict[str, str]:
    return {
        "email": f"person{i}@example.com",
        "firstname": f"First{i % 1000}",
        "lastname": f"Last{i % 5000}",
        "city": f"City{i % 50}",
        "numemployees": str(i % 97),
        "lifecyclestage": ("lead", "customer", "subscriber")[i % 3],
    }


def _requests(
    base: str, key: dict[str, str], sample: list[int]
) -> dict[str, Callable[[int], bytes]]:
    run_id = uuid.uuid4().hex[:8]

    def search(name: str, value: Callable[[int], str]) -> Callable[[int], bytes]:
        def make(i: int) -> bytes:
            one = {"propertyName": name, "operator": "EQ", "value": value(i)}
            body = json.dumps({"filters": [one]}).encode()
            return request("POST", f"{base}/search", key, body)

        return make

    def new(i: int, tag: str) -> dict[str, dict[str, str]]:
        return {"properties": {**_contact(i), "email": f"{tag}{i}.{run_id}@example.com"}}

    def batch(i: int) -> bytes:
        body = json.dumps({"inputs": [new(i * 100 + k, "batch") for k in range(100)]}).encode()
        return request("POST", f"{base}/batch/create", key, body)

    def create(i: int) -> bytes:
        return request("POST", base, key, json.dumps(new(i, "one")).encode())

    return {
        "list (page of 20, exact total)": lambda i: request("GET", base, key),
        "get by id": lambda i: request("GET", f"{base}/{sample[i % len(sample)]}", key),
        "search, 1 match": search("email", lambda i: f"person{i % 1000}@example.com"),
        "search, 1 in 5,000": search("lastname", lambda i: f"Last{i % 5000}"),
        "search, 1 in 50": search("city", lambda i: f"City{i % 50}"),
        "create": create,
        "create in batches of 100": batch,
    }


def _settle(hub: Hub) -> None:
    # What autovacuum does within a minute of such a load.
    with hub.database.reading() as connection:
        connection.run("vacuum analyze" if connection.dialect == "postgresql" else "analyze")


@contextmanager
def _database(sqlite: bool, folder: str) -> Iterator[str]:
    if sqlite:
        yield f"sqlite:///{folder}/benchmark.db"
        return
    url = make_url(os.environ.get("CRMHUB_TEST_POSTGRES", _POSTGRES))
    name = f"crmhub_benchmark_{uuid.uuid4().hex[:8]}"
    server = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'create database "{name}"')
        try:
            yield url.set(database=name).render_as_string(hide_password=False)
        finally:
            connection.execute(f'drop database "{name}" with (force)')


@contextmanager
def _server(
    environment: dict[str, str], folder: str, options: argparse.Namespace
) -> Iterator[tuple[str, int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "crmhub", "serve", "--port", str(port)]
    command += ["--workers", str(options.workers), "--threads", str(options.threads)]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    try:
        _wait(port, process)
        yield "127.0.0.1", port
    finally:
        process.terminate()
        process.wait(30)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        if process.poll() is not None:
            raise SystemExit("crmhub serve did not start")
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("crmhub serve did not listen within 20 s")


if __name__ == "__main__":
    main()
