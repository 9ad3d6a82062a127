"""Actions, which helpers accepted, as operators see them, and what they do with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crmhub.durations import iso
from crmhub.errors import BadRequest
from crmhub.operators.resources import (
    WITH_BODY,
    WITHOUT_BODY,
    Argument,
    Column,
    Resource,
    Verb,
    inside,
)
from crmhub.translatable import translatable

if TYPE_CHECKING:
    from crmhub.audit import Author
    from crmhub.hub import Hub
    from crmhub.operators.actions.action_queries import Summary, Wanted

_QUERIES = "crmhub.operators.actions.action_queries"
_HERE = "crmhub.operators.actions.resources"
_CONFLICTS = (400, 401, 403, 404, 409, 429, 500, 503)
_LONGEST_ID = 64
_LONGEST = 255
_LONGEST_REASON = 500
_TOOK = "How long it took."
STATE_WORDS = {"running": "in-progress", "dead": "failed", "parked": "blocked"}
"""The words of commands for the states that have another name on the wire."""


# --- what is shown ---------------------------------------------------------------------------


def _next_try(action: Summary) -> int:
    return action.run_at if action.state in ("running", "queued") else 0


SUMMARY = Resource(
    "ActionListed",
    (
        Column("actionId", of="id"),
        Column("clientId"),
        Column("helper", of="kind", words=f"{_QUERIES}:KINDS"),
        Column("state", words=f"{_QUERIES}:STATES"),
        Column("contactId", "text", "The hub's id (`hub-…`).", of="hub_id"),
        Column("tries", "number", "How many attempts were made.", of="attempts", least=0),
        Column("reason", "text", "What went wrong last, or why it was discarded."),
        Column("acceptedAt", "moment", of="created_at"),
        Column("nextTryAt", "moment", of=_next_try, null=True),
        Column("endedAt", "moment", of="finished_at", null=True),
        Column(
            "parkedBehind",
            "text",
            "The dead createLead of its contact that blocks a parked one.",
            of="behind",
        ),
        Column(
            "author",
            "text",
            "Of an agent's call: the id of its API key. Else left out.",
            always=False,
        ),
    ),
    page="ActionPage",
)


@dataclass(frozen=True, slots=True)
class Listed:
    """An action as commands list it; `person`: the name and email or phone, else the hub's id."""

    summary: Summary
    person: str


def with_persons(hub: Hub, actions: Iterable[Summary]) -> list[Listed]:
    from crmhub.operators.actions import action_queries

    actions = list(actions)
    names = action_queries.names_of(hub.database, actions)
    return [
        Listed(each, names[each.id].in_words if each.id in names else each.hub_id)
        for each in actions
    ]


TABLE = Resource(
    "ActionsOfCommands",
    (
        Column("actionId", of="summary.id", title="Action"),
        Column("acceptedAt", "moment", of="summary.created_at", title="Accepted"),
        Column(
            "state",
            of=lambda it: STATE_WORDS.get(it.summary.state, it.summary.state),
            title="State",
        ),
        Column("helper", of="summary.kind", title="Helper"),
        Column("clientId", of="summary.client_id", title="Account"),
        Column("person", title="Person", shorten=2),
        Column("tries", of="summary.attempts", title="Attempts"),
        Column("reason", of="summary.reason", title="Reason", shorten=1),
    ),
)
CALL = Resource(
    "Call",
    (
        Column(
            "number",
            "number",
            "Its place in the attempt, of which the last 20 calls are kept.",
            least=1,
        ),
        Column("method"),
        Column("path", "text", "Without personal data and values of the query."),
        Column("status", "number", "0 without an answer."),
        Column("ms", "number", _TOOK),
        Column("correlationId", "text", "The CRM's id of it."),
    ),
)
ATTEMPT = Resource(
    "Attempt",
    (
        Column("number", "number", least=1),
        Column("at", "moment", of="began_at"),
        Column("ms", "number", _TOOK),
        Column("outcome"),
        Column("message"),
        Column("correlationId", "text", "What the CRM called the request."),
        Column("calls", CALL, many=True),
    ),
)
VERSION = Resource(
    "Version",
    (Column("at", "moment"), Column("by", "text", "Who corrected it."), Column("request", "any")),
)


