"""Measure how long it takes to group all failed actions of all accounts by their cause.

    python -m benchmarks.failures [--sqlite] [--failed 100000] [--others 400000] [--accounts 500]

The measured calls are those of the page "Why leads fail": all groups, those of one account, one
group, and its first actions. Ends with 1 if the 95th percentile of one is over 300 ms.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping

from benchmarks.places import BENCHMARKS, parser, place
from crmhub.accounts.accounts import Account
from crmhub.database.connection import now_ms
from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.action_queries import Wanted
from crmhub.operators.failures import groups
from crmhub.queue.causes import cause_of
from crmhub.queue.models import new_id

_PROMISED_MS = 300.0
_BATCH = 5_000
_PROPERTIES = ("dealstage", "pipeline", "amount", "priority", "colour", "size", "region", "source")
_REASONS = (
    'there is no stage "x"; send one of "a"',
    "it is required",
    "deals have no such property in the CRM",
    "is not a number; send digits",
    "HubSpot does not take it",
)
_INT = ("account_id", "connection_id", "tries")
_MS = ("run_at", "give_up_at", "created_at", "finished_at")
_TEXTS = ("id", "kind", "person", "hub_id", "state", "request", "reason", "cause", "cause_text")


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--failed", type=int, default=100_000)
    command.add_argument("--others", type=int, default=400_000, help="actions that are done")
    command.add_argument("--accounts", type=int, default=500)
    command.add_argument("--rounds", type=int, default=20)
    options = command.parse_args()
    with place(options.sqlite) as here:
        hub = here.hub()
        accounts = [
            open_account(hub, name=f"Account {number}", by=BENCHMARKS)[0]
            for number in range(options.accounts)
        ]
        _fill(hub, accounts, options.failed, options.others)
        slow = [_measure(name, call, options.rounds) for name, call in _calls(hub, accounts)]
        hub.close()
    sys.exit(any(slow))


def _fill(hub: Hub, accounts: list[Account], failed: int, others: int) -> None:
    types = (
        dict.fromkeys(_INT, "int") | dict.fromkeys(_MS, "bigint") | dict.fromkeys(_TEXTS, "text")
    )
    drawn, moment = random.Random(7), now_ms()
    rows = []
    for number in range(failed + others):
        account = drawn.choice(accounts)
        values = _row(drawn, account, moment, is_failed=number < failed)
        rows.append(tuple(values[name] for name in types))
        if len(rows) == _BATCH or number == failed + others - 1:
            hub.database.transact(lambda tx, rows=tuple(rows): tx.insert("action", types, rows))
            rows.clear()
    if hub.database.dialect == "postgresql":
        with hub.database.reading() as db:
            db.run("vacuum analyze action")


def _row(
    drawn: random.Random, account: Account, moment: int, *, is_failed: bool
) -> Mapping[str, object]:
    at = moment - drawn.randrange(30 * 86_400_000)
    id, kind = new_id(at), drawn.choice(("createDeal", "createTicket", "setProperties"))
    message = f"{drawn.choice(_PROPERTIES)}: {drawn.choice(_REASONS)}" if is_failed else ""
    cause = cause_of("hubspot", kind, "Rejected", message, {})
    return {
        "account_id": account.id,
        "id": id,
        "connection_id": account.connection.id,
        "kind": kind,
        "person": f"hub-{id[-8:]}",
        "hub_id": f"hub-{id[-8:]}",
        "state": drawn.choice(("dead", "dead", "dead", "queued")) if is_failed else "done",
        "request": '{"contact_id": "1", "properties": {"dealname": "A", "dealstage": "x"}}',
        "tries": 1,
        "run_at": at,
        "give_up_at": at,
        "reason": message,
        "created_at": at,
        "finished_at": at + 1_000,
        "cause": cause and cause.key,
        "cause_text": cause and cause.to_text(),
    }


def _calls(hub: Hub, accounts: list[Account]) -> list[tuple[str, Callable[[], object]]]:
    database = hub.database
    (largest, *_), count = groups.groups(database)
    yesterday = now_ms() - 86_400_000
    print(f"{count} groups; the largest has {largest.total:,} actions")
    wanted = Wanted(cause=largest.key, states=("dead",))
    return [
        ("all groups", lambda: groups.groups(database)),
        ("groups of the last day", lambda: groups.groups(database, ended=(yesterday, 0))),
        ("groups of one account", lambda: groups.groups(database, account=accounts[7])),
        ("one group", lambda: groups.group(database, largest.key)),
        ("a page of its actions", lambda: action_queries.listed(database, wanted, limit=16)),
    ]


def _measure(name: str, call: Callable[[], object], rounds: int) -> bool:
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        took.append((time.perf_counter() - began) * 1000)
    worst = statistics.quantiles(took, n=20)[-1]
    print(f"{name:24} median {statistics.median(took):7.1f} ms, 95th percentile {worst:7.1f} ms")
    return worst > _PROMISED_MS


if __name__ == "__main__":
    main()
