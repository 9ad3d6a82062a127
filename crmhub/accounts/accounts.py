"""Accounts as they are stored: loading, listing and searching them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.field_maps import EMPTY, FieldMap
from crmhub.accounts.plans import Plan
from crmhub.accounts.switches import Switches
from crmhub.database import tables
from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, in_list, param
from crmhub.errors import Internal, NotFound, Semantic

CLIENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
# What reading a column raises that holds what this module has not written.
_NOT_OURS = (ValueError, TypeError, AttributeError, Semantic)
# More accounts than ids go to.
_EVERY = 2**31


class Unreadable(Internal):
    """What is stored of an account is not what this module writes."""


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """The CRM of an account. A change to another adapter makes another one, with a new id."""

    id: int
    adapter: str
    settings: Mapping[str, str]
    credentials: str = field(repr=False)
    """Sealed; `accounts.connections.open_credentials` opens them. Empty: there are none."""
    field_map: FieldMap = EMPTY


@dataclass(frozen=True, slots=True)
class Account:
    id: int
    client_id: str
    name: str
    plan: Plan
    switches: Switches
    connection: ConnectionInfo
    catalogue_version: int
    pipelines_edited: bool
    disabled: bool
    created_at: int


_account = tables.account.c
_connection = tables.connection.c
_CONNECTION_COLUMNS = (
    _connection.id.label("connection_id"),
    _connection.adapter,
    _connection.settings,
    _connection.credentials,
    _connection.field_map,
)
_IS_CONNECTED = sa.and_(
    _connection.account_id == _account.id, _connection.id == _account.connection_id
)
SELECT_ACCOUNTS = sa.select(
    _account.id,
    _account.client_id,
    _account.name,
    _account.plan,
    _account.switches,
    _account.catalogue_version,
    _account.pipelines_edited,
    _account.disabled_at,
    _account.created_at,
    *_CONNECTION_COLUMNS,
).join_from(tables.account, tables.connection, _IS_CONNECTED)
"""The rows that `account_of` reads; joins, columns and conditions may be added."""

BY_CLIENT_ID = Statement(SELECT_ACCOUNTS.where(_account.client_id == param("client_id")))
BY_ID = Statement(SELECT_ACCOUNTS.where(_connection.account_id == param("account_id")))
_CONNECTION = Statement(
    sa.select(*_CONNECTION_COLUMNS).where(
        _connection.account_id == param("account_id"), _connection.id == param("connection_id")
    )
)
_PAGE_OF_ALL_ACCOUNTS = Statement(
    SELECT_ACCOUNTS.where(_account.id > param("after")).order_by(_account.id).limit(param("limit"))
)
_NAMES_OF_ALL_ACCOUNTS = Statement(
    sa.select(_account.id, _account.name, _account.client_id)
    .join_from(tables.account, tables.connection, _IS_CONNECTED)
    .where(_account.id > param("after"))
    .order_by(_account.id)
)
_SOME_OF_ALL_ACCOUNTS = Statement(
    SELECT_ACCOUNTS.where(in_list(_account.id, "ids")).order_by(_account.id)
)
_PLANS_OF_ALL_ACCOUNTS = Statement(sa.select(_account.plan).distinct())
CLIENT_IDS_OF_ALL_ACCOUNTS = Statement(sa.select(_account.client_id).order_by(_account.id))
# An outer join: SELECT_ACCOUNTS leaves out an account without its connection.
_TEXTS_OF_ALL_ACCOUNTS = Statement(
    sa.select(_account.client_id, _account.switches, _connection.settings, _connection.field_map)
    .select_from(tables.account)
    .outerjoin(tables.connection, _IS_CONNECTED)
    .order_by(_account.id)
)


def account_of(row: Any, plans: Mapping[str, Plan]) -> Account:
    """Return the account that a row of SELECT_ACCOUNTS describes; raises Unreadable.

    An account whose plan is gone from the file goes on under `default`, since refusing its
    leads would be worse; `crmhub doctor` tells.
    """
    with _telling_whose(f"account {row.client_id}"):
        return Account(
            id=row.id,
            client_id=row.client_id,
            name=row.name,
            plan=plans.get(row.plan) or plans["default"],
            switches=Switches.from_json(row.switches),
            connection=_connection_of(row),
            catalogue_version=row.catalogue_version,
            pipelines_edited=bool(row.pipelines_edited),
            disabled=row.disabled_at is not None,
            created_at=row.created_at,
        )


def load_connection(db: Connection, account_id: int, connection_id: int) -> ConnectionInfo:
    """Return a connection of the account, also one that it has left.

    Raises NotFound and Unreadable.
    """
    row = db.row(_CONNECTION, {"account_id": account_id, "connection_id": connection_id})
    if row is None:
        raise NotFound(f"There is no connection {connection_id} of account number {account_id}.")
    with _telling_whose(f"connection {connection_id} of account number {account_id}"):
        return _connection_of(row)


def _connection_of(row: Any) -> ConnectionInfo:
    return ConnectionInfo(
        id=row.connection_id,
        adapter=row.adapter,
        settings=dict(json.loads(row.settings).items()),
        credentials=row.credentials,
        field_map=FieldMap.from_json(row.field_map),
    )


@contextmanager
def _telling_whose(whose: str) -> Iterator[None]:
    """Raise Unreadable where the block meets what this module has not written."""
    try:
        yield
    except _NOT_OURS as exc:
        raise Unreadable(
            f"What is stored of the {whose} cannot be read; `crmhub doctor` says where."
        ) from exc


def load(db: Connection, client_id: str, plans: Mapping[str, Plan]) -> Account:
    """Return the account, disabled or not; raise NotFound and Unreadable."""
    # What cannot be a client id is not asked for: PostgreSQL takes no NUL.
    possible = CLIENT_ID.fullmatch(client_id)
    row = db.row(BY_CLIENT_ID, {"client_id": client_id}) if possible else None
    if row is None:
        raise NotFound(
            f"There is no account with the client id {client_id!r}; "
            "`crmhub account list` shows them all."
        )
    return account_of(row, plans)


def load_by_id(db: Connection, account_id: int, plans: Mapping[str, Plan]) -> Account:
    """Return the account, disabled or not; raise NotFound and Unreadable."""
    row = db.row(BY_ID, {"account_id": account_id})
    if row is None:
        raise NotFound(f"There is no account number {account_id}.")
    return account_of(row, plans)


def load_on(
    db: Connection, account_id: int, connection_id: int, plans: Mapping[str, Plan]
) -> Account:
    """Return the account on one of its connections, also one that it has left.

    Raises NotFound and Unreadable.
    """
    account = load_by_id(db, account_id, plans)
    if account.connection.id == connection_id:
        return account
    return replace(account, connection=load_connection(db, account_id, connection_id))


def list_accounts(
    db: Connection, plans: Mapping[str, Plan], *, after: int = 0, limit: int | None = None
) -> list[Account]:
    """Return all accounts, the oldest first; or up to `limit` of those behind the id `after`.

    What cannot be read is left out; `unreadable` names it.
    """

    def rows(after: int, limit: int) -> list[Any]:
        return db.rows(_PAGE_OF_ALL_ACCOUNTS, {"after": after, "limit": limit})

    return _readable(rows, plans, after, _EVERY if limit is None else limit)


def search_accounts(
    db: Connection, plans: Mapping[str, Plan], words: str, *, after: int = 0, limit: int
) -> list[Account]:
    """Return up to `limit` accounts behind the id `after`, the oldest first, that `words` names.

    Names and client ids are compared without regard to case, over all of Unicode. What cannot be
    read is left out; `unreadable` names it.
    """
    wanted = words.casefold()
    # Folded here and not in SQL: SQLite folds the letters of ASCII alone.
    ids = [
        row.id
        for row in db.rows(_NAMES_OF_ALL_ACCOUNTS, {"after": after})
        if wanted in row.name.casefold() or wanted in row.client_id.casefold()
    ]

    def rows(after: int, limit: int) -> list[Any]:
        page = [id for id in ids if id > after][:limit]
        return db.rows(_SOME_OF_ALL_ACCOUNTS, {"ids": page}) if page else []

    return _readable(rows, plans, after, limit)


def _readable(
    rows: Callable[[int, int], list[Any]], plans: Mapping[str, Plan], after: int, limit: int
) -> list[Account]:
    """Return the accounts that can be read, up to `limit`, of what `rows` finds behind an id."""
    found: list[Account] = []
    while len(found) < limit:
        wanted = limit - len(found)
        page = rows(after, wanted)
        for row in page:
            after = row.id
            with suppress(Unreadable):
                found.append(account_of(row, plans))
        if len(page) < wanted:
            break
    return found


def plans_in_use(db: Connection) -> set[str]:
    """Return the plan names that accounts stand on, whether they still exist or not."""
    return {row.plan for row in db.rows(_PLANS_OF_ALL_ACCOUNTS)}


def client_ids(db: Connection) -> list[str]:
    """Return the client ids of all accounts, the oldest first."""
    return [row.client_id for row in db.rows(CLIENT_IDS_OF_ALL_ACCOUNTS)]


def unreadable(db: Connection) -> dict[str, list[str]]:
    """Return, by client id, the columns that hold what this module has not written.

    Such an account is not among the others of a list; one without its connection neither.
    """
    found: dict[str, list[str]] = {}
    for row in db.rows(_TEXTS_OF_ALL_ACCOUNTS):
        texts = (row.switches, row.settings, row.field_map)
        for (column, read), text in zip(_READERS.items(), texts, strict=True):
            try:
                read(text)
            except _NOT_OURS:
                found.setdefault(row.client_id, []).append(column)
    return found


def _read_switches(text: str) -> None:
    # Read again as if they were given: an operator's `"deadline_s": "long"` loads, and fails later.
    Switches().changed(asdict(Switches.from_json(text)))


_READERS: Mapping[str, Callable[[str], object]] = {
    "switches": _read_switches,
    "connection.settings": lambda text: json.loads(text).items(),
    "connection.field_map": FieldMap.from_json,
}
