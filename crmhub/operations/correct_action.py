"""Correct and retry: an operator changes values of an action that failed or is blocked.

What can be corrected is what the bot sent: name, email and phone of a lead, properties of the
others, and the contact of a deal or ticket. The values are checked as the helper checks them, and
the CRM checks them in the next attempt. The action keeps its id, its place among the actions of its
person, and the doubt whether it was written before; the former request stays beside the new one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from crmhub import audit
from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.bounds import MAX_ASKED_PROPERTIES, MAX_TEXT_LENGTH
from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import action as action_table
from crmhub.errors import Conflict, NotFound, Semantic, listed
from crmhub.helpers.actions import action_of
from crmhub.helpers.attempts import Action
from crmhub.helpers.contact_properties import SetProperties
from crmhub.helpers.create_lead import CreateLead, demand
from crmhub.helpers.create_linked import CreateForContact
from crmhub.helpers.inputs import filled
from crmhub.hub import Hub
from crmhub.identity import bindings, resolution
from crmhub.journal import action_queries
from crmhub.journal.action_queries import Full
from crmhub.journal.schedule import LONGEST_MS

CORRECTED = ("dead", "parked")
CONTACT_ID = "contactId"
_OF_LEAD = ("name", "email", "phone")
_ELSEWHERE = "The action was changed by somebody else meanwhile; look at it again."

_action = action_table.c
_IS_ACTION = sa.and_(_action.account_id == param("account_id"), _action.id == param("id"))
_LOCK = Statement(
    sa.select(_action.state, _action.request, _action.person).where(_IS_ACTION).with_for_update()
)
_QUEUE = Statement(
    sa.update(action_table)
    .where(_IS_ACTION)
    .values(
        state="queued",
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
    """Return the values of a request that can be corrected, by the names that `correct` takes."""
    if kind == CreateLead.kind:
        return {name: request.get(name) or "" for name in _OF_LEAD}
    contact = {} if kind == SetProperties.kind else {CONTACT_ID: request.get("contact_id", "")}
    properties = request.get("properties") or {}
    return contact | {name: value or "" for name, value in properties.items()}


def correct(
    hub: Hub,
    action_id: str,
    values: Mapping[str, str],
    *,
    by: Author,
    seen: int | None = None,
) -> int:
    """Change these values of an action and retry it; return how many actions are queued with it.

    "" clears a property of setProperties, and leaves a value out everywhere else. `seen` is how
    many former versions the author has seen. Raises NotFound, also for a contactId; Semantic with
    every fault of the values; Conflict when the action has neither failed nor is blocked, or was
    changed meanwhile.
    """
    found = action_queries.shown(hub.database, action_id)
    if found.summary.state not in CORRECTED:
        rule = f"only {action_queries.listing(CORRECTED)} actions can be corrected"
        raise action_queries.wrong_state(found.summary.state, rule)
    if seen is not None and seen != len(found.versions):
        raise Conflict(_ELSEWHERE)
    with hub.database.reading() as db:
        one = found.summary
        account = accounts.load_on(db, one.account_id, one.connection_id, hub.plans)
    correction = _Correction(account, found, values)
    return hub.database.transact(lambda tx: correction.write(tx, by))


class _Correction:
    """New values for an action, checked; raises Semantic."""

    def __init__(self, account: Account, found: Full, values: Mapping[str, str]) -> None:
        self._account = account
        self._found = found
        self._is_lead = found.summary.kind == CreateLead.kind
        self._is_update = found.summary.kind == SetProperties.kind
        self._values = self._changed(values)
        self._request = self._corrected()
        self._mapped = self._checked(action_of(found.summary.kind, self._request))

    # Checking.

    def _changed(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the values that differ from those of the action."""
        faults = [(name, fault) for name, text in values.items() if (fault := _fault(name, text))]
        if self._is_lead:
            known = f"createLead has no such value; known are {', '.join(_OF_LEAD)}"
            faults += [(name, known) for name in values if name not in _OF_LEAD]
        if faults:
            raise Semantic(listed(faults))
        if not self._is_update:
            values = {name: text.strip() for name, text in values.items()}
        before = values_of(self._found.summary.kind, self._found.request)
        # Of setProperties alone "" is a value: it clears.
        absent = None if self._is_update else ""
        changed = {name: text for name, text in values.items() if before.get(name, absent) != text}
        if not changed:
            raise Semantic(
                "No value differs from what was sent: change one, or retry the action as it is."
            )
        return changed

    def _corrected(self) -> dict[str, Any]:
        """Return the request with the new values."""
        request, values = dict(self._found.request), dict(self._values)
        if self._is_lead:
            return request | values
        if not self._is_update and CONTACT_ID in values:
            request["contact_id"] = values.pop(CONTACT_ID)
        properties = {**request["properties"], **values}
        if not self._is_update:
            properties = {name: text for name, text in properties.items() if text != ""}
        return request | {"properties": properties}

    def _checked(self, action: Action) -> Mapping[str, str]:
        """Return what goes to the CRM; raises Semantic for what a helper would refuse or drop."""
        if isinstance(action, CreateLead):
            demand(self._account, action)
        elif isinstance(action, CreateForContact):
            filled(action.contact_id, CONTACT_ID)
        elif len(self._request["properties"]) > MAX_ASKED_PROPERTIES:
            raise Semantic(f"properties: setProperties takes at most {MAX_ASKED_PROPERTIES}")
        mapped = action.mapped(self._account)
        faults = [
            (one.name, one.reason)
            for one in mapped.refused
            if one.name in self._values or not mapped.properties
        ]
        if faults:
            raise Semantic(listed(faults))
        return mapped.properties

    # Writing.

    def write(self, tx: Connection, by: Author) -> int:
        """Correct the action and queue it; return how many are queued with it."""
        moment = tx.now_ms()
        one = self._found.summary
        contact = self._of_contact(tx)
        person = self._lock(tx)
        # Later than any other value, also when the clock was set back since.
        before = bindings.last_accepted(tx, self._account, contact["person"] or person)
        said_at = max(moment, before + 1)
        former = {"at": moment, "by": by.name, "request": self._found.request}
        versions = [
            *({"at": v.at, "by": v.by, "request": v.request} for v in self._found.versions),
            former,
        ]
        tx.run(
            _QUEUE,
            {
                "account_id": one.account_id,
                "id": one.id,
                "request": _json(self._request),
                "versions": _json(versions),
                "corrected": _json(
                    {**self._found.corrected, **dict.fromkeys(self._values, said_at)}
                ),
                "run_at": moment,
                "give_up_at": moment + LONGEST_MS,
                **contact,
            },
        )
        count = 1 + action_queries.queue_blocked(tx, one.account_id, [one.id])
        action_queries.wake(tx)
        audit.note(
            tx,
            by,
            "edit",
            "actions",
            one.id,
            account_id=one.account_id,
            # No value: it may be somebody's.
            after={"values": sorted(self._values), "retried": count},
        )
        return count

    def _of_contact(self, tx: Connection) -> dict[str, str | None]:
        """Let what the hub knows of the contact follow; return whose the action is from now on.

        Raises NotFound for a contact that the hub has never named.
        """
        same: dict[str, str | None] = {"hub_id": None, "person": None}
        if self._is_lead or self._is_update:
            hub_id, kind = self._found.summary.hub_id, self._found.summary.kind
            former = action_of(kind, self._found.request).mapped(self._account).properties
            new = {n: text for n, text in self._mapped.items() if former.get(n) != text}
            names = ("email", "phone") if self._is_lead else ()
            said = {name: self._mapped.get(name, "") for name in names if name in self._values}
            resolution.correct(tx, self._account, hub_id, said=said, values=new)
            return same
        if CONTACT_ID not in self._values:
            return same
        contact_id = self._values[CONTACT_ID]
        bound = bindings.of_contact(tx, self._account, contact_id)
        # Whom the hub has not met goes by the CRM's own id: the CRM knows whether it exists.
        return {
            "hub_id": bound.hub_id if bound else contact_id,
            "person": bound.person if bound else contact_id,
        }

    def _lock(self, tx: Connection) -> str:
        """Let nobody else have the action; return its person.

        Raises Conflict when it is not as it was found.
        """
        one = self._found.summary
        row = tx.row(_LOCK, {"account_id": one.account_id, "id": one.id})
        if row is None:
            raise NotFound("The action was erased meanwhile.")
        if row.state not in CORRECTED or json.loads(row.request) != self._found.request:
            raise Conflict(_ELSEWHERE)
        return str(row.person)


def _fault(name: str, text: str) -> str:
    """Return why this cannot be a value of any action, "" when it can."""
    if not name.strip():
        return "its name is blank"
    if len(text) > MAX_TEXT_LENGTH:
        return f"it has {len(text)} characters; send at most {MAX_TEXT_LENGTH}"
    if name == CONTACT_ID and len(text) > bindings.LONGEST:
        return f"it is longer than {bindings.LONGEST} characters"
    try:
        unstorable = b"\0" in f"{name}{text}".encode()
    except UnicodeEncodeError:
        unstorable = True
    return "it holds a character that cannot be stored" if unstorable else ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
