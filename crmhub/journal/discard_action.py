"""Discard: actions that nobody needs any more are closed for good, with a reason.

What is blocked behind a discarded action is discarded with it, since nothing could ever bring it
to the CRM. Discarded actions are kept as long as others that have ended, and never retried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from crmhub import metrics
from crmhub.audit import Author
from crmhub.database.connection import Connection, Database
from crmhub.errors import Semantic
from crmhub.journal import action_queries
from crmhub.journal.action_queries import (
    Chosen,
    Part,
    Wanted,
)
from crmhub.records import marks

DISCARDED = ("dead", "parked", "queued")
LONGEST_REASON = 500


def narrowed(wanted: Wanted) -> Wanted:
    """Return what of it can be discarded: where no id and no state is named, what has failed."""
    wanted = action_queries.failed_by_default(wanted)
    return replace(wanted, states=[one for one in DISCARDED if one in (wanted.states or DISCARDED)])


def discardable(database: Database, wanted: Wanted, *, most: int) -> Chosen:
    """Return how many actions `discard` would close; see `mending.chosen`."""
    return action_queries.chosen(database, wanted, DISCARDED, most=most)


def discard_one(database: Database, action_id: str, *, reason: str, by: Author) -> int:
    """Discard an action, as `discard` does; return how many are closed with it.

    Raises NotFound, Semantic for the reason, and Conflict when there is nothing to discard.
    """
    count = discard(database, Wanted(ids=(action_id,)), reason=reason, by=by)
    if not count:
        rule = f"only {action_queries.listing(DISCARDED)} actions can be discarded"
        raise action_queries.wrong_state(
            action_queries.shown(database, action_id).summary.state, rule
        )
    return count


def discard(database: Database, wanted: Wanted, *, reason: str, by: Author) -> int:
    """Close what is meant and failed, blocked or queued; return how many, blocked ones included.

    Where neither states nor ids are named, that is what has failed. `reason` is shown in the place
    of what went wrong last; Semantic unless it has 1 to 500 printable characters.
    """
    why = reason.strip()
    if not why or len(why) > LONGEST_REASON or not why.isprintable():
        raise Semantic(
            f"reason: say why in 1 to {LONGEST_REASON} printable characters, without line breaks"
        )
    wanted = narrowed(wanted)
    if not wanted.states:
        return 0
    return action_queries.in_parts(database, wanted, partial(_discard, database, reason=why, by=by))


def _discard(
    database: Database, wanted: Wanted, tx: Connection, *, reason: str, by: Author
) -> Part:
    found = action_queries.newest(tx, wanted, wanted.states)
    if not found:
        return 0, 0, ""
    ids = list(found)
    of, params = tx.among("a.id", "ids", ids)
    closed = _close(
        tx, f"{of} and a.state in {action_queries.literal(wanted.states)}", params, reason
    )
    if closed:
        closed += _close(tx, *action_queries.blocked_behind(tx, [one.id for one in closed]), reason)
        _close_marks(tx, closed)
        for one in closed:
            database.after_commit(partial(metrics.ended, one.kind, "discarded"))
        action_queries.wake(tx)
        action_queries.note(tx, by, "discard", found, {"discarded": len(closed)})
    return len(closed), len(ids), ids[-1]


class _Closed(NamedTuple):
    account_id: int
    id: str
    kind: str
    doubt_since: int | None


def _close(tx: Connection, where: str, params: Mapping[str, Any], reason: str) -> list[_Closed]:
    # Of all accounts at once: no two have an id in common.
    rows = tx.rows(
        "update action as a set state = 'discarded', reason = :reason, finished_at = :now,"
        f" behind = null where {where} returning account_id, id, kind, doubt_since",
        {**params, "reason": reason, "now": tx.now_ms()},
    )
    return [_Closed(*row) for row in rows]


def _close_marks(tx: Connection, closed: Sequence[_Closed]) -> None:
    """Let a process that has lost its lease create no record of the hub's for these actions."""
    doubted: dict[int, list[str]] = {}
    for one in closed:
        if one.doubt_since is not None:
            doubted.setdefault(one.account_id, []).append(one.id)
    for account_id, ids in sorted(doubted.items()):
        marks.close(tx, account_id, ids)
