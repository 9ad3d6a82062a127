"""The way of a helper's call: stored in the journal, attempted at once if possible, or queued."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from crmhub import adapter as contract
from crmhub import errors
from crmhub.accounts.accounts import Account
from crmhub.accounts.limits import RateStatus
from crmhub.adapter import Problem
from crmhub.crm.connection import Broken, as_hub_errors, connect, sound
from crmhub.crm.deadlines import arrived, is_deferred, remaining, within
from crmhub.database.connection import Connection
from crmhub.helpers.attempts import QUEUED, Action, Done, attempt
from crmhub.hub import Hub
from crmhub.queue.models import Accepted, New
from crmhub.queue.schedule import GRACE_MS, KEY_MS

_FIRST_LOOK_S, _LAST_LOOK_S = 0.02, 0.2
_STOPPED = "The CRM does not have this yet; the operator has to fix the cause and retry it."
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
) -> Done:
    """Store an action in the journal, attempt it once, and return its result.

    If the attempt is not possible now, or the CRM is unavailable, the result has the status
    `queued`, and the worker attempts the action later. `key`: the caller's Idempotency-Key, which
    is valid for `key_ms`. `author`: the id of the API key with which an agent made the call.
    `counted`: whether the account's rate limit has counted the call already. Raises NotFound,
    Semantic and Conflict for errors that the caller can fix.
    """
    deadline_s, began = account.switches.deadline_s, arrived()
    action_id = ""
    try:
        with ExitStack() as call:
            call.enter_context(as_hub_errors(account))
            call.enter_context(within(deadline_s - _WRITING_S))
            free, is_remote = not is_deferred(), _is_remote(hub, account)
            if free and is_remote:
                free = call.enter_context(hub.slots.one(deadline_s))
            rate = RateStatus() if counted else hub.limits.hit_account(account)
            fault = _fault(hub, account, action)
            with hub.slots.writing:
                accepted = hub.journal.accept(
                    account,
                    partial(_enter, action, account, author, fault),
                    lease_s=deadline_s + GRACE_MS / 1000,
                    # While outcomes wait for the database, no attempt is begun.
                    now=free and rate.allowed and not hub.unwritten.many,
                    wait_s=0.0 if rate.allowed else rate.retry_after,
                    key=key,
                    key_ms=key_ms,
                )
            action_id = accepted.action_id
            late = hub.slots.took(time.monotonic() - began, deadline_s) and is_remote
            late = late and fault is None
            return _attempt(hub, account, action, accepted, late=late)
    except errors.HubError as exc:
        exc.action_id = action_id
        raise


def _fault(hub: Hub, account: Account, action: Action) -> contract.AdapterError | None:
    """Return the error for an action that no CRM would store, None if one may store it.

    Sends no request: pipelines and stages are compared with those that the hub remembers.
    """
    try:
        with sound():
            adapter = connect(hub, account)
    except (contract.BadConfig, Broken):
        adapter = None
    try:
        with sound():
            mapped = action.mapped(account)
            action.check(account, adapter, mapped)
            if adapter is not None and (action.record == "deals" or action.record == "tickets"):
                adapter.check_place(action.record, mapped.properties)
    except (contract.Rejected, contract.Unsupported) as exc:
        return exc
    except Broken:
        # A bug must not lose the action; its attempt shows and records the bug.
        pass
    return None


def _enter(
    action: Action,
    account: Account,
    author: str,
    fault: contract.AdapterError | None,
    tx: Connection,
) -> New:
    """Return the action as the journal stores it, with its author and its fault."""
    return replace(action.enter(tx, account), author=author, fault=fault)


def _attempt(hub: Hub, account: Account, action: Action, accepted: Accepted, *, late: bool) -> Done:
    """Attempt an accepted action and return its result.

    If the action cannot be attempted now, the result has the status `queued`. `late`: whether too
    little time is left for an attempt; the action is then queued.
    """
    try:
        if accepted.behind:
            accepted = _wait_for_turn(hub, account, accepted)
        if accepted.entry is None:
            return _earlier_result(accepted)
        if late:
            hub.unwritten.write(partial(hub.journal.release, [accepted.entry]))
            return _queued(accepted)
        # The stored request, since accepting may have added values to it.
        stored = replace(action, **accepted.entry.request)
        attempted = attempt(hub, account, accepted.entry, stored, waits=True)
    except errors.Unavailable:
        # The database became unavailable; the journal has the action and its outcome, if any.
        return _queued(accepted)
    if attempted.done is not None:
        return replace(attempted.done, action_id=accepted.action_id, values={})
    if attempted.error is not None:
        raise attempted.error
    return _queued(accepted, attempted.why)


def _wait_for_turn(hub: Hub, account: Account, accepted: Accepted) -> Accepted:
    """Wait until the contact's earlier actions have ended, then claim the accepted action.

    Waits at most until the deadline of the call. Return `accepted` with its `entry` set if the
    action was claimed here. If the worker has attempted the action already, return it with the
    result in `earlier`. Otherwise return it unchanged.
    """
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


def _earlier_result(accepted: Accepted) -> Done:
    """Return the stored result of an action that was accepted earlier.

    The result has the status `queued` if the action has no result yet. Raises the stored error if
    the action was refused.
    """
    if accepted.earlier is None:
        return replace(_queued(accepted), replayed=accepted.replayed)
    if accepted.refused:
        raise _refusal(accepted.earlier)
    result = dict(accepted.earlier)
    refused = tuple(Problem(**problem) for problem in result.pop("refused", ()))
    return Done(
        **result,
        refused=refused,
        action_id=accepted.action_id,
        replayed=accepted.replayed,
    )


_REFUSALS = (errors.NotFound, errors.Conflict)


def _refusal(result: Mapping[str, Any]) -> errors.HubError:
    """Return the error for the stored result of a refused action."""
    named = {each.__name__: each for each in _REFUSALS}
    error = named.get(result["error"], errors.Semantic)(result["message"])
    error.replayed = True
    return error


def _queued(accepted: Accepted, why: str = QUEUED) -> Done:
    return Done(
        "queued",
        contact_id=accepted.hub_id,
        action_id=accepted.action_id,
        message=_STOPPED if accepted.stopped else why,
    )


def _is_remote(hub: Hub, account: Account) -> bool:
    """Return whether the account's CRM is another system than the hub, so that calls take time."""
    try:
        return hub.registry.load(account.connection.adapter).remote
    except contract.BadConfig:
        # The attempt will fail with the same error and record it.
        return True
