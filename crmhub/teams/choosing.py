"""The choice of an owner: made once for an action, and stored before the CRM gets anything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection
from crmhub.database.rows import delete_where, find_row, set_where, upsert_row
from crmhub.database.statements import Statement, equals, in_list, one_of, param
from crmhub.database.tables import action as action_table
from crmhub.database.tables import team as team_table
from crmhub.database.tables import team_assignment, team_member
from crmhub.errors import Semantic
from crmhub.teams import rotation
from crmhub.teams.teams import Member, find_name, lock_team
from crmhub.translatable import from_stored, to_stored, translatable

_WEEK_MS = 7 * 86_400_000

_DAYS = (
    translatable("Monday"),
    translatable("Tuesday"),
    translatable("Wednesday"),
    translatable("Thursday"),
    translatable("Friday"),
    translatable("Saturday"),
    translatable("Sunday"),
)
_a = team_assignment.c
_DRAWN_SINCE = Statement(
    sa.select(_a.owner_id, sa.func.count().label("n"))
    .where(
        *equals(team_assignment, "account_id"),
        in_list(_a.owner_id, "owners"),
        _a.chosen_at >= param("since"),
        _a.kept.is_(sa.false()),
    )
    .group_by(_a.owner_id)
)
# The counted deals may lack those of actions that had not ended when they were counted.
_DEALS_UNDER_WAY = Statement(
    sa.select(_a.owner_id, sa.func.count(_a.deal_id.distinct()).label("n"))
    .join_from(
        team_assignment,
        action_table,
        sa.and_(action_table.c.account_id == _a.account_id, action_table.c.id == _a.action_id),
    )
    .where(
        *equals(team_assignment, "account_id"),
        in_list(_a.owner_id, "owners"),
        _a.chosen_at >= param("since"),
        _a.deal_id.is_not(None),
        sa.or_(
            action_table.c.finished_at.is_(None), action_table.c.finished_at >= param("counted_at")
        ),
    )
    .group_by(_a.owner_id)
)
_MOVE_CREDIT = Statement(
    sa.update(team_member)
    .where(*equals(team_member, "account_id", "team", "owner_id"))
    .values(credit=team_member.c.credit + param("by"), drawn=team_member.c.drawn + param("draws"))
)
_LAST = Statement(
    sa.select(_a.owner_id)
    .join_from(
        action_table,
        team_assignment,
        sa.and_(_a.account_id == action_table.c.account_id, _a.action_id == action_table.c.id),
    )
    .where(
        *equals(action_table, "account_id", "person", "hub_id"),
        # An owner that was never written is no owner.
        one_of(action_table.c.state, "running", "queued", "done"),
    )
    .order_by(action_table.c.created_at.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Assignment:
    """An owner chosen for an action. `place`: in the team, from 1; 0 for one who is no member.

    `kept`: the contact had this owner before. `confirmed`: the present owner was known. `refused`:
    the owners that the CRM refused before. `shares`: what the draw added to the credits.
    """

    team: str
    owner_id: str
    name: str
    email: str
    place: int
    reason: str
    kept: bool = False
    confirmed: bool = False
    deal_id: str | None = None
    shares: Mapping[str, int] = field(default_factory=dict)
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenDeals:
    """How many open deals owners have, and when they were counted; None if nobody can tell."""

    of: Mapping[str, int]
    counted_at: int


def of_action(db: Connection, account_id: int, action_id: str) -> Assignment | None:
    row = find_row(db, team_assignment, {"account_id": account_id, "action_id": action_id})
    if row is None:
        return None
    return Assignment(
        row.team,
        row.owner_id,
        row.name,
        row.email,
        row.place,
        from_stored(json.loads(row.text), row.reason) if row.text else row.reason,
        bool(row.kept),
        bool(row.confirmed),
        row.deal_id,
        json.loads(row.shares),
        tuple(json.loads(row.refused)),
    )


def last_owner(db: Connection, account_id: int, person: str, hub_id: str) -> str:
    """Return the owner that the hub assigned last to a contact, or ""."""
    key = {"account_id": account_id, "person": person, "hub_id": hub_id}
    return db.scalar(_LAST, key) or ""


def forget(tx: Connection, account: Account, action_id: str) -> None:
    """Take an assignment back, so that the action's next attempt makes another choice."""
    found = of_action(tx, account.id, action_id)
    if found is not None:
        Choice(tx, account, action_id, team="", keep=False, deal_id="", open_deals=None).take_back(
            found
        )
        delete_where(tx, team_assignment, {"account_id": account.id, "action_id": action_id})


