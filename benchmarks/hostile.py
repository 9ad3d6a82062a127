"""Check that others are served while the service is attacked.

    python -m benchmarks.hostile [--sqlite] [--seconds 20] [--only searches,lists]

`crmhub serve` runs with two server processes and its worker. A quiet account calls helpers and the
public API five times a second, each call on a connection of its own, and /healthz is asked twice a
second, while each attack of `benchmarks.attacks` runs in turn. The attacks that hold connections,
and the quiet calls meanwhile, go through nginx with the shipped configuration; all others go to the
hub directly. It ends with 1 when a quiet call fails, when the 99th percentile of quiet calls or an
answer of /healthz takes longer than a second, when a server process grows by 150 MB or the database
by 20 MB, or when the operator, whose email a stranger hammers, cannot sign in from a known browser
or loses the session.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.attacks import ATTACKS, CONNECTION_ATTACKS, LONG_TEXT, Target, sign_in
from benchmarks.bots import Bots, judged, kept, p
from benchmarks.places import Place, Service, parser, place
from benchmarks.proxies import run_nginx
from crmhub.accounts.changes import IssuedIds
from crmhub.database.connection import Database

_EVERY_S = 0.2
_LOOK_S = 0.5
_TIMEOUT_S = 30.0
_PASSWORD = "correct horse battery staple"
_OPERATOR = "operator@example.com"
_LONG, _RECORDS = 60, 160
# Of records in one call, whose body holds a mebibyte at most.
_AT_ONCE = 5
_MEMORY_MB = 150
_DATABASE_MB = 20
_PATIENCE_S = 60.0


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--seconds", type=float, default=20, help="of each attack")
    command.add_argument("--only", default="", help="attacks, comma-joined")
    command.add_argument("--nginx", default="/usr/sbin/nginx", help="path of the program")
    command.add_argument("--plan", default="free", help="of the attacker's account")
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--threads", type=int, default=16)
    command.add_argument("--slowest", type=float, default=1.0, help="p99 of quiet calls, in s")
    options = command.parse_args()
    names = options.only.split(",") if options.only else list(ATTACKS)
    if unknown := [name for name in names if name not in ATTACKS]:
        raise SystemExit(f"{unknown[0]} is none of {', '.join(ATTACKS)}")
    with place(options.sqlite) as here:
        quiet_ids = here.account("", "quiet")
        ids = here.account("", "hostile", plan=options.plan)
        _user(here)
        with (
            here.server(workers=options.workers, threads=options.threads) as service,
            run_nginx(options.nginx, Path(here.folder), service.address[1]) as proxy_port,
        ):
            fine = _attacked(here, service, proxy_port, quiet_ids, ids, names, options)
    sys.exit(0 if fine else 1)


def _user(here: Place) -> None:
    path = Path(here.folder, "password")
    path.write_text(_PASSWORD)
    here.command("admin", "user", "create", _OPERATOR, "--password-file", str(path))


def _attacked(
    here: Place,
    service: Service,
    proxy_port: int,
    quiet_ids: IssuedIds,
    ids: IssuedIds,
    names: list[str],
    options: argparse.Namespace,
) -> bool:
    target = Target(*service.address, "hostile", ids.api_key, [], _OPERATOR)
    target.records.extend(_fill(target))
    known = _Operator(target)
    quiet = Quiet(service.address, quiet_ids)
    with quiet.calling():
        time.sleep(options.seconds / 4)
    print(f"{here.dialect}: {options.workers} server processes with {options.threads} threads")
    print(f"  {'':<14}{'calls':>6}{'failed':>8}{'p50 ms':>8}{'p99 ms':>8}{'healthz':>9}{'MB':>6}")
    quiet.show("before")
    fine = []
    stored, memory = here_bytes(here), _memory(service, "VmRSS")
    for name in names:
        port = proxy_port if name in CONNECTION_ATTACKS else target.port
        quiet = Quiet((target.host, port), quiet_ids)
        with quiet.calling():
            happened = _run(name, replace(target, port=port), options.seconds)
        grown = _grown(service, memory)
        quiet.show(name, grown, happened)
        fine.append(not quiet.failures and quiet.p99 <= options.slowest)
        fine.append(quiet.health <= options.slowest)
    grown = _grown(service, memory)
    fine += [
        kept("a server process grew", grown, _MEMORY_MB, "MB"),
        kept("the database grew", (here_bytes(here) - stored) / 1e6, _DATABASE_MB, "MB"),
        judged({"operators who were shut out": known.shut_out()}),
    ]
    return all(fine)


def _fill(target: Target) -> list[int]:
    """Create the attacker's contacts, the first with the longest values; return their ids."""
    ids = list[int]()
    while len(ids) < _RECORDS:
        long = {"address": LONG_TEXT, "jobtitle": LONG_TEXT} if len(ids) < _LONG else {}
        batch = [
            {"properties": {"firstname": f"Contact {len(ids) + n}", **long}}
            for n in range(_AT_ONCE)
        ]
        ids += [record["id"] for record in _created(target, {"inputs": batch})]
    return ids


