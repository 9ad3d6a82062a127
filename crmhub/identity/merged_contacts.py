"""Move the bindings of a merged contact to the kept contact, and back if the merge is undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.advisory_locks import hold_all
from crmhub.database.connection import Connection
from crmhub.database.rows import set_where
from crmhub.database.statements import Statement, equals, in_list, one_of, param, params
from crmhub.database.tables import action, binding, possible_duplicate

_b = binding.c
_HERE = sa.and_(_b.account_id == param("account_id"), _b.connection_id == param("connection_id"))
_merge = possible_duplicate.c
_MERGES_HERE = sa.and_(*equals(possible_duplicate, "account_id", "connection_id"))
_MERGED_INTO = Statement(
    sa.select(_merge.kept_id).where(_MERGES_HERE, _merge.merged_id == param("crm_id"))
)
_WITH_FORMER_EMAIL = Statement(
    sa.select(_merge.kept_id)
    .where(_MERGES_HERE, _merge.email == param("email"))
    .order_by(_merge.decided_at)
    .limit(1)
)
_PERSONS_OF = Statement(sa.select(_b.person).where(_HERE, in_list(_b.crm_id, "crm_ids")))
_LOCK_ACTIONS = Statement(
    sa.select(action.c.id)
    .where(
        action.c.account_id == param("account_id"),
        in_list(action.c.person, "persons"),
        one_of(action.c.state, "running", "queued"),
    )
    .order_by(action.c.id)
    .with_for_update()
)
_LOCK_MERGED = Statement(
    sa.select(_b.hub_id, _b.person, _b.crm_id)
    .where(_HERE, sa.or_(_b.crm_id == param("merged"), _b.crm_id == param("kept")))
    .order_by(_b.created_at, _b.hub_id)
    .with_for_update()
)
_OF_PERSONS = Statement(sa.select(_b.hub_id, _b.person).where(_HERE, in_list(_b.person, "persons")))
_MOVE_BACK = Statement(
    sa.update(binding)
    .where(_HERE, _b.crm_id == param("kept"), in_list(_b.hub_id, "hub_ids"))
    .values(crm_id=param("merged"))
)
_MERGE_PERSONS = tuple(
    Statement(
        sa.update(table)
        .where(*equals(table, "account_id", "connection_id"), in_list(table.c.person, "persons"))
        .values(params("person"))
    )
    for table in (binding, action)
)
_PART = tuple(
    Statement(
        sa.update(table)
        .where(
            *equals(table, "account_id", "connection_id"),
            table.c.person == param("joined"),
            in_list(table.c.hub_id, "hub_ids"),
        )
        .values(params("person"))
    )
    for table in (binding, action)
)


def merged_into(connection: Connection, account: Account, crm_id: str) -> str:
    kept_id: str | None = connection.scalar(
        _MERGED_INTO, account.connection_key | {"crm_id": crm_id}
    )
    return kept_id or crm_id


def with_former_email(connection: Connection, account: Account, email: str) -> str:
    kept_id: str | None = connection.scalar(
        _WITH_FORMER_EMAIL, account.connection_key | {"email": email}
    )
    return kept_id or ""


def hold_contact(tx: Connection, account: Account, crm_id: str) -> str:
    hold_contacts(tx, account, [crm_id])
    kept_id = merged_into(tx, account, crm_id)
    if kept_id != crm_id:
        hold_contacts(tx, account, [kept_id])
    return kept_id


def hold_contacts(tx: Connection, account: Account, crm_ids: Sequence[str]) -> None:
    """Lock contacts of the CRM, so that no other transaction can assign them to a binding."""
    names = [(account.id, account.connection.id, "contact", crm_id) for crm_id in sorted(crm_ids)]
    hold_all(tx, names)


def hold_actions(tx: Connection, account: Account, crm_ids: Sequence[str]) -> None:
    """Call this before `hold_contacts`: who records an outcome locks the action first."""
    rows = tx.rows(_PERSONS_OF, account.connection_key | {"crm_ids": crm_ids})
    persons = sorted({*crm_ids, *(row.person for row in rows)})
    tx.rows(_LOCK_ACTIONS, {"account_id": account.id, "persons": persons})


@dataclass(frozen=True, slots=True)
class Joined:
    """`person`: of both contacts since; `persons`: of each before; `hub_ids`: moved bindings."""

    person: str
    hub_ids: tuple[str, ...]
    persons: Mapping[str, str]


def join(tx: Connection, account: Account, merged_id: str, kept_id: str) -> Joined:
    """Move bindings after a merge, with one common person; the caller has locked both contacts."""
    here = account.connection_key
    contacts = {"merged": merged_id, "kept": kept_id}
    rows = tx.rows(_LOCK_MERGED, here | contacts)
    of_kept = [row.person for row in rows if row.crm_id == kept_id]
    of_merged = [row.person for row in rows if row.crm_id == merged_id]
    person = [*of_kept, *of_merged, kept_id][0]
    # Actions may name a contact by the CRM's id. Without a binding, this id is also their person.
    own = {merged_id: [*of_merged, merged_id][0], kept_id: [*of_kept, kept_id][0]}
    former = sorted({*of_kept, *of_merged, *own, *own.values()} - {person})
    changed = tx.rows(_OF_PERSONS, here | {"persons": former})
    set_where(tx, binding, here | {"crm_id": merged_id}, crm_id=kept_id)
    merge_persons(tx, account, {*former}, person)
    hub_ids = tuple(row.hub_id for row in rows if row.crm_id == merged_id)
    return Joined(person, hub_ids, {**own, **{row.hub_id: row.person for row in changed}})


def merge_persons(tx: Connection, account: Account, persons: Set[str], into: str) -> None:
    if persons:
        values = account.connection_key | {"persons": sorted(persons), "person": into}
        for statement in _MERGE_PERSONS:
            tx.run(statement, values)


def part(tx: Connection, account: Account, merged_id: str, kept_id: str, joined: Joined) -> None:
    here = account.connection_key
    contacts = {"merged": merged_id, "kept": kept_id}
    tx.run(_MOVE_BACK, here | contacts | {"hub_ids": joined.hub_ids})
    for person in sorted({*joined.persons.values()} - {joined.person}):
        ids = sorted(id for id, former in joined.persons.items() if former == person)
        for statement in _PART:
            tx.run(statement, here | {"person": person, "joined": joined.person, "hub_ids": ids})
