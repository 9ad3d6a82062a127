"""Check that bots are answered, and nothing is lost, while the CRM is unavailable.

    python -m benchmarks.outage [--sqlite] [--people 200] [--seconds 20] [--forms refused,silent]

The benchmark starts `crmhub serve`, lets bots call every helper that writes while the CRM is
unavailable, and then starts the CRM. In the form `refused`, no process listens at the CRM's
address. In the form `silent`, a process accepts connections and requests and never answers. Each
person is a lead, two changes of properties, a deal, a ticket and a second lead with another name.
The exit code is 1 if a call is refused or answered too late, if the queue is not empty in time, or
if a record is lost, exists twice or was written out of order.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from benchmarks.bots import Bots, Told, judged, kept, lost_and_twice, states, until_empty
from benchmarks.places import Crm, Place, fake_crm, free_port, parser, place
from crmhub.database.connection import Database

_DEADLINE_S = 3.0
_GRACE_S = 0.5
_EMPTY_S = 120.0
# Not carried out, and no answer before the hub has long given up.
_SILENCE = {"kind": "close", "seconds": 300, "path": "/*"}


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--people", type=int, default=200, help="six actions each")
    command.add_argument("--seconds", type=float, default=20, help="over which they come")
    command.add_argument("--bots", type=int, default=24)
    command.add_argument("--limit", default="100000/10s", help="of calls, once the CRM is back")
    command.add_argument("--latency", type=float, default=0.05, help="of the CRM, in seconds")
    command.add_argument("--forms", default="refused,silent")
    options = command.parse_args()
    fine = [_run(form, options) for form in options.forms.split(",")]
    sys.exit(0 if all(fine) else 1)


def _run(form: str, options: argparse.Namespace) -> bool:
    port = free_port()
    with place(options.sqlite) as here, ExitStack() as crms:

        def start() -> Crm:
            return crms.enter_context(
                fake_crm(port=port, limit=options.limit, latency=options.latency)
            )

        ids = here.account(f"http://127.0.0.1:{port}", deadline_s=_DEADLINE_S)
        crm = None
        if form == "silent":
            crm = start()
            crm.faults(_SILENCE)
        with here.server(workers=2, threads=16) as service:
            bots = Bots(service.address, ids)
            _talk(bots, options)
            known_down = _known_down(here)
            crm = crm or start()
            crm.faults()
            first = _until_first(crm)
            took = first + until_empty(here.url)
        return _judge(form, here, crm, bots, options, known_down, first, took)


def _talk(bots: Bots, options: argparse.Namespace) -> None:
    began = time.monotonic()

    def person(number: int) -> None:
        due = began + number * options.seconds / options.people
        time.sleep(max(0.0, due - time.monotonic()))
        token, email = f"chat-{number}", f"bot{number}@example.com"
        lead = bots.create_lead(token, name="Ann First", email=email)
        bots.set_properties(token, city="Old", lastname="Second")
        if lead.accepted:
            bots.create_deal(lead.contact_id, dealname=f"Deal {number}", amount=str(number))
            bots.create_ticket(lead.contact_id, subject=f"Ticket {number}")
        bots.set_properties(token, city="New")
        bots.create_lead(token, name="Ann Third", email=email)

    with ThreadPoolExecutor(options.bots) as pool:
        list(pool.map(person, range(options.people)))


def _known_down(here: Place) -> float:
    """Return the time (time.time()) since which the hub takes the CRM for unavailable."""
    database = Database(here.url, pool_size=1)
    with database.reading() as connection:
        since = connection.scalar("select since from outage where failures > 0")
    database.close()
    return since / 1000 if since else float("inf")


def _until_first(crm: Crm) -> float:
    """Wait until the CRM has received a record; return how many seconds that took."""
    began = time.perf_counter()
    while not crm.count("contacts"):
        time.sleep(0.1)
    return time.perf_counter() - began


def _judge(
    form: str,
    here: Place,
    crm: Crm,
    bots: Bots,
    options: argparse.Namespace,
    known_down: float,
    first: float,
    took: float,
) -> bool:
    before = [one for one in bots.told if one.began < known_down]
    after = [one for one in bots.told if one.began >= known_down]
    late = sum(one.seconds > _GRACE_S for one in after)
    answers = f"{len(bots.told)} calls of {options.bots} bots, answers {bots.statuses()}"
    print(f"{here.dialect}, CRM {form}: {answers}")
    people = range(options.people)
    newest = {
        one["properties"].get("email", ""): (
            one["properties"].get("lastname"),
            one["properties"].get("city"),
        )
        for one in crm.records("contacts")
    }
    found = states(here.url)
    fine = [
        kept(
            "slowest before it is known to be away", _slowest(before), _DEADLINE_S + _GRACE_S, "s"
        ),
        kept("slowest once it is known to be away", _slowest(after), _GRACE_S, "s"),
        kept("until the queue is empty", took, _EMPTY_S, "s"),
    ]
    print(f"  until the first contact is there {first:.1f} s; calls to the CRM {_calls(crm)}")
    print(f"  calls once it is known {len(after)}, of them later than {_GRACE_S} s {late}")
    fine.append(
        judged(
            {
                "calls not answered with 2xx": sum(not one.accepted for one in bots.told),
                **lost_and_twice(
                    crm, "contacts", "email", [f"bot{number}@example.com" for number in people]
                ),
                **lost_and_twice(crm, "deals", "dealname", [f"Deal {number}" for number in people]),
                **lost_and_twice(
                    crm, "tickets", "subject", [f"Ticket {number}" for number in people]
                ),
                "contacts with older values": sum(
                    values != ("Third", "New") for values in newest.values()
                ),
                "actions dead or parked": found.get("dead", 0) + found.get("parked", 0),
            }
        )
    )
    return all(fine)


def _calls(crm: Crm) -> int:
    counted = crm.calls()
    number: int = counted["calls"] + counted["searches"]["calls"]
    return number


def _slowest(told: list[Told]) -> float:
    return max((one.seconds for one in told), default=0.0)


if __name__ == "__main__":
    main()
