"""Check that nothing is lost or written twice while PostgreSQL restarts under load.

    python -m benchmarks.restarts [--seconds 30] [--rate 20]

The benchmark creates a PostgreSQL server, starts `crmhub serve` and its worker on it, and lets bots
send leads and deals while the server restarts twice: as after a crash (`-m immediate`), and as by
an operator (`-m fast`). The exit code is 1 if a call that was answered 2xx is missing, if a record
exists twice, if a caller gets an answer other than 2xx or 503 with Retry-After, or if server and
worker do not recover by themselves.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.bots import Bots, Told, judged, lost_and_twice, states, until_empty
from benchmarks.places import Cluster, Crm, cluster, fake_crm, parser, place

_BOTS = 24
_MODES = ("immediate", "fast")


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--seconds", type=float, default=30)
    command.add_argument("--rate", type=float, default=20, help="people in a second")
    command.add_argument("--latency", type=float, default=0.05, help="of the CRM, in seconds")
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--threads", type=int, default=16)
    options = command.parse_args()
    with (
        cluster() as postgres,
        place(sqlite=False, postgres=postgres.url) as here,
        fake_crm(latency=options.latency) as crm,
    ):
        ids = here.account(crm.url)
        with here.server(workers=options.workers, threads=options.threads) as service:
            bots = Bots(service.address, ids)
            restarting = threading.Thread(target=_restart, args=(postgres, options.seconds))
            restarting.start()
            sent = talk(bots, options)
            restarting.join()
            took = until_empty(here.url)
        found = states(here.url)
        failed = [one for one in bots.told if not one.accepted]
        print(f"{len(bots.told)} calls, answers {bots.statuses()} (0: the connection broke)")
        print(f"  slowest answer {max(one.seconds for one in bots.told):.1f} s; {gaps(failed)}")
        print(f"  queue empty {took:.1f} s after the last call; journal {found}")
        fine = judged(count_faults(failed, crm, sent, found))
    sys.exit(0 if fine else 1)


def _restart(postgres: Cluster, seconds: float) -> None:
    for mode in _MODES:
        time.sleep(seconds / (len(_MODES) + 1))
        began = time.perf_counter()
        postgres.restart(mode)
        print(f"restarted ({mode}) in {time.perf_counter() - began:.1f} s")


def talk(bots: Bots, options: argparse.Namespace) -> Sent:
    """Send a lead and a deal of `options.rate` people a second, for `options.seconds` seconds."""
    sent, began = Sent(), time.monotonic()

    def person(number: int) -> None:
        due = began + number / options.rate
        time.sleep(max(0.0, due - time.monotonic()))
        email, deal = f"bot{number}@example.com", f"Deal {number}"
        lead = bots.create_lead(f"chat-{number}", name="Ann Lee", email=email)
        sent.note("createLead", email, lead)
        if lead.accepted:
            told = bots.create_deal(lead.contact_id, dealname=deal, amount=str(number))
            sent.note("createDeal", deal, told)

    with ThreadPoolExecutor(_BOTS) as pool:
        list(pool.map(person, range(round(options.rate * options.seconds))))
    return sent


class Sent:
    """The accepted calls, and the calls without an answer that may have been accepted."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, bool], list[str]] = {}
        self._lock = threading.Lock()

    def note(self, helper: str, name: str, told: Told) -> None:
        """Store the name under which a call wrote, and whether the call was accepted."""
        with self._lock:
            self._names.setdefault((helper, told.accepted), []).append(name)

    def of(self, helper: str) -> dict[str, list[str]]:
        """Return both kinds of calls of a helper as the arguments of `lost_and_twice`."""
        return {
            "wanted": self._names.get((helper, True), []),
            "maybe": self._names.get((helper, False), []),
        }


def count_faults(
    failed: Sequence[Told], crm: Crm, sent: Sent, actions: Mapping[str, int]
) -> dict[str, int]:
    """Return the number of faults of each kind.

    `failed` are the calls that were not accepted, `actions` the number of actions in each state.
    """
    return {
        "answers other than 2xx and 503": sum(call.status != 503 for call in failed),
        "503 without Retry-After": sum(
            call.status == 503 and "retry-after" not in call.headers for call in failed
        ),
        **lost_and_twice(crm, "contacts", "email", **sent.of("createLead")),
        **lost_and_twice(crm, "deals", "dealname", **sent.of("createDeal")),
        "actions dead or parked": actions.get("dead", 0) + actions.get("parked", 0),
    }


def longest_gap(failed: list[Told]) -> float:
    """Return the longest time in seconds during which callers were refused."""
    return max(_gaps(failed), default=0.0)


def gaps(failed: list[Told]) -> str:
    """Return a text with the durations of all times during which callers were refused."""
    told = ", ".join(f"{seconds:.1f} s" for seconds in _gaps(failed))
    return f"callers were refused for {told}" if told else "no caller was refused"


def _gaps(failed: list[Told]) -> list[float]:
    """Return the seconds of each time without service; a second without a refusal ends one."""
    gaps: list[list[float]] = []
    for one in sorted(failed, key=lambda one: one.began):
        if not gaps or one.began > gaps[-1][1] + 1:
            gaps.append([one.began, one.began])
        gaps[-1][1] = max(gaps[-1][1], one.began + one.seconds)
    return [end - start for start, end in gaps]


if __name__ == "__main__":
    main()
