"""The console's pages for the teams of owners of an account."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import flask
from flask_babel import gettext, lazy_gettext

from crmhub.accounts.rotations import read_rotation
from crmhub.api.http.authentication import hub
from crmhub.console.accounts import account_context
from crmhub.console.pages import add_page, done, errors_on, message_of, typed
from crmhub.console.sessions import author, blueprint, needs
from crmhub.console.visibility import visible_text
from crmhub.errors import HubError, Semantic
from crmhub.helpers.assign_owner import open_deals_filters
from crmhub.operators.teams import change_team
from crmhub.teams.rotation import ROTATIONS, WORDS
from crmhub.teams.teams import Member, Team

_ALL = "/accounts/<client_id>/teams"
_ONE = f"{_ALL}/<team>"
_MEMBER = (
    *("place", "name", "email", "weight", "hours", "time_zone", "days_off", "away_until"),
    *("open_deals", "leads_per_day"),
)
_ROTATION_WORDS = {
    "round_robin": lazy_gettext("round robin"),
    "shuffle_bag": lazy_gettext("shuffle bag"),
    "weighted": lazy_gettext("weighted"),
}
_LIMITS = ("weight", "open_deals", "leads_per_day")


def _context(client_id: str) -> dict[str, Any]:
    context = account_context(client_id)
    account = context["account"]
    owners, untold = None, ""
    try:
        owners = change_team.owners_of(hub(), account)
    except HubError as exc:
        untold = visible_text(message_of(exc))
    return {
        **context,
        "rotations": [(name, gettext(WORDS[name]).capitalize()) for name in ROTATIONS],
        "owners": [(one.id, one.name or one.email or one.id) for one in owners or ()],
        "lists_owners": owners is not None,
        "untold": untold,
        "counts_deals": open_deals_filters(hub(), account) is not None,
    }


def _list_context(client_id: str) -> dict[str, Any]:
    context = _context(client_id)
    rotation = read_rotation(context["account"].switches.rotation)
    return {
        **context,
        "teams": change_team.list_teams(hub(), client_id),
        "rotation": str(rotation),
        "rotation_words": _ROTATION_WORDS,
        "weights": len(rotation.weights),
        "given": {"team": "", "rotation": ROTATIONS[0], "owners": ""},
    }


add_page(_ALL, "teams", needs("activity"), "account/teams.html", _list_context)


def _new_team() -> dict[str, Any]:
    given = typed("team", "rotation")
    lines = flask.request.form.get("owners", "").splitlines()
    chosen = flask.request.form.getlist("owner")
    return {**given, "owners": "\n".join([*chosen, *filter(None, map(str.strip, lines))])}


@blueprint.post(_ALL)
@needs("change")
@errors_on("account/teams.html", _list_context, _new_team)
def teams_add(client_id: str) -> flask.Response:
    given = _new_team()
    team, owners = given["team"], given["owners"].splitlines()
    if any(one.name == team for one in change_team.list_teams(hub(), client_id)):
        raise Semantic("team: there is a team %(team)s already", team=team, field="team")
    if flask.request.form.get("of_rotation"):
        change_team.make_of_rotation(hub(), client_id, team, owners=owners, by=author())
    else:
        change_team.set_team(
            hub(), client_id, team, rotation=given["rotation"], members=owners, by=author()
        )
    message = gettext("The team %(team)s is made.", team=team)
    return done(message, "console.teams_one", client_id=client_id, team=team)


def _one_context(client_id: str, team: str) -> dict[str, Any]:
    found = change_team.find_team(hub(), client_id, team)
    context = _context(client_id)
    names = {one.owner_id for one in found.members}
    return {
        **context,
        "team": found,
        "new_owners": [("", "—"), *(one for one in context["owners"] if one[0] not in names)],
        "seen": change_team.team_version(found),
        "given": _shown(found),
    }


def _shown(team: Team) -> dict[str, Any]:
    return {
        "team": team.name,
        "rotation": team.rotation,
        "fallback": team.fallback.owner_id if team.fallback else "",
        "days_off": ", ".join(team.days_off),
        "position": str(team.position + 1),
        "members": [_row(one) for one in team.members],
        "add": "",
    }


def _row(member: Member) -> dict[str, str]:
    away = datetime.fromtimestamp(member.away_until / 1000, UTC) if member.away_until else None
    return {
        **{name: str(getattr(member, name) or "") for name in _MEMBER},
        "weight": str(member.weight),
        "owner": member.owner_id,
        "days_off": ", ".join(member.days_off),
        "away_until": away.strftime("%Y-%m-%dT%H:%M") if away else "",
        "problem": member.problem,
        "drawn": str(member.drawn),
    }


def _typed() -> dict[str, Any]:
    form = flask.request.form
    columns = {name: form.getlist(name) for name in ("owner", *_MEMBER)}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=False)]
    removed = form.getlist("remove")
    return {
        **typed("team", "rotation", "fallback", "days_off_team", "position", "add"),
        "days_off": form.get("days_off_team", "").strip(),
        "members": [row for row in rows if row["owner"] not in removed],
    }


add_page(_ONE, "teams_one", needs("activity"), "account/team.html", _one_context)


@blueprint.post(_ONE)
@needs("change")
@errors_on("account/team.html", _one_context, _typed)
def teams_save(client_id: str, team: str) -> flask.Response:
    given, account = _typed(), hub().load_account(client_id)
    rows = sorted(given["members"], key=lambda row: _number("place", row["place"]) or 0)
    columns = {}
    for row in rows:
        try:
            columns[row["owner"]] = change_team.member_values(hub(), account, **_values(row))
        except Semantic as exc:
            raise Semantic(f"{row['name'] or row['owner']}: {message_of(exc)}") from exc
    members = [row["owner"] for row in rows]
    if given["add"]:
        members.append(given["add"])
    saved = change_team.set_team(
        hub(),
        client_id,
        team,
        name=given["team"],
        rotation=given["rotation"],
        members=members,
        fallback=given["fallback"],
        days_off=given["days_off"],
        position=_number("position", given["position"]),
        each=columns,
        expected=flask.request.form.get("seen"),
        by=author(),
    )
    return done(gettext("Saved."), "console.teams_one", client_id=client_id, team=saved.name)


def _values(row: Mapping[str, str]) -> dict[str, Any]:
    texts = {name: row[name] for name in ("name", "email", "hours", "days_off")}
    numbers = {name: _number(name, row[name]) or 0 for name in _LIMITS}
    return {
        **texts,
        **numbers,
        "time_zone": row["time_zone"].strip() or "UTC",
        "away_until": _moment(row["away_until"]),
    }


def _number(name: str, text: str) -> int | None:
    text = text.strip()
    if text and not (text.isascii() and text.isdigit() and len(text) <= 7):
        raise Semantic("%(name)s: %(text)s is no whole number", name=name, text=repr(text[:20]))
    return int(text) if text else None


def _moment(text: str) -> int:
    if not text.strip():
        return 0
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        raise Semantic("away_until: give a date and a time") from None


@blueprint.post(f"{_ONE}/remove")
@needs("change")
@errors_on("account/team.html", _one_context)
def teams_remove(client_id: str, team: str) -> flask.Response:
    change_team.remove_team(hub(), client_id, team, by=author())
    message = gettext("The team %(team)s is removed.", team=team)
    return done(message, "console.teams", client_id=client_id)
