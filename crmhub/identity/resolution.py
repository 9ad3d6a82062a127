"""Resolution: find or create the binding of a lead, and store the CRM's contact of a binding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.adapter.phones import identity_of
from crmhub.database import tables
from crmhub.database.advisory_locks import hold, hold_all
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import insert_row, set_where
from crmhub.database.statements import Statement, equals, param
from crmhub.identity import merged_contacts
from crmhub.identity.bindings import (
    COLUMNS,
    HUB_ID,
    IS_BINDING,
    LONGEST,
    OF_CONNECTION,
    Binding,
    as_binding,
    find_all,
    latest_times,
    merged_values,
    with_crm_id,
)
from crmhub.secrets import BASE36
from crmhub.secrets import token as random_token

_b = tables.binding.c
OTHER = tables.binding.alias("other")
OTHERS_HERE = sa.and_(*equals(OTHER, "account_id", "connection_id"))


def updating(**values: Any) -> Statement:
    return Statement(sa.update(tables.binding).where(IS_BINDING).values(values))


_SET_CRM_ID = Statement(
    sa.update(tables.binding)
    .where(IS_BINDING, sa.or_(_b.crm_id.is_(None), _b.crm_id != param("crm_id")))
    .values(crm_id=param("crm_id"), accepted=None)
)
_NOTE_SAID = Statement(
    sa.update(tables.binding)
    .where(IS_BINDING)
    .values(
        last_chat_at=param("last_chat_at"),
        email=sa.func.coalesce(param("email"), _b.email),
        phone=sa.func.coalesce(param("phone"), _b.phone),
        last_values=sa.func.coalesce(param("last_values"), _b.last_values),
    )
    .returning(_b.person)
)
_PERSON_NOW = Statement(sa.select(_b.person).where(IS_BINDING).with_for_update())
_BEFORE_CONTACT = Statement(
    sa.select(
        *COLUMNS,
        _b.accepted,
        sa.select(OTHER.c.person)
        .where(
            OTHERS_HERE,
            OTHER.c.crm_id == param("crm_id"),
            OTHER.c.hub_id != param("hub_id"),
        )
        .order_by(OTHER.c.created_at, OTHER.c.hub_id)
        .limit(1)
        .scalar_subquery()
        .label("other_person"),
        sa.exists(
            sa.select(sa.literal_column("1"))
            .select_from(tables.action)
            .where(
                tables.action.c.account_id == param("account_id"),
                tables.action.c.person == param("crm_id"),
            )
        ).label("named_by_crm_id"),
    ).where(IS_BINDING)
)
# coalesce() keeps the database from using an index on NULL, which may match most rows after an
# outage.
_NO_CONTACT = sa.func.coalesce(_b.crm_id, "") == ""
_OTHERS_WITHOUT_CONTACT = {
    "email": Statement(
        sa.select(_b.hub_id).where(
            OF_CONNECTION, _b.hub_id != param("hub_id"), _NO_CONTACT, _b.email == param("email")
        )
    ),
    # Applies if neither binding has an email.
    "phone": Statement(
        sa.select(_b.hub_id).where(
            OF_CONNECTION,
            _b.hub_id != param("hub_id"),
            _NO_CONTACT,
            _b.phone == param("phone"),
            sa.func.coalesce(_b.email, "") == "",
            sa.exists(
                sa.select(sa.literal_column("1")).where(
                    OTHERS_HERE,
                    OTHER.c.hub_id == param("hub_id"),
                    sa.func.coalesce(OTHER.c.email, "") == "",
                )
            ),
        )
    ),
}


@dataclass(frozen=True, slots=True)
class Resolution:
    """`before`: the conversation's hub id until now, "" if new. `new`: no other action exists."""

    binding: Binding
    before: str
    new: bool = False


def resolve_binding(
    tx: Connection,
    account: Account,
    *,
    token: str,
    email: str,
    phone: str,
    values: Mapping[str, str] | None = None,
) -> Resolution:
    """Assign the conversation to the lead's binding, and store the values for getProperties.

    The binding is found by the conversation or email, or created. An email unlike the
    conversation's former one may be another contact's, as only the CRM can decide: then the
    conversation gets another binding, and its former one stays unchanged.
    """
    said = {"token": token, "email": email[:LONGEST]}
    said["phone"] = phone and identity_of(phone)[:LONGEST]
    said = {name: text for name, text in said.items() if text}
    # Without these locks, parallel calls for one person would each create a binding.
    hold_all(tx, [(account.id, account.connection.id, *one) for one in said.items()])
    found = find_all(tx, account, said)
    before, theirs = found.get("token"), found.get("email")
    # A new or first email may mean another contact.
    if before is not None and said.get("email", before.email) == before.email:
        binding = before
    elif theirs is not None and not token:
        binding = theirs
    elif theirs is not None and theirs.free:
        binding = theirs
        _detach_token(tx, account, token)
        here = account.connection_key | {"hub_id": theirs.hub_id}
        set_where(tx, tables.binding, here, contact_token=token)
    else:
        alike = theirs or before or found.get("phone")
        person = person_now(tx, account, alike) if alike else _new_id()
        if before is not None:
            _detach_token(tx, account, token)
        crm_id = theirs.crm_id if theirs else ""
        kept = dict(values or {})
        if before is not None and theirs is None and not (before.email or before.crm_id):
            # The conversation's values so far, which the CRM does not have yet.
            kept = {**before.last_values, **kept}
        binding = _add(tx, account, person, crm_id, said, {} if crm_id else kept)
        return Resolution(binding, before.hub_id if before else "", new=alike is None)
    person = tx.scalar(
        _NOTE_SAID,
        account.connection_key
        | {"hub_id": binding.hub_id, "last_chat_at": now_ms()}
        | {"email": said.get("email"), "phone": said.get("phone")}
        | {"last_values": _kept(binding, values) if values else None},
    )
    binding = replace(binding, person=person or binding.person)
    return Resolution(binding, before.hub_id if before is not None else "")


