"""Make, change and remove teams and their members; each change is in the audit log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from crmhub import adapter as contract
from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.accounts.rotations import RANDOM, ROUND_ROBIN, read_rotation
from crmhub.adapter import Owner
from crmhub.audit import Author
from crmhub.crm.connection import as_hub_errors, ask
from crmhub.database.advisory_locks import hold
from crmhub.database.connection import Connection
from crmhub.database.rows import delete_where, insert_row, set_where, upsert_row
from crmhub.database.tables import team as team_table
from crmhub.database.tables import team_assignment, team_member
from crmhub.errors import Conflict, NotFound, Semantic, shortened
from crmhub.helpers.assign_owner import open_deals_filters
from crmhub.hub import Hub, in_transaction
from crmhub.operators.form_versions import require_version, version_of
from crmhub.periods import parse_zone
from crmhub.teams import teams
from crmhub.teams.hours import parse_dates, parse_hours
from crmhub.teams.rotation import ROTATIONS
from crmhub.teams.teams import LARGEST_WEIGHT, MAX_MEMBERS, MAX_TEAMS, Team
from crmhub.translatable import translatable

T = TypeVar("T")

_LONGEST_NAME = 100
ALWAYS = "always"
_LONGEST = 255
# A part of addresses.
_NAME = re.compile(r"[^\W_][\w &+\-.,:'’()]*")
_LONGEST_HOURS = 1000
_MOST_NAMED = 20
_MOST_FORMER_NAMES = 20
_NAMED = re.compile(r"(?P<name>[^<>]*)<(?P<email>[^<>\s]+)>")
_NEW_MEMBER = {
    "weight": 1,
    "hours": "",
    "time_zone": "UTC",
    "days_off": "[]",
    "credit": 0,
    "drawn": 0,
    "problem": "",
}


def list_teams(hub: Hub, client_id: str) -> list[Team]:
    account_id = hub.load_account(client_id).id
    with hub.database.reading() as db:
        return teams.list_teams(db, account_id)


def find_team(hub: Hub, client_id: str, team: str) -> Team:
    for found in list_teams(hub, client_id):
        if found.name == team:
            return found
    raise NotFound(_no_team(team))


def owners_of(hub: Hub, account: Account) -> list[Owner] | None:
    """Return the owners of the account's CRM; None for one that has no list. Raises Unavailable."""
    adapter = hub.registry.load(account.connection.adapter)
    if not adapter.remote:
        return None
    with as_hub_errors(account):
        try:
            return ask(hub, account, lambda crm: crm.owners())
        except contract.Unsupported:
            return None


def set_team(
    hub: Hub,
    client_id: str,
    team: str,
    *,
    name: str | None = None,
    rotation: str | None = None,
    members: Sequence[str] | None = None,
    fallback: str | None = None,
    days_off: str | None = None,
    position: int | None = None,
    expected: str | None = None,
    each: Mapping[str, Mapping[str, Any]] | None = None,
    by: Author,
) -> Team:
    """Make or change a team; None leaves a value unchanged, and a fallback "" or "none" removes it.

    `name`: a new one. `members`: owners in their order, by id or email; those who stay keep their
    values. `position`: from 1, the place among the account's teams. `each`: columns of the members,
    by the text of `members`. `expected`: the `team_version` that was seen; None skips this
    comparison.
    Raises NotFound for the account, Semantic for invalid values and unknown owners, and Unavailable
    if the CRM cannot be asked.
    """
    account, former = hub.load_account(client_id), team.strip()
    values = team_values(rotation=rotation, days_off=days_off)
    known = _Owners(hub, account)
    chosen = None if members is None else known.find_all("members", members)
    columns = [(each or {}).get(text, {}) for text in members or ()]
    if fallback is not None:
        is_given = fallback.strip() not in ("", "none")
        one = known.find_all("fallback", [fallback])[0] if is_given else None
        named = {"owner": one.id, "name": one.name, "email": one.email} if one else {}
        values |= team_values(fallback=named)

    def store(tx: Connection) -> Team:
        new_name = former if name is None else name.strip()
        before = teams.lock_team(tx, account.id, former)
        require_version(
            None if before is None else team_version(before),
            expected,
            translatable("The team %(team)s was", team=former),
        )
        if before is not None and new_name != former:
            _rename(tx, account.id, before, new_name)
        return _store_team(tx, account, new_name, before, values, chosen, position, columns, by)

    return hub.database.transact(store)


