"""Works off the journal: tries what is due until it is done, wherever it was accepted.

Any number of workers may run, on any machine. Each takes no more than it has free threads for,
gives every connection its share of them, and sends the leads of one connection together where
its adapter can. A worker that dies leaves leases behind that end by themselves.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from crmhub import idempotency, metrics
from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account, Unreadable
from crmhub.adapter import Adapter, AdapterError, Conflict, Rejected
from crmhub.adapter.matching import Lead
from crmhub.adapter.upserts import SavedLead, upsert_contacts
from crmhub.database.connection import now_ms
from crmhub.database.maintenance import vacuum
from crmhub.errors import HubError, NotFound, Unavailable
from crmhub.helpers.actions import action_of
from crmhub.helpers.attempts import (
    Done,
    Mapped,
    apply_circuit_breaker,
    attempt,
    classify_error,
    newest,
    store_contact,
    stored_result,
)
from crmhub.helpers.create_lead import CreateLead
from crmhub.helpers.crm_connection import connect
from crmhub.helpers.deadlines import within
from crmhub.hub import Hub
from crmhub.identity import possible_duplicates
from crmhub.journal import clock_jumps
from crmhub.journal.models import Due, Entry, Outcome
from crmhub.journal.schedule import LONGEST_LEASE_MS
from crmhub.operations import alerts
from crmhub.records import erasing
from crmhub.records.redating import Redating

# A call that nobody waits for may take its time; the lease covers it and what is written after it.
_CALL_S = 30.0
_LEASE_S = LONGEST_LEASE_MS / 1000
_POLL_S = 1.0
_AWAY_S = 1.0
# One connection never takes all threads: its CRM may be slow.
_LARGEST_SHARE = 0.75
_CLEAN_EVERY_S = 600.0
# Some at a time, with pauses between: whoever writes comes first.
_CLEAN_ON_S = 1.0
_CLEANED_AT_ONCE = 1_000
# What nobody waits for has at least such pauses, and so many times as long as it took. At the end
# it is waited for so long: a vacuum may take minutes.
_PAUSE_S = 5.0
_PAUSES = 9
_END_S = 5.0
_REDATING_S = 0.5
# A smaller jump of the clock is waited for.
_JUMP_MS = 30_000
_KEPT_MS = 30 * 86_400_000
_log = logging.getLogger("crmhub.worker")

Connection = tuple[int, int]


class Worker:
    """Runs in one process; `run` returns when `stop` is set and what was begun has ended."""

    def __init__(self, hub: Hub, *, threads: int) -> None:
        self._hub = hub
        self._threads = threads
        self._running: Counter[Connection] = Counter()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        # How far the database's clock is ahead of the monotonic one.
        self._ahead_ms = math.nan

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Work until `stop` is called."""
        threading.Thread(target=self._listen, daemon=True).start()
        watching = threading.Thread(
            target=alerts.watch, args=(self._hub, self._stopping), daemon=True
        )
        watching.start()
        # Threads of their own, since that may take long.
        redating = partial(Redating(self._hub.database).run, _REDATING_S)
        leisurely = [
            threading.Thread(target=self._at_leisure, args=each, daemon=True)
            for each in (
                (partial(vacuum, self._hub.database), "The database's tables cannot be tidied up"),
                (redating, "What was changed cannot be dated"),
            )
        ]
        for thread in leisurely:
            thread.start()
        clean_at, away = time.monotonic(), False
        with ThreadPoolExecutor(self._threads, thread_name_prefix="worker") as pool:
            while not self._stopping.is_set():
                self._wake.clear()
                try:
                    if away:
                        self._hub.journal.spare()
                        away = False
                    due = self._due()
                    began = 0 if self._hub.unwritten.many else self._begin(pool, due.now)
                    if time.monotonic() >= clean_at:
                        more = self._clean()
                        clean_at = time.monotonic() + (_CLEAN_ON_S if more else _CLEAN_EVERY_S)
                    pause = 0.0 if began else _pause(due.later)
                except Unavailable as exc:
                    away = True
                    _log.warning("The journal cannot be worked off: %s", exc.message)
                # A bug of ours must not end the process, which works for every account.
                except Exception:
                    _log.exception("The worker could not begin what is due.")
                else:
                    self._wake.wait(pause)
                    continue
                self._stopping.wait(_AWAY_S)
        # A message that is under way ends within 10 s.
        watching.join()
        for thread in leisurely:
            thread.join(_END_S)

    def _at_leisure(self, work: Callable[[], object], what_fails: str) -> None:
        took_s = 0.0
        while not self._stopping.wait(max(_PAUSE_S, _PAUSES * took_s)):
            began = time.monotonic()
            try:
                work()
            except Unavailable as exc:
                _log.warning("%s: %s", what_fails, exc.message)
            # As in `run`.
            except Exception:
                _log.exception("%s.", what_fails)
            took_s = time.monotonic() - began

    def _due(self) -> Due:
        """Return what is due; when the clock has jumped since the last look, restart the waits."""
        database = self._hub.database
        due = self._hub.journal.due()
        ahead_ms = due.moment - time.monotonic() * 1000
        first_look = math.isnan(self._ahead_ms)
        jump_ms = -clock_jumps.set_back_ms(database) if first_look else ahead_ms - self._ahead_ms
        if abs(jump_ms) > _JUMP_MS:
            _log.warning("The database's clock was set by %d s; waits begin anew.", jump_ms / 1000)
            clock_jumps.restart_waits(database, round(jump_ms))
            due = self._hub.journal.due()
        self._ahead_ms = ahead_ms
        return due

    def _clean(self) -> bool:
        """Delete some of what is kept no longer; return whether there may be more of it."""
        database, most = self._hub.database, _CLEANED_AT_ONCE
        gone = (
            self._hub.journal.forget(before=now_ms() - _KEPT_MS, most=most),
            idempotency.forget_old(database, most=most),
            erasing.forget_archived(database, most=most),
            possible_duplicates.forget(database, most=most),
        )
        return most in gone

    def _begin(self, pool: ThreadPoolExecutor, due: Sequence[Connection]) -> int:
        """Begin what is due as far as there are free threads; return how many jobs that were."""
        jobs = 0
        for here in due:
            share = self._share(here, connections=len(due))
            if share <= 0:
                continue
            for job in self._claimed(here, share):
                with self._lock:
                    self._running[here] += 1
                pool.submit(self._do, here, job)
                jobs += 1
        return jobs

    def _share(self, here: Connection, *, connections: int) -> int:
        """Return how many more jobs this connection may have now."""
        with self._lock:
            free = self._threads - self._running.total()
            mine = self._running[here]
        most = min(
            math.ceil(self._threads / connections), max(1, int(self._threads * _LARGEST_SHARE))
        )
        return min(free, most - mine)

    def _claimed(self, here: Connection, share: int) -> list[list[Entry]]:
        """Take what is due of a connection; each list is a job, more than one entry a batch."""
        size = self._batch_size(here)
        if size == 1:
            return [[one] for one in self._claim(here, share)]
        jobs: list[list[Entry]] = []
        while len(jobs) < share:
            leads = self._claim(here, size, leads=True)
            if leads:
                jobs.append(leads)
            if len(leads) < size:
                break
        if len(jobs) < share:
            jobs += [[one] for one in self._claim(here, share - len(jobs), leads=False)]
        return jobs

    def _claim(self, here: Connection, most: int, *, leads: bool | None = None) -> list[Entry]:
        kinds = None if leads is None else (CreateLead.kind, leads)
        return self._hub.journal.claim(*here, most=most, lease_s=_LEASE_S, kinds=kinds)

    def _batch_size(self, here: Connection) -> int:
        try:
            account = self._account(here)
            return self._hub.registry.load(account.connection.adapter).batch_size
        except (AdapterError, NotFound, Unreadable):
            # What is wrong with it is told by the try itself.
            return 1

    def _account(self, here: Connection) -> Account:
        """Return the account on the connection that its action was accepted for."""
        account_id, connection_id = here
        with self._hub.database.reading() as reading:
            return accounts.load_on(reading, account_id, connection_id, self._hub.plans)

    def _do(self, here: Connection, entries: Sequence[Entry]) -> None:
        try:
            with within(_CALL_S, queued=True):
                account = self._account(here)
                if len(entries) == 1:
                    _try_one(self._hub, account, entries[0])
                else:
                    _try_leads(self._hub, account, entries)
        except HubError as exc:
            # Of what was loaded before the first call: an attempt makes an outcome of any error.
            _log.warning("Nothing could be tried: %s", exc.message)
            self._hub.unwritten.write(partial(self._hub.journal.release, entries))
        # A bug of ours must not end the thread's work without a word; the leases end here too.
        except Exception:
            _log.exception("A try of the worker failed.")
        finally:
            with self._lock:
                self._running[here] -= 1
            self._wake.set()

    def _listen(self) -> None:
        """Hear of new work at once where the database tells of it; polling is the fallback."""
        tells = self._hub.database.dialect == "postgresql"
        while tells and not self._stopping.is_set():
            try:
                for told in self._hub.database.listen():
                    if self._stopping.is_set():
                        return
                    if told:
                        self._wake.set()
            except Unavailable:
                self._stopping.wait(_AWAY_S)


