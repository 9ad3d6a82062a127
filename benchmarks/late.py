"""Check that nothing is made twice in a CRM that carries writes out after their answer was lost.

    python -m benchmarks.late [--sqlite] [--late 50] [--under-way 60] [--leads 500] [--deals 200]

The benchmark starts a CRM without unique emails or marks, `crmhub serve` and its worker, and sends
leads, values and deals like bots, which do not repeat a call. A share of the writes gets no answer:
the connection breaks, or hangs beyond the deadline. The CRM carries most of these writes out up to
`--late` seconds later. Meanwhile server processes and the worker are killed with SIGKILL. When the
queue is empty and all writes have landed, the CRM's records are counted. The exit code is 1 if a
call that was answered 2xx is missing, if a record exists twice, or if an older value has replaced a
newer one.

With an `--under-way` shorter than `--late`, the benchmark shows the faults that the wait prevents.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bots import Bots, Told, judged, lost_and_twice, p, states, until_empty
from benchmarks.faults import killing
from benchmarks.late_crm import UNDER_WAY, LateCrm
from benchmarks.places import BENCHMARKS, Place, Service, parser, place
from crmhub.accounts.changes import IssuedIds
from crmhub.crm.stored_connections import configure
from crmhub.database.connection import Database
from crmhub.operators.accounts.open_account import open_account

_PATIENCE_S = 3_600.0
_ADAPTER = "late"


@dataclass
class Sent:
    """The accepted calls, and the calls without an answer that may have been accepted."""

    leads: dict[str, str] = field(default_factory=dict)
    """The answered contactId by email."""
    values: dict[tuple[str, str], str] = field(default_factory=dict)
    """The value accepted last, by email and property."""
    deals: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    """Emails and deals of calls without an answer: the CRM may have them or not."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, told: Told, email: str, **values: str) -> None:
        """Record the answer to a call about this contact."""
        with self.lock:
            if not told.accepted:
                self.doubtful.add(email)
                return
            self.values |= {(email, name): value for name, value in values.items()}


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--late", type=float, default=50, help="longest, in seconds")
    command.add_argument("--under-way", type=float, default=60, help="what the adapter declares")
    command.add_argument("--lost", type=float, default=25, help="percentage of writes")
    command.add_argument("--leads", type=int, default=500)
    command.add_argument("--deals", type=int, default=200)
    command.add_argument("--kills", type=int, default=12)
    command.add_argument("--bots", type=int, default=24)
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--threads", type=int, default=16)
    options = command.parse_args()
    os.environ[UNDER_WAY] = str(options.under_way)
    with place(options.sqlite) as here, _installed(here), LateCrm(late_s=options.late) as crm:
        ids = _account(here, crm)
        with here.server(workers=options.workers, threads=options.threads) as service:
            crm.loses = options.lost / 100
            bots = Bots(service.address, ids)
            sent = _storm(service, bots, options)
            # What a CRM may still do is waited for; nobody waits for the hours of a schedule here.
            took = until_empty(
                here.url, patience=_PATIENCE_S, hurry=True, longer_than=options.under_way
            )
            crm.until_landed()
        print(
            f"{here.dialect}: {options.leads} leads, a third of them twice, values of a third,"
            f" {options.deals} deals"
        )
        print(
            f"  {crm.lost} writes lost their answer, {crm.landed_late} of them landed up to"
            f" {options.late:g} s later; the adapter declares {options.under_way:g} s"
        )
        answered = [one.seconds for one in bots.told if one.status]
        print(f"  killed {options.kills} processes, answers {bots.statuses()} (0: it broke)")
        print(f"  slowest answer {max(answered):.1f} s, p50 {p(50, answered):.2f} s")
        print(f"  queue empty {took:.0f} s after the storm; journal {states(here.url)}")
        print(f"  at most {_attempts(here.url)} attempts of an action")
        fine = _judge(crm, sent, states(here.url))
    sys.exit(0 if fine else 1)