def _store_team(
    tx: Connection,
    account: Account,
    name: str,
    before: Team | None,
    values: Mapping[str, Any],
    members: Sequence[Owner] | None,
    position: int | None,
    columns: Sequence[Mapping[str, Any]],
    by: Author,
) -> Team:
    _require_name(name)
    hold(tx, account.id, "teams")
    every = teams.list_teams(tx, account.id)
    before = before or teams.lock_team(tx, account.id, name)
    if before is None:
        if len(every) >= MAX_TEAMS:
            raise Conflict(
                "An account has at most %(most)s teams; remove one first.", most=MAX_TEAMS
            )
        first = {"rotation": ROUND_ROBIN, "days_off": "[]", "fallback": None}
        _take_name(tx, account.id, every, name)
        row = {"account_id": account.id, "name": name, "last_owner_id": None}
        insert_row(tx, team_table, {**row, **first, **values, "position": len(every)})
    elif values:
        set_where(tx, team_table, {"account_id": account.id, "name": name}, **values)
    if members is not None:
        _store_members(tx, account.id, name, before, members, columns)
    if position is not None:
        order = [one.name for one in every if one.name != name]
        order.insert(max(0, position - 1), name)
        for place, each in enumerate(order):
            set_where(tx, team_table, {"account_id": account.id, "name": each}, position=place)
    return _note(tx, account.id, name, before, by)


def _rename(tx: Connection, account_id: int, team: Team, name: str) -> None:
    """Members, their shares, and what they were assigned go with the team, as its name does."""
    _require_name(name)
    hold(tx, account_id, "teams")
    every = teams.list_teams(tx, account_id)
    if any(one.name.casefold() == name.casefold() for one in every if one.name != team.name):
        raise Conflict("There is a team %(name)s already; give another name.", name=name)
    _take_name(tx, account_id, every, name)
    # Queued calls and bots go on sending the former name.
    former = [one for one in (team.name, *team.former_names) if one.casefold() != name.casefold()]
    values = {"name": name, "former_names": json.dumps(former[:_MOST_FORMER_NAMES])}
    set_where(tx, team_table, {"account_id": account_id, "name": team.name}, **values)
    for table in (team_member, team_assignment):
        set_where(tx, table, {"account_id": account_id, "team": team.name}, team=name)


def _take_name(tx: Connection, account_id: int, every: Sequence[Team], name: str) -> None:
    """From now on, calls with this name mean the team that gets it."""
    for one in every:
        left = [each for each in one.former_names if each.casefold() != name.casefold()]
        if len(left) < len(one.former_names):
            here = {"account_id": account_id, "name": one.name}
            set_where(tx, team_table, here, former_names=json.dumps(left))


def _require_name(name: str) -> None:
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise Semantic(
            "team: give a name of 1 to %(longest)s letters, digits, blanks and signs"
            " such as & + - _ . ' ( ), with a letter or a digit first",
            field="team",
            longest=_LONGEST_NAME,
        )


def _store_members(
    tx: Connection,
    account_id: int,
    team: str,
    before: Team | None,
    members: Sequence[Owner],
    columns: Sequence[Mapping[str, Any]],
) -> None:
    stay = {one.id for one in members}
    for gone in before.members if before else ():
        if gone.owner_id not in stay:
            key = {"account_id": account_id, "team": team, "owner_id": gone.owner_id}
            delete_where(tx, team_member, key)
    for place, (one, given) in enumerate(zip(members, columns, strict=True)):
        key = {"account_id": account_id, "team": team, "owner_id": one.id}
        # An operator who saves the team has seen the problem.
        values = {"position": place, "name": one.name, "email": one.email, "problem": "", **given}
        new = {name: value for name, value in _NEW_MEMBER.items() if name not in values}
        upsert_row(tx, team_member, key, values, new)


