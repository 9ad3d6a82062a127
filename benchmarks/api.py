"""Requests per second of the public API at a given number of contacts.

    python -m benchmarks.api --records 100000 --workers 2

The benchmark creates a database (on the PostgreSQL at CRMHUB_TEST_POSTGRES, or SQLite with
`--sqlite`), fills it, starts `crmhub serve` as the README says, measures, and deletes the database.
Figures can be compared only within one run on one machine.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable

from benchmarks.load import request, run
from benchmarks.places import BENCHMARKS, parser, place
from crmhub.accounts.accounts import Account
from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.properties.kinds import CONTACTS
from crmhub.records.models import NewRecord
from crmhub.records.store import RecordStore


def main() -> None:
    """Run the benchmark from the command line."""
    command = parser(__doc__)
    command.add_argument("--records", type=int, default=100_000)
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--threads", type=int, default=16)
    command.add_argument("--connections", type=int, default=16)
    command.add_argument("--seconds", type=float, default=5)
    command.add_argument("--sqlite", action="store_true")
    options = command.parse_args()
    with place(options.sqlite) as here:
        hub = here.hub()
        account, ids = open_account(hub, name="benchmark", plan="unlimited", by=BENCHMARKS)
        began = time.perf_counter()
        sample = fill(hub.records, account, options.records)
        rate = options.records / (time.perf_counter() - began)
        print(f"{options.records:,} contacts in {here.dialect}, written at {rate:,.0f}/s")
        _settle(hub)
        hub.close()
        with here.server(workers=options.workers, threads=options.threads) as service:
            base = f"/{account.client_id}/api/v1/contacts"
            key = {"service-apikey": ids.api_key}
            for name, make in calls_of(base, key, sample).items():
                figures = run(
                    service.address, make, connections=options.connections, seconds=options.seconds
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


def calls_of(
    base: str, key: dict[str, str], sample: list[int]
) -> dict[str, Callable[[int], bytes]]:
    """Return a function per kind of call, which returns the bytes of its request number 0, 1, …

    `base` is the path of the contacts, `key` the header with the API key, and `sample` contains
    ids of contacts.
    """
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


if __name__ == "__main__":
    main()
