"""Measure one account's events beside another account's slow receivers.

    python -m benchmarks.slow_receivers [--sqlite] [--receivers 18] [--accounts 1] [--answer-s 8.5]

Accounts with slow receivers get events all the time, while a further account creates
contacts. It ends with 1 if the 99th percentile of the time from this account's
change to its delivery is a second or more.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

from benchmarks.events import Receiver, receiving
from benchmarks.places import BENCHMARKS, Place, end, parser, place
from crmhub.hub import Hub
from crmhub.operators.events import event_subscriptions
from crmhub.properties.kinds import CONTACTS
from crmhub.records.models import NewRecord

_QUICK = "quick"
_MOST_S = 1.0
_PAUSE_S = 0.1
_PATIENCE_S = 60.0


class SlowReceiver(Receiver):
    """A receiver that answers only after some time."""

    answer_s = 0.0

    def answer(self, body: dict[str, object], chance: float) -> int:
        """Wait, then accept the message."""
        time.sleep(self.answer_s)
        return super().answer(body, chance)


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--receivers", type=int, default=18, help="slow receivers of all accounts")
    command.add_argument("--accounts", type=int, default=1, help="accounts with slow receivers")
    command.add_argument("--answer-s", type=float, default=8.5, help="what a slow answer takes")
    command.add_argument("--seconds", type=float, default=40.0, help="how long it runs")
    options = command.parse_args()
    quick, slow = Receiver(), SlowReceiver()
    slow.answer_s = options.answer_s
    chances = random.Random(1)
    with ExitStack() as stack:
        here = stack.enter_context(place(options.sqlite))
        quick_url = stack.enter_context(receiving(quick, chances))
        slow_url = stack.enter_context(receiving(slow, chances))
        delays_s = sorted(_run(here, quick, quick_url, slow_url, options))
    median, p99 = (delays_s[int(len(delays_s) * share)] for share in (0.5, 0.99))
    print(
        f"{len(delays_s)} events beside {options.receivers} receivers of {options.answer_s} s in"
        f" {options.accounts} other accounts: delivered after {median * 1000:,.0f} ms (median),"
        f" {p99 * 1000:,.0f} ms (p99), {delays_s[-1] * 1000:,.0f} ms (longest);"
        f" slow receivers accepted {len(slow.accepted)}"
    )
    sys.exit(0 if p99 < _MOST_S else 1)


def _run(
    here: Place, quick: Receiver, quick_url: str, slow_url: str, options: argparse.Namespace
) -> list[float]:
    hub = here.hub()
    slow_ids = [f"slow-{number}" for number in range(options.accounts)]
    for client_id in (_QUICK, *slow_ids):
        here.account("", client_id)
    for number in range(options.receivers):
        client_id = slow_ids[number % len(slow_ids)]
        _subscribe(hub, client_id, f"{slow_url}/{number}")
    _subscribe(hub, _QUICK, quick_url)
    worker = subprocess.Popen(
        [sys.executable, "-m", "crmhub", "worker"],
        cwd=here.folder,
        env=here.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stopping = threading.Event()
    changing = [
        threading.Thread(target=_change, args=(hub, client_id, 1.0, stopping))
        for client_id in slow_ids
    ]
    try:
        # The worker has started when it has delivered an event.
        _create(hub, _QUICK)
        _wait(quick, 1)
        quick.delays_s.clear()
        for thread in changing:
            thread.start()
        ended = threading.Timer(options.seconds, stopping.set)
        ended.start()
        made = _change(hub, _QUICK, _PAUSE_S, stopping)
        _wait(quick, made)
        # An event that did not arrive counts as the longest.
        return [*quick.delays_s, *[_PATIENCE_S] * (made - len(quick.delays_s))]
    finally:
        stopping.set()
        for thread in changing:
            thread.join()
        end(worker)
        hub.close()


def _subscribe(hub: Hub, client_id: str, url: str) -> None:
    event_subscriptions.add(hub, client_id, url=url, types=["contact.*"], by=BENCHMARKS)


def _wait(receiver: Receiver, count: int) -> None:
    until = time.monotonic() + _PATIENCE_S
    while len(receiver.delays_s) < count and time.monotonic() < until:
        time.sleep(0.1)


def _change(hub: Hub, client_id: str, pause_s: float, stopping: threading.Event) -> int:
    """Create contacts until `stopping` is set; return their number."""
    count = 0
    while not stopping.is_set():
        _create(hub, client_id)
        count += 1
        stopping.wait(pause_s)
    return count


def _create(hub: Hub, client_id: str) -> None:
    hub.records.create(hub.load_account(client_id), CONTACTS, [NewRecord({"firstname": "Ada"})])


if __name__ == "__main__":
    main()
