"""The order of a person's actions."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.adapter import NotYet
from crmhub.database.advisory_locks import hold
from crmhub.database.connection import Connection, Database
from crmhub.database.rows import find_row
from crmhub.database.statements import Statement, equals, one_of, param
from crmhub.database.tables import action
from crmhub.identity import bindings, merged_contacts, resolution
from crmhub.identity.bindings import same_contact
from crmhub.queue.models import Entry, State, as_result
from crmhub.queue.outcomes import unblock

# More actions than a person has while a write is in doubt.
_OTHERS = 1_000
# Seconds until a retry while another action of the contact is in progress.
_TURN_S = 1.0

_a = action.c
_OF_ACCOUNT = _a.account_id == param("account_id")
_OF_PERSON = sa.and_(_OF_ACCOUNT, _a.person == param("person"))
_GOES_FIRST = Statement(
    sa.select(_a.id)
    .where(
        _OF_PERSON,
        _a.id != param("id"),
        one_of(_a.state, "running", "queued"),
        sa.or_(
            _a.id < param("id"),
            sa.and_(one_of(_a.state, "running"), _a.run_at > param("now")),
        ),
    )
    .limit(1)
)
_LEADS_OF = Statement(
    sa.select(_a.id, _a.state)
    .where(
        _OF_PERSON,
        _a.connection_id == param("connection_id"),
        one_of(_a.state, "running", "queued", "dead"),
        _a.kind == "createLead",
        _a.id < param("id"),
        same_contact(action),
    )
    .order_by(_a.id.desc())
    .limit(50)
)
_RESULTS_OF_OTHERS = Statement(
    sa.select(_a.result)
    .where(
        _OF_PERSON,
        *equals(action, "connection_id", "kind"),
        _a.id != param("id"),
        one_of(_a.state, "done"),
    )
    .order_by(_a.created_at.desc())
    .limit(_OTHERS)
)


def take_turn(database: Database, account: Account, entry: Entry, crm_id: str) -> Mapping[str, int]:
    """Make sure that an action may write to the contact `crm_id`, which the CRM has named.

    From now on all actions of the contact have the same person, so that they run in order. Return,
    by property name, when the hub accepted each value that it wrote to the contact. Raises NotYet
    while another action of the contact is in progress or must run first.
    """
    with database.reading() as connection:
        known = bindings.of_crm_id(connection, account, crm_id)
    if entry.hub_id in known.hub_ids and known.persons == (entry.person,):
        return known.accepted

    def unite(tx: Connection) -> bool:
        hold(tx, account.id, account.connection.id, "contact", crm_id)
        of = {"account_id": account.id, "id": entry.id}
        row = find_row(tx, action, of)
        # A row that is gone was erased meanwhile.
        mine = row.person if row else entry.person
        person, *others = bindings.of_crm_id(tx, account, crm_id).persons or (mine,)
        found = resolution.set_crm_id(tx, account, entry.hub_id, crm_id)
        merged_contacts.merge_persons(tx, account, {mine, *others} - {person}, person)
        hold(tx, account.id, "person", person)
        moment = tx.now_ms()
        other = tx.row(_GOES_FIRST, of | {"person": person, "now": moment})
        # Actions blocked until a lead creates the contact can go on: the contact exists.
        if found and unblock(tx, entry, moment):
            tx.notify_workers()
        return other is not None

    if database.transact(unite):
        raise NotYet("Another action of this contact goes first.", retry_after=_TURN_S)
    with database.reading() as connection:
        return bindings.of_crm_id(connection, account, crm_id).accepted


def leads_of(database: Database, account: Account, person: str, entry: Entry) -> dict[str, State]:
    """Return the states, by id, of a contact's leads before `entry` that have not reached the CRM.

    These are unfinished or failed, and come newest first. `person`: the contact's present person.
    """
    with database.reading() as connection:
        rows = connection.rows(
            _LEADS_OF,
            account.connection_key | {"person": person, "hub_id": entry.hub_id, "id": entry.id},
        )
    return {row.id: row.state for row in rows}


def records_of_others(database: Database, entry: Entry) -> frozenset[str]:
    """Return the CRM's ids of the records of the person's other actions of this kind."""
    with database.reading() as connection:
        rows = connection.rows(
            _RESULTS_OF_OTHERS,
            {
                "account_id": entry.account_id,
                "person": entry.person,
                "connection_id": entry.connection_id,
                "kind": entry.kind,
                "id": entry.id,
            },
        )
    return frozenset(result["record_id"] for row in rows if (result := as_result(row.result)))
