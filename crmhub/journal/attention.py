"""How many actions need a person: the one count of every page, command, alert and metric.

A failed action (`dead`) needs one. The actions blocked behind it (`parked`) are decided together
with it, so they are counted beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crmhub.database.connection import Connection

# As the index says it: it alone holds these states.
_STATES = "state in ('dead', 'parked')"
_COUNTED = (
    "select account_id, connection_id,"
    " sum(case state when 'dead' then 1 else 0 end) as failed,"
    " sum(case state when 'parked' then 1 else 0 end) as blocked,"
    " min(case state when 'dead' then finished_at end) as since,"
    " max(case state when 'dead' then finished_at end) as newest"
    f" from action where {_STATES}{{narrowed}} group by account_id, connection_id"
)
BY_CONNECTION = _COUNTED.format(narrowed="")
"""SQL: `account_id`, `connection_id`, `failed`, `blocked`; when the first failed, and the last."""


@dataclass(frozen=True, slots=True)
class Attention:
    """How many actions failed, and how many are blocked behind them."""

    failed: int = 0
    blocked: int = 0

    def __bool__(self) -> bool:
        return bool(self.failed or self.blocked)

    def __str__(self) -> str:
        counts = {"failed": self.failed, "blocked": self.blocked}
        return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)


def of_accounts(db: Connection, account_ids: Sequence[int]) -> Mapping[int, Attention]:
    """Return what needs a person of each of these accounts."""
    among, params = db.among("account_id", "accounts", account_ids)
    found = dict.fromkeys(account_ids, Attention())
    for account_id, _, failed, blocked, *_ in db.rows(
        _COUNTED.format(narrowed=f" and {among}"), params
    ):
        before = found[account_id]
        found[account_id] = Attention(before.failed + int(failed), before.blocked + int(blocked))
    return found


def of_all(db: Connection) -> Attention:
    """Return what needs a person of all accounts; the index alone answers."""
    counts: dict[str, int] = dict(
        db.rows(f"select state, count(*) from action where {_STATES} group by state")
    )
    return Attention(int(counts.get("dead", 0)), int(counts.get("parked", 0)))
