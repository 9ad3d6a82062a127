"""An attempt of an action: the calls to the CRM, and the outcome that is stored."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, Protocol

from crmhub import adapter as contract
from crmhub import errors, metrics
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, Kind, Problem
from crmhub.adapter.calls import Recording, recording
from crmhub.adapter.matching import Duplicate, shared
from crmhub.crm.connection import Broken, connect, noted
from crmhub.database.connection import Connection
from crmhub.database.drivers import Unwritable
from crmhub.database.rows import set_where
from crmhub.database.tables import action as action_table
from crmhub.helpers import copied_writes
from crmhub.helpers.copied_writes import WRITE_ACTIONS, WrittenRecord, order_of, written_record
from crmhub.helpers.partial_writes import NOTHING, refusal
from crmhub.hub import Hub
from crmhub.identity import bindings, chats, merged_contacts, possible_duplicates, resolution
from crmhub.queue import outcomes, turns
from crmhub.queue.models import UNFINISHED, Entry, New, Outcome
from crmhub.queue.schedule import DELAYS_S
from crmhub.records import timeline
from crmhub.translatable import translatable

Status = Literal["created", "updated", "unchanged", "queued", "ok"]

_QUOTA_WAIT_S = 600.0
_RIGHT_WAIT_S = 600.0
_SOON_S = 5.0
# The fields of `Done` that the journal stores.
_STORED = ("status", "contact_id", "record_id", "url", "refused", "message")
QUEUED = translatable("The CRM could not take this yet; it will be tried again until it does.")
_FULL = translatable("The account's plan is full; this will be tried again until there is room.")


@dataclass(frozen=True, slots=True)
class Done:
    """`contact_id`: the hub's own, while queued. `refused`: properties that were not stored.
    `duplicate`: another contact that may be the same human being.
    """

    status: Status
    contact_id: str = ""
    record_id: str = ""
    url: str | None = None
    """The URL of the record's page in the CRM; None if the CRM has no such pages."""
    refused: tuple[Problem, ...] = ()
    message: str = ""
    action_id: str = ""
    replayed: bool = False
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    duplicate: Duplicate | None = None
    added: timeline.Added | None = field(default=None, repr=False)
    """The note or task that was added, which the hub lists itself."""
    then: tuple[Done | errors.HubError, ...] = ()
    """The results of the actions that were accepted behind it."""


@dataclass(frozen=True, slots=True)
class Mapped:
    properties: Mapping[str, str] = field(repr=False)
    refused: tuple[Problem, ...] = ()
    initial: frozenset[str] = frozenset()


def with_constants(
    account: Account,
    record: Kind,
    properties: Mapping[str, str],
    refused: Sequence[Problem] = (),
) -> Mapped:
    """A constant for a refused property is sent, and the property does not count as refused."""
    complete, initial = account.connection.field_map.of(record).completed(properties)
    return Mapped(complete, tuple(one for one in refused if one.name not in complete), initial)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt in progress; `leases` last until its outcome is recorded."""

    hub: Hub
    account: Account
    adapter: Adapter
    entry: Entry
    mapped: Mapped
    leases: ExitStack


class Behind(Exception):
    """The lead that would create the action's contact has failed; `lead_id` is its action."""

    def __init__(self, lead_id: str) -> None:
        super().__init__(lead_id)
        self.lead_id = lead_id


class Action(Protocol):
    kind: ClassVar[str]
    record: ClassVar[Kind]
    """The kind of record that the action writes."""
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def enter(self, tx: Connection, account: Account, mapped: Mapped | None) -> New:
        """Find the contact in the hub; raises errors that the caller can fix, such as NotFound.

        `mapped` is None if a bug kept the properties from being mapped.
        """

    def mapped(self, account: Account) -> Mapped:
        """Return the properties for the adapter; needs neither the database nor the CRM."""

    def check(self, account: Account, adapter: Adapter | None, mapped: Mapped) -> None:
        if (account.switches.strict and mapped.refused) or not mapped.properties:
            raise refusal(mapped.refused, "" if mapped.refused else NOTHING)

    def perform(self, at: Attempt) -> Done:
        """Raises AdapterError of the CRM, HubError of the hub, and Behind a failed lead."""


