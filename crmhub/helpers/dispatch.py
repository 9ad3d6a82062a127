"""The one way an action takes to the CRM: written down first, tried now or later.

`run` accepts a helper's call into the journal, tries it while its caller waits, and leaves it to
the worker when that is not possible or leads nowhere. `attempt` is one try, by whomever: it turns
whatever comes of it into an outcome and writes that down.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, Protocol

from crmhub import adapter as contract
from crmhub import errors, metrics
from crmhub.accounts.accounts import Account
from crmhub.accounts.field_maps import WHOLE_NAME
from crmhub.adapter import Adapter, Problem, Written
from crmhub.adapter.matching import Duplicate, shared
from crmhub.database.connection import Connection
from crmhub.database.drivers import Unwritable
from crmhub.helpers.crm_connection import Broken, connect, noted, told
from crmhub.helpers.deadlines import arrived, is_deferred, remaining, within
from crmhub.helpers.inputs import join_name, split_name
from crmhub.hub import Hub
from crmhub.identity import bindings, merged_contacts, possible_duplicates
from crmhub.journal.models import UNFINISHED, Accepted, Entry, New, Outcome
from crmhub.journal.schedule import DELAYS_S, GRACE_MS

Status = Literal["created", "updated", "unchanged", "queued", "ok"]

_QUOTA_WAIT_S = 600.0
_RIGHT_WAIT_S = 600.0
_FIRST_LOOK_S, _LAST_LOOK_S = 0.02, 0.2
# A lead that has not got in yet is looked for again after this.
_SOON_S = 5.0
_QUEUED = "The CRM could not take this yet; it will be tried again until it does."
_FULL = "The account's plan is full; this will be tried again until there is room."
_STOPPED = "The CRM does not have this yet; the operator has to fix the cause and retry it."
# What writing down the outcome needs of the time a caller has.
_WRITING_S = 0.15


@dataclass(frozen=True, slots=True)
class Done:
    """What became of an action; what is empty does not apply.

    `values` are those of the action that the contact has now, `duplicate` is another contact that
    may be the same person. A queued action has the hub's id of the contact.
    """

    status: Status
    contact_id: str = ""
    record_id: str = ""
    url: str | None = None
    """The record's page, None where the CRM has no pages."""
    refused: tuple[Problem, ...] = ()
    message: str = ""
    action_id: str = ""
    replayed: bool = False
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    duplicate: Duplicate | None = None


@dataclass(frozen=True, slots=True)
class Mapped:
    """What of a call goes to the CRM, by the names that bots use, and what cannot.

    What `initial` names of it is for a contact that has no value there.
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
    """Return what goes to the CRM, with the constants of the account's field map."""
    complete, initial = account.connection.field_map.of(record).completed(properties)
    return Mapped(complete, tuple(one for one in refused if one.name not in complete), initial)


def named_for(account: Account, name: str) -> dict[str, str]:
    """Return a name as the account's CRM takes it: as a whole, or first and last name."""
    if account.connection.field_map.whole_name:
        return {WHOLE_NAME: join_name(name)}
    return split_name(name)


class Behind(Exception):
    """An action is blocked: the lead that would create its contact is dead."""

    def __init__(self, lead_id: str) -> None:
        super().__init__(lead_id)
        self.lead_id = lead_id


class Action(Protocol):
    """A writing helper's call, checked as far as it can be without the CRM."""

    kind: ClassVar[str]
    record: ClassVar[Written]
    """The kind of record it writes."""
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def enter(self, tx: Connection, account: Account) -> New:
        """Return the action as the journal keeps it, whose person is known then.

        Raises what the caller can mend, such as an id that leads to nobody.
        """

    def mapped(self, account: Account) -> Mapped:
        """Return the properties that the adapter is called with; needs nobody."""

    def alone(self, hub: Hub, account: Account, mapped: Mapped) -> AbstractContextManager[None]:
        """Keep out others that could make the same contact, until the outcome is written."""
        return nullcontext()

    def perform(
        self, hub: Hub, account: Account, adapter: Adapter, entry: Entry, mapped: Mapped
    ) -> Done:
        """Do it in the CRM; raises the adapter's errors, HubError and Behind."""


