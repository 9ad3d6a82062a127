"""Teams of owners, as operators see them, and what they do with them."""

from __future__ import annotations

from typing import Any

from crmhub.operators.resources import WITH_BODY, WITHOUT_BODY, Argument, Column, Resource, Verb

_OPERATIONS = "crmhub.operators.teams.change_team"
_ROTATIONS = "crmhub.teams.rotation:ROTATIONS"
_ALL = "/accounts/<client_id>/teams"
_ONE = f"{_ALL}/<team>"
_MEMBER = f"{_ONE}/members/<owner>"
_LONGEST = 255
_DAYS_OFF = "Dates in the member's time zone: 2026-12-25, 2026-12-24/2027-01-06; or none."
_HOURS = "Such as mon-fri 09:00-17:30, sat 10:00-14:00; or always."
_AT_MOST = "0 for any number."
_WITH_BODY = tuple(sorted({*WITH_BODY, 409}))


def _days_off(of: Any) -> str:
    return ", ".join(of.days_off)


def _capacity(member: Any) -> str:
    limits = {"open deals": "open_deals", "leads a day": "leads_per_day"}
    texts = (
        f"{value} {words}" for words, name in limits.items() if (value := getattr(member, name))
    )
    return ", ".join(texts)


MEMBER = Resource(
    "TeamMember",
    (
        Column("place", "number", "From 1: what assignOwner answers as value.", "Place", least=1),
        Column("ownerId", title="Owner"),
        Column("name", title="Name"),
        Column("email", title="Email"),
        Column("weight", "number", "0: is never drawn.", "Weight", least=0),
        Column("hours", "text", _HOURS, "Hours", shorten=1),
        Column("timeZone", title="Time zone"),
        Column("daysOff", "text", _DAYS_OFF, "Days off", of=_days_off, shorten=2),
        Column(
            "awayUntil",
            "moment",
            of=lambda one: one.away_until or None,
            null=True,
            title="Away until",
            never="",
        ),
        Column("openDeals", "number", "At most so many; null: any.", null=True, least=1),
        Column("leadsPerDay", "number", "At most so many; null: any.", null=True, least=1),
        Column("", of=_capacity, title="At most"),
        Column("drawn", "number", "How often the rotation has chosen them.", "Drawn", least=0),
        Column(
            "problem",
            "text",
            "Why the CRM refused the owner, who is not drawn until the team or member is saved.",
            "Problem",
        ),
    ),
)
TEAM = Resource(
    "Team",
    (
        Column("name", title="Team"),
        Column("rotation", words=_ROTATIONS, title="Rotation"),
        Column(
            "daysOff",
            "text",
            f"Of all members. {_DAYS_OFF}",
            "Days off",
            of=_days_off,
            shorten=1,
        ),
        Column(
            "fallbackId",
            "text",
            'Who gets contacts while nobody can be chosen; "": whose turn begins next.',
            of=lambda team: team.fallback.owner_id if team.fallback else "",
            title="Fallback",
        ),
        Column("members", MEMBER, many=True),
        Column(
            "", "words", of=lambda team: [one.owner_id for one in team.members], title="Members"
        ),
    ),
    page="TeamList",
)
_MEMBERS = Argument(
    "members",
    "ids",
    "Ids or emails of owners in the account's CRM, in their order. On `local` any id or email, or"
    " `Name <email>`. Those who stay keep their values.",
    option="--member",
    metavar="OWNER",
    longest=_LONGEST,
)
LIST = Verb(
    operation="listTeams",
    route=f"GET {_ALL}",
    scope="accounts:read",
    errors=WITHOUT_BODY,
    command="team list",
    does=f"{_OPERATIONS}:list_teams",
    summary="List an account's teams; the first one is the default of assignOwner",
    shows=TEAM,
    many=True,
)
SHOW = Verb(
    operation="getTeam",
    route=f"GET {_ONE}",
    scope="accounts:read",
    errors=WITHOUT_BODY,
    does=f"{_OPERATIONS}:find_team",
    summary="Read a team",
    shows=TEAM,
)
SET = Verb(
    operation="setTeam",
    route=f"PUT {_ONE}",
    scope="accounts:write",
    errors=_WITH_BODY,
    command="team set",
    does=f"{_OPERATIONS}:set_team",
    summary="Make a team, or change it",
    help="What is not given stays as it is.",
    input="TeamInput",
    arguments=(
        Argument(
            "name",
            "text",
            "A new name. Calls with the former one reach the team until another one gets it.",
            option="--name",
            metavar="NAME",
            longest=100,
        ),
        _MEMBERS,
        Argument(
            "rotation",
            "choice",
            "How the next member is chosen.",
            option="--rotation",
            words=_ROTATIONS,
        ),
        Argument(
            "fallback",
            "text",
            "The owner who gets contacts while nobody can be chosen; `none` for whose turn begins"
            " next.",
            option="--fallback",
            metavar="OWNER",
            longest=_LONGEST,
        ),
        Argument("days_off", "text", _DAYS_OFF, "--days-off", "DATES", longest=5000),
        Argument(
            "position",
            "number",
            "The place among the teams, from 1; the first is the default.",
            option="--position",
            least=1,
            longest=50,
        ),
    ),
    shows=TEAM,
)
SET_MEMBER = Verb(
    operation="setTeamMember",
    route=f"PUT {_MEMBER}",
    scope="accounts:write",
    errors=_WITH_BODY,
    command="team set-member",
    does=f"{_OPERATIONS}:set_member",
    summary="Add a member to a team, or change one",
    help="What is not given stays as it is.",
    input="TeamMemberInput",
    arguments=(
        Argument("name", "text", "By default the CRM's.", "--name", "NAME", longest=_LONGEST),
        Argument("email", "text", "By default the CRM's.", "--email", "EMAIL", longest=_LONGEST),
        Argument("weight", "number", "0: is never drawn.", "--weight", least=0, longest=100),
        Argument("hours", "text", _HOURS, "--hours", "HOURS", longest=1000),
        Argument(
            "time_zone", "text", "Such as Europe/Madrid.", "--time-zone", "ZONE", longest=_LONGEST
        ),
        Argument("days_off", "text", _DAYS_OFF, "--days-off", "DATES", longest=5000),
        Argument("away_until", "moment", "A past time ends it.", "--away-until", "WHEN"),
        Argument(
            "open_deals",
            "number",
            f"At most so many open deals; {_AT_MOST}",
            option="--open-deals",
            least=0,
            longest=1_000_000,
        ),
        Argument(
            "leads_per_day",
            "number",
            f"At most so many assignments a day; {_AT_MOST}",
            option="--leads-per-day",
            wire="leadsPerDay",
            least=0,
            longest=1_000_000,
        ),
        Argument("place", "number", "From 1.", "--place", least=1, longest=100),
    ),
    shows=TEAM,
)
REMOVE = Verb(
    operation="deleteTeam",
    route=f"DELETE {_ONE}",
    scope="accounts:write",
    errors=WITHOUT_BODY,
    command="team remove",
    does=f"{_OPERATIONS}:remove_team",
    summary="Remove a team; contacts keep their owners",
    says="The team {team} is removed.",
    confirm="Remove the team {team}?",
)
REMOVE_MEMBER = Verb(
    operation="deleteTeamMember",
    route=f"DELETE {_MEMBER}",
    scope="accounts:write",
    errors=WITHOUT_BODY,
    command="team remove-member",
    does=f"{_OPERATIONS}:remove_member",
    summary="Remove a member from a team; contacts keep the owner",
    says="{owner} is no member of {team} any more.",
)
FROM_ROTATION = Verb(
    operation="createTeamOfRotation",
    route=f"POST {_ONE}/from-rotation",
    scope="accounts:write",
    status=201,
    errors=_WITH_BODY,
    command="team from-rotation",
    does=f"{_OPERATIONS}:make_of_rotation",
    summary="Make a team with the weights of the account's rotation",
    help="The owners come in the order of the rotation's numbers. getRandomInt goes on unchanged.",
    input="TeamOfRotation",
    arguments=(
        Argument(
            "owners",
            "ids",
            "One owner for each number of the rotation, in their order.",
            option="--owner",
            metavar="OWNER",
            required=True,
            longest=_LONGEST,
        ),
    ),
    shows=TEAM,
)
VERBS = (LIST, SHOW, SET, SET_MEMBER, REMOVE, REMOVE_MEMBER, FROM_ROTATION)
