"""Measure how many leads the hub accepts in a burst while the CRM is unavailable.

    python -m benchmarks.burst [--sqlite] [--bots 500] [--seconds 12]

No process listens at the CRM's address. Each bot sends one createLead after the other. The
benchmark prints the accepted leads per second and the latencies of the answers; it ends with 1 if
an answer is not 2xx.
"""

from __future__ import annotations

import json
import sys

from benchmarks.load import request, run
from benchmarks.places import free_port, parser, place

_WARM_UP_S = 2.0


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--bots", type=int, default=500)
    command.add_argument("--seconds", type=float, default=12)
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--threads", type=int, default=16)
    options = command.parse_args()
    with place(options.sqlite) as here:
        ids = here.account(f"http://127.0.0.1:{free_port()}")
        numbers = iter(range(10**9))

        def create_lead(_: int) -> bytes:
            number = next(numbers)
            lead = {
                "contactToken": f"visitor {number}",
                "name": f"Ada {number}",
                "email": f"ada{number}@example.com",
            }
            path = f"/chatbot/createLead/{ids.generated_id}"
            return request("POST", path, {}, json.dumps(lead).encode())

        with here.server(workers=options.workers, threads=options.threads) as service:
            run(service.address, create_lead, connections=16, seconds=_WARM_UP_S)
            figures = run(
                service.address, create_lead, connections=options.bots, seconds=options.seconds
            )
    print(
        f"{figures.per_second:,.0f} leads/s, p50 {figures.p50:,.0f} ms, p99 {figures.p99:,.0f} ms,"
        f" answers {dict(figures.statuses)}"
    )
    sys.exit(1 if figures.refused else 0)


if __name__ == "__main__":
    main()
