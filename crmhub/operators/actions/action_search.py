"""Find the actions that an operator means by a text: an email, a name, a phone or an id.

Emails and contactTokens are found by their beginning, phones and ids as a whole, all by an index of
the bindings. Names and the last digits of phones have no index: they are read from the contacts of
the newest actions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.adapter.phone_reading import read_phone
from crmhub.adapter.reading import without_accents
from crmhub.database import tables
from crmhub.database.connection import Connection
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, in_list, param
from crmhub.identity.contact_names import name_in
from crmhub.identity.phones import forms, readings

MOST_NAMES = 5_000
"""The newest actions in whose contacts names and last digits are looked for."""
# The most bindings that one way of looking finds, and the most actions of them.
_MOST_BINDINGS = 200
_MOST_ACTIONS = 1_000
_SHORTEST_PHONE = 5
_FEWEST_LAST_DIGITS = 4
# Normalization takes quadratic time in the number of combining accents.
_LONGEST_NAME = 200
_LAST_DIGITS = re.compile(r"[\d\s()./+-]+", re.ASCII)
# Sorts after every text that begins with the same characters.
_LAST = "\U0010ffff"
# Sorts after every id of an action.
_AFTER_IDS = "~"

_crm, _account = tables.connection.c, tables.account.c
_b, _a = tables.binding.c, tables.action.c
# SQLite reads an index by each account of a list; it would not begin a join with the accounts.
_ALL_ACCOUNTS = sa.select(_account.id)


@cache
def _by_index(*, of_account: bool) -> Statement:
    conditions = (
        sa.and_(_b.email >= param("email"), _b.email < param("email_end")),
        sa.and_(_b.contact_token >= param("text"), _b.contact_token < param("text_end")),
        _b.hub_id == param("text"),
        _b.crm_id == param("text"),
        in_list(_b.phone, "phones"),
    )
    connections = sa.select(_crm.id)
    if of_account:
        connections = connections.where(_crm.account_id == param("account_id"))
    bindings = sa.select(_b.account_id, _b.person).where(
        _in_scope(_b.account_id, of_account=of_account), _b.connection_id.in_(connections)
    )
    parts = []
    for condition in conditions:
        of = bindings.where(condition).limit(_MOST_BINDINGS).subquery("people")
        is_of = sa.and_(_a.account_id == of.c.account_id, _a.person == of.c.person)
        parts.append(_cut(sa.select(_a.id).join_from(of, tables.action, is_of)))
    # The person of a contact without a binding is its id in the CRM.
    of_contact = sa.select(_a.id).where(
        _in_scope(_a.account_id, of_account=of_account), _a.person == param("text")
    )
    return Statement(sa.union(*parts, _cut(of_contact)))


def _in_scope(account_id: sa.ColumnElement[Any], *, of_account: bool) -> sa.ColumnElement[bool]:
    return account_id == param("account_id") if of_account else account_id.in_(_ALL_ACCOUNTS)


def _cut(actions: sa.Select[Any]) -> sa.Select[Any]:
    # An expression without an index, so that no database reads all actions in this order.
    id = sa.func.lower(_a.id)
    newest = actions.where(id < param("before")).order_by(id.desc()).limit(_MOST_ACTIONS)
    return sa.select(newest.subquery("newest"))


def actions_of(
    db: Connection,
    text: str,
    account: Account | None,
    newest: sa.Select[Any],
    values: Mapping[str, Any],
    *,
    after: str,
) -> list[str]:
    """Return the ids of the newest actions of each person that `text` may mean.

    `after`: the id of the last page's last action. `newest`: the query for the actions in whose
    contacts a name is looked for; `values`: its parameters.
    """
    is_phone = (phone := read_phone(text)) is not None and len(phone.digits) >= _SHORTEST_PHONE
    given: dict[str, Any] = {
        "text": text,
        "text_end": text + _LAST,
        "email": text.lower(),
        "email_end": text.lower() + _LAST,
        "phones": phone_forms(text, account) if is_phone else [],
        "before": after or _AFTER_IDS,
    }
    if account is not None:
        given["account_id"] = account.id
    found = {
        row.id for row in rows_of_several(db, _by_index(of_account=account is not None), given)
    }
    if matches := _test_of(text):
        found |= _with_values(db, matches, newest, values)
    return sorted(found)


def phone_forms(phone: str, account: Account | None) -> list[str]:
    """Return all notations in which bindings may have stored a phone, which `account` may have."""
    region = account.switches.region if account is not None else ""
    numbers = readings(phone, region, doubtful=True)
    return sorted({form for one in numbers for form in forms(one, region, doubtful=True)})


def _test_of(text: str) -> Callable[[Mapping[str, str]], bool] | None:
    """Return the test whether a contact's last values have the name, or the phone's last digits."""
    digits = "".join(filter(str.isdigit, text))
    if len(digits) >= _FEWEST_LAST_DIGITS and _LAST_DIGITS.fullmatch(text):
        return lambda sent: "".join(filter(str.isdigit, sent.get("phone", ""))).endswith(digits)
    if digits or "@" in text or not any(map(str.isalpha, text)):
        return None
    words = without_accents(text).split()

    def has_name(sent: Mapping[str, str]) -> bool:
        name = without_accents(name_in(sent)[:_LONGEST_NAME])
        return all(word in name for word in words)

    return has_name


def _with_values(
    db: Connection,
    matches: Callable[[Mapping[str, str]], bool],
    newest: sa.Select[Any],
    values: Mapping[str, Any],
) -> set[str]:
    """Return the newest actions of persons whose last values match."""
    read = newest.limit(param("most_names")).subquery("newest")
    statement = sa.select(read.c.id, _b.last_values).join_from(
        read,
        tables.binding,
        sa.and_(
            _b.account_id == read.c.account_id,
            _b.connection_id == read.c.connection_id,
            _b.person == read.c.person,
        ),
    )
    judged: dict[str | None, bool] = {}
    found = set()
    for row in rows_of_several(db, Statement(statement), {**values, "most_names": MOST_NAMES}):
        if row.last_values not in judged:
            # No database folds all letters as this does.
            judged[row.last_values] = matches(json.loads(row.last_values or "{}"))
        if judged[row.last_values]:
            found.add(row.id)
    return found
