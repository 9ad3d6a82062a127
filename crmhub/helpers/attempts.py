"""An attempt of an action: the calls to the CRM, and the outcome that is stored."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, Protocol

from crmhub import adapter as contract
from crmhub import errors, metrics
from crmhub.accounts.accounts import Account
from crmhub.accounts.field_maps import WHOLE_NAME
from crmhub.adapter import Adapter, Problem, Written
from crmhub.adapter.calls import recording
from crmhub.adapter.matching import Duplicate, shared
from crmhub.crm.connection import Broken, connect, noted
from crmhub.database.connection import Connection
from crmhub.database.drivers import Unwritable
from crmhub.helpers.inputs import join_name, split_name
from crmhub.helpers.partial_writes import refusal
from crmhub.hub import Hub
from crmhub.identity import bindings, chats, merged_contacts, possible_duplicates, resolution
from crmhub.queue.models import UNFINISHED, Entry, New, Outcome
from crmhub.queue.schedule import DELAYS_S

Status = Literal["created", "updated", "unchanged", "queued", "ok"]

_QUOTA_WAIT_S = 600.0
_RIGHT_WAIT_S = 600.0
# Seconds until the next look at a lead that is in progress.
_SOON_S = 5.0
QUEUED = "The CRM could not take this yet; it will be tried again until it does."
_FULL = "The account's plan is full; this will be tried again until there is room."


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an action; fields that do not apply are empty.

    `contact_id`: the contact's id in the CRM; for a queued action, the hub's own id of the contact.
    `record_id` and `url`: the id and the page of the created record. `refused`: the properties that
    were not stored, with the reasons. `values`: the contact's values that the CRM stored.
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


@dataclass(frozen=True, slots=True)
class Mapped:
    """The properties of a call, in the form in which the adapter gets them.

    `properties`: the values by the names that bots use. `refused`: the properties that are not
    sent, with the reasons. `initial`: the names of properties to write only if the contact has no
    value yet.
    """

    properties: Mapping[str, str] = field(repr=False)
    refused: tuple[Problem, ...] = ()
    initial: frozenset[str] = frozenset()


def completed(
    account: Account,
    record: Written,
    properties: Mapping[str, str],
    refused: Sequence[Problem] = (),
) -> Mapped:
    """Return the properties for the adapter, including the constants of the account's field map.

    `record`: the kind of record. `refused`: the properties that are not sent, with the reasons. If
    the field map has a constant for such a property, the constant is sent, and the property is not
    returned as refused.
    """
    complete, initial = account.connection.field_map.of(record).completed(properties)
    return Mapped(complete, tuple(one for one in refused if one.name not in complete), initial)


def named_for(account: Account, name: str) -> dict[str, str]:
    """Return the name of a human being as properties for the account's CRM.

    The property is `name` if the CRM stores names as a whole. Otherwise there are two properties,
    `firstname` and `lastname`.
    """
    if account.connection.field_map.whole_name:
        return {WHOLE_NAME: join_name(name)}
    return split_name(name)


class Behind(Exception):
    """Error: an action is blocked, because the lead that would create its contact has failed.

    `lead_id`: the id of this lead's action.
    """

    def __init__(self, lead_id: str) -> None:
        super().__init__(lead_id)
        self.lead_id = lead_id


class Action(Protocol):
    """A call of a helper that writes to the CRM; stored in the journal, then attempted."""

    kind: ClassVar[str]
    record: ClassVar[Written]
    """The kind of record that the action writes."""
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def enter(self, tx: Connection, account: Account) -> New:
        """Find the contact of the action in the hub; return the action as the journal stores it.

        Raises errors that the caller can fix, such as NotFound for an unknown contact.
        """

    def mapped(self, account: Account) -> Mapped:
        """Return the properties in the form in which the adapter gets them.

        This needs neither the database nor the CRM.
        """

    def check(self, account: Account, adapter: Adapter | None, mapped: Mapped) -> None:
        """Raise Rejected if every CRM would refuse the action, available or not.

        `adapter`: None while it cannot be connected.
        """
        if (account.switches.strict and mapped.refused) or not mapped.properties:
            raise refusal(mapped.refused, "" if mapped.refused else "There is nothing to write.")

    def exclusive(self, hub: Hub, account: Account, mapped: Mapped) -> AbstractContextManager[None]:
        """Return a context manager for the attempt, which holds a lease where one is necessary.

        The lease keeps parallel attempts from creating the same contact twice.
        """
        return nullcontext()

    def perform(
        self, hub: Hub, account: Account, adapter: Adapter, entry: Entry, mapped: Mapped
    ) -> Done:
        """Send the properties `mapped` to the CRM, as the action requires; return the result.

        `entry`: the journal's action, on which this process holds a lease. Raises AdapterError for
        an error of the CRM, HubError for one of the hub, and Behind if a failed lead blocks the
        action.
        """


@dataclass(frozen=True, slots=True)
class Attempted:
    """The result of an attempt: `done` if it succeeded, or the `error` that the caller gets.

    If both are None, there is no result for the caller yet, because the action is queued or
    blocked; `why` is the message for the caller.
    """

    done: Done | None = None
    error: Exception | None = None
    why: str = QUEUED


def attempt(hub: Hub, account: Account, entry: Entry, action: Action, *, waits: bool) -> Attempted:
    """Make one attempt of an action and record its outcome in the journal.

    `entry`: the journal's action, on which this process holds a lease. `waits`: whether a caller
    waits for the result. If the CRM refuses the action, a waiting caller gets the error. Without a
    waiting caller, the action then has the state `dead`, and an operator must decide on it.
    """
    began = time.monotonic()
    done: Done | None = None
    error: Exception | None = None
    mapped = Mapped({})
    with recording() as recorded, ExitStack() as leases:
        try:
            mapped = action.mapped(account)
            leases.enter_context(action.exclusive(hub, account, mapped))
            done = action.perform(hub, account, connect(hub, account), entry, mapped)
            outcome = Outcome("done", done.status, result=stored_result(done))
        # No exception of an adapter may lose the action. An error outside the contract is a bug:
        # the action is retried until the bug is fixed.
        except Exception as exc:
            outcome = classify_error(exc, waits=waits, record=action.record)
            error = exc if outcome.state == "refused" else None
        outcome = replace(
            outcome,
            mapped=account.connection.field_map.of(action.record).sent(mapped.properties),
            calls=recorded.calls,
            ms=round((time.monotonic() - began) * 1000),
            ended=time.monotonic(),
        )
        here = (entry.account_id, entry.connection_id)
        outcome = apply_circuit_breaker(hub, here, outcome, probing=entry.probing)
        metrics.attempted(account.connection.adapter, outcome.word, outcome.ms / 1000)
        extra_writes = partial(store_contact, account=account, entry=entry, done=done)
        finish = partial(hub.journal.finish, entry, outcome, extra_writes, account)
        if not hub.unwritten.write(finish, leases):
            return Attempted()
    return Attempted(
        done, error, _FULL if outcome.word == errors.LimitExceeded.__name__ else QUEUED
    )


def store_contact(tx: Connection, *, account: Account, entry: Entry, done: Done | None) -> None:
    """Store the data of a contact that an attempt returned: CRM id, values, possible duplicate.

    Runs in the transaction that records the outcome. Does nothing if `done` is None, since the
    attempt then failed.
    """
    if done is None:
        return
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
        chats.note_chat(tx, account, binding)
    duplicate = done.duplicate
    if duplicate is None and phone and done.status != "unchanged":
        duplicate = _find_sharing(tx, account, done, phone)
    if duplicate is not None:
        possible_duplicates.note(
            tx, account, done.contact_id, duplicate.contact_id, shares=duplicate.shares
        )


def _find_sharing(tx: Connection, account: Account, done: Done, phone: str) -> Duplicate | None:
    """Return another contact with the same phone as the contact of `done`, None without one.

    The contact is found by the hub's bindings. The CRM's own search may not find a contact that was
    written a moment ago.
    """
    other = bindings.with_phone(tx, account, phone, besides=done.contact_id)
    if other is None:
        return None
    return Duplicate(other.crm_id, shared(done.values, other.last_values))


def newest(
    hub: Hub, account: Account, entry: Entry, contact_id: str, properties: Mapping[str, str]
) -> dict[str, str]:
    """Return those of the properties that no later action has written to the contact already.

    `entry`: the journal's action that sends the properties. `contact_id`: the contact's id in the
    CRM. Raises NotYet while another action of the contact must run first.
    """
    accepted = hub.journal.take_turn(account, entry, contact_id)
    return {n: v for n, v in properties.items() if accepted.get(n, 0) <= entry.accepted_at(n)}


def crm_id_of(hub: Hub, account: Account, entry: Entry) -> str:
    """Return the CRM's id of the contact that the action `entry` is for.

    If the CRM does not have the contact yet, an error is raised. The error is NotYet while a lead
    that would create the contact is unfinished, Behind if this lead has failed, and NotFound
    without such a lead.
    """
    if not entry.hub_id.startswith(bindings.HUB_ID):
        with hub.database.reading() as connection:
            return merged_contacts.merged_into(connection, account, entry.hub_id)
    with hub.database.reading() as connection:
        binding = bindings.of_hub_id(connection, account, entry.hub_id)
    if binding is not None and binding.crm_id:
        return binding.crm_id
    leads = hub.journal.leads_of(account, binding.person, entry) if binding is not None else {}
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
    """Count a failed read from the account's CRM, and open the circuit breaker if necessary.

    The circuit breaker is opened after several failures in a row, or at once if the CRM refuses the
    connection's credentials or settings. `exc`: the adapter's error. `record`: the kind of record
    that was read. A bug of the adapter (Broken) is not counted.
    """
    if isinstance(exc, Broken):
        return
    here = (account.id, account.connection.id)
    outcome = apply_circuit_breaker(hub, here, classify_error(exc, waits=True, record=record))
    if outcome.away:
        # The read succeeds even if the database takes no writes.
        with suppress(Unwritable):
            hub.journal.open_circuit(account, outcome.away, outcome.word)


def apply_circuit_breaker(
    hub: Hub, here: tuple[int, int], outcome: Outcome, *, probing: bool = False
) -> Outcome:
    """Count an attempt's failure or success, and return its outcome, changed where necessary.

    `here`: the account id and connection id. `probing`: whether the attempt was a probe of an
    unavailable CRM. After a single failure, the outcome is that the action is retried. After
    several failures in a row, or a failed probe, the outcome opens the circuit breaker: the whole
    connection waits.
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
    """Return the outcome of an attempt that failed with the error `exc`.

    `record`: the kind of record that the action writes. `waits`: whether a caller waits for the
    result, and so gets the error.
    """
    word, message = _word(exc), getattr(exc, "message", "")
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
            result = {"error": word, "message": message} if waits else None
            return Outcome(state, word, message, correlation_id=correlation, result=result)
    noted(exc)
    return queued(counts=True, doubt=True)


def _word(exc: Exception) -> str:
    """Return the name of the error's class.

    If an adapter defines the class, return the name of its base class in the adapter contract.
    """
    names = [
        each.__name__
        for each in type(exc).__mro__
        if each.__module__ == contract.AdapterError.__module__
    ]
    return names[0] if names else type(exc).__name__


def stored_result(done: Done) -> dict[str, Any]:
    """Return the result of an action in the form of the mapping that the journal stores."""
    return {
        "status": done.status,
        "contact_id": done.contact_id,
        "record_id": done.record_id,
        "url": done.url,
        "refused": [asdict(problem) for problem in done.refused],
        "message": done.message,
    }