def _pause(later: int | None) -> float:
    # What is due already waits for others, or for a free thread: both tell of themselves.
    if later is None:
        return _POLL_S
    return min(_POLL_S, max(0.02, later / 1000))


def _try_one(hub: Hub, account: Account, entry: Entry) -> None:
    attempt(hub, account, entry, action_of(entry.kind, entry.request), waits=False)


def _try_leads(hub: Hub, account: Account, entries: Sequence[Entry]) -> None:
    """Try several leads of one connection in few calls; each has its own outcome."""
    began = time.monotonic()
    try:
        adapter = connect(hub, account)
    except AdapterError as exc:
        _finish_all(
            hub, account, [(one, classify_error(exc, waits=False), None) for one in entries]
        )
        return
    together: list[tuple[Entry, CreateLead, Mapped, Lead]] = []
    alone: list[Entry] = []
    for entry in entries:
        action = CreateLead(**entry.request)
        mapped = action.mapped(account)
        lead = action.lead(hub, account, entry, mapped)
        # A lead without an email needs its lease, a strict one with faults its refusal.
        if lead.email and not (mapped.refused and lead.strict):
            together.append((entry, action, mapped, lead))
        else:
            alone.append(entry)
    tries = []
    outcomes: Sequence[SavedLead | Exception]
    entry_of = {lead.mark: entry for entry, _, _, lead in together}
    try:
        outcomes = upsert_contacts(
            adapter,
            [lead for *_, lead in together],
            approve=lambda lead, id, values: newest(hub, account, entry_of[lead.mark], id, values),
        )
    # As in `attempt`: whatever an adapter raises must not lose the leads.
    except Exception as exc:
        outcomes = [exc] * len(together)
    ended = time.monotonic()
    ms = round((ended - began) * 1000)
    for (entry, action, mapped, _), outcome in zip(together, outcomes, strict=True):
        if isinstance(outcome, Rejected | Conflict):
            # What is good of it may still be stored.
            alone.append(entry)
            continue
        result, done = _outcome_of_lead(adapter, action, mapped, outcome)
        sent = account.connection.field_map.of(action.record).sent(mapped.properties)
        result = replace(result, mapped=sent, ms=ms, ended=ended)
        tries.append((entry, result, done))
    _finish_all(hub, account, _apply_circuit_breaker(hub, tries))
    for entry in alone:
        _try_one(hub, account, entry)


