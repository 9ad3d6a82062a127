"""Attempts several leads of one account together, in few calls to the CRM."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from crmhub.accounts.accounts import Account
from crmhub.adapter import AdapterError, Conflict, Rejected
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.calls import Recording, recording
from crmhub.adapter.matching import Lead
from crmhub.adapter.upserts import SavedLead
from crmhub.crm.connection import connect
from crmhub.helpers.actions import action_of
from crmhub.helpers.attempts import (
    Attempt,
    Done,
    Mapped,
    apply_circuit_breaker,
    attempt,
    finish,
    outcome_of,
)
from crmhub.helpers.create_lead import CreateLead, values_to_write
from crmhub.hub import Hub
from crmhub.queue.models import Entry, Outcome


def attempt_one(hub: Hub, account: Account, entry: Entry) -> None:
    action = action_of(entry.kind, entry.request)
    attempt(hub, account, entry, action, waits=False)


def attempt_leads(hub: Hub, account: Account, entries: Sequence[Entry]) -> None:
    """Attempt leads in few calls; one unfit for a batch, or rejected in it, is sent alone."""
    began, recorded = time.monotonic(), Recording()
    mapped: list[tuple[Entry, CreateLead, Mapped]] = []
    singles: list[Entry] = []
    attempts: list[tuple[Entry, Outcome, Done | Exception]] = []
    for entry in entries:
        action = CreateLead(**entry.request)
        try:
            mapped.append((entry, action, action.mapped(account)))
        # A bug must not hold up the other leads; the attempt of this one records it.
        except Exception:
            singles.append(entry)
    try:
        adapter = connect(hub, account)
    except AdapterError as exc:
        for entry, action, fields in mapped:
            outcome = outcome_of(account, action, fields, exc, began, recorded)
            attempts.append((entry, outcome, exc))
        finish(hub, account, attempts)
        for entry in singles:
            attempt_one(hub, account, entry)
        return
    batch: list[tuple[Attempt, CreateLead, Lead]] = []
    for entry, action, fields in mapped:
        at = Attempt(hub, account, adapter, entry, fields, ExitStack())
        lead = action.lead(at)
        # A lead without email needs its own lease; a strict lead with faults is refused.
        if lead.email and not (fields.refused and lead.strict):
            batch.append((at, action, lead))
        else:
            singles.append(entry)
    by_mark = {lead.mark: at for at, _, lead in batch}
    saved: Sequence[SavedLead | Exception]
    try:
        with recording() as recorded:
            saved = upsert_contacts(
                adapter,
                [lead for *_, lead in batch],
                approve=lambda lead, id, values: values_to_write(by_mark[lead.mark], id, values),
            )
    # As in `attempt`: no exception of an adapter may lose the leads.
    except Exception as exc:
        saved = [exc] * len(batch)
    for (at, action, _), one in zip(batch, saved, strict=True):
        if isinstance(one, Rejected | Conflict):
            singles.append(at.entry)
            continue
        result = (
            one
            if isinstance(one, Exception)
            else action.done(at, one, (*at.mapped.refused, *one.refused))
        )
        outcome = outcome_of(account, action, at.mapped, result, began, recorded)
        attempts.append((at.entry, outcome, result))
    finish(hub, account, _apply_circuit_breaker(hub, attempts))
    for entry in singles:
        attempt_one(hub, account, entry)


def _apply_circuit_breaker(
    hub: Hub, attempts: Sequence[tuple[Entry, Outcome, Done | Exception]]
) -> list[tuple[Entry, Outcome, Done | Exception]]:
    """Count failures of a batch: those for the same reason are one, since one call sent them."""
    by_trouble: dict[str, Outcome] = {}
    changed: list[tuple[Entry, Outcome, Done | Exception]] = []
    # Those without trouble first: an answer resets the count of failures.
    for entry, outcome, result in sorted(attempts, key=lambda item: bool(item[1].trouble)):
        if outcome.trouble not in by_trouble:
            connection = (entry.account_id, entry.connection_id)
            by_trouble[outcome.trouble] = apply_circuit_breaker(
                hub, connection, outcome, probing=entry.probing
            )
        if outcome.trouble:
            checked = by_trouble[outcome.trouble]
            outcome = replace(outcome, away=checked.away, wait_s=checked.wait_s)
        changed.append((entry, outcome, result))
    return changed
