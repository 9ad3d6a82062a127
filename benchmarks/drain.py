"""Measure how fast queued leads reach a slow CRM with a low rate limit.

    python -m benchmarks.drain [--sqlite] [--leads 10000] [--phones 0] [--limit 100/10s]

The journal's function `accept` stores the leads in one process before the CRM runs, because HTTP is
not measured here. Then the CRM and `crmhub worker` start. The exit code is 1 if a lead is lost or
exists twice, or if the CRM's limit refused more than 1 % of the calls.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.bots import Queue, judged, kept, lost_and_twice, until_empty
from benchmarks.places import Place, fake_crm, free_port, parser, place

_MOST_OVER = 1.0
_WRITERS = 4
_PATIENCE_S = 3_600.0


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--leads", type=int, default=10_000)
    command.add_argument("--phones", type=int, default=0, help="percentage of leads with a phone")
    command.add_argument("--limit", default="100/10s", help="of calls to the CRM")
    command.add_argument("--search-limit", default="5/1s", help="of searches there")
    command.add_argument("--latency", type=float, default=0.3, help="of each call, in seconds")
    command.add_argument("--workers", type=int, default=1)
    command.add_argument("--threads", type=int, default=16, help="of each worker")
    options = command.parse_args()
    port = free_port()
    with place(options.sqlite) as here:
        here.account(f"http://127.0.0.1:{port}")
        began = time.perf_counter()
        _accept(here, options.leads, options.phones)
        rate = options.leads / (time.perf_counter() - began)
        print(
            f"{here.dialect}: {options.leads:,} leads queued at {rate:,.0f}/s,"
            f" {options.phones} % with a phone; CRM of {options.latency * 1000:.0f} ms,"
            f" {options.limit}"
        )
        searches = ("--search-limit", options.search_limit)
        with (
            fake_crm(port=port, limit=options.limit, latency=options.latency, more=searches) as crm,
            here.workers(options.workers, threads=options.threads),
        ):
            took = until_empty(here.url, patience=_PATIENCE_S)
            counted = crm.calls()
            calls = counted["calls"] + counted["searches"]["calls"]
            over = counted["refused"] + counted["searches"]["refused"]
            most, _, seconds = options.limit.rstrip("s").partition("/")
            one_by_one = options.leads * 2 * float(seconds) / float(most)
            print(f"  all there after {took:.1f} s: {options.leads / took:.0f} leads a second")
            print(
                f"  {calls} calls, {counted['searches']['calls']} of them searches:"
                f" {options.leads / max(1, calls):.1f} leads a call; {over} over the limit"
            )
            print(
                f"  one by one, at two calls a lead, the limit alone takes {one_by_one:.0f} s:"
                f" {one_by_one / took:.0f} times as long"
            )
            fine = [
                kept("share of calls over the limit", over / calls * 100, _MOST_OVER, "%"),
                judged(
                    lost_and_twice(
                        crm, "contacts", "email", [_email(n) for n in range(options.leads)]
                    )
                ),
            ]
    sys.exit(0 if all(fine) else 1)


def _email(number: int) -> str:
    return f"lead{number}@example.com"


def _accept(here: Place, leads: int, phones: int) -> None:
    queue = Queue(here)

    def accept(number: int) -> None:
        phone = f"+1202555{number:04d}" if number % 100 < phones else ""
        queue.lead(f"chat-{number}", email=_email(number), phone=phone)

    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(accept, range(leads)))
    queue.close()


if __name__ == "__main__":
    main()
