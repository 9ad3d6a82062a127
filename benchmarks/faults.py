"""Whether a lead is lost or made twice while everything breaks.

    python -m benchmarks.faults [--sqlite] [--leads 1000] [--deals 200] [--kills 25]

It starts a HubSpot-like CRM, `crmhub serve` and its worker as processes of their own, sends leads
and deals as bots do, without trying again, while the CRM is slow, answers 429, 500, 502, breaks
connections before and after writing, and sends pages and broken JSON, and while server processes
and worker are killed with SIGKILL. When the queue is empty it counts what the CRM holds. It ends
with 1 when a call that was answered 2xx is missing, or anything is there twice.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from benchmarks.bots import Bots, judged, lost_and_twice, p, states, until_empty
from benchmarks.places import Crm, Service, fake_crm, parser, place

_FAULTS: tuple[dict[str, Any], ...] = (
    {"kind": "latency", "seconds": 0.4, "probability": 0.2},
    {
        "kind": "status",
        "status": 429,
        "probability": 0.02,
        "retry_after": "seconds",
        "retry_seconds": 1,
    },
    {"kind": "status", "status": 500, "probability": 0.02},
    {"kind": "status", "status": 500, "probability": 0.02, "written": True},
    {"kind": "status", "status": 502, "probability": 0.02},
    {"kind": "reset", "probability": 0.02},
    {"kind": "reset", "probability": 0.02, "written": True},
    {"kind": "close", "probability": 0.01, "written": True},
    {"kind": "cut", "probability": 0.01},
    {"kind": "html", "probability": 0.01, "written": True},
    {"kind": "broken_json", "probability": 0.01},
)


@dataclass
class Sent:
    """What was accepted, and what may be there although its call broke."""

    leads: dict[str, str] = field(default_factory=dict)
    """By e-mail, the last name that was accepted."""
    contacts: dict[str, str] = field(default_factory=dict)
    """By e-mail, the contactId that was answered."""
    deals: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    """Emails and deals whose call broke: they may be there, and may not."""
    lock: threading.Lock = field(default_factory=threading.Lock)


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--leads", type=int, default=1_000)
    command.add_argument("--deals", type=int, default=200)
    command.add_argument("--kills", type=int, default=25)
    command.add_argument("--bots", type=int, default=24)
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--threads", type=int, default=16)
    options = command.parse_args()
    with place(options.sqlite) as here, fake_crm() as crm:
        ids = here.account(crm.url)
        with here.server(workers=options.workers, threads=options.threads) as service:
            crm.faults(*_FAULTS)
            bots = Bots(service.address, ids)
            sent, killed = _storm(service, bots, options)
            crm.faults()
            # Nobody waits for the hours of a schedule here.
            took = until_empty(here.url, hurry=True)
        print(
            f"{here.dialect}: {options.leads} leads, a third of them twice, {options.deals} deals"
        )
        fine = _judge(crm, states(here.url), bots, sent, killed, took)
    sys.exit(0 if fine else 1)


def _storm(service: Service, bots: Bots, options: argparse.Namespace) -> tuple[Sent, int]:
    sent, over = Sent(), threading.Event()
    killer = _Killer(service, options.kills, over)
    killer.start()
    # A third of the leads comes a second time, with another name.
    people = [(i, 0) for i in range(options.leads)]
    again = [(i, 1) for i in range(0, options.leads, 3)]
    with ThreadPoolExecutor(options.bots) as pool:
        list(pool.map(lambda one: _lead(bots, sent, *one), people))
        list(pool.map(lambda one: _lead(bots, sent, *one), again))
        list(pool.map(lambda i: _deal(bots, sent, i), range(options.deals)))
        while killer.left:
            time.sleep(0.2)
    over.set()
    killer.join()
    return sent, killer.killed


class _Killer(threading.Thread):
    """Kills a process of the service now and then, the worker as often as a server process."""

    def __init__(self, service: Service, kills: int, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.left, self.killed = kills, 0
        self._service, self._over = service, over

    def run(self) -> None:
        while self.left and not self._over.wait(random.uniform(0.8, 1.8)):
            children = self._service.children()
            wanted = " worker " if self.left % 2 else " serve "
            chosen = [pid for pid, command in children.items() if wanted in f"{command} "]
            if chosen:
                os.kill(random.choice(chosen), signal.SIGKILL)
                self.killed += 1
                self.left -= 1


def _lead(bots: Bots, sent: Sent, number: int, round: int) -> None:
    email, last = f"bot{number}@example.com", f"Lee{round}"
    told = bots.create_lead(f"chat-{number}", name=f"Ann {last}", email=email)
    with sent.lock:
        if told.accepted:
            sent.leads[email] = last
            sent.contacts[email] = told.contact_id
        else:
            sent.doubtful.add(email)


def _deal(bots: Bots, sent: Sent, number: int) -> None:
    email, name = f"bot{number}@example.com", f"Deal {number}"
    contact_id = sent.contacts.get(email)
    if contact_id is None:
        return
    told = bots.create_deal(contact_id, dealname=name, amount=str(number))
    with sent.lock:
        (sent.deals if told.accepted else sent.doubtful).add(name)


def _judge(
    crm: Crm, found: dict[str, int], bots: Bots, sent: Sent, killed: int, took: float
) -> bool:
    contacts, deals = crm.records("contacts"), crm.records("deals")
    last = {
        one["properties"].get("email", ""): one["properties"].get("lastname") for one in contacts
    }
    answered = [one.seconds for one in bots.told if one.status]
    print(f"killed {killed} processes; answers {bots.statuses()} (0: the connection broke)")
    print(f"slowest answer {max(answered):.1f} s, p50 {p(50, answered):.2f} s; journal {found}")
    print(f"queue empty {took:.0f} s after the storm")
    return judged(
        {
            **lost_and_twice(crm, "contacts", "email", sent.leads, maybe=sent.doubtful),
            "contacts with older values": sum(
                last.get(email) != name
                for email, name in sent.leads.items()
                if email not in sent.doubtful and email in last
            ),
            **lost_and_twice(crm, "deals", "dealname", sent.deals, maybe=sent.doubtful),
            "deals without contact": sum(not one["associations"]["contacts"] for one in deals),
            "dead letters": found.get("dead", 0),
        }
    )


if __name__ == "__main__":
    main()
