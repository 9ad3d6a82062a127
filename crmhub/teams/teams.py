"""Teams and their members, as they are stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection
from crmhub.database.rows import find_row
from crmhub.database.statements import Statement, equals
from crmhub.database.tables import team as team_table
from crmhub.database.tables import team_member
from crmhub.errors import Semantic, shortened
from crmhub.periods import parse_zone
from crmhub.teams.hours import Duty, parse_hours

MAX_TEAMS = 50
MAX_MEMBERS = 100
LARGEST_WEIGHT = 100
OWNER = "hubspot_owner_id"
"""The property of contacts and deals that names their owner, by the hub's name."""

_TEAMS = Statement(
    sa.select(team_table)
    .where(*equals(team_table, "account_id"))
    .order_by(team_table.c.position, team_table.c.name)
)
_MEMBERS = Statement(
    sa.select(team_member)
    .where(*equals(team_member, "account_id", "team"))
    .order_by(team_member.c.position, team_member.c.owner_id)
)
_ALL_MEMBERS = Statement(
    sa.select(team_member)
    .where(*equals(team_member, "account_id"))
    .order_by(team_member.c.position, team_member.c.owner_id)
)


@dataclass(frozen=True, slots=True)
class Member:
    """`place`: from 1. `open_deals`, `leads_per_day`: at most so many; None for any number.

    `problem`: why the CRM refused the owner, "" if it did not; a member with one is not drawn.
    """

    place: int
    owner_id: str
    name: str
    email: str
    weight: int
    hours: str
    time_zone: str
    days_off: tuple[str, ...]
    away_until: int
    open_deals: int | None
    leads_per_day: int | None
    credit: int
    drawn: int
    problem: str

    @property
    def is_drawn(self) -> bool:
        return self.weight > 0 and not self.problem

    def duty(self, holidays: Sequence[str]) -> Duty:
        zone = parse_zone(self.time_zone)
        return Duty(parse_hours(self.hours), zone, {*self.days_off, *holidays}, self.away_until)


@dataclass(frozen=True, slots=True)
class Fallback:
    """Who gets the contact while nobody in the team can be chosen; maybe no member."""

    owner_id: str
    name: str = ""
    email: str = ""


@dataclass(frozen=True, slots=True)
class Team:
    name: str
    position: int
    rotation: str
    days_off: tuple[str, ...]
    fallback: Fallback | None
    last_owner_id: str | None
    former_names: tuple[str, ...]
    """Names that calls may go on sending, the latest first."""
    members: tuple[Member, ...]

    def member(self, owner_id: str) -> Member | None:
        return next((one for one in self.members if one.owner_id == owner_id), None)


def list_teams(db: Connection, account_id: int) -> list[Team]:
    """Return the teams in their order; the first is the account's default."""
    here = {"account_id": account_id}
    members: dict[str, list[Any]] = {}
    for row in db.rows(_ALL_MEMBERS, here):
        members.setdefault(row.team, []).append(row)
    return [_team(row, members.get(row.name, [])) for row in db.rows(_TEAMS, here)]


def lock_team(tx: Connection, account_id: int, name: str) -> Team | None:
    """Until the transaction ends, nobody else draws from the team or changes it."""
    row = find_row(tx, team_table, {"account_id": account_id, "name": name}, lock=True)
    if row is None:
        return None
    return _team(row, tx.rows(_MEMBERS, {"account_id": account_id, "team": name}))


def find_name(db: Connection, account: Account, said: str) -> str:
    """Return the name of the team that a call means; "" is the first one. Raises Semantic."""
    teams = [_team(row, ()) for row in db.rows(_TEAMS, {"account_id": account.id})]
    if not teams:
        raise Semantic(
            "team: this account has no team yet. Make one on its page Teams in the"
            " console, or with crmhub team set %(client_id)s NAME --member OWNER",
            client_id=account.client_id,
        )
    found = _meant(teams, said)
    if found is None:
        names = ", ".join(one.name for one in teams)
        raise Semantic(
            "team: there is no team %(team)s; the teams are %(names)s",
            team=shortened(said),
            names=names,
        )
    return found.name


def find_team(db: Connection, account: Account, said: str) -> Team | None:
    """Return the team that a call means, None if there is none."""
    return _meant(list_teams(db, account.id), said)


def _meant(teams: Sequence[Team], said: str) -> Team | None:
    folded = said.casefold()
    named = [one for one in teams if said in ("", one.name)]
    alike = [one for one in teams if one.name.casefold() == folded]
    former = [one for one in teams if folded in map(str.casefold, one.former_names)]
    return next(iter(named or alike or former), None)


def _team(row: Any, members: Sequence[Any]) -> Team:
    fallback = json.loads(row.fallback) if row.fallback else None
    return Team(
        row.name,
        row.position,
        row.rotation,
        tuple(json.loads(row.days_off)),
        Fallback(**fallback) if fallback else None,
        row.last_owner_id,
        tuple(json.loads(row.former_names)),
        tuple(_member(place, each) for place, each in enumerate(members, 1)),
    )


def _member(place: int, row: Any) -> Member:
    return Member(
        place=place,
        owner_id=row.owner_id,
        name=row.name,
        email=row.email,
        weight=row.weight,
        hours=row.hours,
        time_zone=row.time_zone,
        days_off=tuple(json.loads(row.days_off)),
        away_until=row.away_until or 0,
        open_deals=row.open_deals,
        leads_per_day=row.leads_per_day,
        credit=row.credit,
        drawn=row.drawn,
        problem=row.problem,
    )
