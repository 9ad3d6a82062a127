"""Check that many processes together respect a CRM's rate limit and lose no lead.

    python -m benchmarks.storm [--sqlite] [--leads 2000] [--limit 100/10s] [--random-429 20]

Four server processes and two workers share one account, whose CRM limits the calls in any window of
time. The exit code is 1 if a call is refused, if a lead is lost or exists twice, or if a window had
more calls than the CRM allows.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.bots import Bots, judged, kept, lost_and_twice, until_empty
from benchmarks.places import fake_crm, parser, place

_PATIENCE_S = 1_800.0


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--leads", type=int, default=2_000)
    command.add_argument("--bots", type=int, default=32)
    command.add_argument("--servers", type=int, default=4, help="server processes")
    command.add_argument("--threads", type=int, default=8, help="of each of them")
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--limit", default="100/10s", help="of calls to the CRM")
    command.add_argument("--latency", type=float, default=0.1, help="of each call, in seconds")
    command.add_argument("--random-429", type=int, default=0, help="percentage of calls refused")
    options = command.parse_args()
    with (
        place(options.sqlite) as here,
        fake_crm(limit=options.limit, latency=options.latency) as crm,
    ):
        ids = here.account(crm.url)
        if options.random_429:
            refusal = {"kind": "status", "status": 429, "retry_after": "seconds"}
            crm.faults(refusal | {"probability": options.random_429 / 100, "retry_seconds": 1})
        with (
            here.server(
                workers=options.servers, threads=options.threads, more=["--no-worker"]
            ) as service,
            here.workers(options.workers, threads=16),
        ):
            bots = Bots(service.address, ids)
            began = time.perf_counter()
            with ThreadPoolExecutor(options.bots) as pool:
                list(
                    pool.map(
                        lambda n: bots.create_lead(f"chat-{n}", name="Ann Lee", email=_email(n)),
                        range(options.leads),
                    )
                )
            sent = time.perf_counter() - began
            until_empty(here.url, patience=_PATIENCE_S)
            took = time.perf_counter() - began
        counted = crm.calls()
        print(
            f"{here.dialect}: {options.leads} leads through {options.servers} server processes of"
            f" {options.threads} threads and {options.workers} workers, {options.limit}"
        )
        slowest = max(one.seconds for one in bots.told)
        print(f"  answers {bots.statuses()} in {sent:.1f} s, slowest {slowest:.1f} s")
        print(f"  all there after {took:.1f} s")
        print(
            f"  {counted['calls']} calls, {options.leads / counted['calls']:.1f} leads a call;"
            f" {counted['refused']} over the limit"
        )
        most = float(options.limit.partition("/")[0])
        fine = [
            kept("most calls in any window", counted["peak"], most, "calls"),
            judged(
                {
                    "calls refused": sum(not one.accepted for one in bots.told),
                    **lost_and_twice(
                        crm, "contacts", "email", [_email(n) for n in range(options.leads)]
                    ),
                }
            ),
        ]
    sys.exit(0 if all(fine) else 1)


def _email(number: int) -> str:
    return f"lead{number}@example.com"


if __name__ == "__main__":
    main()
