"""A journal with a past: actions that were accepted and ended long ago."""

from __future__ import annotations

import random
from functools import partial

from crmhub.accounts.accounts import Account
from crmhub.database.connection import now_ms
from crmhub.database.rows import set_where
from crmhub.database.tables import action
from crmhub.hub import Hub
from crmhub.operators.actions import action_queries
from crmhub.queue.causes import cause_of
from crmhub.queue.models import new_id

HOUR = 3_600_000
_COLUMNS = {
    "account_id": "int",
    "id": "text",
    "connection_id": "int",
    "kind": "text",
    "person": "text",
    "hub_id": "text",
    "state": "text",
    "request": "text",
    "tries": "int",
    "run_at": "bigint",
    "give_up_at": "bigint",
    "reason": "text",
    "created_at": "bigint",
    "finished_at": "bigint",
}
Past = tuple[int, int | None, str]
"""How long ago (ms) it was accepted, and ended; and its state."""


def put(hub: Hub, account: Account, *actions: Past, reason: str = "") -> list[str]:
    """Write actions into the journal and return their ids."""
    moment = now_ms()
    made = []
    for begun, over, state in actions:
        at, until = moment - begun, None if over is None else moment - over
        id = new_id(at)
        of = (
            account.id,
            id,
            account.connection.id,
            "createLead",
            f"hub-{id[-8:]}",
            f"hub-{id[-8:]}",
        )
        said = "" if state == "done" else reason
        made.append((*of, state, '{"contact_token": "t"}', 1, at, at, said, at, until))
    hub.database.transact(lambda tx: tx.insert("action", _COLUMNS, made))
    return [row[1] for row in made]


def give_cause(
    hub: Hub, account: Account, *ids: str, kind: str = "createDeal", word: str = "Rejected"
) -> str:
    """Let actions have failed for the reason that each has; return the key of the last one."""
    key = ""
    for id in ids:
        request = dict(action_queries.shown(hub.database, id).request)
        reason = action_queries.shown(hub.database, id).summary.reason
        cause = cause_of("hubspot", kind, word, reason, request)
        assert cause is not None
        key, text = cause.key, cause.to_text()
        of = {"account_id": account.id, "id": id}
        hub.database.transact(
            partial(set_where, table=action, where=of, cause=key, cause_text=text)
        )
    return key


def busy_week(hub: Hub, account: Account) -> None:
    """Write a week as an account has it: days and nights, some refusals, and three hours without
    the CRM."""
    drawn = random.Random(7)
    past: list[Past] = []
    for hour in range(168):
        of_day = (hour * HOUR) % (24 * HOUR) / (24 * HOUR)
        for _ in range(round(4 + 30 * (1 - abs(2 * of_day - 1)) + drawn.randrange(6))):
            begun = (168 - hour) * HOUR + drawn.randrange(HOUR) + 60_000
            took = round(drawn.lognormvariate(6.2, 0.7))
            if 9 <= 168 - hour <= 11:
                took = max(took, begun - 9 * HOUR + drawn.randrange(600_000))
            lucky = drawn.random()
            state = "done" if lucky < 0.96 else "refused" if lucky < 0.99 else "dead"
            past.append((begun, begun - took, state))
    put(hub, account, *past, reason="dealstage: there is no such stage")
