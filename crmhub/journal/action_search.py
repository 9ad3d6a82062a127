"""Find the persons that an operator means by a text: an email, a name, a phone or an id.

A person is a group of bindings that the hub takes for one human being; actions store its id. Emails
and contactTokens are found by their beginning, phones and ids as a whole, all by an index. Names
have no index: they are read from the contacts of the newest actions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database import tables
from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, in_list, param
from crmhub.identity.contact_names import name_in
from crmhub.identity.phones import forms, readings

MOST_NAMES = 5_000
"""The number of newest actions in whose contacts a name is looked for."""
# The most persons that one way of looking finds.
_MOST_PEOPLE = 200
_SHORTEST_PHONE = 5
# Sorts after every text that begins with the same characters.
_LAST = "\U0010ffff"

_crm = tables.connection.c
_b = tables.binding.c
_OF_CONNECTION = sa.and_(_b.account_id == _crm.account_id, _b.connection_id == _crm.id)


@cache
def _by_index(*, of_account: bool) -> Statement:
    """Return the query for the persons with an email, contactToken, phone or id.

    `of_account`: whether only the bindings of one account are read. For other accounts, the query
    reads connections first, because the indexes of bindings begin with account and connection.
    """
    beginnings = (
        sa.and_(_b.email >= param("email"), _b.email < param("email_end")),
        sa.and_(_b.contact_token >= param("text"), _b.contact_token < param("text_end")),
    )
    wholes = (_b.hub_id == param("text"), _b.crm_id == param("text"), in_list(_b.phone, "phones"))
    parts = [
        sa.select(
            sa.select(_b.person)
            .join_from(tables.connection, tables.binding, sa.and_(_OF_CONNECTION, condition))
            .where(_crm.account_id == param("account_id") if of_account else sa.true())
            .limit(_MOST_PEOPLE)
            .subquery()
        )
        for condition in (*beginnings, *wholes)
    ]
    return Statement(sa.union(*parts))


def people_of(
    db: Connection,
    text: str,
    account: Account | None,
    newest: sa.Select[Any],
    values: Mapping[str, Any],
) -> list[str]:
    """Return the ids of the persons that the text `text` may mean; it is itself among them.

    `account`: the account of the persons; None for any. `newest`: the query for the account,
    connection and person of the actions in whose contacts a name is looked for, the newest first;
    `values`: its parameters.
    """
    given: dict[str, Any] = {
        "text": text,
        "text_end": text + _LAST,
        "email": text.lower(),
        "email_end": text.lower() + _LAST,
        "phones": phone_forms(text, account) if _is_phone(text) else [],
    }
    if account is not None:
        given["account_id"] = account.id
    found = {row.person for row in _rows(db, _by_index(of_account=account is not None), given)}
    if _is_name(text):
        found |= _people_named(db, text, newest, values)
    # The person of a contact without a binding is its id in the CRM.
    return sorted({text, *found})


def phone_forms(phone: str, account: Account | None) -> list[str]:
    """Return all notations in which bindings may have stored a phone, which `account` may have."""
    region = account.switches.region if account is not None else ""
    return sorted({form for number in readings(phone, region) for form in forms(number, region)})


def _is_phone(text: str) -> bool:
    digits = sum(map(str.isdigit, text))
    return digits >= _SHORTEST_PHONE and not any(map(str.isalpha, text))


def _is_name(text: str) -> bool:
    return any(map(str.isalpha, text)) and not any(c.isdigit() or c == "@" for c in text)


def _people_named(
    db: Connection, text: str, newest: sa.Select[Any], values: Mapping[str, Any]
) -> set[str]:
    """Return the persons of the newest actions whose name contains every word of `text`.

    Upper and lower case are the same, for all letters of Unicode.
    """
    read = newest.limit(param("most_names")).subquery("newest")
    contacts = sa.select(read).distinct().subquery("contacts")
    statement = sa.select(_b.person, _b.last_values).join_from(
        contacts,
        tables.binding,
        sa.and_(
            _b.account_id == contacts.c.account_id,
            _b.connection_id == contacts.c.connection_id,
            _b.person == contacts.c.person,
        ),
    )
    rows = _rows(db, Statement(statement), {**values, "most_names": MOST_NAMES})
    words = text.casefold().split()
    return {row.person for row in rows if _is_named(row.last_values, words)}


def _is_named(last_values: str | None, words: Sequence[str]) -> bool:
    # SQLite folds only the letters of ASCII, so names are compared here.
    name = name_in(json.loads(last_values or "{}")).casefold()
    return all(word in name for word in words)


def _rows(db: Connection, statement: Statement, values: Mapping[str, Any]) -> list[Any]:
    """Run a query on the bindings of one account or of several accounts; return its rows."""
    return db.rows(statement, values)
