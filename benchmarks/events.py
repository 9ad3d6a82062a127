"""Count events that are lost, out of order or delivered twice while workers are killed.

    python -m benchmarks.events [--sqlite] [--changes 10000] [--kills 25] [--seed 1]

Eight writers in two processes change the same records. Two workers deliver the events to a receiver
that refuses a fifth of them, and is away for a part of the time. Workers are killed with SIGKILL
and started again. Each event of a record names the value before the change, so the receiver sees
whether one is missing or comes too early. Before that, changes are made while all is well, to
measure the time from the change to its delivery. Waits for a retry are cut short by the benchmark.
It ends with 1 if an event is lost or out of order.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import statistics
import subprocess
import sys
import threading
import time
from calendar import timegm
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.places import BENCHMARKS, Place, end, parser, place
from crmhub.database.connection import Connection
from crmhub.errors import Unavailable
from crmhub.hub import Hub
from crmhub.operators.events import event_subscriptions
from crmhub.properties.kinds import CONTACTS
from crmhub.records.models import Change, NewRecord

_CLIENT = "benchmark"
_RECORDS = 100
_PROCESSES, _THREADS = 2, 4
_REFUSED = 0.2
_AWAY_S, _HERE_S = 1.5, 4.0
# Between two changes while all is well, so that nothing waits for anything else.
_CALM_PAUSE_S = 0.05
_BUSY_PAUSE_S = 0.1
_PATIENCE_S = 900.0


@dataclass
class Receiver:
    """What a receiver has got: the accepted messages in their order."""

    is_rough: bool = False
    is_away: bool = False
    accepted: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0
    delays_s: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: dict[str, Any], chance: float) -> int:
        """Note a message; return the HTTP status of its answer, 0 for none."""
        with self.lock:
            if self.is_away or (self.is_rough and chance < _REFUSED):
                self.refused += 1
                return 0 if self.is_away else 500
            self.accepted.append(body)
            written = time.strptime(body["createdAt"][:19], "%Y-%m-%dT%H:%M:%S")
            ms = int(body["createdAt"][20:23])
            self.delays_s.append(time.time() - (timegm(written) + ms / 1000))
            return 204


@contextmanager
def receiving(receiver: Receiver, chances: random.Random) -> Iterator[str]:
    """Serve the receiver until the block ends; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = receiver.answer(body, chances.random())
            if not status:
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            # The worker was killed, or we have hung up.
            with suppress(OSError, ValueError):
                super().handle()

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/events"
    finally:
        server.shutdown()
        server.server_close()


def write(here: Place, ids: list[int], number: int, changes: int, pause_s: float) -> None:
    """Change random records; runs in a process of its own, in several threads."""
    hub = here.hub()
    account = hub.load_account(_CLIENT)

    def change(thread: int) -> None:
        chances = random.Random(f"{number}/{thread}")
        for count in range(changes // _THREADS):
            wanted = Change(chances.choice(ids), {"jobtitle": f"{number}/{thread}/{count}"})
            _persist(lambda wanted=wanted: hub.records.update(account, CONTACTS, [wanted]))
            time.sleep(pause_s)

    with ThreadPoolExecutor(_THREADS) as pool:
        # An error of a thread ends the process with an exit code.
        list(pool.map(change, range(_THREADS)))
    hub.close()


def _persist(work: Callable[[], object]) -> None:
    """Repeat `work` while the database is busy; the API would answer 503, and its caller return."""
    while True:
        try:
            work()
            return
        except Unavailable:
            time.sleep(_BUSY_PAUSE_S)


class Workers:
    """Two worker processes, of which one is killed now and then and started again."""

    def __init__(self, here: Place) -> None:
        self._here = here
        self._running = [self._start() for _ in range(2)]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "crmhub", "worker", "--threads", "2"],
            cwd=self._here.folder,
            env=self._here.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self, which: int) -> None:
        """Kill a worker at once, and start another one."""
        self._running[which].kill()
        self._running[which].wait()
        self._running[which] = self._start()

    def close(self) -> None:
        """End both workers."""
        for each in self._running:
            end(each)


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--changes", type=int, default=10_000)
    command.add_argument("--calm", type=int, default=200, help="changes while all is well")
    command.add_argument("--kills", type=int, default=25)
    command.add_argument("--seed", type=int, default=1)
    options = command.parse_args()
    chances = random.Random(options.seed)
    receiver = Receiver()
    with place(options.sqlite) as here, receiving(receiver, chances) as url:
        here.account("", _CLIENT)
        hub = here.hub()
        types = ["contact.created", "contact.updated"]
        event_subscriptions.add(hub, _CLIENT, url=url, types=types, by=BENCHMARKS)
        found = _run(here, hub, receiver, options, chances)
        hub.close()
    print(found)
    sys.exit(0 if found.is_right else 1)