def run(hub: Hub, account: Account, action: Action, *, key: str = "") -> Done:
    """Accept an action and return what became of it, `queued` when that is not known yet.

    `key` is the caller's Idempotency-Key. Raises NotFound, Semantic and Conflict for what the
    caller can mend; the CRM's failures leave the action in the queue.
    """
    deadline_s, began = account.switches.deadline_s, arrived()
    with (
        _naming_action() as named,
        told(account),
        within(deadline_s - _WRITING_S),
        _slot(hub, account) as free,
    ):
        rate = hub.limits.hit_account(account)
        with hub.slots.writing:
            accepted = hub.journal.accept(
                account,
                lambda tx: action.enter(tx, account),
                lease_s=deadline_s + GRACE_MS / 1000,
                # What begins now could not be written down either.
                now=free and rate.allowed and not hub.unwritten.many,
                wait_s=0.0 if rate.allowed else rate.retry_after,
                key=key,
            )
        named.action_id = accepted.action_id
        took = time.monotonic() - began
        hub.slots.took(took)
        late = hub.slots.late(took, deadline_s) and _is_remote(hub, account)
        try:
            if accepted.behind:
                accepted = _in_turn(hub, account, accepted)
            if accepted.entry is None:
                return _known(accepted)
            if late:
                hub.unwritten.write(partial(hub.journal.release, [accepted.entry]))
                return _queued(accepted)
            # As it was written down: with what was known only then.
            as_kept = replace(action, **accepted.entry.request)
            tried = attempt(hub, account, accepted.entry, as_kept, waits=True)
        except errors.Unavailable:
            # The hub's database went away meanwhile; the journal has the action, whatever came
            # of it.
            return _queued(accepted)
        if tried.done is not None:
            return replace(tried.done, action_id=accepted.action_id, values={})
        if tried.error is not None:
            raise tried.error
        return _queued(accepted, tried.why)


@dataclass(slots=True)
class _Named:
    action_id: str = ""


@contextmanager
def _naming_action() -> Iterator[_Named]:
    """Give the errors of a call the id of its action, "" for one that was not accepted."""
    named = _Named()
    try:
        yield named
    except errors.HubError as exc:
        exc.action_id = named.action_id
        raise


def _in_turn(hub: Hub, account: Account, accepted: Accepted) -> Accepted:
    """Wait for the actions before this one, as long as its caller does; a worker may be faster."""
    pause = _FIRST_LOOK_S
    lease_s = account.switches.deadline_s + GRACE_MS / 1000
    while remaining() > pause:
        time.sleep(pause)
        pause = min(pause * 1.5, _LAST_LOOK_S)
        taken = hub.journal.claim(
            account.id, account.connection.id, most=1, lease_s=lease_s, only=accepted.action_id
        )
        if taken:
            return replace(accepted, entry=taken[0])
        if (result := hub.journal.result(account.id, accepted.action_id)) is not None:
            return replace(accepted, earlier=result)
    return accepted


def _known(accepted: Accepted) -> Done:
    """Return what an action came to that was accepted before, or that it stands in the queue."""
    if accepted.earlier is None:
        return replace(_queued(accepted), replayed=accepted.replayed)
    # Sent again under its Idempotency-Key: what the adapter said is told as it was.
    if accepted.refused:
        raise _refusal(accepted.earlier)
    told_before = dict(accepted.earlier)
    refused = tuple(Problem(**problem) for problem in told_before.pop("refused", ()))
    return Done(
        **told_before,
        refused=refused,
        action_id=accepted.action_id,
        replayed=accepted.replayed,
    )


_REFUSALS = (errors.NotFound, errors.Conflict)


def _refusal(told_before: Mapping[str, Any]) -> errors.HubError:
    """Return the error that a refused action was answered with."""
    named = {each.__name__: each for each in _REFUSALS}
    error = named.get(told_before["error"], errors.Semantic)(told_before["message"])
    error.replayed = True
    return error


def _queued(accepted: Accepted, why: str = _QUEUED) -> Done:
    return Done(
        "queued",
        contact_id=accepted.hub_id,
        action_id=accepted.action_id,
        message=_STOPPED if accepted.stopped else why,
    )


