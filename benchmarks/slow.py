"""Measure the time that the hub adds to a slow CRM, and the bots that one process can serve.

    python -m benchmarks.slow [--sqlite] [--latency 0.3] [--callers 500] [--seconds 20]

First a few callers show how much longer a helper takes than its calls to the CRM. These calls are
counted in the CRM, and timed without the hub in the same run. Then many callers send one call each
at the same moment, and after that one call after the other for some seconds, with the threads of
the default profile and with 512. For comparison, a bare Flask view on the same server makes one
call to the same CRM with `requests`. The exit code is 1 if a call is refused, or if a lead is lost
or exists twice once the queue is empty. The benchmark uses its own PostgreSQL server, with the
default number of connections.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import flask
import requests

from benchmarks.bots import Bots, Told, judged, lost_and_twice, p, until_empty
from benchmarks.load import Figures, request, run
from benchmarks.places import (
    Cluster,
    Crm,
    Place,
    Service,
    cluster,
    end,
    fake_crm,
    free_port,
    parser,
    place,
    wait_for,
)
from crmhub.accounts.changes import IssuedIds

_CONTACTS = "/crm/objects/2026-09/contacts"
_BARE_THREADS = 512
_EMPTY_S = 120.0
_HEAD = (
    f"  {'':<25}{'calls/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'slowest':>9}{'CPU ms each':>12}  answers"
)


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--latency", type=float, default=0.3, help="of each call, in seconds")
    command.add_argument("--few", type=int, default=8, help="callers of the first part")
    command.add_argument("--calls", type=int, default=10, help="of each of the few, per helper")
    command.add_argument("--callers", type=int, default=500)
    command.add_argument("--seconds", type=float, default=20)
    command.add_argument("--threads", default="16,512", help="of the server process, one run each")
    command.add_argument("--connections", type=int, default=100, help="that PostgreSQL allows")
    options = command.parse_args()
    _bare(options)
    fine = []
    with _postgres(options) as postgres:
        for threads in map(int, options.threads.split(",")):
            with place(options.sqlite, postgres.url if postgres else "") as here:
                fine.append(_profile(here, threads, options))
    sys.exit(0 if all(fine) else 1)


@contextmanager
def _postgres(options: argparse.Namespace) -> Iterator[Cluster | None]:
    with nullcontext() if options.sqlite else cluster(connections=options.connections) as made:
        yield made


def _profile(here: Place, threads: int, options: argparse.Namespace) -> bool:
    print(f"{here.dialect}, one server process with {threads} threads:")
    with fake_crm(latency=options.latency) as crm:
        ids = here.account(crm.url)
        with here.server(workers=1, threads=threads) as service:
            bots = Bots(service.address, ids)
            _few(bots, crm, options)
            return _many(here, crm, service, ids, options)


# --- A few callers ----------------------------------------------------------------------------


def _few(bots: Bots, crm: Crm, options: argparse.Namespace) -> None:
    # What is read once and remembered, such as pipelines, is no part of a usual call.
    first = _contact(bots, "first")
    bots.get_properties("first", "email")
    bots.create_deal(first, dealname="First")
    own = _direct(crm, options)
    print(f"  {'':<18}{'calls':>8}{'of the CRM':>12}{'p50 ms':>10}{'added p50':>12}{'p99':>9}")
    contacts = [_contact(bots, f"few{n}") for n in range(options.few)]
    helpers: dict[str, Callable[[int, int], Told]] = {
        "createLead": lambda who, n: bots.create_lead(
            f"lead-{who}-{n}", name="Ann Lee", email=f"few{who}.{n}@example.com"
        ),
        "getProperties": lambda who, n: bots.get_properties(f"few{who}", "email", "lastname"),
        "createDeal": lambda who, n: bots.create_deal(contacts[who], dealname=f"Deal {n}"),
    }
    for name, call in helpers.items():
        before = crm.calls()["calls"]
        told = _in_parallel(options, call)
        each = (crm.calls()["calls"] - before) / len(told)
        done = [one.seconds for one in told if one.status == 200]
        if not done:
            print(f"  {name:<18}{len(told):>8}  none was answered with 200")
            continue
        added = [seconds - each * own for seconds in done]
        figures = (p(50, done), p(50, added), p(99, added))
        shown = "".join(
            f"{figure * 1000:>{w}.0f}" for figure, w in zip(figures, (10, 12, 9), strict=True)
        )
        queued = len(told) - len(done)
        print(f"  {name:<18}{len(told):>8}{each:>12.2f}{shown}  {queued} queued")
    print(f"  one call of the CRM without the hub takes {own * 1000:.0f} ms")


def _contact(bots: Bots, token: str) -> str:
    return bots.create_lead(token, name="Ann Lee", email=f"{token}@example.com").contact_id


def _in_parallel(options: argparse.Namespace, call: Callable[[int, int], Told]) -> list[Told]:
    def caller(who: int) -> list[Told]:
        return [call(who, n) for n in range(options.calls)]

    with ThreadPoolExecutor(options.few) as pool:
        return [told for each in pool.map(caller, range(options.few)) for told in each]


def _direct(crm: Crm, options: argparse.Namespace) -> float:
    """Return the median duration of a direct call to the CRM with this number of callers (s)."""
    here = threading.local()

    def call(number: int) -> float:
        if not hasattr(here, "session"):
            here.session = _session(crm.token)
            here.session.get(f"{crm.url}{_CONTACTS}", params={"limit": 1})
        began = time.perf_counter()
        here.session.get(f"{crm.url}{_CONTACTS}", params={"limit": 1})
        return time.perf_counter() - began

    with ThreadPoolExecutor(options.few) as pool:
        return p(50, list(pool.map(call, range(options.few * options.calls))))


def _session(token: str) -> requests.Session:
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {token}"
    return session


# --- Many callers -----------------------------------------------------------------------------


def _many(
    here: Place, crm: Crm, service: Service, ids: IssuedIds, options: argparse.Namespace
) -> bool:
    server = _server(service)
    before = _memory(server, "VmRSS")

    def make(tag: str) -> Callable[[int], bytes]:
        def lead(number: int) -> bytes:
            email = f"{tag}{number}@example.com"
            body = {"contactToken": email, "name": "Ann Lee", "email": email}
            path = f"/chatbot/createLead/{ids.generated_id}"
            return request("POST", path, {}, json.dumps(body).encode())

        return lead

    print(_HEAD)
    accepted, maybe, refused = set[str](), set[str](), 0
    for tag, name, seconds in _runs(options):
        figures = _measured(name, service, make(tag), options.callers, seconds)
        refused += figures.failures
        for number in range(figures.statuses.total()):
            names = maybe if number in figures.refused else accepted
            names.add(f"{tag}{number}@example.com")
    print(
        f"  memory of the server process {before} MB before, {_memory(server, 'VmRSS')} MB after,"
        f" {_memory(server, 'VmHWM')} MB at most"
    )
    print(f"  queue empty after {until_empty(here.url, patience=_EMPTY_S):.0f} s")
    maybe |= {
        one["properties"]["email"]
        for one in crm.records("contacts")
        if one["properties"]["email"].startswith(("few", "first"))
    }
    lost = lost_and_twice(crm, "contacts", "email", accepted, maybe=maybe)
    return judged({"calls refused": refused, **lost})


def _runs(options: argparse.Namespace) -> list[tuple[str, str, float]]:
    callers = f"{options.callers} callers"
    return [("once", f"{callers} at once", 0.0), ("long", f"{callers} a while", options.seconds)]


def _measured(
    name: str,
    service: Service,
    make: Callable[[int], bytes],
    callers: int,
    seconds: float,
) -> Figures:
    server = _server(service)
    worked = _processor_s(server)
    figures = run(service.address, make, connections=callers, seconds=seconds)
    each = (_processor_s(server) - worked) / figures.statuses.total() * 1000
    answers = ", ".join(f"{n} of {status}" for status, n in sorted(figures.statuses.items()))
    print(
        f"  {name:<25}{figures.per_second:>9.0f}{figures.p50:>9.0f}{figures.p99:>9.0f}"
        f"{figures.slowest:>9.0f}{each:>12.1f}  {answers}; generator {figures.busy:.0%} of a core"
    )
    return figures


def _server(service: Service) -> int:
    """Return the id of the only server process."""
    children = {pid for pid, command in service.children().items() if " worker " not in command}
    return max(children, key=lambda pid: _memory(pid, "VmRSS"))


def _processor_s(pid: int) -> float:
    """Return the processor time of a process (s)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) // 1024
    raise SystemExit(f"the server process {pid} has ended")


