"""The worker: it claims due actions from the journal and attempts them.

Any number may run, on any machine. A worker claims no more actions than it has free threads, shares
them between connections, and sends leads in batches if the adapter supports it. After a crash its
leases expire.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account, Unreadable
from crmhub.adapter import AdapterError
from crmhub.crm.deadlines import within
from crmhub.crm.pulling import Copying
from crmhub.crm.watching import Watching
from crmhub.database import expired
from crmhub.database.maintenance import vacuum
from crmhub.errors import HubError, NotFound, Unavailable
from crmhub.events.delivering import Deliveries
from crmhub.helpers.create_lead import CreateLead
from crmhub.helpers.lead_batches import attempt_leads, attempt_one
from crmhub.hub import Hub
from crmhub.operators.alerts import alert_watch, messages_to_people
from crmhub.operators.alerts.channels import channels_of
from crmhub.operators.failures import fix_group
from crmhub.operators.files import running_imports
from crmhub.queue import claiming
from crmhub.queue.models import Entry
from crmhub.queue.overlong_waits import end_overlong_waits
from crmhub.queue.schedule import LONGEST_LEASE_MS
from crmhub.records import text_parts

# Deadline of a call that no caller waits for. The lease covers the call and the writes after it.
_CALL_S = 30.0
_LEASE_S = LONGEST_LEASE_MS / 1000
_POLL_S = 1.0
_UNAVAILABLE_S = 1.0
# The part of the threads that one connection may use, since its CRM may be slow.
_LARGEST_SHARE = 0.75
_CLEAN_EVERY_S = 600.0
# Between two batches of expired rows.
_CLEAN_ON_S = 1.0
# Pauses of background jobs: at least `_PAUSE_S`, and `_PAUSES` times the last run, so that a job
# takes a tenth of the time at most, if it asks for no more. `_END_S`: wait at the end.
_PAUSE_S = 5.0
_PAUSES = 9
_END_S = 5.0
_log = logging.getLogger("crmhub.worker")

# Account id and connection id.
ConnectionKey = tuple[int, int]


class Worker:
    def __init__(self, hub: Hub, *, threads: int) -> None:
        self._hub = hub
        self._threads = threads
        self._running: Counter[ConnectionKey] = Counter()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        url, secret = hub.settings.alert_url, hub.settings.alert_secret
        alerts = (url, secret) if url and secret else None
        self._deliveries = Deliveries(hub.database, hub.egress, hub.vault, alerts=alerts)

    def stop(self) -> None:
        """`run` returns when the attempts in progress have ended."""
        self._stopping.set()
        self._wake.set()
        self._deliveries.wake()

    def run(self) -> None:
        with self._hub.database.across_accounts():
            self._run()

    def _run(self) -> None:
        _start(self._listen)
        copying = _start(Copying(self._hub).run, self._stopping)
        watching = _start(Watching(self._hub).run, self._stopping)
        importing = _start(self._run_queue, running_imports.run_next, "No import can be run")
        fixing = _start(self._run_queue, fix_group.run_due, "No group of actions can be changed")
        delivering = _start(self._deliveries.run, self._stopping)
        settings, database = self._hub.settings, self._hub.database
        alerting = partial(
            alert_watch.update,
            database,
            old_ms=settings.alert_queue_age,
            send=channels_of(settings),
            public_url=settings.public_url,
        )
        # Background jobs run in separate threads, since they may take long.
        background = [
            _start(self._run_in_background, *job)
            for job in (
                (alerting, "No alerts can be found"),
                (partial(vacuum, database), "The database's tables cannot be tidied up"),
                (partial(text_parts.fill, database), "The index of texts cannot be filled", 1),
                *((job, "Alerts cannot be sent") for job in messages_to_people.jobs(self._hub)),
            )
        ]
        clean_at, was_unavailable = time.monotonic(), False
        paused = frozenset[int]()
        with ThreadPoolExecutor(self._threads, thread_name_prefix="worker") as pool:
            while not self._stopping.is_set():
                self._wake.clear()
                try:
                    if was_unavailable:
                        claiming.spare(self._hub.database)
                        was_unavailable = False
                    due = claiming.due(database)
                    returned, paused = paused - database.paused_nodes, database.paused_nodes
                    if returned:
                        claiming.spare(database)
                        due = claiming.due(database)
                    started = 0 if self._hub.unwritten.many else self._start_jobs(pool, due.now)
                    if time.monotonic() >= clean_at:
                        more = self._delete_expired()
                        if not more:
                            end_overlong_waits(self._hub.database)
                        clean_at = time.monotonic() + (_CLEAN_ON_S if more else _CLEAN_EVERY_S)
                    pause = 0.0 if started else _pause_s(due.later)
                except Unavailable as exc:
                    was_unavailable = True
                    _log.warning("The worker cannot read the journal: %s", exc.message)
                # A bug of the hub must not end the process, which serves every account.
                except Exception:
                    _log.exception("The worker could not start due actions.")
                else:
                    self._wake.wait(pause)
                    continue
                self._stopping.wait(_UNAVAILABLE_S)
        # An import is stopped after a batch; killed in mid-batch it continues elsewhere.
        importing.join(_END_S)
        fixing.join(_END_S)
        copying.join(_END_S)
        watching.join(_END_S)
        delivering.join()
        for thread in background:
            thread.join(_END_S)

    def _run_in_background(
        self, job: Callable[[], object], failure: str, pauses: int = _PAUSES
    ) -> None:
        """`failure`: the beginning of the log message about an error of the job."""
        took_s = 0.0
        while not self._stopping.wait(max(_PAUSE_S, pauses * took_s)):
            began = time.monotonic()
            with self._hub.database.across_accounts():
                _run_logged(job, failure)
            took_s = time.monotonic() - began

    def _run_queue(self, run_next: Callable[[Hub, threading.Event], bool], failure: str) -> None:
        """`run_next` does a part of the due work and returns True, or False if nothing is due."""
        pause = 0.0
        while not self._stopping.wait(pause):
            did_work = _run_logged(partial(run_next, self._hub, self._stopping), failure)
            pause = 0.0 if did_work else _POLL_S

    def _delete_expired(self) -> bool:
        """Return whether there may be more."""
        database = self._hub.database
        deleted = [expired.delete_expired(database, each) for each in expired.EXPIRIES]
        return expired.BATCH in deleted

    def _start_jobs(self, pool: ThreadPoolExecutor, due: Sequence[ConnectionKey]) -> int:
        """Return the number of started jobs."""
        jobs = 0
        for connection in due:
            share = self._free_share(connection, connections=len(due))
            if share <= 0:
                continue
            for job in self._claim_jobs(connection, share):
                with self._lock:
                    self._running[connection] += 1
                pool.submit(self._run_job, connection, job)
                jobs += 1
        return jobs

    def _free_share(self, connection: ConnectionKey, *, connections: int) -> int:
        """0 or less for none. Connections with due actions share the threads."""
        with self._lock:
            free = self._threads - self._running.total()
            used = self._running[connection]
        most = min(
            math.ceil(self._threads / connections), max(1, int(self._threads * _LARGEST_SHARE))
        )
        return min(free, most - used)

    def _claim_jobs(self, connection: ConnectionKey, share: int) -> list[list[Entry]]:
        """Each job is for one thread: an action, or several leads that are sent together."""
        size = self._batch_size(connection)
        if size == 1:
            return [[entry] for entry in self._claim(connection, share)]
        jobs: list[list[Entry]] = []
        while len(jobs) < share:
            leads = self._claim(connection, size, leads=True)
            if leads:
                jobs.append(leads)
            if len(leads) < size:
                break
        if len(jobs) < share:
            jobs += [[entry] for entry in self._claim(connection, share - len(jobs), leads=False)]
        return jobs

    def _claim(
        self, connection: ConnectionKey, most: int, *, leads: bool | None = None
    ) -> list[Entry]:
        kinds = None if leads is None else (CreateLead.kind, leads)
        return claiming.claim(
            self._hub.database, *connection, most=most, lease_s=_LEASE_S, kinds=kinds
        )

    def _batch_size(self, connection: ConnectionKey) -> int:
        try:
            account = self._load_account(connection)
            return self._hub.registry.load(account.connection.adapter).batch_size
        except (AdapterError, NotFound, Unreadable):
            # The attempt itself reports the error.
            return 1

    def _load_account(self, connection: ConnectionKey) -> Account:
        """The account with this connection in place of its present one."""
        account_id, connection_id = connection
        with self._hub.database.reading() as reading:
            return accounts.load_on(reading, account_id, connection_id, self._hub.plans)

    def _run_job(self, connection: ConnectionKey, entries: Sequence[Entry]) -> None:
        """If the account cannot be loaded, put the actions back into the queue."""
        try:
            account_id, _ = connection
            with self._hub.database.for_account(account_id), within(_CALL_S, queued=True):
                account = self._load_account(connection)
                if len(entries) == 1:
                    attempt_one(self._hub, account, entries[0])
                else:
                    attempt_leads(self._hub, account, entries)
        except HubError as exc:
            # Raised while loading: an attempt itself turns every error into an outcome.
            _log.warning("No action could be attempted: %s", exc.message)
            self._hub.unwritten.write(partial(claiming.release, self._hub.database, entries))
        # A bug of the hub must be logged; the leases expire by themselves.
        except Exception:
            _log.exception("An attempt failed because of a bug.")
        finally:
            with self._lock:
                self._running[connection] -= 1
            self._wake.set()

    def _listen(self) -> None:
        can_listen = self._hub.database.dialect == "postgresql"
        while can_listen and not self._stopping.is_set():
            try:
                for has_news in self._hub.database.listen():
                    if self._stopping.is_set():
                        return
                    if has_news:
                        self._wake.set()
                        self._deliveries.wake()
            except Unavailable:
                self._stopping.wait(_UNAVAILABLE_S)


def _start(target: Callable[..., object], *args: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


def _run_logged(job: Callable[[], object], failure: str) -> bool:
    """Return the job's result as a boolean, False after an error."""
    try:
        return bool(job())
    except Unavailable as exc:
        _log.warning("%s: %s", failure, exc.message)
    # As in `run`: a bug must not end the thread.
    except Exception:
        _log.exception("%s because of a bug.", failure)
    return False


def _pause_s(later: int | None) -> float:
    """`later`: ms until the next action is due; None if no action waits."""
    # Actions that are due already wait for a job to end, and the end wakes the worker.
    if later is None:
        return _POLL_S
    return min(_POLL_S, max(0.02, later / 1000))