def set_member(
    hub: Hub,
    client_id: str,
    team: str,
    owner: str,
    *,
    place: int | None = None,
    by: Author,
    **given: Any,
) -> Team:
    """Add a member or change their values; None leaves a value unchanged.

    `given`: columns of a member. `open_deals`, `leads_per_day`: at most so many, 0 for any
    number. Raises as `set_team` does.
    """
    account = hub.load_account(client_id)
    values = member_values(hub, account, **given)
    before = find_team(hub, client_id, team)
    known = before.member(owner)
    if known is not None:
        one = Owner(known.owner_id, known.email, known.name)
    else:
        one = _Owners(hub, account).find_all("owner", [owner])[0]
    values = {"name": one.name, "email": one.email, **values}

    def store(tx: Connection) -> Team:
        before = _locked(tx, account.id, team)
        others = [each.owner_id for each in before.members if each.owner_id != one.id]
        if len(others) >= MAX_MEMBERS:
            raise Semantic("A team has at most %(most)s members.", most=MAX_MEMBERS)
        key = {"account_id": account.id, "team": team}
        now = before.member(one.id)
        changed = {**values, "problem": ""}
        new = {name: value for name, value in _NEW_MEMBER.items() if name not in changed}
        first = {"position": len(others), **new}
        upsert_row(tx, team_member, {**key, "owner_id": one.id}, changed, first)
        if place is not None or now is None:
            others.insert(len(others) if place is None else max(0, place - 1), one.id)
            for number, each in enumerate(others):
                set_where(tx, team_member, {**key, "owner_id": each}, position=number)
        return _note(tx, account.id, team, before, by)

    return hub.database.transact(store)


@in_transaction
def remove_member(
    hub: Hub, tx: Connection, client_id: str, team: str, owner: str, *, by: Author
) -> None:
    """Contacts keep the owner. Raises NotFound."""
    account_id = hub.load_account(client_id).id
    before = _locked(tx, account_id, team)
    key = {"account_id": account_id, "team": team, "owner_id": owner}
    if not delete_where(tx, team_member, key):
        raise NotFound(
            "The team %(team)s has no member %(owner)s.", team=team, owner=shortened(owner)
        )
    _note(tx, account_id, team, before, by)


@in_transaction
def remove_team(hub: Hub, tx: Connection, client_id: str, team: str, *, by: Author) -> None:
    """Contacts keep their owners. Raises NotFound."""
    account_id = hub.load_account(client_id).id
    before = _locked(tx, account_id, team)
    delete_where(tx, team_member, {"account_id": account_id, "team": team})
    delete_where(tx, team_table, {"account_id": account_id, "name": team})
    audit.note(tx, by, "remove", "team", team, account_id=account_id, before=audit_facts(before))


def make_of_rotation(
    hub: Hub, client_id: str, team: str, *, owners: Sequence[str], by: Author
) -> Team:
    """Make a team with the rotation and the weights of the account's switch `rotation`.

    `owners`: one for each number. Raises Conflict if the team exists, and as `set_team` does.
    """
    account = hub.load_account(client_id)
    if any(one.name == team for one in list_teams(hub, client_id)):
        raise Conflict("There is a team %(name)s already; give another name.", name=team)
    rotation = read_rotation(account.switches.rotation)
    weights = rotation.weights or (1,) * len(owners)
    if len(owners) != len(weights):
        raise Semantic(
            "owners: the account's rotation has %(weights)s weights (%(strategy)s);"
            " name as many owners, in the order of their numbers",
            weights=len(weights),
            strategy=rotation.strategy,
        )
    return set_team(
        hub,
        client_id,
        team,
        rotation=ROUND_ROBIN if rotation.how == RANDOM else rotation.how,
        members=owners,
        each={owner: {"weight": weight} for owner, weight in zip(owners, weights, strict=True)},
        by=by,
    )


