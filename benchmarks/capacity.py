"""Measure the processor time and memory that a request takes in the hub, a pooler and PostgreSQL.

    python -m benchmarks.capacity [--records 100000] [--seconds 5]

The benchmark starts its own PostgreSQL server and calls the public API and createLead, first
directly and then through pgbouncer in transaction mode, if pgbouncer is installed. Processor time
depends on other work of the machine much less than requests per second do. So it shows how many
requests a machine can answer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from sqlalchemy.engine import make_url

from benchmarks.api import calls_of, fill
from benchmarks.load import request, run
from benchmarks.places import (
    BENCHMARKS,
    Cluster,
    Place,
    Service,
    cluster,
    end,
    free_port,
    parser,
    place,
    wait_for,
)
from crmhub.operators.accounts.open_account import open_account

_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--records", type=int, default=100_000)
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--threads", type=int, default=16)
    command.add_argument("--connections", type=int, default=16)
    command.add_argument("--seconds", type=float, default=5, help="of each kind of call")
    command.add_argument("--direct", action="store_true", help="without pgbouncer only")
    options = command.parse_args()
    with cluster(connections=200) as server, place(False, server.url) as here:
        hub = here.hub()
        account, ids = open_account(hub, name="benchmark", plan="unlimited", by=BENCHMARKS)
        sample = fill(hub.records, account, options.records)
        with hub.database.reading() as connection:
            connection.run("vacuum analyze")
        hub.close()
        path, key = f"/{account.client_id}/api/v1/contacts", {"service-apikey": ids.api_key}
        with _ways(server, here, pooled=not options.direct) as ways:
            for name, way, pooler in ways:
                print(f"{name}: processor time of a request in ms")
                heads = ("hub", "pooler", "database", "all", "requests/s")
                print(f"{'':<34}" + "".join(f"{head:>12}" for head in heads))
                # The emails of new contacts differ from those of the other way.
                calls = calls_of(path, key, sample)
                calls["createLead (CRM: local)"] = _leads(ids.generated_id)
                with way.server(workers=options.workers, threads=options.threads) as service:
                    for call, make in calls.items():
                        _print_call(options, call, make, _Parts(service, pooler, server))
                    _print_memory(service, server)


def _leads(generated_id: str) -> Callable[[int], bytes]:
    run_id = uuid.uuid4().hex[:8]

    def make(number: int) -> bytes:
        token = f"chat-{run_id}-{number}"
        lead = {"contactToken": token, "name": "Ann Lee", "email": f"{token}@example.com"}
        path = f"/chatbot/createLead/{generated_id}"
        return request("POST", path, {}, json.dumps(lead).encode())

    return make


@dataclass(frozen=True, slots=True)
class _Parts:
    """The processes that answer requests; `pooler` is its process id, 0 without a pooler."""

    service: Service
    pooler: int
    server: Cluster

    def seconds(self) -> list[float]:
        """Return the processor time (s) of the hub, of the pooler and of PostgreSQL."""
        hub = [self.service.process.pid, *self.service.children()]
        database = [_postmaster(self.server), *_backends(self.server)]
        parts = (hub, [self.pooler] if self.pooler else [], database)
        return [_processor_seconds(pids) for pids in parts]


def _print_call(
    options: argparse.Namespace, name: str, make: Callable[[int], bytes], parts: _Parts
) -> None:
    numbers = count()
    # The first requests open connections and fill caches.
    for seconds in (options.seconds / 5, options.seconds):
        before = parts.seconds()
        figures = run(
            parts.service.address,
            lambda _: make(next(numbers)),
            connections=options.connections,
            seconds=seconds,
        )
    if figures.failures:
        raise SystemExit(f"{name}: answers {dict(figures.statuses)}")
    used = [
        (now - then) * 1000 / figures.statuses.total()
        for now, then in zip(parts.seconds(), before, strict=True)
    ]
    columns = "".join(f"{ms:>12.2f}" for ms in (*used, sum(used)))
    print(f"{name:<34}{columns}{figures.per_second:>12,.0f}")


@contextmanager
def _ways(server: Cluster, here: Place, *, pooled: bool) -> Iterator[list[tuple[str, Place, int]]]:
    """Yield the ways to the database: a name, the place, and the process id of the pooler or 0."""
    direct = ("without a pooler", here, 0)
    if not pooled:
        yield [direct]
        return
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        print("pgbouncer was not found; it is left out")
        yield [direct]
        return
    url, port = make_url(here.url), free_port()
    file = Path(server.folder, "pgbouncer.ini")
    file.write_text(
        f"[databases]\n* = host={url.host} port={url.port} user={url.username}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n"
        "pool_mode = transaction\nmax_client_conn = 2000\ndefault_pool_size = 60\n"
    )
    if server.user:
        shutil.chown(file, server.user)
    pooler = subprocess.Popen([program, "-q", str(file)], user=server.user)
    try:
        wait_for(port, pooler)
        behind = replace(here, url=url.set(port=port).render_as_string(hide_password=False))
        yield [direct, ("behind pgbouncer", behind, pooler.pid)]
    finally:
        end(pooler)


def _postmaster(server: Cluster) -> int:
    return int(Path(server.folder, "data", "postmaster.pid").read_text().partition("\n")[0])


def _backends(server: Cluster) -> list[int]:
    pid = _postmaster(server)
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _processor_seconds(pids: Iterable[int]) -> float:
    """Return the processor time (s) that these processes have used, without ended processes."""
    ticks = 0
    for pid in pids:
        # The name before the bracket may contain blanks.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def _print_memory(service: Service, server: Cluster) -> None:
    """Print the memory that processes do not share: of the hub, and of PostgreSQL's sessions."""
    hub = [_private(pid) for pid, command in service.children().items() if "crmhub" in command]
    sessions = [pid for pid in _backends(server) if b"127.0.0.1(" in _command(pid)]
    each = [_private(pid) for pid in sessions]
    print(f"  memory of the hub: {len(hub)} processes, {sum(hub) / 2**20:,.0f} MB together")
    average = sum(each) / 2**20 / max(1, len(each))
    print(f"  memory of PostgreSQL: {len(each)} sessions, {average:,.1f} MB each")


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _private(pid: int) -> int:
    """Return the bytes of memory that a process does not share with others."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


if __name__ == "__main__":
    main()
