"""Real processes that call a CRM at once: `python -m tests.journal.callers JSON`.

Each says when it is ready, starts when it is told to, and prints what came of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from crmhub.accounts import limits
from crmhub.adapter import Throttled
from crmhub.database.connection import Database
from crmhub.journal.budgets import Budgets
from crmhub.journal.journal import Journal
from crmhub.journal.leases import Leases

ROOT = Path(__file__).parents[2]


class Caller:
    """A process that does `work` (a function of this module) once `start` is called."""

    def __init__(self, work: str, **options: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.journal.callers", json.dumps([work, options])],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def get_ready(self) -> None:
        """Wait until it is ready."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def go(self) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def result(self) -> Any:
        """Return what it printed at its end."""
        out, _ = self.process.communicate()
        assert self.process.returncode == 0
        return json.loads(out)


def start(*callers: Caller) -> None:
    """Let processes begin together, once all of them are ready."""
    for caller in callers:
        caller.get_ready()
    for caller in callers:
        caller.go()


def count_up(leases: Leases, path: str, rounds: int) -> None:
    """Add one to the number in a file, `rounds` times, which tears without a lock."""
    file = Path(path)
    for _ in range(rounds):
        with leases.hold(1, 1, path, seconds=30, patience=60):
            number = int(file.read_text())
            time.sleep(0.001)
            file.write_text(str(number + 1))


def hog(leases: Leases, key: str, threads: int) -> int:
    """Hold a lease again and again in many threads, until standard input ends; return how often."""
    turns: list[int] = []
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            with leases.hold(1, 1, key, seconds=30, patience=60):
                time.sleep(0.002)
                turns.append(1)

    def wait_for_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_end).start()
    _in_threads(work, threads)
    return len(turns)


def hold_for_ever(leases: Leases, key: str, seconds: float) -> None:
    """Hold a lease and do not give it back."""
    with leases.hold(1, 1, key, seconds=seconds, patience=1):
        print("held", flush=True)  # noqa: T201 - the test waits for it
        time.sleep(60)


def storm(
    budgets: Budgets,
    account: int,
    limit: tuple[int, float],
    threads: int,
    seconds: float,
    queued: bool,
    every: float = 0.0,
) -> list[tuple[float, float]]:
    """Call as often as the budget lets; return when each call was made and how long it waited.

    With `every`, a thread calls only so often (in seconds).
    """
    calls: list[tuple[float, float]] = []
    end = time.monotonic() + seconds
    budget = budgets.of(
        account,
        1,
        "burst",
        calls=limit[0],
        seconds=limit[1],
        patience=lambda: 1.0,
        queued=lambda: queued,
    )

    def work() -> None:
        while (start := time.monotonic()) < end:
            try:
                budget.take()
                calls.append((time.time(), time.monotonic() - start))
                time.sleep(every)
            except Throttled as exc:
                time.sleep(min(exc.retry_after, 0.5))

    _in_threads(work, threads)
    return calls


def claim_all(database: Database, account: int, connection: int) -> list[str]:
    """Take actions of a connection until there are none; return their ids."""
    journal, ids = Journal(database), list[str]()
    while True:
        entries = journal.claim(account, connection, most=3, lease_s=60)
        if not entries:
            return ids
        ids += [entry.id for entry in entries]


def _in_threads(work: Any, threads: int) -> None:
    running = [threading.Thread(target=work) for _ in range(threads)]
    for one in running:
        one.start()
    for one in running:
        one.join()


def _main() -> None:
    work, options = json.loads(sys.argv[1])
    # However busy the machine is, Redis is not away.
    limits._REDIS_SECONDS = 120.0
    database = Database(options.pop("database_url"))
    budgets = Budgets(database, options.pop("redis_url", None))
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    shared = {"storm": budgets, "claim_all": database}.get(work) or Leases(database)
    print(json.dumps(globals()[work](shared, **options)))  # noqa: T201
    budgets.close()
    database.close()


if __name__ == "__main__":
    _main()
