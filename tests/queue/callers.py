"""What real processes do that call a CRM at once; `Caller` starts one."""

from __future__ import annotations

import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from crmhub.accounts import limits
from crmhub.adapter import Throttled
from crmhub.database.connection import Database
from crmhub.queue import claiming
from crmhub.queue.budgets import Budgets
from crmhub.queue.leases import Leases
from tests.processes import Process


class Caller(Process):
    """A process that does `work`, a function of this module, once it is started."""

    def __init__(self, work: str, **options: Any) -> None:
        super().__init__(call, work=work, **options)


def count_up(leases: Leases, _pipe: Connection, path: str, rounds: int) -> None:
    """Add one to the number in a file, `rounds` times, which tears without a lock."""
    file = Path(path)
    for _ in range(rounds):
        with leases.hold(1, 1, path, seconds=30, patience=60):
            number = int(file.read_text())
            time.sleep(0.001)
            file.write_text(str(number + 1))


def hog(leases: Leases, pipe: Connection, key: str, threads: int) -> int:
    """Hold a lease again and again in many threads, until "end" comes; return how often."""
    turns: list[int] = []
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            with leases.hold(1, 1, key, seconds=30, patience=60):
                time.sleep(0.002)
                turns.append(1)

    def wait_for_end() -> None:
        pipe.recv()
        over.set()

    threading.Thread(target=wait_for_end).start()
    _in_threads(work, threads)
    return len(turns)


def hold_for_ever(leases: Leases, pipe: Connection, key: str, seconds: float) -> None:
    """Hold a lease, say so, and do not give it back."""
    with leases.hold(1, 1, key, seconds=seconds, patience=1):
        pipe.send("held")
        time.sleep(60)


def storm(
    budgets: Budgets,
    _pipe: Connection,
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
        copying=lambda: "",
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


def claim_all(database: Database, _pipe: Connection, account: int, connection: int) -> list[str]:
    """Take actions of a connection until there are none; return their ids."""
    ids = list[str]()
    while True:
        entries = claiming.claim(database, account, connection, most=3, lease_s=60)
        if not entries:
            return ids
        ids += [entry.id for entry in entries]


def _in_threads(work: Any, threads: int) -> None:
    running = [threading.Thread(target=work) for _ in range(threads)]
    for one in running:
        one.start()
    for one in running:
        one.join()


def call(
    pipe: Connection, work: str, database_url: str, redis_url: str | None = None, **options: Any
) -> Any:
    """Do `work` when it is time, and return what came of it."""
    # However busy the machine is, Redis is not away.
    limits._REDIS_SECONDS = 120.0
    database = Database(database_url)
    budgets = Budgets(database, redis_url)
    pipe.send("ready")
    pipe.recv()
    shared = {"storm": budgets, "claim_all": database}.get(work) or Leases(database)
    result = globals()[work](shared, pipe, **options)
    budgets.close()
    database.close()
    return result
