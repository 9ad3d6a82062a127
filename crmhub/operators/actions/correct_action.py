"""Correct values that the bot sent in a failed, blocked or refused action, and retry the action.

The values are validated as in a helper call; the CRM validates them in the next attempt. The action
keeps its id, its place in the order of the contact's actions, and the note that an earlier attempt
may have written to the CRM. The former request is stored as a version.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from crmhub import audit
from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.adapter import Rejected
from crmhub.adapter.coercion import sent_text
from crmhub.audit import Author
from crmhub.bounds import MAX_ASKED_PROPERTIES, MAX_TEXT_LENGTH
from crmhub.database.connection import Connection
from crmhub.database.rows import find_row
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import action as action_table
from crmhub.errors import Conflict, NotFound, Semantic, listed
from crmhub.helpers.actions import action_of
from crmhub.helpers.assign_owner import AssignOwner
from crmhub.helpers.attempts import Action
from crmhub.helpers.contact_properties import SetProperties
from crmhub.helpers.copied_writes import WRITE_ACTIONS
from crmhub.helpers.create_lead import CreateLead, demand
from crmhub.helpers.create_linked import CreateForContact
from crmhub.helpers.create_task import CreateTask
from crmhub.helpers.inputs import filled
from crmhub.helpers.notes import AddNote, read_note
from crmhub.hub import Hub
from crmhub.identity import bindings, corrections
from crmhub.operators.actions import action_batches, action_queries, retry_action
from crmhub.operators.actions.action_queries import Full, Version
from crmhub.queue.schedule import LONGEST_MS
from crmhub.teams import choosing
from crmhub.translatable import translatable

CORRECTED = ("dead", "parked", "refused")
CONTACT_ID = "contactId"
_LEAD_VALUES = ("name", "email", "phone")
# The keys of requests without properties, by the names that a bot sends.
_KEYS: Mapping[str, Mapping[str, str]] = {
    AssignOwner.kind: {CONTACT_ID: "contact_id", "team": "team", "dealId": "deal_id"},
    AddNote.kind: {"text": "text", "author": "author", "at": "at"},
}
_CHANGED_MEANWHILE = translatable(
    "The action was changed by somebody else meanwhile; open it again."
)

_action = action_table.c
_IS_ACTION = sa.and_(_action.account_id == param("account_id"), _action.id == param("id"))
_QUEUE = Statement(
    sa.update(action_table)
    .where(_IS_ACTION)
    .values(
        state="queued",
        queued_at=param("run_at"),
        tries=0,
        finished_at=sa.null(),
        behind=sa.null(),
        result=sa.null(),
        hub_id=sa.func.coalesce(param("hub_id"), _action.hub_id),
        person=sa.func.coalesce(param("person"), _action.person),
        **params("request", "versions", "corrected", "run_at", "give_up_at"),
    )
)


def values_of(kind: str, request: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that can be corrected; a deal's or ticket's contact is `contactId`."""
    if kind == CreateLead.kind:
        return {name: request.get(name) or "" for name in _LEAD_VALUES}
    if kind in _KEYS:
        return {name: request.get(key, "") for name, key in _KEYS[kind].items()}
    contact = {} if _is_update(kind) else {CONTACT_ID: request.get("contact_id", "")}
    properties = request.get("properties") or {}
    return contact | {name: sent_text(value) for name, value in properties.items()}


def request_of(row: Any) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(row.request)
    return request


def correct(
    hub: Hub,
    action_id: str,
    values: Mapping[str, str],
    *,
    by: Author,
    seen: int | None = None,
) -> int:
    """Change values of an action and queue it again; count it and the actions that it blocked.

    "" clears a property in an update, and removes a value elsewhere. `seen`: the number of versions
    that the author has seen; None skips this comparison. Raises NotFound for an unknown action or
    contactId of the hub; Semantic with all faults of the values; Conflict if the action is not
    failed, blocked or refused, or was changed meanwhile.
    """
    correction = prepare(hub, action_id, values, seen=seen)
    return hub.database.transact(lambda tx: correction.apply(tx, by))