def _run(
    here: Place,
    hub: Hub,
    receiver: Receiver,
    options: argparse.Namespace,
    chances: random.Random,
) -> Found:
    account = hub.load_account(_CLIENT)
    new = [NewRecord({"firstname": f"Ada {n}", "jobtitle": "first"}) for n in range(_RECORDS)]
    ids = [each.id for each in hub.records.create(account, CONTACTS, new)]
    workers = Workers(here)
    try:
        _wait(lambda: len(receiver.accepted) >= _RECORDS)
        receiver.delays_s.clear()
        calm = options.calm // (_PROCESSES * _THREADS) * _THREADS
        _write(here, ids, calm, 0, _CALM_PAUSE_S)
        _wait(lambda: len(receiver.delays_s) >= calm * _PROCESSES)
        delays = sorted(receiver.delays_s)
        receiver.is_rough = True
        rough = options.changes // (_PROCESSES * _THREADS) * _THREADS
        began = time.monotonic()
        stopping = threading.Event()
        away = threading.Thread(target=_go_away, args=(receiver, stopping), daemon=True)
        away.start()
        writing = threading.Thread(target=_write, args=(here, ids, rough, 100, 0.0))
        writing.start()
        for _ in range(options.kills):
            time.sleep(chances.uniform(0.5, 2.5))
            workers.kill(chances.randrange(2))
        writing.join()
        stopping.set()
        away.join()
        total = _RECORDS + (calm + rough) * _PROCESSES
        _drain(hub, account.id, receiver, total)
        return Found.of(receiver, total, delays, options.kills, time.monotonic() - began)
    finally:
        workers.close()


def _write(here: Place, ids: list[int], changes: int, first: int, pause_s: float) -> None:
    """Let both processes make this many changes each."""
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=write, args=(here, ids, first + n, changes, pause_s))
        for n in range(_PROCESSES)
    ]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
        if each.exitcode:
            raise SystemExit(f"a writer ended with {each.exitcode}")


def _go_away(receiver: Receiver, stopping: threading.Event) -> None:
    while not stopping.wait(_HERE_S):
        receiver.is_away = True
        stopping.wait(_AWAY_S)
        receiver.is_away = False


def _drain(hub: Hub, account_id: int, receiver: Receiver, total: int) -> None:
    """Wait until all events have arrived, or for too long; let no retry wait."""
    until = time.monotonic() + _PATIENCE_S
    of = {"account": account_id}

    def end_waits(tx: Connection) -> None:
        tx.run(
            "update event_delivery set run_at = 1 where account_id = :account"
            " and state = 'queued' and lease is null and run_at > 1",
            of,
        )
        tx.run("update event_subscription set paused_until = 0 where account_id = :account", of)

    while time.monotonic() < until:
        with receiver.lock:
            if len({each["id"] for each in receiver.accepted}) >= total:
                break
        _persist(lambda: hub.database.transact(end_waits))
        time.sleep(1)
    # What is sent twice because of a lease comes at its end.
    time.sleep(2)


def _wait(is_done: Any) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not is_done():
        if time.monotonic() > until:
            raise SystemExit("the events did not arrive")
        time.sleep(0.05)


@dataclass(frozen=True)
class Found:
    """The result of a run."""

    total: int
    lost: int
    out_of_order: int
    twice: int
    refused: int
    kills: int
    median_ms: float
    p99_ms: float
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether every event has arrived, in the order of its record."""
        return not self.lost and not self.out_of_order

    def __str__(self) -> str:
        return (
            f"{self.total:,} events, {self.kills} workers killed, {self.refused:,} calls refused:"
            f" lost {self.lost}, out of order {self.out_of_order}, delivered twice {self.twice},"
            f" in {self.seconds:,.0f} s; while all is well, delivered after"
            f" {self.median_ms:,.0f} ms (median), {self.p99_ms:,.0f} ms (p99)"
        )

    @classmethod
    def of(
        cls, receiver: Receiver, total: int, delays_s: list[float], kills: int, seconds: float
    ) -> Found:
        """Look through what the receiver has accepted."""
        times = Counter(each["id"] for each in receiver.accepted)
        last: dict[int, str] = {}
        known: set[str] = set()
        wrong = 0
        for each in receiver.accepted:
            if each["id"] in known:
                continue
            known.add(each["id"])
            data = each["data"]
            before = data["previous"].get("jobtitle")
            wrong += last.get(data["id"]) != before
            last[data["id"]] = data["properties"]["jobtitle"]
        return cls(
            total=total,
            lost=total - len(times),
            out_of_order=wrong,
            twice=sum(count > 1 for count in times.values()),
            refused=receiver.refused,
            kills=kills,
            median_ms=statistics.median(delays_s) * 1000 if delays_s else 0.0,
            p99_ms=delays_s[int(len(delays_s) * 0.99)] * 1000 if delays_s else 0.0,
            seconds=seconds,
        )


if __name__ == "__main__":
    main()
