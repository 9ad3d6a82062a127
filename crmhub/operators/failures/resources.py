"""Why actions fail, as operators see it, and what fixes all actions of one cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crmhub.operators.resources import WITHOUT_BODY, Argument, Column, Resource, Verb, inside

if TYPE_CHECKING:
    from crmhub.accounts.accounts import Account
    from crmhub.audit import Author
    from crmhub.hub import Hub
    from crmhub.operators.failures.fix_group import Progress
    from crmhub.operators.failures.fix_group import Verb as How
    from crmhub.operators.failures.forecast import Forecast, NewValues
    from crmhub.operators.failures.groups import Group

_HERE = "crmhub.operators.failures.resources"
_FIX = "crmhub.operators.failures.fix_group"
_KINDS = "crmhub.operators.actions.action_queries:KINDS"
# So long a call waits for a fix; a worker does the rest.
_RUN_S = 2.0

# --- what is shown ---------------------------------------------------------------------------

_CAUSE = (
    Column("adapter"),
    Column("helper", of="kind", words=_KINDS),
    Column("error", "text", "The class of the error.", of="word"),
    Column("property", "text", 'The property that it is about, as bots call it, or "".', of="name"),
)
CAUSE = Resource(
    "Cause",
    (
        Column("cause", "text", "Its key.", of="key"),
        *inside("cause", _CAUSE),
        Column("message", "text", "What is wrong, without values.", of="said"),
        Column("advice", "text", "What would fix it."),
        Column("actions", "numbers", "Failed, blocked and retried ones.", of="counts"),
        Column("accounts", "number", "How many.", of="account_count", least=1),
        Column("since", "moment", "When the first of them failed."),
        Column("last", "moment", "When the last of them failed."),
        Column("example", "text", "The newest action.", of=lambda it: it.example[1]),
    ),
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A cause as commands list it; `person` is that of its example, "" if the action is gone."""

    group: Group
    person: str


def with_persons(hub: Hub, found: Iterable[Group]) -> list[Listed]:
    from crmhub.operators.actions import action_queries, resources

    found = list(found)
    if not found:
        return []
    ids = tuple(each.example[1] for each in found)
    examples = action_queries.listed(
        hub.database, action_queries.Wanted(ids=ids), limit=action_queries.MOST
    )
    persons = {each.summary.id: each.person for each in resources.with_persons(hub, examples)}
    return [Listed(each, persons.get(each.example[1], "")) for each in found]


def _counts(it: Listed) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in it.group.counts.items())


TABLE = Resource(
    "CausesOfCommands",
    (
        Column("cause", of="group.key", title="Cause"),
        Column("adapter", of="group.cause.adapter", title="CRM"),
        Column("helper", of="group.cause.kind", title="Helper"),
        Column("message", of="group.said", title="What is wrong", shorten=2),
        Column("actions", of=_counts, title="Actions"),
        Column("accounts", of="group.account_count", title="Accounts"),
        Column("last", "moment", of="group.last", title="Last"),
        Column("example", of=lambda it: it.group.example[1], title="Example"),
        Column("person", title="Its person", shorten=1),
    ),
)
FORECAST = Resource(
    "Forecast",
    (
        Column("succeed", "number", of="good", least=0, title="Will succeed"),
        Column("fail", "numbers", "By the reason.", of="bad"),
        Column("unknown", "numbers", "Which cannot be checked, by the reason."),
        Column("unchanged", "number", "For which no value is given.", of="left", least=0),
        Column("unchecked", "number", "More than are checked.", of="rest", least=0),
    ),
)
FIX = Resource(
    "Fix",
    (
        Column("fixId", of="id", title="Fix"),
        Column("how", of="verb", words=f"{_FIX}:VERBS"),
        Column("state", words=f"{_FIX}:STATES", title="State"),
        Column("total", "number", least=0, title="Actions"),
        Column("changed", "number", least=0, title="Changed"),
        Column("skipped", "numbers", "Which could not be changed, by the reason."),
        Column("done", "number", "Stored in the CRM since.", least=0, title="Stored"),
        Column("waiting", "number", "Not attempted yet.", least=0, title="Waiting"),
        Column("failed", "number", "Which failed again.", least=0, title="Failed again"),
        Column("startedAt", "moment", of="created_at"),
        Column("startedBy", of="author"),
    ),
)

# --- what operators do -----------------------------------------------------------------------

