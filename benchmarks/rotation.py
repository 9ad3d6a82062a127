"""Check that assignOwner spreads contacts evenly, whoever calls at once.

    python -m benchmarks.rotation [--sqlite] [--assignments 10000] [--callers 16] [--hubspot]

It starts `crmhub serve` with two server processes, and a team of five with weights, working hours
and capacities. The callers assign an owner to as many contacts, each of which has none; then they
ask for a part of them again. It ends with 1 if a count is more than one assignment from the exact
share of those who could be chosen, if somebody off duty or over capacity was chosen, if an owner
that was to be kept has changed, or if the CRM has another owner than the answer.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from benchmarks.bots import Bots, Told, judged, p, until_empty
from benchmarks.places import Place, fake_crm, parser, place
from crmhub.audit import Author
from crmhub.database.connection import Database
from crmhub.database.statements import Statement, param
from crmhub.database.tables import team_assignment
from crmhub.operators.teams import change_team
from crmhub.properties.kinds import CONTACTS
from crmhub.records.models import NewRecord
from crmhub.teams.hours import DAYS

_CHOSEN = Statement(
    sa.select(team_assignment.c.owner_id, team_assignment.c.chosen_at)
    .where(team_assignment.c.kept == param("kept"))
    .order_by(team_assignment.c.chosen_at)
)
_BY = Author("cli", "benchmark")
_WORKERS, _THREADS, _BATCH = 2, 8, 100
_WEIGHTS = (5, 3, 2, 1, 4)
# The fourth is off duty all the time; the fifth takes so large a part of all assignments.
_OFF_DUTY, _LIMITED, _PART = 3, 4, 10


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--hubspot", action="store_true", help="in the fake HubSpot")
    command.add_argument("--assignments", type=int, default=10_000)
    command.add_argument("--callers", type=int, default=16)
    given = command.parse_args()
    with ExitStack() as stack:
        here = stack.enter_context(place(given.sqlite))
        crm = stack.enter_context(fake_crm()) if given.hubspot else None
        ids = here.account(crm.url if crm else "", deadline_s=25)
        owners = make_team(here, given.assignments)
        service = stack.enter_context(here.server(workers=_WORKERS, threads=_THREADS))
        bots = Bots(service.address, ids)
        contacts = _make_contacts(here, bots, given.assignments, given.callers, crm is not None)
        began = time.perf_counter()
        told = _assign(bots, contacts, given.callers)
        seconds = time.perf_counter() - began
        until_empty(here.url)
        again = _assign(bots, random.sample(contacts, len(contacts) // 10), given.callers)
        sys.exit(0 if _judge(here, owners, told, again, seconds) else 1)


def make_team(here: Place, assignments: int = 0) -> list[str]:
    """Make the team of the account's first five owners, without `assignments` always on duty."""
    hub = here.hub()
    try:
        account = hub.load_account("benchmark")
        listed = change_team.owners_of(hub, account)
        owners = [f"{name}@example.com" for name in ("ana", "ben", "cleo", "dan", "eva")]
        owners = [one.id for one in listed[:5]] if listed else owners
        change_team.set_team(hub, "benchmark", "Sales", rotation="weighted", members=owners, by=_BY)
        for owner, weight in zip(owners, _WEIGHTS, strict=False):
            change_team.set_member(
                hub,
                "benchmark",
                "Sales",
                owner,
                weight=weight,
                hours="daily 00:00-24:00",
                time_zone="Europe/Madrid",
                by=_BY,
            )
        off_duty = f"{DAYS[(datetime.now(UTC).weekday() + 3) % 7]} 09:00-17:00"
        limits: dict[int, dict[str, Any]] = {
            _OFF_DUTY: {"hours": off_duty},
            _LIMITED: {"leads_per_day": assignments // _PART},
        }
        for number, values in limits.items() if assignments else ():
            if number < len(owners):
                change_team.set_member(hub, "benchmark", "Sales", owners[number], **values, by=_BY)
        return owners
    finally:
        hub.close()


def _make_contacts(here: Place, bots: Bots, number: int, callers: int, is_crm: bool) -> list[str]:
    if is_crm:
        with ThreadPoolExecutor(callers) as pool:
            leads = pool.map(
                lambda n: bots.create_lead(f"t{n}", name="Ann Lee", email=f"p{n}@example.com"),
                range(number),
            )
            return [one.contact_id for one in leads]
    hub, made = here.hub(), []
    try:
        account = hub.load_account("benchmark")
        for start in range(0, number, _BATCH):
            new = [
                NewRecord({"email": f"p{n}@example.com"})
                for n in range(start, min(start + _BATCH, number))
            ]
            made += [str(one.id) for one in hub.records.create(account, CONTACTS, new)]
    finally:
        hub.close()
    return made


def _assign(bots: Bots, contacts: Sequence[str], callers: int) -> dict[str, Told]:
    with ThreadPoolExecutor(callers) as pool:
        return dict(zip(contacts, pool.map(bots.assign_owner, contacts), strict=True))


def _judge(
    here: Place,
    owners: Sequence[str],
    told: dict[str, Told],
    again: dict[str, Told],
    seconds: float,
) -> bool:
    chosen = _chosen(here.url)
    counts = Counter(row.owner_id for row in chosen)
    limit = len(told) // _PART
    limited = owners[_LIMITED] if len(owners) > _LIMITED else ""
    free = [owner for number, owner in enumerate(owners) if number != _OFF_DUTY]
    weight = dict(zip(owners, _WEIGHTS, strict=False))
    taken, worst = Counter[str](), Fraction(0)
    shares: dict[str, Fraction] = dict.fromkeys(free, Fraction(0))
    for row, following in zip(chosen, [*chosen[1:], None], strict=True):
        able = [one for one in free if one != limited or taken[one] < limit]
        total = sum(weight[one] for one in able)
        for one in able:
            shares[one] += Fraction(weight[one], total)
        taken[row.owner_id] += 1
        if following is None or following.chosen_at != row.chosen_at:
            # Of choices within a millisecond the order is unknown.
            worst = max(worst, *(abs(shares[one] - taken[one]) for one in free))
    answered = {id: one.body.get("ownerId", "") for id, one in told.items()}
    failed = [one for one in (*told.values(), *again.values()) if not one.accepted]
    changed = [
        id
        for id, one in again.items()
        if answered[id] and one.body.get("ownerId") not in ("", answered[id])
    ]
    # Queued, since too many called at once, and the CRM had to tell the present owner first.
    open_answers = sum(not owner for owner in answered.values())
    off_duty = [owners[_OFF_DUTY]] if len(owners) > _OFF_DUTY else []
    ms = [one.seconds * 1000 for one in told.values()]
    print(
        f"{len(told)} assignments in {seconds:.1f} s, {len(told) / seconds:.0f} per second;",
        end=" ",
    )
    print(f"p50 {p(50, ms):.0f} ms, p95 {p(95, ms):.0f} ms")
    print("counts", {owner: counts[owner] for owner in owners}, "left open", open_answers)
    findings = {
        "calls that failed": len(failed),
        "choices that differ from the calls": abs(len(chosen) - len(told)),
        "of people off duty": sum(counts[owner] for owner in off_duty),
        "over capacity": max(0, counts[limited] - limit) if limited else 0,
        "changed owners": len(changed),
        "answers beyond the counts": sum(
            max(0, n - counts[owner]) for owner, n in Counter(answered.values()).items() if owner
        ),
    }
    print(f"at most {float(worst):.3f} from the exact share at any moment")
    return judged(findings) and worst <= 1


def _chosen(url: str) -> list[Any]:
    """Return the choices in the order in which they were made."""
    database = Database(url, pool_size=1)
    try:
        with database.reading() as db:
            return db.rows(_CHOSEN, {"kept": False})
    finally:
        database.close()


if __name__ == "__main__":
    main()
