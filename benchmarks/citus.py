"""Compare a hub on Citus with one on PostgreSQL alone, over HTTP and in turn.

    python -m benchmarks.citus [--rounds 5] [--seconds 3]

It needs PostgreSQL's server programs with the extension citus. It starts four servers of its own: a
plain one, a coordinator and two worker nodes. Creates, lists and batches are sent to both hubs in
turn, by one caller and by eight. The aim for a create is printed beside its figures.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from sqlalchemy.engine import make_url

from benchmarks import crowd
from benchmarks.load import Figures, request, run
from benchmarks.places import (
    BENCHMARKS,
    Cluster,
    Place,
    Service,
    administer,
    cluster,
    parser,
    place,
)
from crmhub.operators.accounts.open_account import open_account

_NAME, _CONNECTIONS, _BATCH, _CREATE_AIM = "benchmark", 300, 100, 2.0
# Nodes of one machine have no certificates.
_SETTINGS = """
shared_preload_libraries = 'citus'
wal_level = logical
citus.node_conninfo = 'sslmode=prefer'
"""


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--rounds", type=int, default=5)
    command.add_argument("--seconds", type=float, default=3, help="of each kind of call and round")
    options = command.parse_args()
    with ExitStack() as stack:
        plain = stack.enter_context(cluster(connections=_CONNECTIONS))
        nodes = [stack.enter_context(cluster(connections=_CONNECTIONS)) for _ in range(3)]
        places = {
            "plain": stack.enter_context(place(False, plain.url)),
            "citus": stack.enter_context(place(False, nodes[0].url, empty=True)),
        }
        _distribute(nodes, places["citus"])
        hubs = {name: _Hub(stack, here) for name, here in places.items()}
        for kind in ("create", "list", "batch"):
            for callers in (1, 8):
                figures: dict[str, list[Figures]] = {name: [] for name in hubs}
                for _ in range(options.rounds):
                    for name, hub in hubs.items():
                        ran = run(
                            hub.service.address,
                            hub.calls(kind),
                            connections=callers,
                            seconds=options.seconds,
                        )
                        if ran.failures:
                            raise SystemExit(f"{kind} on {name}: {dict(ran.statuses)}")
                        figures[name].append(ran)
                print(_told(kind, callers, figures))


def _distribute(nodes: list[Cluster], here: Place) -> None:
    database = make_url(here.url).database
    for node in nodes:
        with Path(node.folder, "data", "postgresql.conf").open("a") as file:
            file.write(_SETTINGS)
        node.restart("fast")
    for node in nodes[1:]:
        administer(node.url, f"create database \"{database}\" encoding 'UTF8' template template0")
    urls = [make_url(node.url).set(database=database) for node in nodes]
    for url in urls:
        administer(url.render_as_string(), "create extension citus")
    coordinator = urls[0].render_as_string()
    administer(coordinator, f"select citus_set_coordinator_host('127.0.0.1', {urls[0].port})")
    for url in urls[1:]:
        administer(coordinator, f"select citus_add_node('127.0.0.1', {url.port})")
    here.command("db", "upgrade")
    here.command("db", "distribute")


class _Hub:
    def __init__(self, stack: ExitStack, here: Place) -> None:
        hub = here.hub()
        _, issued = open_account(hub, name=_NAME, client_id=_NAME, plan="unlimited", by=BENCHMARKS)
        hub.close()
        self.service: Service = stack.enter_context(here.server(workers=2, threads=8))
        self._headers = {"service-apikey": issued.api_key}
        self._numbers = count()

    def calls(self, kind: str) -> Callable[[int], bytes]:
        path = f"/{_NAME}/api/v1/contacts"
        if kind == "list":
            return lambda _: request("GET", path, self._headers)
        if kind == "create":
            return lambda _: request("POST", path, self._headers, json.dumps(self._new()).encode())
        return lambda _: request(
            "POST",
            f"{path}/batch/create",
            self._headers,
            json.dumps({"inputs": [self._new() for _ in range(_BATCH)]}).encode(),
        )

    def _new(self) -> dict[str, dict[str, str]]:
        number = next(self._numbers)
        return {
            "properties": {
                **crowd.contact(0, number % 100_000, 100_000),
                "email": f"person{number}@example.com",
            }
        }


def _told(kind: str, callers: int, figures: dict[str, list[Figures]]) -> str:
    middle = {name: statistics.median(one.p50 for one in ran) for name, ran in figures.items()}
    times = middle["citus"] / middle["plain"]
    aim = f" (aim: ≤ {_CREATE_AIM:g})" if kind == "create" else ""
    return (
        f"{kind}, callers: {callers}: p50 plain {middle['plain']:.2f} ms,"
        f" Citus {middle['citus']:.2f} ms, {times:.2f} times{aim}"
    )


if __name__ == "__main__":
    main()
