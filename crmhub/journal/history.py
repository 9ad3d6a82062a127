"""How much was accepted, what became of it and how long it took, over time.

One statement reads what ended since the beginning of the span, and what is unfinished: from an
index alone, and together no more rows than the journal has of that span. Finished actions are
forgotten after 30 days, so longer spans show nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crmhub.accounts.accounts import Account
from crmhub.database.connection import (
    Connection,
    Database,
    now_ms,
)

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True)
class Span:
    """A time to look back on: `parts` parts of `part_ms` each, cut at full hours and days (UTC)."""

    part_ms: int
    parts: int


SPANS = {
    "24h": Span(_HOUR_MS, 24),
    "7d": Span(6 * _HOUR_MS, 28),
    "30d": Span(_DAY_MS, 30),
}


@dataclass(slots=True)
class Part:
    """What happened in a part of the time.

    `dead` counts blocked actions, too; discarded ones count as neither failed nor done. `p50` and
    `p95` are from acceptance to being done, in ms to two digits, None where nothing was done.
    `oldest` is the greatest age that an unfinished action reached, in ms, 0 where there was none;
    `waiting` how many were unfinished at the end.
    """

    begins_at: int
    accepted: int = 0
    done: int = 0
    refused: int = 0
    dead: int = 0
    p50: int | None = None
    p95: int | None = None
    oldest: int = 0
    waiting: int = 0
    _lasted: dict[int, int] = field(default_factory=dict, repr=False)

    @property
    def ended(self) -> int:
        """How many came to an end."""
        return self.done + self.refused + self.dead

    @property
    def success(self) -> float | None:
        """The share of what ended that was done, None where nothing ended."""
        return self.done / self.ended if self.ended else None


def history(database: Database, span: Span, account: Account | None = None) -> list[Part]:
    """Return the parts of the span, the oldest first; the last one is not over yet."""
    moment = now_ms()
    last = moment // span.part_ms
    first = last - span.parts + 1
    parts = [Part(number * span.part_ms) for number in range(first, last + 1)]
    with database.reading() as db:
        rows = _counted(db, span, first, moment, account)
    for accepted_in, ended_in, state, took, count, earliest, longest in rows:
        # Where another machine's clock is ahead, something happens in a part that is yet to come.
        begun = min(accepted_in - first, span.parts - 1)
        over = span.parts if state == "queued" else min(ended_in - first, span.parts - 1)
        if begun >= 0:
            parts[begun].accepted += count
        # What ended in a later part waited at the end of each one before.
        for part in parts[max(begun, 0) : over]:
            until = min(part.begins_at + span.part_ms, moment)
            part.oldest = max(part.oldest, until - earliest)
            part.waiting += count
        if over < span.parts:
            _end(parts[over], state, took, count, longest)
    for part in parts:
        part.p50, part.p95 = _percentile(part, 50), _percentile(part, 95)
    return parts


def _end(part: Part, state: str, took: int, count: int, longest: int) -> None:
    part.oldest = max(part.oldest, longest)
    if state == "done":
        part.done += count
        part._lasted[took] = part._lasted.get(took, 0) + count
    elif state == "refused":
        part.refused += count
    elif state in ("dead", "parked"):
        part.dead += count


def _percentile(part: Part, share: int) -> int | None:
    """Return the least time within which that share of what was done was done."""
    wanted = -(-part.done * share // 100)
    for took in sorted(part._lasted):
        wanted -= part._lasted[took]
        if wanted <= 0:
            return took
    return None


def _counted(
    db: Connection, span: Span, first: int, moment: int, account: Account | None
) -> list[tuple[int, int, str, int, int, int, int]]:
    """Return groups of actions: in which part they were accepted and ended, as what, and how long
    it took, to two digits; then how many, the earliest acceptance, and the longest time.

    Accepted before the span is one part before it; unfinished is `queued`, in no part.
    """
    params: dict[str, int] = {
        "part": span.part_ms,
        "begin": first * span.part_ms,
        "before": first - 1,
        "now": moment,
    }
    of = ""
    if account is not None:
        of, params["account"] = " and account_id = :account", account.id
    accepted_in = "case when created_at < :begin then :before else created_at / :part end"
    rows = db.rows(
        "select accepted_in, ended_in, state, took, count(*), min(created_at), max(lasted) from ("
        f" select f.*, case when state <> 'done' then 0 {_two_digits('lasted')} end as took from ("
        f" select {accepted_in} as accepted_in, finished_at / :part as ended_in, state,"
        " finished_at - created_at as lasted, created_at from action"
        f" where finished_at >= :begin{of}"
        " union all"
        f" select {accepted_in}, :before, 'queued', :now - created_at, created_at from action"
        f" where state in ('running', 'queued'){of}"
        ") f) g group by accepted_in, ended_in, state, took",
        params,
    )
    return [tuple(int(v) if i != 2 else v for i, v in enumerate(row)) for row in rows]  # type: ignore[misc]


def _two_digits(value: str) -> str:
    """Return the cases of SQL that cut a number behind its second digit, from 100 up to a week."""
    cases = [f"when {value} < 0 then 0 when {value} < 100 then {value}"]
    for power in range(1, 8):
        cases.append(f"when {value} < {10 ** (power + 2)} then {value} / {10**power} * {10**power}")
    return " ".join([*cases, f"else {value} / {10**8} * {10**8}"])