OF_ACCOUNT = Argument(
    "account", "account", "Of this account alone.", "--account", "CLIENT_ID", longest=64
)
TO = Argument(
    "to", "filled", "The new value of the property.", "--to", "VALUE", longest=2_000
)  # fmt: skip
VALUES = Argument(
    "values",
    "texts",
    "The new value by the present one; all others get `to`, or stay as they are.",
    "--map",
    "BAD=RIGHT",
)
_HOW = Argument(
    "how", "choice", "What to do; correct needs `to` or `values`.", words=f"{_FIX}:VERBS",
    required=True,
)  # fmt: skip
_REASON = Argument("reason", "filled", "Why they are discarded.", longest=500)


def list_causes(
    hub: Hub, *, account: Account | None = None, when: tuple[int, int] = (0, 0)
) -> list[Group]:
    from crmhub.operators.failures import groups

    return groups.groups(hub.database, account=account, ended=when)[0]


def forecast_cause(
    hub: Hub,
    cause: str,
    *,
    account: Account | None = None,
    to: str | None = None,
    values: Mapping[str, str] | None = None,
) -> Forecast:
    from crmhub.operators.failures import forecast

    group = find_group(hub, cause, account)
    return forecast.forecast(hub, group, new_values(group, to, values))


def fix_cause(
    hub: Hub,
    cause: str,
    *,
    how: How,
    by: Author,
    account: Account | None = None,
    to: str | None = None,
    values: Mapping[str, str] | None = None,
    reason: str = "",
) -> Progress:
    from crmhub.operators.failures import fix_group

    group = find_group(hub, cause, account)
    new = new_values(group, to, values)
    id = fix_group.start(hub, group, how, by=by, values=new, reason=reason)
    fix_group.run(hub, id, seconds=_RUN_S)
    return fix_group.progress(hub.database, id)


def find_group(hub: Hub, cause: str, account: Account | None) -> Group:
    from crmhub.operators.failures import groups

    seen = None if account is None else {account.id}
    return groups.group(hub.database, cause, account_ids=seen)


def new_values(group: Group, to: str | None, values: Mapping[str, str] | None) -> NewValues | None:
    from crmhub.operators.failures.forecast import NewValues

    return NewValues(group.cause.name, values or {}, to) if to or values else None


WHY = Verb(
    operation="listCauses",
    route="GET /causes",
    scope="actions:read",
    errors=WITHOUT_BODY,
    command="why",
    does=f"{_HERE}:list_causes",
    summary="List why actions fail, the cause of most actions first",
    help="At most 100 causes, each with its newest action. The table contains personal data.",
    input="CausesQuery",
    arguments=(
        Argument("account", "account", "Of this account alone.", "", "[CLIENT_ID]", longest=64),
        Argument(
            "when",
            "period",
            "Failed in this period, such as today, yesterday or 7d; days are in UTC.",
            "--when",
            "PERIOD",
            command_says="Failed in this period: today, yesterday, 7d; local days.",
        ),
    ),
    shows=CAUSE,
    many=True,
    table=(TABLE, with_persons),
)
VERBS = (
    WHY,
    Verb(
        operation="previewCause",
        route="POST /causes/<cause>/preview",
        scope="actions:read",
        does=f"{_HERE}:forecast_cause",
        summary="Forecast what a correction, or a retry, of a cause's actions would do",
        input="ForecastInput",
        arguments=(OF_ACCOUNT, TO, VALUES),
        shows=FORECAST,
    ),
    Verb(
        operation="fixCause",
        route="POST /causes/<cause>/fix",
        scope="actions:write",
        does=f"{_HERE}:fix_cause",
        summary="Correct, retry or discard all failed actions of a cause",
        input="FixInput",
        arguments=(_HOW, OF_ACCOUNT, TO, VALUES, _REASON),
        shows=FIX,
    ),
    Verb(
        operation="getFix",
        route="GET /fixes/<fix>",
        scope="actions:read",
        does=f"{_FIX}:progress",
        summary="Read how far a correction, retry or discard of a cause is",
        shows=FIX,
    ),
)


def described(progress: Progress) -> list[str]:
    """What a command says at the end."""
    words = {"correct": "corrected", "retry": "retried", "discard": "discarded"}
    lines = [f"{progress.changed:,} of {progress.total:,} {words[progress.verb]}."]
    lines += [f"{count:,} not changed: {text}" for text, count in progress.skipped.items()]
    return lines


def forecast_lines(told: Any) -> list[str]:
    lines = [f"Forecast: {told.said}"]
    lines += [f"{count:,} will fail: {text}" for text, count in told.bad.items()]
    lines += [f"{count:,} cannot be checked: {text}" for text, count in told.unknown.items()]
    return lines