def attempt(
    hub: Hub,
    account: Account,
    entry: Entry,
    action: Action,
    mapped: Mapped | None = None,
    *,
    waits: bool,
    may_wait: bool = True,
) -> Done | None:
    """Make one attempt and record its outcome; None if the action is queued or blocked.

    `mapped`: None to map the properties here. `waits`: a caller waits, and gets the error of a
    refusal. Otherwise the action fails (`dead`), and an operator decides on it. Without `may_wait`,
    an action that would be queued ends with its error, unless the CRM may have written it.
    """
    began = time.monotonic()
    with recording() as recorded, ExitStack() as leases:
        result: Done | Exception
        sent = Mapped({})
        try:
            sent = mapped or action.mapped(account)
            adapter = connect(hub, account)
            result = action.perform(Attempt(hub, account, adapter, entry, sent, leases))
        # No exception of an adapter may lose the action. An error outside the contract is a bug:
        # the action is retried until the bug is fixed.
        except Exception as exc:
            result = exc
        outcome = outcome_of(account, action, sent, result, began, recorded, waits=waits)
        here = (entry.account_id, entry.connection_id)
        outcome = apply_circuit_breaker(hub, here, outcome, probing=entry.probing)
        if outcome.state == "queued" and not (may_wait or outcome.doubt or entry.doubt_since):
            outcome = replace(outcome, state="refused")
        recorded_now = finish(hub, account, [(entry, outcome, result)], leases)
    if isinstance(result, Done):
        # The caller of a write of a record copies it, with a deadline of its own; what a worker has
        # written would come back as the CRM's own change.
        is_ours = waits != (entry.kind in WRITE_ACTIONS)
        copies_now = is_ours and recorded_now and account.switches.mirror
        if copies_now and (what := _written(entry, result)):
            written = {**sent.properties, **result.values}
            copied_writes.copy(hub, account, adapter, what, written)
        return result if recorded_now else None
    if outcome.state == "refused" and (recorded_now or not may_wait):
        raise result
    if isinstance(result, errors.LimitExceeded):
        return Done("queued", message=_FULL)
    return None


def outcome_of(
    account: Account,
    action: Action,
    mapped: Mapped,
    result: Done | Exception,
    began: float,
    recorded: Recording,
    *,
    waits: bool = False,
) -> Outcome:
    if isinstance(result, Done):
        answer = {name: getattr(result, name) for name in _STORED}
        answer["refused"] = [asdict(problem) for problem in result.refused]
        outcome = Outcome("done", result.status, result=answer)
    else:
        outcome = classify_error(result, waits=waits, record=action.record)
    ended = time.monotonic()
    return replace(
        outcome,
        mapped=account.connection.field_map.of(action.record).sent(mapped.properties),
        calls=tuple(recorded.calls),
        is_local=isinstance(result, errors.HubError | contract.Unsupported) and not recorded.calls,
        ms=round((ended - began) * 1000),
        ended=ended,
    )


def finish(
    hub: Hub,
    account: Account,
    attempts: Sequence[tuple[Entry, Outcome, Done | Exception]],
    leases: ExitStack | None = None,
) -> bool:
    """Record outcomes and contacts at once, or in the background, with `leases`; return which."""
    for _, outcome, _ in attempts:
        metrics.attempted(account.connection.adapter, outcome.word, outcome.ms / 1000)
    # All processes lock contacts in the same order, so that no deadlock arises.
    ordered = sorted(
        attempts, key=lambda one: one[2].contact_id if isinstance(one[2], Done) else ""
    )
    written = [
        (entry, outcome, partial(store_result, account=account, entry=entry, result=result))
        for entry, outcome, result in ordered
    ]
    return all(
        hub.unwritten.write(partial(outcomes.finish, hub.database, written, account), leases)
        or [False]
    )


def store_result(
    tx: Connection, *, account: Account, entry: Entry, result: Done | Exception
) -> None:
    if not isinstance(result, Done):
        return
    if result.contact_id:
        _store_contact(tx, account, entry, result)
    if entry.kind in WRITE_ACTIONS and not result.contact_id:
        # From now on it runs in order with later writes of the record, and is erased with it.
        person = order_of(WRITE_ACTIONS[entry.kind], result.record_id)
        set_where(tx, action_table, {"account_id": account.id, "id": entry.id}, person=person)
    if result.added is not None:
        id = timeline.add(tx, account, result.added, mark=entry.id)
        timeline.record_event(tx, account, id, result.added)
    if account.switches.mirror and (what := _written(entry, result)):
        copied_writes.tell(tx, account, what)


def _written(entry: Entry, done: Done) -> WrittenRecord | None:
    if done.status == "unchanged" or done.added is not None:
        return None
    ids = {"contact_id": done.contact_id, "record_id": done.record_id}
    return written_record(entry.kind, entry.request, **ids)


def _store_contact(tx: Connection, account: Account, entry: Entry, done: Done) -> None:
    if phone := done.values.get("phone", ""):
        # Without this lock, two contacts that get the same phone at once would not see each other.
        resolution.lock_phone(tx, account, phone)
    if entry.hub_id.startswith(bindings.HUB_ID):
        resolution.set_contact(
            tx,
            account,
            entry.hub_id,
            crm_id=done.contact_id,
            values=done.values,
            accepted={name: entry.accepted_at(name) for name in done.values},
        )
        if entry.kind == "createLead":
            resolution.set_contact_of_others(
                tx, account, entry.hub_id, crm_id=done.contact_id, values=done.values
            )
    else:
        binding = resolution.get_or_create(tx, account, done.contact_id)
        if entry.kind not in WRITE_ACTIONS:
            chats.note_chat(tx, account, binding)
    duplicate = done.duplicate
    if duplicate is None and phone and done.status != "unchanged":
        # By the hub's bindings, since the CRM's search may lag.
        other = bindings.with_phone(tx, account, phone, besides=done.contact_id)
        if other is not None:
            duplicate = Duplicate(other.crm_id, shared(done.values, other.last_values))
    if duplicate is not None:
        possible_duplicates.note(
            tx, account, done.contact_id, duplicate.contact_id, shares=duplicate.shares
        )


