"""Bindings: the people that bots talk to, as the hub stores them for each connection to a CRM.

A binding has a permanent `hub_id`, and the id of the CRM's contact once there is one. A
conversation (its `contactToken`) belongs to one binding at a time; if it turns out to be about
another contact, it moves. Bindings of one human being share `person`, whose actions run in the
order of their acceptance. The module `resolution` writes bindings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.adapter.phones import identity_of
from crmhub.database.connection import Connection, Database
from crmhub.database.statements import Statement, equals, param
from crmhub.database.tables import account as account_table
from crmhub.database.tables import binding
from crmhub.errors import NotFound
from crmhub.identity import merged_contacts

HUB_ID = "hub-"
"""The prefix of the hub's own contact ids."""
LONGEST = 255
"""The greatest length of a contactToken or contact id, in characters: a limit of the indexes."""
MAX_VALUES = 200
"""The most values that a binding stores of its contact."""
# A phone of more contacts than this belongs to a switchboard.
_MOST_SHARING = 50

_b = binding.c
OF_CONNECTION = sa.and_(*equals(binding, "account_id", "connection_id"))
"""The condition for the bindings of a connection; `Account.connection_key` has its parameters."""
IS_BINDING = sa.and_(OF_CONNECTION, _b.hub_id == param("hub_id"))
LOOKUP_COLUMNS = {"token": _b.contact_token, "email": _b.email, "phone": _b.phone}
"""The columns by which a lead's binding is looked up."""
COLUMNS = (
    _b.hub_id,
    _b.person,
    _b.crm_id,
    _b.email,
    _b.last_values,
    _b.contact_token.is_(None).label("free"),
)
"""The columns that `as_binding` reads."""


def _newest_with(column: sa.ColumnElement[Any]) -> Statement:
    newest = (_b.last_chat_at.desc(), _b.hub_id)
    return Statement(
        sa.select(*COLUMNS)
        .where(OF_CONNECTION, column == param("value"))
        .order_by(*newest)
        .limit(1)
    )


_BY_TOKEN = _newest_with(_b.contact_token)
_BY_HUB_ID = _newest_with(_b.hub_id)
_BY_CRM_ID = _newest_with(_b.crm_id)
# If several contacts have the phone, the oldest one counts.
_CONTACT_WITH_PHONE = Statement(
    sa.select(_b.crm_id)
    .where(OF_CONNECTION, _b.phone == param("phone"), _b.crm_id.is_not(None))
    .order_by(_b.created_at, _b.hub_id)
    .limit(1)
)
_OF_CRM_ID = Statement(
    sa.select(_b.hub_id, _b.person, _b.accepted)
    .where(OF_CONNECTION, _b.crm_id == param("crm_id"))
    .order_by(_b.created_at, _b.hub_id)
)
_OTHERS_WITH_PHONE = Statement(
    sa.select(*COLUMNS)
    .where(OF_CONNECTION, _b.phone == param("phone"), _b.crm_id != param("besides"))
    .order_by(_b.created_at, _b.hub_id)
    .limit(param("most"))
)
_ACCEPTED = Statement(
    sa.select(_b.accepted)
    .where(OF_CONNECTION, _b.person == param("person"), _b.accepted.is_not(None))
    .order_by(_b.last_chat_at.desc())
    .limit(20)
)
# Searches all accounts, since such a call names only a contactToken.
_ACCOUNTS_OF_TOKEN = Statement(
    sa.select(_b.account_id)
    .distinct()
    .join_from(
        binding,
        account_table,
        sa.and_(
            account_table.c.id == _b.account_id,
            account_table.c.connection_id == _b.connection_id,
        ),
    )
    .where(_b.contact_token == param("token"))
    .limit(1000)
)


@cache
def _with_any(names: tuple[str, ...]) -> Statement:
    newest = (_b.last_chat_at.desc(), _b.hub_id)
    parts = [
        sa.select(
            sa.select(sa.literal_column(f"'{name}'").label("said"), *COLUMNS)
            .where(OF_CONNECTION, LOOKUP_COLUMNS[name] == param(name))
            .order_by(*newest)
            .limit(1)
            .subquery(name)
        )
        for name in names
    ]
    return Statement(sa.union_all(*parts))


def same_contact(of: Any) -> sa.ColumnElement[bool]:
    """The SQL condition that a row of `action` is for the contact `hub_id` (the hub's or CRM's id).

    The statement binds `account_id` and `hub_id`.
    Persons are not compared, since one may have several contacts. Until the CRM has a contact, the
    same email counts as one contact, or without any the same phone.
    """
    own, meant = binding.alias("o"), binding.alias("m")
    is_own = sa.and_(_of_action(own, of), own.c.hub_id == of.c.hub_id)
    unknown = sa.or_(meant.c.crm_id.is_(None), own.c.crm_id.is_(None))
    no_email = sa.and_(meant.c.email.is_(None), own.c.email.is_(None))
    alike = sa.or_(meant.c.email == own.c.email, sa.and_(no_email, meant.c.phone == own.c.phone))
    by_crm_id: sa.Select[Any] = sa.select(sa.literal_column("1")).where(
        is_own, own.c.crm_id == param("hub_id")
    )
    by_values: sa.Select[Any] = (
        sa.select(sa.literal_column("1"))
        .select_from(meant.outerjoin(own, is_own))
        .where(
            _of_action(meant, of),
            meant.c.hub_id == param("hub_id"),
            sa.or_(meant.c.crm_id.in_([of.c.hub_id, own.c.crm_id]), sa.and_(unknown, alike)),
        )
    )
    return sa.or_(
        of.c.hub_id == param("hub_id"),
        sa.exists(by_crm_id.correlate(of)),
        sa.exists(by_values.correlate(of)),
    )


