"""Attempts several leads of one account together, in few calls to the CRM."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from crmhub import metrics
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, AdapterError, Conflict, Rejected
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.calls import Recording, recording
from crmhub.adapter.matching import Lead
from crmhub.adapter.upserts import SavedLead
from crmhub.crm.connection import connect
from crmhub.helpers.actions import action_of
from crmhub.helpers.added_options import with_held
from crmhub.helpers.attempts import (
    Done,
    Mapped,
    apply_circuit_breaker,
    attempt,
    classify_error,
    newest,
    store_contact,
    stored_result,
)
from crmhub.helpers.create_lead import CreateLead
from crmhub.hub import Hub
from crmhub.queue.models import Entry, Outcome


def attempt_one(hub: Hub, account: Account, entry: Entry) -> None:
    """Attempt one action of the journal, for which no caller waits, and record its outcome."""
    attempt(hub, account, entry, action_of(entry.kind, entry.request), waits=False)


def attempt_leads(hub: Hub, account: Account, entries: Sequence[Entry]) -> None:
    """Attempt several leads of a connection in few calls to the CRM; record each lead's outcome.

    A lead that cannot be sent in a batch, or that the CRM rejected in the batch, is attempted
    separately afterwards.
    """
    began = time.monotonic()
    try:
        adapter = connect(hub, account)
    except AdapterError as exc:
        _finish_all(
            hub, account, [(entry, classify_error(exc, waits=False), None) for entry in entries]
        )
        return
    batch: list[tuple[Entry, CreateLead, Mapped, Lead]] = []
    singles: list[Entry] = []
    for entry in entries:
        action = CreateLead(**entry.request)
        mapped = action.mapped(account)
        lead = action.lead(hub, account, entry, mapped)
        # A lead without email needs its own lease; a strict lead with faults is refused.
        if lead.email and not (mapped.refused and lead.strict):
            batch.append((entry, action, mapped, lead))
        else:
            singles.append(entry)
    attempts = []
    outcomes: Sequence[SavedLead | Exception]
    entry_of = {lead.mark: entry for entry, _, _, lead in batch}
    recorded = Recording()
    try:
        with recording() as recorded:
            outcomes = upsert_contacts(
                adapter,
                [lead for *_, lead in batch],
                approve=lambda lead, id, values: with_held(
                    account, adapter, id, newest(hub, account, entry_of[lead.mark], id, values)
                ),
            )
    # As in `attempt`: no exception of an adapter may lose the leads.
    except Exception as exc:
        outcomes = [exc] * len(batch)
    ended = time.monotonic()
    ms = round((ended - began) * 1000)
    for (entry, action, mapped, _), outcome in zip(batch, outcomes, strict=True):
        if isinstance(outcome, Rejected | Conflict):
            # A single attempt may still store the valid properties.
            singles.append(entry)
            continue
        result, done = _to_outcome(adapter, action, mapped, outcome)
        sent = account.connection.field_map.of(action.record).sent(mapped.properties)
        result = replace(result, mapped=sent, calls=recorded.calls, ms=ms, ended=ended)
        attempts.append((entry, result, done))
    _finish_all(hub, account, _apply_circuit_breaker(hub, attempts))
    for entry in singles:
        attempt_one(hub, account, entry)


def _apply_circuit_breaker(
    hub: Hub, attempts: Sequence[tuple[Entry, Outcome, Done | None]]
) -> list[tuple[Entry, Outcome, Done | None]]:
    """Count the failures of a batch, and return its attempts with changed outcomes where necessary.

    An attempt is a tuple: the action, its outcome, and its result, which is None if it failed.
    Several failures in a row open the circuit breaker: their outcomes then make the whole
    connection wait. Leads that failed for the same reason count as one failure, since one call sent
    them.
    """
    by_trouble: dict[str, Outcome] = {}
    for entry, outcome, _ in sorted(attempts, key=lambda item: bool(item[1].trouble)):
        if outcome.trouble not in by_trouble:
            connection = (entry.account_id, entry.connection_id)
            by_trouble[outcome.trouble] = apply_circuit_breaker(
                hub, connection, outcome, probing=entry.probing
            )
    return [
        (entry, _with_wait_of(by_trouble[outcome.trouble], outcome), done)
        for entry, outcome, done in attempts
    ]


def _with_wait_of(checked: Outcome, outcome: Outcome) -> Outcome:
    if not outcome.trouble:
        return outcome
    return replace(outcome, away=checked.away, wait_s=checked.wait_s)


def _to_outcome(
    adapter: Adapter, action: CreateLead, mapped: Mapped, outcome: SavedLead | Exception
) -> tuple[Outcome, Done | None]:
    """Return the outcome of a lead's attempt, and the lead's result, which is None if it failed.

    `outcome`: the saved lead, or the error with which the attempt ended.
    """
    if isinstance(outcome, Exception):
        return classify_error(outcome, waits=False), None
    refused = (*mapped.refused, *outcome.refused)
    done = action.done(adapter, outcome, refused)
    return Outcome("done", done.status, result=stored_result(done)), done


def _finish_all(
    hub: Hub, account: Account, attempts: Sequence[tuple[Entry, Outcome, Done | None]]
) -> None:
    """Record the outcomes of attempts and store the leads' contacts, in one transaction.

    An attempt is a tuple: the action, its outcome, and its result, which is None if it failed.
    """
    for _, outcome, _ in attempts:
        metrics.attempted(account.connection.adapter, outcome.word, outcome.ms / 1000)
    # All processes lock contacts in the same order, so that no deadlock arises.
    ordered = sorted(attempts, key=lambda item: item[2].contact_id if item[2] else "")
    written = [
        (entry, outcome, partial(store_contact, account=account, entry=entry, done=done))
        for entry, outcome, done in ordered
    ]
    hub.unwritten.write(partial(hub.journal.finish_all, written, account))