def newest(at: Attempt, contact_id: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Leave out properties that a later action wrote; NotYet while another must run first."""
    accepted = turns.take_turn(at.hub.database, at.account, at.entry, contact_id)
    return {n: v for n, v in properties.items() if accepted.get(n, 0) <= at.entry.accepted_at(n)}


def crm_id_of(at: Attempt) -> str:
    """Raises NotYet while a lead would create it, Behind a failed lead, NotFound without one."""
    database, account, entry = at.hub.database, at.account, at.entry
    with database.reading() as connection:
        if not entry.hub_id.startswith(bindings.HUB_ID):
            return merged_contacts.merged_into(connection, account, entry.hub_id)
        binding = bindings.of_hub_id(connection, account, entry.hub_id)
    if binding is not None and binding.crm_id:
        return binding.crm_id
    leads = turns.leads_of(database, account, binding.person, entry) if binding else {}
    if any(state in UNFINISHED for state in leads.values()):
        raise contract.NotYet(
            "The contact's lead has not reached the CRM yet.", retry_after=_SOON_S
        )
    if leads:
        raise Behind(next(iter(leads)))
    raise errors.NotFound("The contact's lead was refused or discarded; call createLead again")


def note_failure(
    hub: Hub, account: Account, exc: contract.AdapterError, *, record: str = "contacts"
) -> None:
    """Count a failed read; maybe open the circuit breaker. A bug (Broken) is not counted.

    It opens after several failures in a row, or at once for refused credentials or settings.
    """
    if isinstance(exc, Broken):
        return
    here = (account.id, account.connection.id)
    outcome = apply_circuit_breaker(hub, here, classify_error(exc, waits=True, record=record))
    if outcome.away:
        with suppress(Unwritable):
            outcomes.open_circuit(hub.database, account, outcome)


def apply_circuit_breaker(
    hub: Hub, here: tuple[int, int], outcome: Outcome, *, probing: bool = False
) -> Outcome:
    """Count an attempt, and return its outcome, changed where necessary.

    A single failure retries the action; several in a row, or a failed probe, let the whole
    connection wait. `here`: the account id and connection id.
    """
    if not outcome.trouble:
        if not (outcome.away or outcome.throttled):
            hub.health.answered(*here)
        return outcome
    if hub.health.failed(*here, after=outcome.ms / 1000) or probing:
        return replace(outcome, away=outcome.trouble)
    if outcome.wait_s or outcome.counts:
        # A wait that the CRM asked for, or the retry schedule, has priority.
        return outcome
    return replace(outcome, wait_s=DELAYS_S[0] * random.uniform(0.8, 1.2))


def classify_error(exc: Exception, *, waits: bool, record: str = "contacts") -> Outcome:
    module = contract.AdapterError.__module__
    names = [each.__name__ for each in type(exc).__mro__ if each.__module__ == module]
    # An adapter may raise a subclass of its own.
    word, message = [*names, type(exc).__name__][0], getattr(exc, "message", "")
    correlation = getattr(exc, "correlation_id", "")

    def queued(**how: Any) -> Outcome:
        return Outcome("queued", word, message, correlation_id=correlation, **how)

    match exc:
        case Behind():
            blocked = "Blocked: the createLead of its contact failed. Retry or discard that one."
            return Outcome("parked", word, blocked, behind=exc.lead_id)
        case contract.LacksRight() if record != "contacts":
            # Leads need another permission, so they need not wait.
            return queued(wait_s=_RIGHT_WAIT_S)
        case contract.BadConfig() | contract.Denied():
            return queued(away=message)
        case contract.Throttled():
            # A wait of 0 (or a date in the past) gives no time.
            wait_s = exc.retry_after or DELAYS_S[0]
            return queued(wait_s=wait_s, throttled=exc.scope != "search")
        case contract.NotYet():
            return queued(wait_s=exc.retry_after)
        case contract.Unavailable():
            return queued(trouble=message, wait_s=exc.retry_after or 0.0)
        case contract.Uncertain():
            return queued(trouble=message, counts=True, doubt=True)
        case errors.LimitExceeded():
            return queued(wait_s=_QUOTA_WAIT_S)
        case errors.TooManyRequests() | errors.Unavailable():
            # The CRM may have written before the database became unavailable.
            return queued(wait_s=float(exc.retry_after), doubt=True)
        case contract.AdapterError() | errors.NotFound() | errors.Semantic() | errors.Conflict():
            state: Literal["refused", "dead"] = "refused" if waits else "dead"
            result = {"error": word, "message": message}
            if isinstance(exc, contract.Conflict):
                result |= {"name": exc.name, "existing_id": exc.existing_id}
            return Outcome(state, word, message, correlation_id=correlation, result=result)
    noted(exc)
    return queued(counts=True, doubt=True)