def team_values(
    *, rotation: str | None = None, days_off: str | None = None, fallback: Any = None
) -> dict[str, Any]:
    """Return the columns of the given values; raises Semantic with the first fault.

    `fallback`: an owner with `owner`, `name` and `email`; empty for none.
    """
    values: dict[str, Any] = {}
    if rotation is not None:
        if rotation not in ROTATIONS:
            raise Semantic(
                "rotation: is one of %(rotations)s",
                field="rotation",
                rotations=", ".join(ROTATIONS),
            )
        values["rotation"] = rotation
    if days_off is not None:
        values["days_off"] = _dates(days_off)
    if fallback is not None:
        named = {"owner_id": fallback["owner"], "name": "", "email": ""} if fallback else None
        if named:
            named |= {key: fallback[key] for key in ("name", "email") if key in fallback}
        values["fallback"] = json.dumps(named) if named else None
    return values


def member_values(hub: Hub, account: Account, **given: Any) -> dict[str, Any]:
    """Return the columns of the given values; raises Semantic with the first fault."""
    values = {name: value for name, value in given.items() if value is not None}
    for name in ("name", "email"):
        if name in values:
            values[name] = _text(name, values[name])
    if not 0 <= values.get("weight", 0) <= LARGEST_WEIGHT:
        raise Semantic("weight: is from 0 to %(largest)s", field="weight", largest=LARGEST_WEIGHT)
    if "hours" in values:
        text = " ".join(values["hours"].split()).replace(ALWAYS, "")
        if len(text) > _LONGEST_HOURS:
            raise Semantic(
                "hours: has at most %(longest)s characters", field="hours", longest=_LONGEST_HOURS
            )
        _checked("hours", parse_hours, text)
        values["hours"] = text
    if "time_zone" in values:
        _checked("timeZone", parse_zone, values["time_zone"])
    if "days_off" in values:
        values["days_off"] = _dates(values["days_off"])
    for name in ("open_deals", "leads_per_day", "away_until"):
        if name in values:
            values[name] = values[name] or None
    if values.get("open_deals") and open_deals_filters(hub, account) is None:
        raise Semantic(
            "openDeals: the hub cannot count the open deals of an owner in this account's CRM; set"
            " leadsPerDay, or switch on the account's copy of its CRM (mirror)",
            field="open_deals",
        )
    return values


@in_transaction
def declare_team(
    hub: Hub, tx: Connection, client_id: str, name: str, declared: Mapping[str, Any], *, by: Author
) -> tuple[Team | None, Team]:
    """Make or change a team as an accounts file declares it; return it before and after.

    The CRM is not asked: a declared owner is an id, with a name and an email. Raises Semantic.
    """
    account = hub.load_account(client_id)
    before = teams.lock_team(tx, account.id, name)
    given = dict(declared)
    members = given.pop("members", None)
    owners, columns = [], []
    for member in members or ():
        stored = before.member(member["owner"]) if before else None
        email, label = (member.get(key) for key in ("email", "name"))
        owners.append(
            Owner(
                _text("owner", member["owner"]),
                (stored.email if stored else "") if email is None else email,
                (stored.name if stored else "") if label is None else label,
            )
        )
        columns.append(
            member_values(hub, account, **{k: v for k, v in member.items() if k != "owner"})
        )
    if len({one.id for one in owners}) < len(owners):
        raise Semantic("members: name each owner once")
    values = team_values(**given)
    chosen = None if members is None else owners
    return before, _store_team(tx, account, name, before, values, chosen, None, columns, by)


def declaration(team: Team) -> dict[str, Any]:
    """Return the team as an accounts file declares it; `away_until` is no configuration."""
    given: dict[str, Any] = {"rotation": team.rotation, "days_off": ", ".join(team.days_off)}
    if team.fallback:
        fallback = asdict(team.fallback)
        given["fallback"] = {"owner": fallback.pop("owner_id"), **fallback}
    given["members"] = [
        {
            "owner": one.owner_id,
            "name": one.name,
            "email": one.email,
            "weight": one.weight,
            "hours": one.hours,
            "time_zone": one.time_zone,
            "days_off": ", ".join(one.days_off),
            "open_deals": one.open_deals or 0,
            "leads_per_day": one.leads_per_day or 0,
        }
        for one in team.members
    ]
    return given


def team_version(team: Team) -> str:
    return version_of(audit_facts(team))