def can_correct(kind: str, name: str) -> bool:
    """Return whether a correction of an action of this kind takes a value of this name."""
    known = _LEAD_VALUES if kind == CreateLead.kind else _KEYS.get(kind)
    return bool(name) and (known is None or name in known)


def prepare(
    hub: Hub, action_id: str, values: Mapping[str, str], *, seen: int | None = None
) -> Correction:
    """Return a correction that is not stored yet; raises as `correct`."""
    found = action_queries.shown(hub.database, action_id)
    if found.summary.state not in CORRECTED:
        raise action_batches.wrong_state(hub.database, action_id, CORRECTED, "corrected")
    if seen is not None and seen != len(found.versions):
        raise Conflict(_CHANGED_MEANWHILE)
    with hub.database.reading() as db:
        summary = found.summary
        account = accounts.load_on(db, summary.account_id, summary.connection_id, hub.plans)
    return Correction(account, found, values)


class Correction:
    """The new values of an action; raises Semantic if they are invalid or change nothing."""

    def __init__(self, account: Account, action: Full, values: Mapping[str, str]) -> None:
        self._account = account
        self._action = action
        self._is_lead = action.summary.kind == CreateLead.kind
        self._keys = _KEYS.get(action.summary.kind)
        self._is_update = _is_update(action.summary.kind)
        self._values = self._changed_values(values)
        self._request = self._corrected_request()
        self.action = action_of(action.summary.kind, self._request)
        self._mapped = self._check(self.action)

    def _changed_values(self, values: Mapping[str, str]) -> dict[str, str]:
        faults = [(name, fault) for name, text in values.items() if (fault := _fault(name, text))]
        if self._is_lead:
            fault = _no_such_value("createLead", _LEAD_VALUES)
            faults += [(name, fault) for name in values if name not in _LEAD_VALUES]
        if self._keys is not None:
            fault = _no_such_value(self._action.summary.kind, self._keys)
            faults += [(name, fault) for name in values if name not in self._keys]
        if faults:
            raise Semantic(listed(faults), fields=faults)
        if not self._is_update:
            values = {name: text.strip() for name, text in values.items()}
        before = values_of(self._action.summary.kind, self._action.request)
        # Only in an update is "" a value: it clears the property.
        absent = None if self._is_update else ""
        changed = {name: text for name, text in values.items() if before.get(name, absent) != text}
        if not changed:
            raise Semantic(
                "No value differs from what was sent: change one, or retry the action as it is."
            )
        return changed

    def _corrected_request(self) -> dict[str, Any]:
        request, values = dict(self._action.request), dict(self._values)
        if self._is_lead:
            return request | values
        if self._keys is not None:
            return request | {self._keys[name]: text for name, text in values.items()}
        if not self._is_update and CONTACT_ID in values:
            request["contact_id"] = values.pop(CONTACT_ID)
        properties = {**(request.get("properties") or {}), **values}
        if not self._is_update:
            properties = {name: text for name, text in properties.items() if text != ""}
        return request | {"properties": properties}

    def _check(self, action: Action) -> Mapping[str, str]:
        """Return the properties as they are sent; raises Semantic if a helper would refuse them."""
        if isinstance(action, CreateLead):
            demand(self._account, action)
        elif isinstance(action, AddNote):
            read_note(action.text, action.type)
        elif isinstance(action, CreateForContact | CreateTask | AssignOwner):
            filled(action.contact_id, CONTACT_ID)
        elif len(self._request["properties"]) > MAX_ASKED_PROPERTIES:
            raise Semantic(
                "properties: setProperties takes at most %(most)s", most=MAX_ASKED_PROPERTIES
            )
        mapped = action.mapped(self._account)
        faults = [
            (problem.name, problem.reason)
            for problem in mapped.refused
            if problem.name in self._values or not mapped.properties
        ]
        if faults:
            raise Semantic(listed(faults), fields=faults)
        if not mapped.properties:
            try:
                action.check(self._account, None, mapped)
            except Rejected as exc:
                raise Semantic(str(exc)) from exc
        return mapped.properties

    def apply(self, tx: Connection, by: Author) -> int:
        """Store the request, queue the action and those it blocked, and count them."""
        moment = tx.now_ms()
        summary = self._action.summary
        contact = self._update_contact(tx)
        person = self._lock(tx)
        # Newer than any other value of the person, even if the clock was set back since.
        newest = bindings.last_accepted(tx, self._account, contact["person"] or person)
        accepted_at = max(moment, newest + 1)
        version = Version(moment, by.name, self._action.request)
        if summary.kind == AssignOwner.kind:
            choosing.forget(tx, self._account, summary.id)
        versions = [asdict(one) for one in (*self._action.versions, version)]
        corrected = {**self._action.corrected, **dict.fromkeys(self._values, accepted_at)}
        tx.run(
            _QUEUE,
            {
                "account_id": summary.account_id,
                "id": summary.id,
                "request": _json(self._request),
                "versions": _json(versions),
                "corrected": _json(corrected),
                "run_at": moment,
                "give_up_at": moment + LONGEST_MS,
                **contact,
            },
        )
        account_id = summary.account_id
        count = 1 + retry_action.queue_blocked(tx, account_id, [summary.id])
        tx.notify_workers()
        # Names only: values may be personal data.
        after = {"values": sorted(self._values), "retried": count}
        audit.note(tx, by, "edit", "actions", summary.id, account_id=account_id, after=after)
        return count

    def _update_contact(self, tx: Connection) -> dict[str, str | None]:
        """Store the corrected contact in its binding; return the action's new keys.

        Only a new `contactId` gives any. Raises NotFound for an unknown contact id `hub-…`.
        """
        unchanged: dict[str, str | None] = {"hub_id": None, "person": None}
        hub_id, kind = self._action.summary.hub_id, self._action.summary.kind
        if kind in WRITE_ACTIONS:
            return unchanged
        if self._is_lead or self._is_update:
            before = action_of(kind, self._action.request).mapped(self._account).properties
            new = {name: text for name, text in self._mapped.items() if before.get(name) != text}
            names = ("email", "phone") if self._is_lead else ()
            said = {name: self._mapped.get(name, "") for name in names if name in self._values}
            corrections.correct(tx, self._account, hub_id, said=said, values=new)
            return unchanged
        if CONTACT_ID not in self._values:
            return unchanged
        contact_id = self._values[CONTACT_ID]
        binding = bindings.of_contact(tx, self._account, contact_id)
        # Without a binding the text is the CRM's own id: the CRM knows whether it exists.
        return {
            "hub_id": binding.hub_id if binding else contact_id,
            "person": binding.person if binding else contact_id,
        }

    def _lock(self, tx: Connection) -> str:
        """Lock the row, return the person key; raises NotFound or Conflict after a change."""
        summary = self._action.summary
        key = {"account_id": summary.account_id, "id": summary.id}
        row = find_row(tx, action_table, key, lock=True)
        if row is None:
            raise NotFound("The action was erased meanwhile.")
        if row.state not in CORRECTED or json.loads(row.request) != self._action.request:
            raise Conflict(_CHANGED_MEANWHILE)
        return str(row.person)


def _is_update(kind: str) -> bool:
    return kind == SetProperties.kind or kind in WRITE_ACTIONS


def _no_such_value(kind: str, known: Iterable[str]) -> str:
    return translatable(
        "%(kind)s has no such value; known are %(known)s", kind=kind, known=", ".join(known)
    )


def _fault(name: str, text: str) -> str:
    """Why no action can have the value `text`, "" if it is valid."""
    if not name.strip():
        return translatable("its name is blank")
    if len(text) > MAX_TEXT_LENGTH:
        return translatable(
            "it has %(length)s characters; send at most %(most)s",
            length=len(text),
            most=MAX_TEXT_LENGTH,
        )
    if name == CONTACT_ID and len(text) > bindings.LONGEST:
        return translatable("it is longer than %(most)s characters", most=bindings.LONGEST)
    try:
        unstorable = b"\0" in f"{name}{text}".encode()
    except UnicodeEncodeError:
        unstorable = True
    return translatable("it holds a character that cannot be stored") if unstorable else ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
