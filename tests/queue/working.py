"""The journal in tests: what stands in it, time that passes at once, and workers beside."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from crmhub.database.connection import now_ms
from crmhub.helpers.attempts import Action
from crmhub.helpers.create_lead import CreateLead
from crmhub.hub import Hub
from crmhub.queue import accepting, claiming
from crmhub.queue.accepting import Accepted
from crmhub.worker import Worker
from tests.clients import Client

_PATIENCE = 120.0


def rows(hub: Hub, client: Client, columns: str = "state", table: str = "action") -> list[Any]:
    """Return columns of the account's rows, in the order in which they came."""
    orders = {"action": "created_at, id", "action_try": "number", "outage": "since"}
    order = orders.get(table, "1")
    with hub.database.reading() as connection:
        return connection.rows(
            f"select {columns} from {table} where account_id = :id order by {order}",
            {"id": client.account.id},
        )


def states(hub: Hub, client: Client) -> list[str]:
    """Return the states of the account's actions, in the order in which they came."""
    return [state for (state,) in rows(hub, client)]


def change(hub: Hub, client: Client, what: str, table: str = "action", **params: Any) -> int:
    """Set columns of the account's rows; `what` may end in a further condition."""
    done: int = hub.database.transact(
        lambda tx: tx.run(
            f"update {table} set {what.replace(' where ', ' where account_id = :id and ')}"
            + ("" if " where " in what else " where account_id = :id"),
            {"id": client.account.id, **params},
        )
    )
    return done


def accept(hub: Hub, client: Client, action: Action, *, now: bool = False) -> Accepted:
    """Accept an action for the worker, or with `now` for a process that is slow to begin."""
    return accepting.accept(
        hub.database,
        client.account,
        lambda tx: action.enter(tx, client.account, action.mapped(client.account)),
        lease_s=60 if now else 5,
        now=now,
    )


def queue_leads(hub: Hub, client: Client, *names: str) -> None:
    """Queue the leads of persons with these names."""
    for name in names:
        accept(hub, client, CreateLead(name, f"{name} Lee", f"{name}@x.org", ""))


def hurry(hub: Hub, client: Client) -> None:
    """Let everything that waits of an account be due now, its connection too."""
    change(hub, client, "run_at = :now where state = 'queued'", now=now_ms() - 1)
    change(hub, client, "until = :now", "outage", now=now_ms() - 1)


def end_leases(hub: Hub, client: Client) -> None:
    """Let two minutes pass for an account: leases of the dead end, and what was sent has landed."""
    change(hub, client, "run_at = run_at - 120000 where state = 'running'")
    change(hub, client, "written_at = written_at - 120000 where state = 'queued'")
    hurry(hub, client)


def try_due(hub: Hub, client: Client, *, threads: int = 8) -> None:
    """Let a worker try once, here and now, what is due of an account."""
    worker = Worker(hub, threads=threads)
    for here in claiming.due(hub.database).now:
        if here[0] == client.account.id:
            for job in worker._claim_jobs(here, threads):
                worker._running[here] += 1
                worker._run_job(here, job)


@contextmanager
def working(hub: Hub, *, threads: int = 8) -> Iterator[Worker]:
    """Run a worker beside the block, and stop it afterwards."""
    worker = Worker(hub, threads=threads)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(_PATIENCE)
        assert not thread.is_alive()


def soon(condition: Callable[[], object], seconds: float = _PATIENCE) -> None:
    """Wait until the condition holds, and fail when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def empty(hub: Hub, client: Client) -> bool:
    """Return whether nothing of the account is unfinished."""
    return not {"running", "queued"} & set(states(hub, client))


def work_off(hub: Hub, client: Client, *, seconds: float = _PATIENCE) -> None:
    """Run a worker until nothing of the account is unfinished."""
    with working(hub):
        soon(lambda: empty(hub, client), seconds)


def finish_all(hub: Hub, client: Client) -> None:
    """Let everything that waits of an account be due, and a worker finish it."""
    hurry(hub, client)
    work_off(hub, client)


def take_over(hub: Hub, client: Client) -> None:
    """Let leases of the dead end, and a worker finish what they left."""
    end_leases(hub, client)
    work_off(hub, client)