def bind_new_contact(tx: Connection, account: Account, *, email: str, phone: str) -> Binding:
    """Create a binding for a contact that is to be created, in order with leads of this email."""
    said = {"email": email[:LONGEST], "phone": phone and identity_of(phone)[:LONGEST]}
    said = {name: text for name, text in said.items() if text}
    hold_all(tx, [(account.id, account.connection.id, *one) for one in said.items()])
    alike = find_all(tx, account, {"email": said["email"]}).get("email") if email else None
    person = person_now(tx, account, alike) if alike else _new_id()
    return _add(tx, account, person, "", said, {})


def person_now(tx: Connection, account: Account, binding: Binding) -> str:
    person: str | None = tx.scalar(_PERSON_NOW, account.connection_key | {"hub_id": binding.hub_id})
    return person or binding.person


def set_contact(
    tx: Connection,
    account: Account,
    hub_id: str,
    *,
    crm_id: str,
    values: Mapping[str, str],
    accepted: Mapping[str, int] | None = None,
) -> None:
    """`accepted`: when the hub accepted each value; None for values read from the CRM."""
    # Without this lock, a parallel assignment of the same contact would not be seen.
    crm_id = merged_contacts.hold_contact(tx, account, crm_id)
    here = account.connection_key | {"hub_id": hub_id}
    row = tx.row(_BEFORE_CONTACT, here | {"crm_id": crm_id})
    if row is None:
        return
    binding = as_binding(row)
    changed = merged_values(binding.last_values, values)
    if binding.crm_id == crm_id and changed == binding.last_values and not accepted:
        return
    former = json.loads(row.accepted or "{}") if binding.crm_id == crm_id else {}
    latest = latest_times([former, accepted or {}])
    set_where(
        tx,
        tables.binding,
        here,
        crm_id=crm_id,
        last_values=json.dumps(changed),
        accepted=json.dumps(latest) if latest else None,
    )
    person = row.other_person or binding.person
    # Actions accepted before the binding existed have the CRM's id as their person.
    named = [crm_id] if row.named_by_crm_id else []
    merged_contacts.merge_persons(tx, account, {binding.person, *named} - {person}, person)


def keep_values(
    tx: Connection, account: Account, binding: Binding, values: Mapping[str, str]
) -> None:
    if (kept := _kept(binding, values)) is not None:
        here = account.connection_key | {"hub_id": binding.hub_id}
        set_where(tx, tables.binding, here, last_values=kept)


def get_or_create(tx: Connection, account: Account, crm_id: str) -> Binding:
    crm_id = merged_contacts.hold_contact(tx, account, crm_id)
    found = with_crm_id(tx, account, crm_id)
    return found or _add(tx, account, crm_id, crm_id, {}, {})


def _add(
    tx: Connection,
    account: Account,
    person: str,
    crm_id: str,
    said: Mapping[str, str],
    values: Mapping[str, str],
) -> Binding:
    now = now_ms()
    here = account.connection_key | {
        "hub_id": _new_id(),
        "person": person,
        "contact_token": said.get("token"),
        "crm_id": crm_id or None,
        "email": said.get("email"),
        "phone": said.get("phone"),
        "last_values": json.dumps(merged_values({}, values)) if values else None,
        "last_chat_at": now,
        "created_at": now,
    }
    insert_row(tx, tables.binding, here)
    email = said.get("email", "")
    return Binding(here["hub_id"], person, crm_id, email, dict(values), free="token" not in said)


def _detach_token(tx: Connection, account: Account, token: str) -> None:
    having = account.connection_key | {"contact_token": token}
    set_where(tx, tables.binding, having, contact_token=None)


def set_contact_of_others(
    tx: Connection, account: Account, hub_id: str, *, crm_id: str, values: Mapping[str, str]
) -> None:
    """Those have the lead's email, or without any the same phone, and no contact yet."""
    by = "email" if values.get("email") else "phone"
    value = values.get(by, "")
    if not value:
        return
    value = (value if by == "email" else identity_of(value))[:LONGEST]
    key = account.connection_key | {"hub_id": hub_id, by: value}
    others = tx.rows(_OTHERS_WITHOUT_CONTACT[by], key)
    for other in sorted(row.hub_id for row in others):
        set_contact(tx, account, other, crm_id=crm_id, values={})


def lock_phone(tx: Connection, account: Account, phone: str) -> None:
    """Lock a phone of the account's connection, so that outcomes with it are recorded in turn."""
    hold(tx, account.id, account.connection.id, "outcome of phone", identity_of(phone)[:LONGEST])


def set_crm_id(tx: Connection, account: Account, hub_id: str, crm_id: str) -> bool:
    here = account.connection_key | {"hub_id": hub_id, "crm_id": crm_id}
    return bool(tx.run(_SET_CRM_ID, here))


def _kept(binding: Binding, values: Mapping[str, str]) -> str | None:
    return None if binding.crm_id else json.dumps(merged_values(binding.last_values, values))


def _new_id() -> str:
    return HUB_ID + random_token(96, BASE36)
