"""Check that an account with an unavailable CRM does not delay the leads of another account.

    python -m benchmarks.fairness [--sqlite] [--seconds 15] [--most 2]

The same processes serve both accounts. The CRM of the first account is fast. The CRM of the second
account accepts every request and never answers, while bots call its helpers and its queue is full.
Leads of the first account are timed twice: without and with the load of the second account, over
HTTP and from the queue until they are done. The exit code is 1 if a lead is lost, exists twice or
is refused, or if it takes more than `--most` times as long and half a second longer.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from benchmarks.bots import Bots, Queue, Told, judged, kept, lost_and_twice, p
from benchmarks.places import Crm, Place, fake_crm, parser, place
from crmhub.database.connection import Database

_SILENCE = {"kind": "close", "seconds": 300, "path": "/*"}
_FIRST = 5
_SLACK_S = 0.5
_EVERY_S = 0.05
_PATIENCE_S = 120.0
_WIDTHS = (12, 8, 12, 8)


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--seconds", type=float, default=15, help="of each part, twice")
    command.add_argument("--latency", type=float, default=0.1, help="of the quick CRM")
    command.add_argument("--silent", type=int, default=100, help="percentage of unanswered calls")
    command.add_argument("--bots", type=int, default=16, help="of the account with the dead CRM")
    command.add_argument("--queue", type=int, default=500, help="leads that wait for the dead CRM")
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--threads", type=int, default=16)
    command.add_argument("--most", type=float, default=2, help="times as long beside the dead one")
    options = command.parse_args()
    with (
        place(options.sqlite) as here,
        fake_crm(latency=options.latency) as quick,
        fake_crm() as dead,
    ):
        dead.faults(_SILENCE | {"probability": options.silent / 100})
        ids, others = here.account(quick.url, "quick"), here.account(dead.url, "dead")
        with here.server(workers=options.workers, threads=options.threads) as service:
            bots = Bots(service.address, ids)
            for number in range(_FIRST):
                # What is made at the first call, such as connections, is made for neither part.
                bots.create_lead(
                    f"first{number}", name="Ann Lee", email=f"first{number}@example.com"
                )
            alone = _measured(here, bots, options, "alone")
            before = len(bots.told)
            _fill(here, options.queue)
            busy = Bots(service.address, others)
            with _calling(busy, options.bots):
                beside = _measured(here, bots, options, "beside")
        print(
            f"{here.dialect}: leads of one account, without and beside another one whose CRM is"
            f" dead, with {options.queue} waiting and {len(busy.told)} calls: {busy.statuses()}"
        )
        for part, told in (("alone", bots.told[:before]), ("beside", bots.told[before:])):
            print(f"  answered at once {part:<18}{_at_once(told):>8.0%}")
        fine = _judge(quick, bots, alone, beside, options.most)
    sys.exit(0 if fine else 1)


def _measured(
    here: Place, bots: Bots, options: argparse.Namespace, tag: str
) -> dict[str, list[float]]:
    """Return how long leads took, in seconds: over HTTP, and from the queue until done."""
    queue, over_http, actions = Queue(here, "quick"), [], []
    until, number = time.monotonic() + options.seconds, 0
    while time.monotonic() < until:
        name = f"{tag}{number}"
        told = bots.create_lead(name, name="Ann Lee", email=f"{name}@example.com")
        over_http.append(told.seconds)
        actions.append(queue.lead(f"{name}q", email=f"{name}q@example.com"))
        number += 1
        time.sleep(_EVERY_S)
    queue.close()
    return {"over HTTP": over_http, "from the queue": _until_done(here, actions)}


def _until_done(here: Place, actions: list[str]) -> list[float]:
    database, began = Database(here.url, pool_size=1), time.monotonic()
    while time.monotonic() - began < _PATIENCE_S:
        with database.reading() as connection:
            rows = connection.rows("select id, finished_at - created_at from action")
        took = {id: ms / 1000 for id, ms in rows if ms is not None}
        if took.keys() >= set(actions):
            database.close()
            return [took[id] for id in actions]
        time.sleep(_EVERY_S)
    raise SystemExit(f"leads of the quick account are unfinished after {_PATIENCE_S:.0f} s")


def _fill(here: Place, leads: int) -> None:
    queue = Queue(here, "dead")
    for number in range(leads):
        queue.lead(f"waiting{number}", email=f"waiting{number}@example.com")
    queue.close()


@contextmanager
def _calling(bots: Bots, number: int) -> Iterator[None]:
    """Let this many bots call createLead, one lead after the other, until the block ends."""
    over = threading.Event()

    def call(bot: int) -> None:
        lead = 0
        while not over.wait(_EVERY_S):
            name = f"bot{bot}.{lead}"
            bots.create_lead(name, name="Ann Lee", email=f"{name}@example.com")
            lead += 1

    with ThreadPoolExecutor(number) as pool:
        calling = [pool.submit(call, bot) for bot in range(number)]
        try:
            yield
        finally:
            over.set()
            for one in calling:
                one.result()


def _at_once(told: list[Told]) -> float:
    return sum(one.status == 200 for one in told) / len(told)


def _judge(
    quick: Crm,
    bots: Bots,
    alone: dict[str, list[float]],
    beside: dict[str, list[float]],
    most: float,
) -> bool:
    fine = []
    print(f"  {'':<18}{'leads':>7}{'alone p50':>12}{'p99 ms':>8}{'beside p50':>12}{'p99 ms':>8}")
    for name in alone:
        shown = [p(hundredth, told[name]) for told in (alone, beside) for hundredth in (50, 99)]
        columns = "".join(f"{s * 1000:>{w}.0f}" for s, w in zip(shown, _WIDTHS, strict=True))
        print(f"  {name:<18}{len(alone[name]) + len(beside[name]):>7}{columns}")
        for word, before, after in (("p50", shown[0], shown[2]), ("p99", shown[1], shown[3])):
            allowed = max(most, 1 + _SLACK_S / before)
            fine.append(kept(f"{name}, {word} beside to alone", after / before, allowed, "times"))
    emails = [
        f"{tag}{n}{end}@example.com"
        for tag, told in (("alone", alone), ("beside", beside))
        for n in range(len(told["over HTTP"]))
        for end in ("", "q")
    ]
    refused = sum(not one.accepted for one in bots.told)
    emails += [f"first{number}@example.com" for number in range(_FIRST)]
    lost = lost_and_twice(quick, "contacts", "email", emails)
    return judged({"calls refused": refused, **lost}) and all(fine)


if __name__ == "__main__":
    main()
