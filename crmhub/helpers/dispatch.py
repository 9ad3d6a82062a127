"""The way of a helper's call: stored in the journal, attempted at once if possible, or queued."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial

from crmhub import adapter as contract
from crmhub import errors
from crmhub.accounts.accounts import Account
from crmhub.accounts.limits import RateStatus
from crmhub.adapter import Adapter, Problem
from crmhub.crm.connection import Broken, as_hub_errors, connect, noted, sound
from crmhub.crm.deadlines import arrived, is_deferred, remaining, within
from crmhub.database.connection import Connection
from crmhub.helpers.attempts import QUEUED, Action, Done, Mapped, attempt
from crmhub.hub import Hub
from crmhub.queue import claiming
from crmhub.queue.accepting import accept
from crmhub.queue.models import Accepted, New
from crmhub.queue.outages import Outage
from crmhub.queue.outcomes import result_of
from crmhub.queue.schedule import GRACE_MS, KEY_MS
from crmhub.translatable import join_texts, translatable

_FIRST_LOOK_S, _LAST_LOOK_S = 0.02, 0.2
_STOPPED = translatable(
    "The CRM does not have this yet; the operator has to fix the cause and retry it."
)
_UNUSABLE = translatable(
    "The CRM does not have this yet; the operator has to fix the account's CRM first."
)
_OVER_RATE = translatable(
    "The account's plan takes no more calls for now; this will be done as soon as it does."
)
_TOO_LATE = translatable("It did not come to this write in time.")
# Time that is reserved for storing the outcome before the caller's deadline.
_WRITING_S = 0.15


def run(
    hub: Hub,
    account: Account,
    action: Action,
    *,
    key: str = "",
    key_ms: int = KEY_MS,
    author: str = "",
    counted: bool = False,
    may_wait: bool = True,
    then: Sequence[Callable[[str], Action]] = (),
) -> Done:
    """Store an action, attempt it once, and return its result, or `queued` for the worker.

    `author`: the id of an agent's API key. `counted`: the rate limit has counted the call already.
    Without `may_wait`, an action that the CRM cannot take now is ended, unless the CRM may have
    written it. `then`: the actions that run behind it, for the contact's id in the hub; they are
    stored with it, and end with it if it is refused. Raises NotFound, Semantic and Conflict for
    errors that the caller can fix, and Unavailable for such an ended action.
    """
    deadline_s, began = account.switches.deadline_s, arrived()
    mapped: Mapped | None = None
    accepted: Accepted | None = None
    try:
        mapped = action.mapped(account)
    # A bug must not lose the call: its attempt meets the bug again, and records it.
    except Exception as exc:
        noted(exc)
    try:
        with as_hub_errors(account), within(deadline_s - _WRITING_S), ExitStack() as held:
            adapter, fault, why = None, None, QUEUED
            with suppress(Broken), sound():
                try:
                    adapter = connect(hub, account)
                except contract.BadConfig as exc:
                    why = join_texts(" ", (_UNUSABLE, exc.message))
            calls_out = adapter is None or adapter.remote
            free = not is_deferred()
            if free and calls_out:
                free = held.enter_context(hub.slots.one(deadline_s))
            rate = RateStatus() if counted else hub.limits.hit_account(account)
            if not rate.allowed:
                why = _OVER_RATE
            if mapped is not None:
                fault = _fault(account, adapter, action, mapped)
            with hub.slots.writing:
                accepted = accept(
                    hub.database,
                    account,
                    lambda tx: action.enter(tx, account, mapped),
                    lease_s=deadline_s + GRACE_MS / 1000,
                    # While outcomes wait for the database, no attempt is begun.
                    now=free and rate.allowed and not hub.unwritten.many,
                    wait_s=0.0 if rate.allowed else rate.retry_after,
                    key=key,
                    key_ms=key_ms,
                    author=author,
                    fault=fault,
                    may_wait=may_wait,
                    then=[partial(_enter, account, make) for make in then],
                )
            late = hub.slots.took(time.monotonic() - began, deadline_s)
            try:
                done = _carry_out(
                    hub,
                    account,
                    accepted,
                    action,
                    mapped,
                    gives_up=late and calls_out and fault is None,
                    may_wait=may_wait,
                    why=why,
                )
            except (contract.AdapterError, errors.HubError):
                for one in accepted.then:
                    if isinstance(one, Accepted):
                        claiming.drop(hub.database, account.id, one.action_id)
                raise
            behind_it = (
                _carry_out_behind(hub, account, one, make(accepted.hub_id), done)
                for one, make in zip(accepted.then, then, strict=True)
            )
            return replace(done, then=tuple(behind_it))
    except errors.HubError as exc:
        exc.action_id = accepted.action_id if accepted else ""
        raise


def _enter(account: Account, make: Callable[[str], Action], tx: Connection, hub_id: str) -> New:
    action = make(hub_id)
    return action.enter(tx, account, action.mapped(account))


def _carry_out(
    hub: Hub,
    account: Account,
    accepted: Accepted,
    action: Action,
    mapped: Mapped | None,
    *,
    gives_up: bool = False,
    may_wait: bool = True,
    why: str = QUEUED,
) -> Done:
    """Attempt an accepted action when its turn comes; with `gives_up`, leave it to the worker."""
    try:
        if accepted.behind:
            accepted = _wait_for_turn(hub, account, accepted)
        if accepted.behind and accepted.entry is None and not may_wait:
            _end_unattempted(hub, account, accepted)
        if accepted.entry is None:
            return _earlier_result(accepted, QUEUED if accepted.replayed else why)
        if gives_up:
            if not may_wait:
                _end_unattempted(hub, account, accepted)
            hub.unwritten.write(partial(claiming.release, hub.database, [accepted.entry]))
            return _queued(accepted)
        # The stored request, since accepting may have added values to it.
        stored = replace(action, **accepted.entry.request)
        done = attempt(hub, account, accepted.entry, stored, mapped, waits=True, may_wait=may_wait)
    except errors.Unavailable:
        # The database became unavailable; the journal has the action and its outcome.
        return _queued(accepted)
    if done is None or done.status == "queued":
        return _queued(accepted, done.message if done else why)
    return replace(done, action_id=accepted.action_id, values={})


def _carry_out_behind(
    hub: Hub, account: Account, accepted: Accepted | errors.HubError, action: Action, first: Done
) -> Done | errors.HubError:
    if isinstance(accepted, errors.HubError):
        return accepted
    try:
        with as_hub_errors(account):
            if first.status == "queued":
                return _earlier_result(accepted)
            return _carry_out(hub, account, accepted, action, None)
    except errors.HubError as exc:
        return exc


def _fault(
    account: Account, adapter: Adapter | None, action: Action, mapped: Mapped
) -> contract.AdapterError | None:
    """Return the error for an action that no CRM would store, None if one may; sends no request."""
    try:
        # A bug must not lose the action; its attempt shows and records the bug.
        with suppress(Broken), sound():
            action.check(account, adapter, mapped)
            if adapter is not None and (action.record == "deals" or action.record == "tickets"):
                adapter.check_place(action.record, mapped.properties)
    except (contract.Rejected, contract.Unsupported) as exc:
        return exc
    return None


def _wait_for_turn(hub: Hub, account: Account, accepted: Accepted) -> Accepted:
    """Claim the action after the contact's earlier ones, or return it at the deadline."""
    pause = _FIRST_LOOK_S
    lease_s = account.switches.deadline_s + GRACE_MS / 1000
    while remaining() > pause:
        time.sleep(pause)
        pause = min(pause * 1.5, _LAST_LOOK_S)
        taken = claiming.claim(
            hub.database,
            account.id,
            account.connection.id,
            most=1,
            lease_s=lease_s,
            only=accepted.action_id,
        )
        if taken:
            return replace(accepted, entry=taken[0])
        if (done := result_of(hub.database, account.id, accepted.action_id)) is not None:
            return replace(accepted, earlier=done)
    return accepted