ACTION = Resource(
    "Action",
    (
        *inside("summary", (each for each in SUMMARY.columns if each.wire)),
        Column("request", "any", "What was sent, as corrected."),
        Column(
            "mapped",
            "any",
            "What its last attempt gave to the adapter; {} before the first.",
            of=lambda it: it.mapped or {},
        ),
        Column(
            "result",
            "any",
            "What it has come to, or its error; {} before.",
            of=lambda it: it.result or {},
        ),
        Column(
            "versions",
            VERSION,
            "What was sent before each correction, the oldest first.",
            many=True,
        ),
        Column(
            "corrected",
            "moments",
            "When each value was corrected last.",
            of=lambda it: {name: iso(at) for name, at in it.corrected.items()},
        ),
        Column("blocked", "words", "The actions that it blocks, 500 at most."),
        Column("attempts", ATTEMPT, of="tries", many=True),
    ),
)
RETRIED = Resource("Retried", (Column("retried", "number", of=int, least=0),))
DISCARDED = Resource("Discarded", (Column("discarded", "number", of=int, least=0),))

# --- which actions ---------------------------------------------------------------------------

_STATE = Argument(
    "state",
    "joined",
    "In one of these states.",
    "--state",
    words=f"{_QUERIES}:STATES",
    spelled=STATE_WORDS,
)
_HELPER = Argument(
    "helper", "joined", "Accepted by one of these helpers.", "--helper", words=f"{_QUERIES}:KINDS"
)
_REASON = Argument(
    "reason",
    "filled",
    "Whose reason contains this, in any case.",
    "--reason",
    "TEXT",
    longest=_LONGEST_REASON,
)
FILTERS = (
    Argument(
        "account",
        "account",
        "The clientId of the account.",
        "--account",
        "CLIENT_ID",
        longest=_LONGEST_ID,
    ),
    _STATE,
    _HELPER,
    Argument(
        "contact_token",
        "filled",
        "Of this conversation's person.",
        "--token",
        "CONTACTTOKEN",
        longest=_LONGEST,
    ),
    Argument(
        "contact",
        "filled",
        "Of who has this id: the hub's (`hub-…`) or the CRM's.",
        "--contact",
        "CONTACTID",
        wire="contactId",
        longest=_LONGEST,
    ),
    Argument(
        "email", "filled", "Of who has exactly this email.", "--email", "EMAIL", longest=_LONGEST
    ),
    Argument("phone", "filled", "Of who has this phone.", "--phone", "PHONE", longest=_LONGEST),
    _REASON,
    Argument("cause", "filled", "Of this cause.", "--cause", "CAUSE", longest=_LONGEST_ID),
    Argument("older_than", "age", "Accepted so long ago: 2h.", "--older-than", "TIME"),
    Argument("newer_than", "age", "Accepted since so long ago: 2h.", "--newer-than", "TIME"),
    Argument(
        "when",
        "period",
        "Accepted in this period: yesterday, 7d or 2026-11-24..2026-11-26; days are in UTC.",
        "--when",
        "PERIOD",
        command_says="Accepted in this period: yesterday, 2026-11-24..2026-11-26; local days.",
    ),
    Argument(
        "ended",
        "period",
        "Done, refused, failed or discarded in this period; days are in UTC.",
        "--ended",
        "PERIOD",
        command_says="Done, refused, failed or discarded in this period; local days.",
    ),
)
IDS = Argument(
    "ids",
    "ids",
    "These actions.",
    "",
    "[ID]...",
    longest=_LONGEST_ID,
    shape=(("minItems", 1), ("maxItems", 10_000)),
)
CHOICE = (
    *(replace(each, type="several") if each.type == "joined" else each for each in FILTERS),
    IDS,
)
DISCARD_CHOICE = tuple(
    replace(each, wire="reasonContains", option="--reason-contains") if each is _REASON else each
    for each in CHOICE
)
_WHY = Argument(
    "why",
    "filled",
    "Why; it is shown with the action. Printable characters.",
    wire="reason",
    required=True,
    longest=_LONGEST_REASON,
)
_NO_CHOICE = translatable(
    "body: chooses nothing; send ids, or narrow by account, state, helper, contactToken,"
    " contactId, email, phone, reason, cause, olderThan, newerThan, when or ended."
    ' {"state": ["dead"]} means everything that is dead.'
)


def wanted(
    *,
    state: Iterable[str] = (),
    helper: Iterable[str] = (),
    older_than: int = 0,
    newer_than: int = 0,
    when: Iterable[int] = (0, 0),
    ended: Iterable[int] = (0, 0),
    **others: Any,
) -> Wanted:
    """Return the actions that the FILTERS choose."""
    from crmhub.operators.actions.action_queries import Wanted

    return Wanted(
        states=tuple(state),
        kinds=tuple(helper),
        older_than_ms=older_than,
        newer_than_ms=newer_than,
        accepted=_pair(when),
        ended=_pair(ended),
        **others,
    )