@contextmanager
def _slot(hub: Hub, account: Account) -> Iterator[bool]:
    """Say whether this call may be tried now, and wait for the CRM."""
    if is_deferred():
        yield False
        return
    if not _is_remote(hub, account):
        yield True
        return
    with hub.slots.one(account.switches.deadline_s) as free:
        yield free


def _is_remote(hub: Hub, account: Account) -> bool:
    try:
        return hub.registry.load(account.connection.adapter).remote
    except contract.BadConfig:
        # What is wrong with it is told by the try itself.
        return True


# --- One try ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a try: `done`, or the `error` that its caller is told, or neither: queued.

    `why` says in words why it is queued.
    """

    done: Done | None = None
    error: Exception | None = None
    why: str = _QUEUED


def attempt(hub: Hub, account: Account, entry: Entry, action: Action, *, waits: bool) -> Tried:
    """Try an action once and write down what came of it.

    `waits` says that its caller waits for the answer, and so may be told of a final refusal; else
    that is a dead letter.
    """
    began = time.monotonic()
    done: Done | None = None
    error: Exception | None = None
    mapped = Mapped({})
    with ExitStack() as alone:
        try:
            mapped = action.mapped(account)
            alone.enter_context(action.alone(hub, account, mapped))
            done = action.perform(hub, account, connect(hub, account), entry, mapped)
            outcome = Outcome("done", done.status, result=kept(done))
        # Whatever an adapter raises must not lose the action: what is no error of the contract is
        # a bug, and the action waits until it is mended.
        except Exception as exc:
            outcome = classify_error(exc, waits=waits, record=action.record)
            error = exc if outcome.state == "refused" else None
        outcome = replace(
            outcome,
            mapped=account.connection.field_map.of(action.record).sent(mapped.properties),
            ms=round((time.monotonic() - began) * 1000),
            ended=time.monotonic(),
        )
        here = (entry.account_id, entry.connection_id)
        outcome = apply_circuit_breaker(hub, here, outcome, probing=entry.probing)
        metrics.attempted(account.connection.adapter, outcome.word, outcome.ms / 1000)
        finish = partial(hub.journal.finish, entry, outcome, extra_writes(account, entry, done))
        held = hub.unwritten.write(finish, alone)
    if not held:
        return Tried()
    return Tried(done, error, _FULL if outcome.word == errors.LimitExceeded.__name__ else _QUEUED)


def extra_writes(account: Account, entry: Entry, done: Done | None) -> Callable[[Connection], None]:
    """Return what is written together with an outcome: the contact's binding and duplicates."""

    def write(tx: Connection) -> None:
        if done is None:
            return
        if phone := done.values.get("phone", ""):
            # Two contacts that get the same phone at once would each see no other.
            bindings.hold_phone(tx, account, phone)
        if entry.hub_id.startswith(bindings.HUB_ID):
            bindings.settle(
                tx,
                account,
                entry.hub_id,
                crm_id=done.contact_id,
                values=done.values,
                accepted={name: entry.accepted_at(name) for name in done.values},
            )
            if entry.kind == "createLead":
                bindings.settle_others(
                    tx, account, entry.hub_id, crm_id=done.contact_id, values=done.values
                )
        else:
            bindings.note_chat(tx, account, bindings.acquaint(tx, account, done.contact_id))
        other = done.duplicate
        if other is None and phone and done.status != "unchanged":
            other = _sharing(tx, account, done, phone)
        if other is not None:
            possible_duplicates.note(
                tx, account, done.contact_id, other.contact_id, shares=other.shares
            )

    return write


def _sharing(tx: Connection, account: Account, done: Done, phone: str) -> Duplicate | None:
    """Return another contact that the hub knows to have this phone, which no search shows yet."""
    known = bindings.with_phone(tx, account, phone, besides=done.contact_id)
    if known is None:
        return None
    return Duplicate(known.crm_id, shared(done.values, known.last_values))