# --- Beside it: no hub ------------------------------------------------------------------------


def bare() -> flask.Flask:
    """Return an application whose only view creates a contact in the CRM and answers its id."""
    url, token = os.environ["BARE_CRM"], os.environ["BARE_TOKEN"]
    session = _session(token)
    adapter = requests.adapters.HTTPAdapter(pool_maxsize=_BARE_THREADS)
    session.mount("http://", adapter)
    app = flask.Flask(__name__)

    @app.post("/lead")
    def lead() -> dict[str, Any]:
        sent = {"properties": flask.request.get_json(), "associations": []}
        made = session.post(f"{url}{_CONTACTS}", json=sent, timeout=30)
        made.raise_for_status()
        return {"contactId": made.json()["id"]}

    return app


def _bare(options: argparse.Namespace) -> None:
    print(f"a bare view that makes one call, one process with {_BARE_THREADS} threads:")
    port = free_port()
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--factory", "--http", "1"]
    command += ["--port", str(port), "--blocking-threads", str(_BARE_THREADS), "--no-log"]
    with fake_crm(latency=options.latency) as crm:
        process = subprocess.Popen(
            [*command, "benchmarks.slow:bare"],
            env={**os.environ, "BARE_CRM": crm.url, "BARE_TOKEN": crm.token},
        )

        def make(tag: str) -> Callable[[int], bytes]:
            def lead(number: int) -> bytes:
                body = {"email": f"{tag}{number}@example.com", "lastname": "Lee"}
                return request("POST", "/lead", {}, json.dumps(body).encode())

            return lead

        try:
            wait_for(port, process)
            print(_HEAD)
            service = Service(("127.0.0.1", port), process)
            for tag, name, seconds in _runs(options):
                _measured(name, service, make(tag), options.callers, seconds)
        finally:
            end(process)


if __name__ == "__main__":
    main()