@contextmanager
def _installed(here: Place) -> Iterator[None]:
    """Let this process and those of the service find the adapter, as if it were installed."""
    info = Path(here.folder, "crmhub_late-1.dist-info")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: crmhub-late\nVersion: 1\n")
    points = f"[crmhub.adapters]\n{_ADAPTER} = benchmarks.late_crm:LateAdapter\n"
    (info / "entry_points.txt").write_text(points)
    paths = [here.folder, str(Path(__file__).parents[1])]
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, *([before] if before else [])])
    sys.path.insert(0, here.folder)
    yield


def _account(here: Place, crm: LateCrm) -> IssuedIds:
    hub = here.hub()
    account, ids = open_account(hub, name="late", client_id="late", plan="unlimited", by=BENCHMARKS)
    hub.database.transact(
        lambda tx: configure(
            tx,
            account.id,
            name=_ADAPTER,
            adapter=hub.registry.load(_ADAPTER),
            settings={"base_url": crm.url},
            credentials={},
            vault=hub.vault,
            plans=hub.plans,
        )
    )
    hub.close()
    return ids


def _storm(service: Service, bots: Bots, options: argparse.Namespace) -> Sent:
    sent, leads = Sent(), range(options.leads)
    with killing(service, options.kills), ThreadPoolExecutor(options.bots) as pool:
        list(pool.map(lambda i: _lead(bots, sent, i, 0), leads))
        # A third comes a second time, with another name, and a third says something twice.
        list(pool.map(lambda i: _lead(bots, sent, i, 1), leads[::3]))
        list(pool.map(lambda i: _values(bots, sent, i), leads[1::3]))
        list(pool.map(lambda i: _deal(bots, sent, i), range(options.deals)))
    return sent


def _email(number: int) -> str:
    return f"bot{number}@example.com"


def _lead(bots: Bots, sent: Sent, number: int, round: int) -> None:
    email, last = _email(number), f"Lee{round}"
    told = bots.create_lead(f"chat-{number}", name=f"Ann {last}", email=email)
    sent.note(told, email, lastname=last)
    if told.accepted:
        sent.leads[email] = told.contact_id


def _values(bots: Bots, sent: Sent, number: int) -> None:
    for city in ("Rome", "Oslo"):
        told = bots.set_properties(f"chat-{number}", city=city)
        sent.note(told, _email(number), city=city)


def _deal(bots: Bots, sent: Sent, number: int) -> None:
    contact_id = sent.leads.get(_email(number))
    if contact_id is None:
        return
    name = f"Deal {number}"
    told = bots.create_deal(contact_id, dealname=name, amount=str(number))
    with sent.lock:
        (sent.deals if told.accepted else sent.doubtful).add(name)


def _judge(crm: LateCrm, sent: Sent, found: dict[str, int]) -> bool:
    contacts, deals = crm.records("contacts"), crm.records("deals")
    of_email = {one["properties"].get("email", ""): one for one in contacts}
    contact_of = {str(one["id"]): one["properties"].get("email", "") for one in contacts}
    older = Counter(
        name
        for (email, name), value in sent.values.items()
        if email not in sent.doubtful
        and email in of_email
        and of_email[email]["properties"].get(name) != value
    )
    return judged(
        {
            **lost_and_twice(crm, "contacts", "email", sent.leads, maybe=sent.doubtful),
            **lost_and_twice(crm, "deals", "dealname", sent.deals, maybe=sent.doubtful),
            "deals of another contact": sum(
                one["properties"]["dealname"].replace("Deal ", "bot")
                != contact_of[one["contact"]].partition("@")[0]
                for one in deals
            ),
            "older values over newer ones": older.total(),
            "dead letters": found.get("dead", 0),
        }
    )


def _attempts(url: str) -> int:
    """Return the largest number of attempts that any action has."""
    database = Database(url, pool_size=1)
    try:
        with database.reading() as connection:
            most: int = connection.scalar("select coalesce(max(number), 0) from action_try")
            return most
    finally:
        database.close()


if __name__ == "__main__":
    main()
