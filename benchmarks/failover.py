"""Check that nothing is lost or written twice while standbys take over from their primaries.

    python -m benchmarks.failover [--failovers 20] [--rate 25]

The benchmark creates a PostgreSQL server and a synchronous standby, starts `crmhub serve` and its
worker with the addresses of both, and lets each bot send a lead and a deal. Repeatedly, it kills
the primary with SIGKILL, promotes the standby, and makes the killed server a standby of the new
primary. The exit code is 1 if a call that was answered 2xx is missing, if a record exists twice, if
a caller gets an answer other than 2xx or 503 with Retry-After, or if callers are refused for more
than 10 s.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
from sqlalchemy.engine import make_url

from benchmarks.bots import Bots, judged, kept, states, until_empty
from benchmarks.places import Cluster, cluster, fake_crm, parser, place
from benchmarks.restarts import count_faults, longest_gap, talk

_LONGEST_GAP_S = 10.0
_PATIENCE_S = 60.0


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--failovers", type=int, default=20)
    command.add_argument("--pause", type=float, default=8, help="seconds before each failover")
    command.add_argument("--rate", type=float, default=25, help="people in a second")
    command.add_argument("--latency", type=float, default=0.02, help="of the CRM, in seconds")
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--threads", type=int, default=16)
    options = command.parse_args()
    # What a failover takes on a machine of two processors; the bots go on for all of them.
    options.seconds = options.failovers * (options.pause + 6) + options.pause
    with (
        cluster(connections=200) as first,
        cluster(connections=200) as second,
        place(sqlite=False, postgres=first.url) as here,
        fake_crm(latency=options.latency) as crm,
        _pair(first, second, make_url(here.url).database or "") as pair,
    ):
        here = replace(here, url=pair.url)
        ids = here.account(crm.url)
        with here.server(workers=options.workers, threads=options.threads) as service:
            bots = Bots(service.address, ids)
            failing = threading.Thread(target=pair.fail_over, args=(options,))
            failing.start()
            sent = talk(bots, options)
            failing.join()
            took = until_empty(here.url)
        found = states(here.url)
        failed = [one for one in bots.told if not one.accepted]
        print(f"{len(bots.told)} calls, answers {bots.statuses()} (0: the connection broke)")
        print(f"  {pair.done} failovers; queue empty {took:.1f} s later; journal {found}")
        fine = [
            kept("longest time without service", longest_gap(failed), _LONGEST_GAP_S, "s"),
            judged(
                {
                    "failovers that did not happen": options.failovers - pair.done,
                    **count_faults(failed, crm, sent, found),
                }
            ),
        ]
    sys.exit(0 if all(fine) else 1)


class _Pair:
    """A primary and its synchronous standby, which exchange their roles."""

    def __init__(self, primary: Cluster, standby: Cluster, database: str) -> None:
        self.primary, self.standby = primary, standby
        self.done = 0
        hosts = [f"host=127.0.0.1:{make_url(each.url).port}" for each in (primary, standby)]
        self.url = (
            f"postgresql+psycopg://crmhub@/{database}?{'&'.join(hosts)}"
            "&target_session_attrs=read-write"
        )

    def fail_over(self, options: argparse.Namespace) -> None:
        """Let the standby take over from the primary repeatedly, with exchanged roles."""
        for _ in range(options.failovers):
            time.sleep(options.pause)
            began = time.perf_counter()
            self.primary.kill()
            self.standby.promote()
            took = time.perf_counter() - began
            self.primary, self.standby = self.standby, self.primary
            self.attach()
            self.done += 1
            print(f"  promoted after {took:.1f} s, replicated {time.perf_counter() - began:.1f} s")

    def attach(self) -> None:
        """Make the other server a synchronous standby of the primary."""
        self.standby.follow(self.primary)
        self.primary.set_synchronous(True)
        self.primary.reload()
        until = time.monotonic() + _PATIENCE_S
        url = make_url(self.primary.url).set(drivername="postgresql")
        asked = "select count(*) from pg_stat_replication where sync_state = 'sync'"
        with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as db:
            while db.execute(asked).fetchone() != (1,):
                if time.monotonic() > until:
                    raise SystemExit("the standby does not follow its primary")
                time.sleep(0.05)


@contextmanager
def _pair(primary: Cluster, standby: Cluster, database: str) -> Iterator[_Pair]:
    """Yield a pair; at the end, the server with the place's database accepts writes again."""
    standby.stop()
    pair = _Pair(primary, standby, database)
    pair.attach()
    yield pair
    if pair.primary is not primary:
        pair.primary.kill()
        pair.standby.promote()
    primary.set_synchronous(False)
    primary.reload()


if __name__ == "__main__":
    main()