def audit_facts(team: Team) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": team.name,
        "position": team.position + 1,
        "rotation": team.rotation,
        "daysOff": ", ".join(team.days_off),
        "fallback": team.fallback.owner_id if team.fallback else "",
        "members": ", ".join(one.owner_id for one in team.members),
    }
    for one in team.members:
        values = asdict(one)
        for name in ("place", "owner_id", "name", "email", "credit", "drawn", "problem"):
            del values[name]
        values["days_off"] = ", ".join(one.days_off)
        facts |= {f"{one.owner_id}.{name}": value for name, value in values.items()}
    return facts


def _locked(tx: Connection, account_id: int, name: str) -> Team:
    team = teams.lock_team(tx, account_id, name)
    if team is None:
        raise NotFound(_no_team(name))
    return team


def _note(tx: Connection, account_id: int, name: str, before: Team | None, by: Author) -> Team:
    after = teams.lock_team(tx, account_id, name)
    assert after is not None
    audit.note(
        tx,
        by,
        "change" if before else "create",
        "team",
        name,
        account_id=account_id,
        before=audit_facts(before) if before else None,
        after=audit_facts(after),
    )
    return after


class _Owners:
    """The owners that an account's teams can have; the CRM is asked when they are first needed."""

    def __init__(self, hub: Hub, account: Account) -> None:
        self._hub = hub
        self._account = account
        self._listed: list[Owner] | None = None
        self._is_asked = False
        with hub.database.reading() as db:
            # The CRM need not be asked about those who are in a team already.
            self._known = {
                one.owner_id: Owner(one.owner_id, one.email, one.name)
                for team in teams.list_teams(db, account.id)
                for one in (*team.members, *([team.fallback] if team.fallback else ()))
            }

    def find_all(self, where: str, texts: Sequence[str]) -> list[Owner]:
        """Return the owners with these ids or emails; raises Semantic, or Unavailable."""
        found = {one.id: one for one in (self._find(where, text.strip()) for text in texts)}
        if len(found) < len(texts):
            raise Semantic("%(where)s: name each owner once", field=where, where=where)
        if len(found) > MAX_MEMBERS:
            raise Semantic(
                "%(where)s: a team has at most %(most)s members",
                field=where,
                where=where,
                most=MAX_MEMBERS,
            )
        return list(found.values())

    def _find(self, where: str, text: str) -> Owner:
        text = _text(where, text)
        if not text:
            raise Semantic("%(where)s: name an owner", field=where, where=where)
        if text in self._known:
            return self._known[text]
        if not self._is_asked:
            self._listed, self._is_asked = owners_of(self._hub, self._account), True
        if self._listed is None:
            named = _NAMED.fullmatch(text)
            email = named["email"] if named else text if "@" in text else ""
            return Owner(email or text, email, named["name"].strip() if named else "")
        for one in self._listed:
            if text == one.id or text.casefold() in (one.email.casefold(), one.name.casefold()):
                return one
        names = [f"{one.id} ({one.name or one.email})" for one in self._listed[:_MOST_NAMED]]
        more = ["…"] if len(self._listed) > _MOST_NAMED else []
        raise Semantic(
            "%(where)s: the account's CRM has no owner %(owner)s; its owners are %(names)s",
            field=where,
            where=where,
            owner=shortened(text),
            names=", ".join([*names, *more]),
        )


def _dates(text: str) -> str:
    texts = [] if text.strip() == "none" else [each for each in text.split(",") if each.strip()]
    return json.dumps(_checked("daysOff", parse_dates, texts))


def _text(where: str, text: str) -> str:
    text = text.strip()
    if len(text) > _LONGEST or not text.isprintable() or "\ufffd" in text:
        raise Semantic(
            "%(where)s: write at most %(longest)s printable characters",
            field=where,
            where=where,
            longest=_LONGEST,
        )
    return text


def _checked(where: str, check: Callable[[Any], T], value: Any) -> T:
    try:
        return check(value)
    except ValueError as exc:
        raise Semantic("%(where)s: %(reason)s", field=where, where=where, reason=str(exc)) from None


def _no_team(name: str) -> str:
    return translatable("There is no team %(name)s.", name=shortened(name))
