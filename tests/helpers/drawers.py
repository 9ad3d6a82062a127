"""Real processes that draw numbers of one account at once: `python -m tests.helpers.drawers JSON`.

Each says when it is ready, starts when it is told to, and prints what it drew.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from crmhub.accounts import accounts
from crmhub.accounts.plans import BUILT_IN
from crmhub.database.connection import Database
from crmhub.helpers.random_int import int_of_account
from tests.records.meanwhile import at_once

ROOT = Path(__file__).parents[2]


class Drawer:
    """A process that draws `times` numbers in each of `threads`, from 1 to `largest`."""

    def __init__(self, **options: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.drawers", json.dumps(options)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> None:
        """Wait until it could start."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def start(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def drawn(self) -> list[int]:
        """Return what it drew, once it has ended."""
        out, _ = self.process.communicate()
        assert self.process.returncode == 0
        numbers: list[int] = json.loads(out)
        return numbers


def all_drawn(*drawers: Drawer) -> list[int]:
    """Let them draw at once and return all that they drew."""
    for each in drawers:
        each.ready()
    for each in drawers:
        each.start()
    return [number for each in drawers for number in each.drawn()]


def draw_at_once(
    database: Database,
    client_id: str,
    *,
    largest: int,
    threads: int,
    times: int,
    contacts: int = 0,
) -> list[int]:
    """Draw in threads; with `contacts`, the n-th draw of each thread is for the n-th contact."""
    with database.reading() as connection:
        account = accounts.load(connection, client_id, BUILT_IN)

    def draw() -> list[int]:
        return [
            int_of_account(
                database,
                account,
                smallest=1,
                largest=largest,
                contact_id=f"contact-{n % contacts}" if contacts else "",
            )
            for n in range(times)
        ]

    return [number for drawn in at_once(*[partial(draw)] * threads) for number in drawn]


def _main() -> None:
    options = json.loads(sys.argv[1])
    database = Database(options.pop("database_url"))
    print("ready", flush=True)  # noqa: T201 - the test waits for it
    sys.stdin.readline()
    print(json.dumps(draw_at_once(database, **options)))  # noqa: T201
    database.close()


if __name__ == "__main__":
    _main()
