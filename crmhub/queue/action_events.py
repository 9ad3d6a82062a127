"""The events of helpers' calls and of connections, each stored in the transaction of its change.

Nothing happens here unless the account has a subscription to such events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crmhub.accounts.accounts import Account
from crmhub.adapter.coercion import sent_text
from crmhub.database.connection import Connection
from crmhub.events import event_types
from crmhub.events.recording import Event, record_events, wants
from crmhub.queue.models import Entry, New, Outcome, State, shown
from crmhub.queue.outages import cause_of
from crmhub.teams import choosing
from crmhub.teams.teams import OWNER

_LEAD = "createLead"
_FAILED: Mapping[str, str] = {
    _LEAD: event_types.LEAD_FAILED,
    "createDeal": event_types.DEAL_FAILED,
    "createTicket": event_types.TICKET_FAILED,
}
_ASSIGN = "assignOwner"
_LEAD_VALUES = ("name", "email", "phone")


def subject_of(connection_id: int, contact_id: str) -> str:
    """Return the subject of the events of calls that were accepted for a contact id."""
    return f"calls:{connection_id}:{contact_id}"


def note_accepted(
    tx: Connection, account: Account, new: New, action_id: str, created_at: int
) -> None:
    if new.kind != _LEAD or not wants(account.event_routes, event_types.LEAD_ACCEPTED):
        return
    data = _data(new.kind, new.hub_id, action_id, new.hub_id, new.request)
    subject = subject_of(account.connection.id, new.hub_id)
    event = Event(event_types.LEAD_ACCEPTED, subject, created_at, data)
    record_events(tx, account.id, account.event_routes, [event])


def note_finished(
    tx: Connection, account: Account, entry: Entry, outcome: Outcome, state: State, moment: int
) -> None:
    """Store the event of a call that was carried out or has failed; `state` is its new state."""
    type = ""
    more: dict[str, Any] = {}
    if state == "done" and entry.kind == _LEAD:
        type = event_types.LEAD_STORED
    elif state == "done" and entry.kind == _ASSIGN:
        type = event_types.OWNER_ASSIGNED
    elif state in ("dead", "refused"):
        type = _FAILED.get(entry.kind, "")
        more = {"error": outcome.word, "reason": outcome.message}
    if not type or not wants(account.event_routes, type):
        return
    if type == event_types.OWNER_ASSIGNED:
        chosen = choosing.of_action(tx, account.id, entry.id)
        if chosen is None or (outcome.result or {}).get("status") == "unchanged":
            # The contact has the owner that it had.
            return
        more = {
            "properties": {OWNER: chosen.owner_id},
            "owner": {"id": chosen.owner_id, "name": chosen.name, "email": chosen.email},
            "team": chosen.team,
            "dealId": chosen.deal_id or "",
            "reason": chosen.reason,
        }
    stored_id = (outcome.result or {}).get("contact_id", "") if state == "done" else ""
    data = _data(entry.kind, stored_id or entry.hub_id, entry.id, entry.hub_id, entry.request)
    subject = subject_of(entry.connection_id, entry.hub_id)
    # After the event of its acceptance, perhaps within the same millisecond.
    event = Event(type, subject, max(moment, entry.created_at + 1), {**data, **more})
    record_events(tx, account.id, account.event_routes, [event])


def _data(
    kind: str, id: str, action_id: str, contact_id: str, request: Mapping[str, Any]
) -> dict[str, Any]:
    if kind == _LEAD:
        properties = {name: request[name] for name in _LEAD_VALUES if request.get(name)}
    else:
        sent = request.get("properties") or {}
        properties = {name: sent_text(value) for name, value in sent.items()}
    return {
        "id": id,
        "properties": properties,
        "changed": [],
        "previous": {},
        "actionId": action_id,
        "contactId": contact_id,
    }


def note_failing(
    tx: Connection, account: Account, connection_id: int, outcome: Outcome, moment: int
) -> None:
    """Store the event that a connection's circuit breaker was opened by this outcome."""
    properties = {
        "cause": cause_of(outcome),
        "reason": shown(outcome.away or outcome.message),
    }
    _note_connection(tx, account, connection_id, event_types.CONNECTION_FAILING, properties, moment)


def note_recovered(tx: Connection, account: Account, connection_id: int, moment: int) -> None:
    _note_connection(tx, account, connection_id, event_types.CONNECTION_RECOVERED, {}, moment)


def _note_connection(
    tx: Connection,
    account: Account,
    connection_id: int,
    type: str,
    properties: Mapping[str, str],
    moment: int,
) -> None:
    if not wants(account.event_routes, type):
        return
    named = (
        {"adapter": account.connection.adapter} if account.connection.id == connection_id else {}
    )
    data = {
        "id": connection_id,
        "properties": {**named, **properties},
        "changed": [],
        "previous": {},
    }
    event = Event(type, f"connection:{connection_id}", moment, data)
    record_events(tx, account.id, account.event_routes, [event])
