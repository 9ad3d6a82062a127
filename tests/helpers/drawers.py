"""What real processes do that draw numbers of one account at once."""

from __future__ import annotations

from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from crmhub.accounts import accounts
from crmhub.accounts.plans import BUILT_IN
from crmhub.database.connection import Database
from crmhub.helpers.random_int import int_of_account
from tests.processes import Process, start
from tests.records.meanwhile import at_once


def draw_in_processes(processes: int, **options: Any) -> list[int]:
    """Draw in processes at once, in each as `draw_at_once` does; return all numbers."""
    drawers = [Process(_draw, **options) for _ in range(processes)]
    start(*drawers)
    return [number for each in drawers for number in each.result()]


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


def _draw(pipe: Connection, database_url: str, **options: Any) -> list[int]:
    database = Database(database_url)
    pipe.send("ready")
    pipe.recv()
    drawn = draw_at_once(database, **options)
    database.close()
    return drawn