def newest(
    hub: Hub, account: Account, entry: Entry, contact_id: str, properties: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties of which the hub has accepted no later value for this contact.

    Raises NotYet when another action of the contact goes first.
    """
    accepted = hub.journal.take_turn(account, entry, contact_id)
    return {n: v for n, v in properties.items() if accepted.get(n, 0) <= entry.accepted_at(n)}


def crm_id_of(hub: Hub, account: Account, entry: Entry) -> str:
    """Return the CRM's id of an action's contact.

    While no lead has created the contact, raises NotYet when an earlier one is in progress, Behind
    when one is dead, and NotFound when there is none to wait for.
    """
    if not entry.hub_id.startswith(bindings.HUB_ID):
        with hub.database.reading() as connection:
            return merged_contacts.merged_into(connection, account, entry.hub_id)
    with hub.database.reading() as connection:
        bound = bindings.of_hub_id(connection, account, entry.hub_id)
    if bound is not None and bound.crm_id:
        return bound.crm_id
    leads = hub.journal.leads_of(account, bound.person, entry) if bound is not None else {}
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
    """Let the connection wait when a read of this kind of record has found its CRM away."""
    if isinstance(exc, Broken):
        return
    here = (account.id, account.connection.id)
    outcome = apply_circuit_breaker(hub, here, classify_error(exc, waits=True, record=record))
    if outcome.away:
        # What is read is answered, also where nothing can be written.
        with suppress(Unwritable):
            hub.journal.open_circuit(account, outcome.away, outcome.word)


def apply_circuit_breaker(
    hub: Hub, here: tuple[int, int], outcome: Outcome, *, probing: bool = False
) -> Outcome:
    """Return the outcome of a try of this connection with what it says about the CRM.

    One failed call is tried again by itself; several in a row, or one that was to find out
    whether the CRM is back, let the whole connection wait.
    """
    if not outcome.trouble:
        if not (outcome.away or outcome.throttled):
            hub.health.answered(*here)
        return outcome
    if hub.health.failed(*here, after=outcome.ms / 1000) or probing:
        return replace(outcome, away=outcome.trouble)
    if outcome.wait_s or outcome.counts:
        # What the CRM asks for wins; what counts has its schedule.
        return outcome
    return replace(outcome, wait_s=DELAYS_S[0] * random.uniform(0.8, 1.2))


def classify_error(exc: Exception, *, waits: bool, record: str = "contacts") -> Outcome:
    """Return what an error of a try means for its action, which is about this kind of record."""
    word, message = _word(exc), getattr(exc, "message", "")
    correlation = getattr(exc, "correlation_id", "")

    def queued(**how: Any) -> Outcome:
        return Outcome("queued", word, message, correlation_id=correlation, **how)

    match exc:
        case Behind():
            blocked = "Blocked: the createLead of its contact failed. Retry or discard that one."
            return Outcome("parked", word, blocked, behind=exc.lead_id)
        case contract.LacksRight() if record != "contacts":
            # Leads need another right: they must not wait for this one.
            return queued(wait_s=_RIGHT_WAIT_S)
        case contract.BadConfig() | contract.Denied():
            return queued(away=message)
        case contract.Throttled():
            # A date that is over, or 0, says no more than that it is not now.
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
            # The hub's database may have gone away after the CRM had written.
            return queued(wait_s=float(exc.retry_after), doubt=True)
        case contract.AdapterError() | errors.NotFound() | errors.Semantic() | errors.Conflict():
            state: Literal["refused", "dead"] = "refused" if waits else "dead"
            result = {"error": word, "message": message} if waits else None
            return Outcome(state, word, message, correlation_id=correlation, result=result)
    noted(exc)
    return queued(counts=True, doubt=True)


def _word(exc: Exception) -> str:
    """Return the name of an error: the contract's for what adapters derive from it."""
    names = [each.__name__ for each in type(exc).__mro__ if each.__module__ == contract.__name__]
    return names[0] if names else type(exc).__name__


def kept(done: Done) -> dict[str, Any]:
    """Return what the journal keeps of a result."""
    return {
        "status": done.status,
        "contact_id": done.contact_id,
        "record_id": done.record_id,
        "url": done.url,
        "refused": [asdict(problem) for problem in done.refused],
        "message": done.message,
    }
