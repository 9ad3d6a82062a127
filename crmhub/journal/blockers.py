"""What an action waits for, and how many wait for it."""

from __future__ import annotations

from dataclasses import dataclass

from crmhub.database.connection import Database
from crmhub.journal.action_queries import Summary


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds an action up, and what it holds up.

    `left` says that its account has another CRM by now than the one it was accepted for. `turn` is
    the first unfinished action of the same person before it, "" for none. `away` says why the
    whole connection waits, `until` when it is tried again (ms). `blocked` is how many actions it
    blocks.
    """

    left: bool
    turn: str
    away: str
    until: int
    blocked: int


def standing(database: Database, action: Summary) -> Standing:
    """Return where an action stands now."""
    of = {"account": action.account_id, "id": action.id, "connection": action.connection_id}
    with database.reading() as db:
        left, away, until = db.rows(
            "select c.id <> a.connection_id, o.reason, o.until from connection c"
            " join account a on a.id = c.account_id left join outage o"
            " on o.account_id = c.account_id and o.connection_id = c.id"
            " where c.account_id = :account and c.id = :connection",
            of,
        )[0]
        turn = db.scalar(
            "select e.id from action a join action e on e.account_id = a.account_id"
            " and e.person = a.person and e.state in ('running', 'queued') and e.id < a.id"
            " where a.account_id = :account and a.id = :id and a.state in ('running', 'queued')"
            " order by e.id limit 1",
            of,
        )
        blocked = db.scalar(
            "select count(*) from action where account_id = :account and behind = :id"
            " and state = 'parked'",
            of,
        )
    return Standing(bool(left), turn or "", away or "", until or 0, int(blocked))