def _created(target: Target, body: Mapping[str, object]) -> list[dict[str, int]]:
    connection = http.client.HTTPConnection(target.host, target.port, timeout=_TIMEOUT_S)
    headers = {"service-apikey": target.api_key, "Content-Type": "application/json"}
    path = f"/{target.client_id}/api/v1/contacts/batch/create"
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status != 201:
        raise SystemExit(f"the attacker's contacts were answered {answer.status}: {text!r}")
    records: list[dict[str, int]] = json.loads(text)
    return records


def _run(name: str, target: Target, seconds: float) -> dict[str, int]:
    command = [sys.executable, "-m", "benchmarks.attacks", name, target.text(), str(seconds)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    happened: dict[str, int] = json.loads(run.stdout)
    return happened


# --- What is measured -------------------------------------------------------------------------


@dataclass
class Quiet:
    """The measured calls of an account that does not attack."""

    address: tuple[str, int]
    ids: IssuedIds
    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    health: float = 0.0
    """The longest time of an answer of /healthz, in seconds."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def p99(self) -> float:
        """The 99th percentile of all calls, in seconds."""
        return p(99, self.seconds)

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Make calls at fixed times until the block ends, however long earlier calls take."""
        over = threading.Event()
        with ThreadPoolExecutor(200) as pool:
            timers = [
                pool.submit(self._on_time, pool, over, _EVERY_S, self._call),
                pool.submit(self._on_time, pool, over, _LOOK_S, self._healthz),
            ]
            try:
                yield
            finally:
                over.set()
                for timer in timers:
                    timer.result()

    @staticmethod
    def _on_time(pool, over, every, call) -> None:  # type: ignore[no-untyped-def]
        began, number = time.monotonic(), 0
        while not over.wait(max(0.0, began + number * every - time.monotonic())):
            pool.submit(call, number)
            number += 1

    def _call(self, number: int) -> None:
        email = f"{time.time_ns()}@example.com"
        bots = Bots(self.address, self.ids, timeout=_TIMEOUT_S)
        calls = (
            lambda: bots.create_lead(email, name="Ann Lee", email=email).status,
            lambda: self._api("GET", "/contacts?limit=20"),
            lambda: self._api("POST", "/contacts", {"properties": {"email": f"p{email}"}}),
            lambda: self._api("POST", "/contacts/search", {"filters": []}),
        )
        began = time.monotonic()
        status = calls[number % len(calls)]()
        with self._lock:
            self.seconds.append(time.monotonic() - began)
            if not 200 <= status < 300:
                self.failures.append(f"{number % len(calls)}: {status}")

    def _api(self, method: str, path: str, body: object = None) -> int:
        target = Target(*self.address, "quiet", self.ids.api_key, [], "")
        return target.call(method, path, body)

    def _healthz(self, _: int) -> None:
        began = time.monotonic()
        status = Target(*self.address, "", "", [], "").raw("GET", "/healthz", None, {})
        with self._lock:
            self.health = max(self.health, time.monotonic() - began)
            if status != 200:
                self.failures.append(f"healthz: {status}")

    def show(self, name: str, grown: int = 0, happened: Mapping[str, int] | None = None) -> None:
        """Print a line of the table."""
        figures = f"{p(50, self.seconds) * 1000:>8.0f}{self.p99 * 1000:>8.0f}"
        told = ", ".join(f"{count} x {what}" for what, count in sorted((happened or {}).items()))
        print(
            f"  {name:<14}{len(self.seconds):>6}{len(self.failures):>8}{figures}"
            f"{self.health * 1000:>9.0f}{grown:>6}  {told}",
            flush=True,
        )
        for failure in self.failures[:3]:
            print(f"    {failure}")


class _Operator:
    """A console user who has signed in from a browser before the attacks."""

    def __init__(self, target: Target) -> None:
        self._target = target
        status, self._cookies = sign_in(target, _PASSWORD)
        if status != 303:
            raise SystemExit(f"the operator's first sign-in was answered {status}")

    def shut_out(self) -> int:
        """Return 1 if the session has ended or a new sign-in of the browser fails, else 0."""
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        page = self._target.raw("GET", "/console/accounts", None, {"Cookie": cookies})
        device = {k: v for k, v in self._cookies.items() if "device" in k}
        again, _ = sign_in(self._target, _PASSWORD, device)
        if (page, again) != (200, 303):
            print(f"  the session's page was answered {page}, a new sign-in {again}")
        return int((page, again) != (200, 303))


def _memory(service: Service, name: str) -> dict[int, int]:
    """Return the memory (MB) of each server process."""
    found = {}
    for pid, command in service.children().items():
        if " worker " in command:
            continue
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                found[pid] = int(line.split()[1]) // 1024
    return found


def _grown(service: Service, before: Mapping[int, int]) -> int:
    """Return the largest growth of a server process in MB; raise SystemExit if a process died."""
    now = _memory(service, "VmHWM")
    if now.keys() != before.keys():
        raise SystemExit("a server process has ended")
    return max(now[pid] - before[pid] for pid in before)


def here_bytes(here: Place) -> int:
    """Return the size of the database in bytes."""
    if here.dialect == "sqlite":
        return sum(path.stat().st_size for path in Path(here.folder).glob("benchmark.db*"))
    database = Database(here.url, pool_size=1)
    try:
        with database.reading() as connection:
            size: int = connection.scalar("select pg_database_size(current_database())")
            return size
    finally:
        database.close()


if __name__ == "__main__":
    main()
