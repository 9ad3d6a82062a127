"""The part of a worker that delivers events: it claims what is due, and sends it in threads.

Any number of workers may run. Each subscription gets a share of a worker's threads, and those of
one account at most half of them. Subscriptions whose address fails or takes longer than 2 s to
answer stand behind the others: together they get half of the threads. A failing address gets one
call at a time, and so does an address that this process has not called yet. Alerts to the operator
are events of no account and are delivered alike.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from crmhub import metrics
from crmhub.database.connection import Database
from crmhub.database.write_batcher import WriteBatcher
from crmhub.egress import Egress
from crmhub.errors import Unavailable
from crmhub.events import claiming, messages, outcomes, sending, subscriptions
from crmhub.events.claiming import Claimed, DueSubscription
from crmhub.events.schedule import ALERT_DELAYS_S, CALL_S, LEASE_MS
from crmhub.events.sending import Attempt
from crmhub.secrets import SealBroken, Vault, WebhookSecret

THREADS = 32
_SLOW_S = 2.0
# A slow answer counts for several calls, so that a mixture of slow and fast answers is slow.
_FORGET = 0.7
# Workers on SQLite get no notification.
_POLL_S = {"postgresql": 1.0, "sqlite": 0.3}
_UNAVAILABLE_S = 1.0
# A call that begins later could outlast its lease.
_START_WITHIN_S = LEASE_MS / 1000 - CALL_S - 5
_GONE = "Its address answered 410: it wants no events any more."
_SWITCHED_OFF = "Every call of the last 5 days has failed: {reason}"
_log = logging.getLogger("crmhub.events")

_Key = tuple[int, str]


class Deliveries:
    """Delivers the events of all accounts, from `run` until `stopping` is set."""

    def __init__(
        self,
        database: Database,
        egress: Egress,
        vault: Vault,
        *,
        alerts: tuple[str, WebhookSecret] | None = None,
    ) -> None:
        """`alerts`: the operator's webhook, as its URL and the secret of its signatures."""
        self._database, self._egress, self._vault = database, egress, vault
        self._alerts = alerts
        self._busy: Counter[_Key] = Counter()
        # How long the answers of a subscription's address take.
        self._took_s: dict[_Key, float] = {}
        self._behind: set[_Key] = set()
        self._lock = threading.Lock()
        self._news = threading.Event()
        # By account, since a transaction may be bound to one by row-level security.
        self._finishing: WriteBatcher[int, tuple[Claimed, Attempt], bool] = WriteBatcher(
            lambda _, attempts: outcomes.finish(database, attempts)
        )

    def wake(self) -> None:
        self._news.set()

    def run(self, stopping: threading.Event) -> None:
        """Deliver due events until `stopping` is set; return when all calls have ended."""
        with ThreadPoolExecutor(THREADS, thread_name_prefix="events") as pool:
            while not stopping.is_set():
                self._news.clear()
                try:
                    with self._database.across_accounts():
                        pause = self._start_due(pool)
                except Unavailable as exc:
                    _log.warning("No events can be delivered now: %s", exc.message)
                # A bug of the hub must not end the thread, which serves every account.
                except Exception:
                    _log.exception("Due events could not be delivered.")
                else:
                    self._news.wait(pause)
                    continue
                stopping.wait(_UNAVAILABLE_S)

    def _start_due(self, pool: ThreadPoolExecutor) -> float:
        """Start to send due deliveries in free threads; return how many seconds to pause then."""
        due, later_ms = claiming.find_due(self._database, with_alerts=self._alerts is not None)
        for account_id, key_end in {(one.account_id, one.key_end) for one in due if one.key_end}:
            self._end_of_key(account_id, *key_end)
        due = [one for one in due if not one.key_end]
        behind = [self._stands_behind(each) for each in due]
        counts = Counter(behind)
        for is_behind, subscription in sorted(
            zip(behind, due, strict=True), key=lambda pair: pair[0]
        ):
            if (most := self._free_threads(subscription, is_behind, counts[is_behind])) <= 0:
                continue
            found = claiming.claim(self._database, subscription, most=most)
            if found is None:
                continue
            row, deliveries = found
            until = time.monotonic() + _START_WITHIN_S
            for claimed in deliveries:
                with self._lock:
                    self._busy[subscription.account_id, subscription.id] += 1
                pool.submit(self._run_job, row, claimed, until)
        poll_s = _POLL_S[self._database.dialect]
        return poll_s if later_ms is None else min(poll_s, max(0.02, later_ms / 1000))

    def _stands_behind(self, due: DueSubscription) -> bool:
        key = (due.account_id, due.id)
        with self._lock:
            is_behind = due.is_failing or self._took_s.get(key, 0) > _SLOW_S
            (self._behind.add if is_behind else self._behind.discard)(key)
        return is_behind

    def _free_threads(self, due: DueSubscription, is_behind: bool, count: int) -> int:
        """Return how many deliveries of a subscription may be sent now.

        `count`: the number of due subscriptions that are behind, or not, like this one.
        """
        key = (due.account_id, due.id)
        with self._lock:
            busy = dict(self._busy)
            alike = {each: n for each, n in busy.items() if not is_behind or each in self._behind}
            is_known = key in self._took_s
        room = THREADS // 2 if is_behind else THREADS
        share = math.ceil(room / count) if is_known and not due.is_failing else 1
        return min(
            share - busy.get(key, 0),
            THREADS // 2 - _of_account(busy, due.account_id),
            room // 2 - _of_account(alike, due.account_id),
            room - sum(alike.values()),
            THREADS - sum(busy.values()),
        )

    def _run_job(self, row: Any, claimed: Claimed, until: float) -> None:
        try:
            with self._database.for_account(claimed.account_id):
                self._deliver(row, claimed, until)
        except Unavailable as exc:
            # The lease expires by itself, and the event is sent again under the same id.
            _log.warning("The delivery of an event could not be recorded: %s", exc.message)
        # A bug of the hub must be logged; the lease expires by itself.
        except Exception:
            _log.exception("The delivery of an event failed because of a bug.")
        finally:
            with self._lock:
                key = (claimed.account_id, claimed.subscription_id)
                self._busy[key] -= 1
                if not self._busy[key]:
                    del self._busy[key]
            self._news.set()

    def _deliver(self, row: Any, claimed: Claimed, until: float) -> None:
        if time.monotonic() > until:
            outcomes.release(self._database, claimed)
            return
        began = time.monotonic()
        attempt = self._send(row, claimed)
        took_s = time.monotonic() - began
        with self._lock:
            key = (claimed.account_id, claimed.subscription_id)
            self._took_s[key] = max(took_s, _FORGET * self._took_s.get(key, 0))
        if claimed.is_alert:
            metrics.alert_sent("taken" if attempt.succeeded else "failed")
        else:
            metrics.event_sent("delivered" if attempt.succeeded else "failed", took_s)
        switch_off = self._finishing.call(claimed.account_id, (claimed, attempt))
        if claimed.is_alert:
            _log_alert(claimed, attempt)
        elif attempt.gone:
            self._end(claimed, "ended", _GONE)
        elif switch_off:
            self._end(claimed, "switched_off", _SWITCHED_OFF.format(reason=attempt.reason))

    def _send(self, row: Any, claimed: Claimed) -> Attempt:
        if claimed.is_alert:
            assert self._alerts is not None
            body = messages.alert_body(
                type=claimed.type, created_at=claimed.created_at, data=claimed.data
            )
            return sending.send(self._egress, *self._alerts, claimed.event_id, body)
        try:
            secret = subscriptions.open_secret(self._vault, row)
        except SealBroken as exc:
            return Attempt(None, str(exc))
        body = messages.body(
            id=claimed.event_id,
            type=claimed.type,
            created_at=claimed.created_at,
            client_id=row.client_id,
            data=claimed.data,
        )
        return sending.send(self._egress, row.url, secret, claimed.event_id, body)

    def _end_of_key(self, account_id: int, key_id: str, how: str) -> None:
        _log.warning("API key %s of account %s %s, with its events.", key_id, account_id, how)
        self._database.transact(lambda tx: subscriptions.end_of_key(tx, account_id, key_id, how))

    def _end(self, claimed: Claimed, state: subscriptions.State, reason: str) -> None:
        _log.warning(
            "Subscription %s of account %s: %s", claimed.subscription_id, claimed.account_id, reason
        )
        self._database.transact(
            lambda tx: subscriptions.end(
                tx, claimed.account_id, claimed.subscription_id, state, reason
            )
        )


def _log_alert(claimed: Claimed, attempt: Attempt) -> None:
    of = (claimed.attempts + 1, claimed.event_id, attempt.reason)
    if attempt.reason and claimed.attempts < len(ALERT_DELAYS_S):
        _log.warning("Try %s of alert %s failed: %s", *of)
    elif attempt.reason:
        _log.error("After try %s alert %s was given up: %s", *of)


def _of_account(calls: Mapping[_Key, int], account_id: int) -> int:
    return sum(count for (account, _), count in calls.items() if account == account_id)