def _apply_circuit_breaker(
    hub: Hub, tries: Sequence[tuple[Entry, Outcome, Done | None]]
) -> list[tuple[Entry, Outcome, Done | None]]:
    """Weigh what a batch came to: a call that failed is one failure, for however many leads."""
    weights: dict[str, Outcome] = {}
    for entry, outcome, _ in sorted(tries, key=lambda one: bool(one[1].trouble)):
        if outcome.trouble not in weights:
            here = (entry.account_id, entry.connection_id)
            weights[outcome.trouble] = apply_circuit_breaker(
                hub, here, outcome, probing=entry.probing
            )
    return [
        (entry, _like(weights[outcome.trouble], outcome) if outcome.trouble else outcome, done)
        for entry, outcome, done in tries
    ]


def _like(weight: Outcome, outcome: Outcome) -> Outcome:
    return replace(outcome, away=weight.away, wait_s=weight.wait_s)


def _outcome_of_lead(
    adapter: Adapter, action: CreateLead, mapped: Mapped, outcome: SavedLead | Exception
) -> tuple[Outcome, Done | None]:
    if isinstance(outcome, Exception):
        return classify_error(outcome, waits=False), None
    refused = (*mapped.refused, *outcome.refused)
    done = action.done(adapter, outcome, refused)
    return Outcome("done", done.status, result=stored_result(done)), done


def _finish_all(
    hub: Hub, account: Account, tries: Sequence[tuple[Entry, Outcome, Done | None]]
) -> None:
    for _, outcome, _ in tries:
        metrics.attempted(account.connection.adapter, outcome.word, outcome.ms / 1000)
    # Contacts are locked one after the other: in one order by all.
    ordered = sorted(tries, key=lambda one: one[2].contact_id if one[2] else "")
    written = [
        (entry, outcome, partial(store_contact, account=account, entry=entry, done=done))
        for entry, outcome, done in ordered
    ]
    hub.unwritten.write(partial(hub.journal.finish_all, written))