class Choice:
    """The choice for one action, in a transaction that ends soon: other calls wait for the team.

    `team`: as the call names it. `present`: the contact's owner, "" for none; None if unknown.
    """

    def __init__(
        self,
        tx: Connection,
        account: Account,
        action_id: str,
        *,
        team: str,
        keep: bool,
        deal_id: str,
        open_deals: OpenDeals | None,
    ) -> None:
        self._tx = tx
        self._account_id = account.id
        self._key = {"account_id": account.id, "action_id": action_id}
        self._keep = keep
        self._deal_id = deal_id or None
        self._open_deals = open_deals
        self._earlier = of_action(tx, account.id, action_id)
        self._name = self._earlier.team if self._earlier else find_name(tx, account, team)
        found = lock_team(tx, account.id, self._name)
        if found is None and self._earlier is None:
            # Removed since it was found.
            found = lock_team(tx, account.id, find_name(tx, account, team))
        self._team = found
        # Another process may have chosen while this one waited for the lock.
        self._earlier = of_action(tx, account.id, action_id)
        self._moment = tx.now_ms()

    def choose(self, present: str | None, *, known: str = "") -> Assignment:
        """Return the stored assignment, or make and store one.

        `known`: the owner that the hub last knew, while `present` is unknown.
        """
        earlier, owner_id = self._earlier, known if present is None else present
        if earlier is not None:
            if earlier.confirmed or present is None:
                return earlier
            if not self._may_keep(present) or present == earlier.owner_id:
                return self._store(replace(earlier, confirmed=True))
            # The hub chose while the CRM was unavailable, and now this owner shows up.
            self.take_back(earlier)
        if self._may_keep(owner_id):
            return self._store(self._kept(owner_id, confirmed=present is not None))
        return self._store(replace(self._drawn(()), confirmed=present is not None))

    def choose_another(self, refused: Assignment) -> Assignment | None:
        """Return the next owner after the CRM refused one; None if nobody is left."""
        if self._earlier is not None and self._earlier.owner_id != refused.owner_id:
            return self._earlier
        self.take_back(refused)
        out = (*refused.refused, refused.owner_id)
        try:
            drawn = self._drawn(out)
        except Semantic:
            delete_where(self._tx, team_assignment, self._key)
            return None
        reason = translatable(
            "%(owner)s was refused by the CRM. %(reason)s",
            owner=refused.name or refused.owner_id,
            reason=drawn.reason,
        )
        if refused.refused:
            reason = translatable(
                "%(count)s owners were refused by the CRM. %(reason)s",
                count=len(out),
                reason=drawn.reason,
            )
        return self._store(replace(drawn, reason=reason, refused=out, confirmed=True))

    def _may_keep(self, owner_id: str) -> bool:
        member = self._team.member(owner_id) if self._team and owner_id else None
        return self._keep and member is not None and not member.problem

    def _kept(self, owner_id: str, *, confirmed: bool) -> Assignment:
        assert self._team is not None
        member = self._team.member(owner_id)
        assert member is not None
        reason = translatable("Kept: already owns this contact.")
        if not confirmed:
            reason = translatable("Kept: owned this contact when the CRM last answered.")
        return replace(self._of_member(member, reason), kept=True)

    def _drawn(self, without: Sequence[str]) -> Assignment:
        """Raises Semantic if nobody can be chosen."""
        if self._team is None:
            raise Semantic("team: the team %(team)s was removed; name another one", team=self._name)
        team = self._team
        members = [one for one in team.members if one.is_drawn and one.owner_id not in without]
        duties = {one.owner_id: one.duty(team.days_off) for one in members}
        on_duty = [one for one in members if duties[one.owner_id].is_on(self._moment)]
        full = self._full(on_duty)
        if free := [one for one in on_duty if one.owner_id not in full]:
            how = rotation.WORDS[team.rotation]
            return self._draw(free, translatable("On duty, next by %(how)s.", how=how))
        nobody = translatable("Nobody is on duty")
        if on_duty:
            nobody = translatable("Everybody on duty is at capacity")
        fallback = team.fallback
        if fallback is not None and fallback.owner_id not in without:
            member = team.member(fallback.owner_id)
            if member is None or not member.problem:
                reason = translatable("%(nobody)s; this is the team's fallback.", nobody=nobody)
                place = member.place if member else 0
                return self._assignment(
                    fallback.owner_id, fallback.name, fallback.email, place, reason
                )
        starts = {}
        for one in members:
            duty = duties[one.owner_id]
            if one.owner_id not in full:
                starts[one.owner_id] = duty.next_start(self._moment)
            elif full[one.owner_id] == "leads a day":
                starts[one.owner_id] = duty.next_start(duty.next_day(self._moment))
        known = [start for start in starts.values() if start is not None]
        if known:
            first = min(known)
            soonest = [one for one in members if starts.get(one.owner_id) == first]
            drawn = self._draw(soonest, "")
            at = duties[drawn.owner_id].local(first)
            far = first - self._moment >= _WEEK_MS
            day = at.strftime("%Y-%m-%d") if far else _DAYS[at.weekday()]
            zone = next(one.time_zone for one in soonest if one.owner_id == drawn.owner_id)
            who = drawn.name or drawn.email or drawn.owner_id
            reason = translatable(
                "%(nobody)s; %(who)s starts %(day)s %(time)s %(zone)s.",
                nobody=nobody,
                who=who,
                day=day,
                time=f"{at:%H:%M}",
                zone=zone,
            )
            return replace(drawn, reason=reason)
        if on_duty:
            how = rotation.WORDS[team.rotation]
            reason = translatable("Everybody on duty is at capacity; next by %(how)s.", how=how)
            return self._draw(on_duty, reason)
        raise Semantic(
            "team: nobody in the team %(team)s can be chosen, since each member has the weight 0,"
            " is away, or was refused by the CRM; change the team, or give it a fallback",
            team=team.name,
        )

    def _full(self, members: Sequence[Member]) -> dict[str, str]:
        """Return the members without room, and the capacity they have reached."""
        full: dict[str, str] = {}
        by_day: dict[int, list[Member]] = {}
        for one in members:
            if one.leads_per_day is not None:
                day = one.duty(()).day_start(self._moment)
                by_day.setdefault(day, []).append(one)
        for day, counted in by_day.items():
            drawn = self._counts(_DRAWN_SINCE, counted, since=day)
            full |= {
                one.owner_id: "leads a day"
                for one in counted
                if drawn.get(one.owner_id, 0) >= (one.leads_per_day or 0)
            }
        deals, found = [one for one in members if one.open_deals is not None], self._open_deals
        if deals and found is not None:
            under_way = self._counts(
                _DEALS_UNDER_WAY,
                deals,
                since=self._moment - 2 * _WEEK_MS,
                counted_at=found.counted_at,
            )
            full |= {
                one.owner_id: "open deals"
                for one in deals
                if found.of.get(one.owner_id, 0) + under_way.get(one.owner_id, 0)
                >= (one.open_deals or 0)
            }
        return full

    def _counts(
        self, statement: Statement, members: Sequence[Member], **given: int
    ) -> dict[str, int]:
        owners = [one.owner_id for one in members]
        rows = self._tx.rows(statement, {"account_id": self._account_id, "owners": owners, **given})
        return {row.owner_id: row.n for row in rows}

    def _draw(self, candidates: Sequence[Member], reason: str) -> Assignment:
        assert self._team is not None
        team = self._team
        seed = f"{self._account_id}/{team.name}"
        owner_id, shares = rotation.draw(team.rotation, seed, candidates, team.last_owner_id)
        self._move(owner_id, shares, 1)
        of_team = {"account_id": self._account_id, "name": team.name}
        set_where(self._tx, team_table, of_team, last_owner_id=owner_id)
        member = team.member(owner_id)
        assert member is not None
        return replace(self._of_member(member, reason), shares=shares)

    def take_back(self, assignment: Assignment) -> None:
        moves = {owner_id: -share for owner_id, share in assignment.shares.items()}
        self._move(assignment.owner_id, moves, -1 if moves else 0)
        if self._team is not None:
            again = lock_team(self._tx, self._account_id, self._team.name)
            self._team = again or self._team

    def _move(self, chosen: str, moves: Mapping[str, int], draws: int) -> None:
        key = {"account_id": self._account_id, "team": self._name}
        for owner_id, by in sorted(moves.items()):
            counted = draws if owner_id == chosen else 0
            self._tx.run(_MOVE_CREDIT, {**key, "owner_id": owner_id, "by": by, "draws": counted})

    def _of_member(self, member: Member, reason: str) -> Assignment:
        return self._assignment(member.owner_id, member.name, member.email, member.place, reason)

    def _assignment(
        self, owner_id: str, name: str, email: str, place: int, reason: str
    ) -> Assignment:
        return Assignment(self._name, owner_id, name, email, place, reason, deal_id=self._deal_id)

    def _store(self, assignment: Assignment) -> Assignment:
        values = asdict(assignment)
        values["text"] = json.dumps(to_stored(assignment.reason))
        values["shares"] = json.dumps(assignment.shares)
        values["refused"] = json.dumps(assignment.refused)
        upsert_row(self._tx, team_assignment, self._key, values, {"chosen_at": self._moment})
        return assignment