def _of_action(row: Any, of: Any) -> sa.ColumnElement[bool]:
    # By the value, not by `of`: Citus would run the statement on every node.
    of_account = row.c.account_id == param("account_id")
    return sa.and_(of_account, row.c.connection_id == of.c.connection_id)


@dataclass(frozen=True, slots=True)
class Binding:
    """A contact as the hub stores it; `crm_id` is "" until the CRM has the contact."""

    hub_id: str
    person: str
    crm_id: str
    email: str
    last_values: Mapping[str, str]
    free: bool = True
    """True if no conversation belongs to the binding."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The CRM's contacts that a lead may mean, by conversation, email and phone; "" for none."""

    contact_id: str
    email_id: str
    phone_id: str
    by_phone: bool
    """True if the conversation has never sent an email, so that only a phone led to its contact."""


@dataclass(frozen=True, slots=True)
class ContactBindings:
    """Oldest first; `accepted`: when the hub last accepted each value."""

    hub_ids: tuple[str, ...]
    persons: tuple[str, ...]
    accepted: Mapping[str, int]


def _newest(
    statement: Statement, connection: Connection, account: Account, value: str
) -> Binding | None:
    row = connection.row(statement, account.connection_key | {"value": value})
    return None if row is None else as_binding(row)


of_token = partial(_newest, _BY_TOKEN)
of_hub_id = partial(_newest, _BY_HUB_ID)
with_crm_id = partial(_newest, _BY_CRM_ID)


def of_contact(connection: Connection, account: Account, contact_id: str) -> Binding | None:
    """Return None for a CRM's id without binding; raises NotFound for an unknown id of the hub."""
    if not contact_id.startswith(HUB_ID):
        crm_id = merged_contacts.merged_into(connection, account, contact_id[:LONGEST])
        return with_crm_id(connection, account, crm_id)
    found = of_hub_id(connection, account, contact_id)
    if found is None:
        raise NotFound(
            "contactId: %(id)s is not a contact of this account's CRM; send the contactId that"
            " createLead answered",
            id=contact_id,
        )
    return found


def find_candidates(
    connection: Connection, account: Account, *, before: str, hub_id: str, phone: str
) -> Candidates:
    """`before`: the conversation's binding until now, "" if new; differs from `hub_id` by email."""
    mine = of_hub_id(connection, account, before) if before else None
    theirs = of_hub_id(connection, account, hub_id) if hub_id != before else None
    phone_id: str | None = phone and connection.scalar(
        _CONTACT_WITH_PHONE, account.connection_key | {"phone": identity_of(phone)[:LONGEST]}
    )
    return Candidates(
        mine.crm_id if mine else "",
        theirs.crm_id if theirs else "",
        phone_id or "",
        by_phone=mine is not None and not mine.email,
    )


def of_crm_id(connection: Connection, account: Account, crm_id: str) -> ContactBindings:
    rows = connection.rows(_OF_CRM_ID, account.connection_key | {"crm_id": crm_id})
    return ContactBindings(
        tuple(row.hub_id for row in rows),
        tuple(dict.fromkeys(row.person for row in rows)),
        latest_times(json.loads(row.accepted) for row in rows if row.accepted),
    )


def with_phone(
    connection: Connection, account: Account, phone: str, *, besides: str
) -> Binding | None:
    rows = connection.rows(
        _OTHERS_WITH_PHONE,
        account.connection_key
        | {"phone": identity_of(phone)[:LONGEST], "besides": besides, "most": _MOST_SHARING},
    )
    bindings = (as_binding(row) for row in rows)
    line = identity_of(phone)
    return next((b for b in bindings if identity_of(b.last_values.get("phone", "")) == line), None)


def last_accepted(tx: Connection, account: Account, person: str) -> int:
    rows = tx.rows(_ACCEPTED, account.connection_key | {"person": person})
    return max((at for row in rows for at in json.loads(row.accepted).values()), default=0)


def accounts_of_token(database: Database, token: str) -> list[int]:
    """Return up to 1,000 accounts with this contactToken on their present connections."""
    with database.across_accounts(), database.reading() as connection:
        rows = connection.rows(_ACCOUNTS_OF_TOKEN, {"token": token})
    return [row.account_id for row in rows]


def find_all(
    connection: Connection, account: Account, said: Mapping[str, str]
) -> dict[str, Binding]:
    rows = connection.rows(_with_any(tuple(said)), {**account.connection_key, **said})
    return {row.said: as_binding(row) for row in rows}


def as_binding(row: Any) -> Binding:
    return Binding(
        row.hub_id,
        row.person,
        row.crm_id or "",
        row.email or "",
        json.loads(row.last_values or "{}"),
        free=bool(row.free),
    )


def latest_times(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the latest time of each name, of the 200 names that occurred last in `several`."""
    latest: dict[str, int] = {}
    for times in several:
        for name, moment in times.items():
            latest[name] = max(moment, latest.pop(name, 0))
    return dict(list(latest.items())[-MAX_VALUES:])


def merged_values(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    values = {**old, **new}
    return dict(list(values.items())[-MAX_VALUES:])
