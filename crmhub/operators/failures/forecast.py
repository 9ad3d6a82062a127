"""What would fix a group of failed actions: its values, the CRM's options, and a dry run.

A dry run makes the checks of an attempt that need no write: those of the helpers, of the field map,
and of the CRM's definitions, which are read. What else the CRM may refuse is not known before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, AdapterError, Choice, Described, Rejected
from crmhub.crm.connection import connect, sound
from crmhub.crm.deadlines import within
from crmhub.database.connection import Database
from crmhub.errors import HubError, NotFound
from crmhub.helpers.actions import ACTIONS, action_of
from crmhub.helpers.attempts import Action
from crmhub.helpers.copied_writes import WRITE_ACTIONS
from crmhub.helpers.create_linked import CreateForContact, indispensable
from crmhub.helpers.partial_writes import PLACES, PartialWrite
from crmhub.hub import Hub
from crmhub.operators.actions import correct_action
from crmhub.operators.crm.map_fields import check_values
from crmhub.operators.crm.mappable_properties import crm_properties
from crmhub.operators.failures.groups import PAGE, Group, said
from crmhub.queue.causes import cause_of
from crmhub.queue.hidden_values import hide_in_text
from crmhub.translatable import translatable

UNKNOWN = translatable(
    "Not known before: whether a contact still exists, whether a value must be unique, and rules of"
    " the CRM beyond its definitions."
)
MOST_VALUES = 12
"""The most values of which each gets a choice of its own."""
_MOST_CHECKED = 200
_MOST_READ = 1_000
_MOST_ACCOUNTS = 10
_ASK_S = 15.0
_NEWEST = "act-~"
_OWNER = "hubspot_owner_id"


@dataclass(frozen=True, slots=True)
class NewValues:
    """The new values of the property `name`: by the present value, and `other` for all others.

    None leaves the other actions as they are.
    """

    name: str
    by_value: Mapping[str, str] = field(default_factory=dict, repr=False)
    other: str | None = field(default=None, repr=False)

    def of(self, kind: str, request: Mapping[str, Any]) -> dict[str, str]:
        """Return the values that change in a call; {} if it stays as it is."""
        before = correct_action.values_of(kind, request).get(self.name, "")
        after = self.by_value.get(before, self.other)
        return {} if after is None or after == before else {self.name: after}


@dataclass(frozen=True, slots=True)
class Options:
    """What can be chosen in place of invalid values: pairs of value and label.

    `unknown`: why the CRM's options are not known; "" also for a property that takes any text.
    """

    choices: tuple[tuple[str, str], ...] = ()
    unknown: str = ""


@dataclass(slots=True)
class Forecast:
    """Numbers of actions: `good` pass all checks. `bad` and `unknown`: others, by the reason.

    `left`: they stay as they are, since the correction has no value for them. `rest`: not checked,
    since the group is large.
    """

    good: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    left: int = 0
    rest: int = 0

    @property
    def checked(self) -> int:
        return self.good + self.bad.total() + self.unknown.total() + self.left

    @property
    def said(self) -> str:
        parts = [f"{self.good:,} of {self.checked - self.left:,} will succeed"]
        if self.unknown:
            parts.append(f"{self.unknown.total():,} cannot be checked")
        if self.left:
            parts.append(f"{self.left:,} stay as they are")
        if self.rest:
            parts.append(f"{self.rest:,} more are not checked, since the group is large")
        return "; ".join(parts) + "."


def actions_of(
    database: Database,
    group: Group,
    *,
    most: int,
    states: Collection[str] = ("dead",),
) -> Iterator[tuple[int, Any]]:
    """Yield the account id and the row of actions of a group, from each account in turn."""
    ids = group.largest_accounts(_MOST_ACCOUNTS)
    for number, account_id in enumerate(ids):
        share = max(1, most // (len(ids) - number))
        values = {"account_id": account_id, "cause": group.key, "after": "", "until": _NEWEST}
        with database.reading() as db:
            rows = db.rows(PAGE, values | {"limit": share})
        most -= len(rows)
        for row in rows:
            if row.state in states:
                yield account_id, row


def values_in(database: Database, group: Group) -> Counter[str]:
    """Count the values that the property of the group has in up to 1,000 of its actions."""
    found = Counter[str]()
    for _, row in actions_of(database, group, most=_MOST_READ):
        values = correct_action.values_of(row.kind, correct_action.request_of(row))
        found[values.get(group.cause.name, "")] += 1
    return found


def options(hub: Hub, group: Group) -> Options:
    """Return the options of the group's property in the CRMs of its largest accounts.

    Options with the same label are one: if their values differ, the label is sent, which each CRM
    resolves for itself.
    """
    by_label: dict[str, list[Choice]] = {}
    asked, unknown = 0, ""
    with within(_ASK_S):
        for account_id in group.largest_accounts(_MOST_ACCOUNTS):
            try:
                with sound():
                    found = _options_of(hub, account_id, group)
            except (AdapterError, HubError) as exc:
                unknown = unknown or exc.message
                continue
            asked += 1
            for choice in dict.fromkeys(found):
                by_label.setdefault((choice.label or choice.value).casefold(), []).append(choice)
    choices = [_joined(several, asked) for several in by_label.values()]
    return Options(tuple(choices), "" if choices else unknown)


def _joined(several: Sequence[Choice], asked: int) -> tuple[str, str]:
    first = several[0]
    label, same = first.label or first.value, len({one.value for one in several}) == 1
    missing = f" (in {len(several)} of {asked} accounts)" if len(several) < asked else ""
    return (first.value if same else label), f"{label}{missing}"


def _options_of(hub: Hub, account_id: int, group: Group) -> Sequence[Choice]:
    account = _load(hub, account_id)
    if account.connection.adapter != group.cause.adapter:
        return ()
    record = ACTIONS[group.cause.kind].record
    rules = account.connection.field_map.of(record)
    adapter = connect(hub, account, anew=True)
    described = crm_properties(hub, account, record, rules, adapter)
    name = rules.crm_name(group.cause.name)
    found = described.get(name or "")
    if group.cause.name == _OWNER and not (found and found.options) and adapter.can("owners"):
        return [Choice(one.id, one.name or one.email or one.id) for one in adapter.owners()]
    return found.options if found else ()


def _load(hub: Hub, account_id: int) -> Account:
    with hub.database.reading() as db:
        return accounts.load_by_id(db, account_id, hub.plans)


# --- the dry run -------------------------------------------------------------------------------


def forecast(hub: Hub, group: Group, values: NewValues | None) -> Forecast:
    """Check what would happen to the actions; `values`: None for a retry as they are.

    CRMs are asked for definitions at most 15 s; nothing is written.
    """
    told = Forecast()
    states = ("dead",) if values else ("dead", "queued")
    checks: dict[tuple[int, int], _Check] = {}
    with within(_ASK_S):
        for account_id, row in actions_of(hub.database, group, most=_MOST_CHECKED, states=states):
            key = (account_id, row.connection_id)
            if key not in checks:
                checks[key] = _Check(hub, *key)
            checks[key].add(told, row, values)
    told.rest = max(0, (group.failed if values else group.open) - told.checked)
    return told


class _Check:
    """Checks actions of one connection; its CRM is asked once for each kind of records."""

    def __init__(self, hub: Hub, account_id: int, connection_id: int) -> None:
        self._hub = hub
        self._theirs: dict[str, Mapping[str, Described] | str] = {}
        self._adapter: Adapter | None = None
        self._why = ""
        with hub.database.reading() as db:
            self._account = accounts.load_on(db, account_id, connection_id, hub.plans)
        try:
            with sound():
                self._adapter = connect(hub, self._account, anew=True)
        except AdapterError as exc:
            self._why = exc.message

    def add(self, told: Forecast, row: Any, values: NewValues | None) -> None:
        request = correct_action.request_of(row)
        try:
            action = action_of(row.kind, request)
            if values is not None:
                changed = values.of(row.kind, request)
                if not changed:
                    told.left += 1
                    return
                action = correct_action.prepare(self._hub, row.id, changed).action
            theirs = self._definitions(action.record)
            if isinstance(theirs, str):
                told.unknown[hide_in_text(theirs)] += 1
                return
            with sound():
                self._check(action, theirs)
        except (AdapterError, HubError) as exc:
            told.bad[self._said(row.kind, exc, request)] += 1
        else:
            told.good += 1

    def _said(self, kind: str, exc: AdapterError | HubError, request: Mapping[str, Any]) -> str:
        word = type(exc).__name__
        cause = cause_of(self._account.connection.adapter, kind, word, exc.message, request)
        return said(cause) if cause else word

    def _definitions(self, record: Any) -> Mapping[str, Described] | str:
        if self._adapter is None:
            return self._why
        if record not in self._theirs:
            rules = self._account.connection.field_map.of(record)
            try:
                with sound():
                    self._theirs[record] = crm_properties(
                        self._hub, self._account, record, rules, self._adapter
                    )
            except AdapterError as exc:
                self._theirs[record] = exc.message
        return self._theirs[record]

    def _check(self, action: Action, theirs: Mapping[str, Described]) -> None:
        """Raises what an attempt would raise before it writes, as far as that can be known."""
        account, adapter = self._account, self._adapter
        mapped = action.mapped(account)
        action.check(account, adapter, mapped)
        if not mapped.properties:
            # It only archives a record, or links it.
            return
        places: Collection[str] = PLACES
        if isinstance(action, CreateForContact):
            places = indispensable(account, action.record)
            if adapter is not None:
                adapter.check_place(action.record, mapped.properties)
        strict = account.switches.strict or action.kind in WRITE_ACTIONS
        partial = PartialWrite(mapped.properties, mapped.refused, strict=strict, places=places)
        _, refused = check_values(self._hub, account, action.record, mapped, theirs)
        new = refused[len(mapped.refused) :]
        if new:
            partial.leave_out(Rejected(new))


def check_name(group: Group) -> str:
    """Return the property that a correction changes; raises NotFound if there is none."""
    if not correct_action.can_correct(group.cause.kind, group.cause.name):
        raise NotFound("The cause of this group is not one value that could be corrected.")
    return group.cause.name