def _pair(period: Iterable[int]) -> tuple[int, int]:
    """Of a cursor it comes as a list."""
    begin, end = period
    return begin, end


def _narrowed(filters: dict[str, Any]) -> Wanted:
    chosen = wanted(**filters)
    # Without any filter, all actions would be meant.
    if not chosen.narrows:
        raise BadRequest(_NO_CHOICE)
    return chosen


def list_actions(
    hub: Hub, *, limit: int, after: str | None = None, **filters: Any
) -> list[Summary]:
    from crmhub.operators.actions import action_queries

    chosen = wanted(after=after or "", **filters)
    return action_queries.listed(hub.database, chosen, limit=limit)


def retry_chosen(hub: Hub, *, by: Author, **filters: Any) -> int:
    from crmhub.operators.actions import retry_action

    return retry_action.retry(hub.database, _narrowed(filters), by=by)


def discard_chosen(hub: Hub, *, why: str, by: Author, **filters: Any) -> int:
    from crmhub.operators.actions import discard_action

    return discard_action.discard(hub.database, _narrowed(filters), reason=why, by=by)


# --- what operators do -----------------------------------------------------------------------

LIST = Verb(
    operation="listActions",
    route="GET /actions",
    scope="actions:read",
    errors=WITHOUT_BODY,
    command="list",
    does=f"{_HERE}:list_actions",
    summary="List what helpers accepted, the newest first",
    input="ActionsQuery",
    arguments=(
        *FILTERS,
        Argument("after", "text", "Start after this action.", "--after", "ID", wire=None),
    ),
    help="The table contains personal data.",
    shows=SUMMARY,
    many=True,
    table=(TABLE, with_persons),
    place=lambda action: action.id,
)
EDIT = Verb(
    operation="editAction",
    route="POST /actions/<action:action_id>/edit",
    scope="actions:write",
    command="edit",
    does="crmhub.operators.actions.correct_action:correct",
    summary="Correct the values of an action that failed or is blocked, and retry it",
    help="createLead has name, email and phone; the other helpers have any property; deals and"
    ' tickets also have contactId. "k=" clears a property in setProperties, and removes the value'
    " elsewhere.",
    input="CorrectionInput",
    arguments=(
        Argument(
            "values",
            "texts",
            "Of createLead `name`, `email` and `phone`; of the others any property, and of"
            ' deals and tickets `contactId`. "" clears a property of setProperties, and leaves a'
            " value out everywhere else.",
            "",
            "K=V...",
            "properties",
            required=True,
            shape=(("minProperties", 1),),
        ),
    ),
    shows=RETRIED,
    says=lambda count, _: [f"Corrected. {counted(count)} will be retried."],
)
VERBS = (
    LIST,
    Verb(
        operation="getAction",
        route="GET /actions/<action:action_id>",
        scope="actions:read",
        does=f"{_QUERIES}:shown",
        summary="Read an action with each attempt",
        shows=ACTION,
    ),
    Verb(
        operation="retryAction",
        route="POST /actions/<action:action_id>/retry",
        scope="actions:write",
        errors=_CONFLICTS,
        does="crmhub.operators.actions.retry_action:retry_one",
        summary="Retry an action, with what is blocked behind it",
        shows=RETRIED,
    ),
    EDIT,
    Verb(
        operation="discardAction",
        route="POST /actions/<action:action_id>/discard",
        scope="actions:write",
        does="crmhub.operators.actions.discard_action:discard_one",
        summary="Discard an action, with what is blocked behind it",
        input="DiscardInput",
        arguments=(replace(_WHY, name="reason"),),
        shows=DISCARDED,
    ),
    Verb(
        operation="retryActions",
        route="POST /actions/retry",
        scope="actions:write",
        errors=WITH_BODY,
        does=f"{_HERE}:retry_chosen",
        summary="Retry actions, with what is blocked behind them",
        input="RetryInput",
        arguments=CHOICE,
        shows=RETRIED,
    ),
    Verb(
        operation="discardActions",
        route="POST /actions/discard",
        scope="actions:write",
        errors=WITH_BODY,
        does=f"{_HERE}:discard_chosen",
        summary="Discard actions, with what is blocked behind them",
        input="DiscardsInput",
        arguments=(*DISCARD_CHOICE, _WHY),
        shows=DISCARDED,
    ),
)


def counted(count: int) -> str:
    return f"{count:,} {'action' if count == 1 else 'actions'}"