def _end_unattempted(hub: Hub, account: Account, accepted: Accepted) -> None:
    """End an action that its caller does not want to wait; raises Unavailable if that is done."""
    entry = accepted.entry
    if accepted.earlier is not None or (entry and entry.doubt_since):
        return
    lease = entry.lease if entry else ""
    if claiming.drop(hub.database, account.id, accepted.action_id, lease):
        if entry and entry.probing:
            hub.database.transact(
                lambda tx: Outage(tx, account.id, entry.connection_id).probe_again(tx.now_ms())
            )
        raise contract.Unavailable(_TOO_LATE, retry_after=1)


def _earlier_result(accepted: Accepted, why: str = QUEUED) -> Done:
    if accepted.earlier is None:
        return replace(_queued(accepted, why), replayed=accepted.replayed)
    earlier = dict(accepted.earlier)
    if accepted.refused:
        error = refusal_of(earlier)
        error.replayed = True
        raise error from error.__cause__
    refused = tuple(Problem(**problem) for problem in earlier.pop("refused", ()))
    return Done(
        **earlier,
        refused=refused,
        action_id=accepted.action_id,
        replayed=accepted.replayed,
    )


def refusal_of(result: Mapping[str, str]) -> errors.HubError:
    """Return the error that an attempt ended with, from the action's result."""
    named = {"NotFound": errors.NotFound, "Conflict": errors.Conflict}
    message = result["message"]
    error = named.get(result["error"], errors.Semantic)(message)
    if "name" in result:
        error.__cause__ = contract.Conflict(
            message, existing_id=result["existing_id"], name=result["name"]
        )
    return error


def _queued(accepted: Accepted, why: str = QUEUED) -> Done:
    return Done(
        "queued",
        contact_id=accepted.hub_id,
        action_id=accepted.action_id,
        message=_STOPPED if accepted.stopped else why,
    )
