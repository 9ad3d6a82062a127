"""Load, list and search the accounts that the database stores."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.event_routes import EventRoutes, parse_routes
from crmhub.accounts.field_maps import EMPTY, FieldMap
from crmhub.accounts.plans import Plan
from crmhub.accounts.switches import Switches
from crmhub.database import tables
from crmhub.database.connection import Connection
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, in_list, param
from crmhub.errors import Conflict, Internal, NotFound, Semantic

CLIENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
# The errors of parsing a column.
_PARSE_ERRORS = (ValueError, TypeError, AttributeError, Semantic)


class Unreadable(Internal):
    pass


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """An account's connection to its CRM; another adapter is another connection, with a new id."""

    id: int
    adapter: str
    settings: Mapping[str, str]
    credentials: str = field(repr=False)
    """Encrypted; `accounts.connections.open_credentials` decrypts them. "" for none."""
    field_map: FieldMap = EMPTY
    crm_account: str = ""
    """The account in the CRM, if it was connected by OAuth; "" if that is not known."""


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
    event_routes: EventRoutes = ()
    """The active event subscriptions with their types; empty for most accounts."""

    @property
    def connection_key(self) -> dict[str, Any]:
        """The columns of tables that belong to the account's connection to its CRM."""
        return {"account_id": self.id, "connection_id": self.connection.id}

    def require_own_records(self, *, is_copy: bool = False) -> None:
        """Raise Conflict if the account's records and definitions are a copy of the CRM's.

        `is_copy`: what the present catalogue says, since the account may have been cached.
        """
        if is_copy or self.switches.mirror:
            raise Conflict(
                "The records, properties and pipelines of this account are a copy of those in its"
                " CRM (%(adapter)s); change properties and pipelines there, and records there, by"
                " the public API or by the helpers.",
                adapter=self.connection.adapter,
            )


_account = tables.account.c
_connection = tables.connection.c
_CONNECTION_COLUMNS = (
    _connection.id.label("connection_id"),
    _connection.adapter,
    _connection.settings,
    _connection.credentials,
    _connection.field_map,
    _connection.crm_account,
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
    _account.event_routes,
    *_CONNECTION_COLUMNS,
).join_from(tables.account, tables.connection, _IS_CONNECTED)
"""The query whose rows `account_of` reads; callers may add joins, columns and conditions."""

_ID_OF_CLIENT = Statement(sa.select(_account.id).where(_account.client_id == param("client_id")))
BY_ID = Statement(SELECT_ACCOUNTS.where(_connection.account_id == param("account_id")))
_CONNECTION = Statement(
    sa.select(*_CONNECTION_COLUMNS).where(
        _connection.account_id == param("account_id"), _connection.id == param("connection_id")
    )
)
_NAMES = Statement(
    sa.select(_account.id, _account.name, _account.client_id)
    .where(_account.id > param("after"))
    .order_by(_account.id)
)
_SOME_OF_ALL_ACCOUNTS = Statement(
    SELECT_ACCOUNTS.where(in_list(_account.id, "ids")).order_by(_account.id)
)
# Accounts that one statement loads.
_AT_ONCE = 500
_CLIENT_IDS = Statement(
    sa.select(_account.id, _account.client_id)
    .where(in_list(_account.id, "ids"))
    .order_by(_account.client_id)
)
_IDS = Statement(sa.select(_account.id).order_by(_account.id))
_PLANS_OF_ALL_ACCOUNTS = Statement(sa.select(_account.plan).distinct())
_COUNT_BY_PLAN = Statement(
    sa.select(_account.plan, sa.func.count().label("n")).group_by(_account.plan)
)
CLIENT_IDS_OF_ALL_ACCOUNTS = Statement(sa.select(_account.client_id).order_by(_account.id))
# An outer join: SELECT_ACCOUNTS leaves out an account without its connection.
_TEXTS_OF_ALL_ACCOUNTS = Statement(
    sa.select(_account.client_id, _account.switches, _connection.settings, _connection.field_map)
    .select_from(tables.account)
    .outerjoin(tables.connection, _IS_CONNECTED)
    .order_by(_account.id)
)


def account_of(row: Any, plans: Mapping[str, Plan]) -> Account:
    """An account whose plan was removed from the plans file gets the plan `default`, because
    refusing its leads would be worse; `crmhub doctor` reports it. Raises Unreadable.
    """
    with _parsing(f"account {row.client_id}"):
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
            event_routes=parse_routes(row.event_routes),
        )


def load_connection(db: Connection, account_id: int, connection_id: int) -> ConnectionInfo:
    """Return a present or former connection of an account; raises NotFound and Unreadable."""
    row = db.row(_CONNECTION, {"account_id": account_id, "connection_id": connection_id})
    if row is None:
        raise NotFound(
            "There is no connection %(connection_id)s of account number %(account_id)s.",
            connection_id=connection_id,
            account_id=account_id,
        )
    with _parsing(f"connection {connection_id} of account number {account_id}"):
        return _connection_of(row)


def _connection_of(row: Any) -> ConnectionInfo:
    return ConnectionInfo(
        id=row.connection_id,
        adapter=row.adapter,
        settings=dict(json.loads(row.settings).items()),
        credentials=row.credentials,
        field_map=FieldMap.from_json(row.field_map),
        crm_account=row.crm_account,
    )


@contextmanager
def _parsing(whose: str) -> Iterator[None]:
    """Convert any error of the block, which parses data of `whose`, to Unreadable."""
    try:
        yield
    except _PARSE_ERRORS as exc:
        raise Unreadable(
            f"What is stored of the {whose} cannot be read; `crmhub doctor` says where."
        ) from exc


def load(db: Connection, client_id: str, plans: Mapping[str, Plan]) -> Account:
    """Also a disabled one; raises NotFound, Unreadable."""
    # Other texts are not queried: PostgreSQL refuses NUL.
    possible = CLIENT_ID.fullmatch(client_id)
    account_id = db.scalar(_ID_OF_CLIENT, {"client_id": client_id}) if possible else None
    row = db.row(BY_ID, {"account_id": account_id}) if account_id else None
    if row is None:
        raise unknown(client_id)
    return account_of(row, plans)


def unknown(client_id: str) -> NotFound:
    return NotFound(
        "There is no account with the client id %(client_id)s; `crmhub account list`"
        " shows them all.",
        client_id=repr(client_id),
    )


def load_by_id(db: Connection, account_id: int, plans: Mapping[str, Plan]) -> Account:
    """Also a disabled one; raises NotFound, Unreadable."""
    row = db.row(BY_ID, {"account_id": account_id})
    if row is None:
        raise NotFound("There is no account number %(account_id)s.", account_id=account_id)
    return account_of(row, plans)


def load_on(
    db: Connection, account_id: int, connection_id: int, plans: Mapping[str, Plan]
) -> Account:
    """Return an account with this present or former connection; raises NotFound, Unreadable."""
    account = load_by_id(db, account_id, plans)
    if account.connection.id == connection_id:
        return account
    return replace(account, connection=load_connection(db, account_id, connection_id))


def list_accounts(
    db: Connection, plans: Mapping[str, Plan], *, after: int = 0, limit: int | None = None
) -> list[Account]:
    """The oldest first, with ids above `after`; `unreadable` lists those that are left out."""
    return search_accounts(db, plans, "", after=after, limit=limit)


def search_accounts(
    db: Connection,
    plans: Mapping[str, Plan],
    words: str,
    *,
    after: int = 0,
    limit: int | None = None,
    among: Collection[int] | None = None,
) -> list[Account]:
    """Return the accounts whose name or client id contains `words` in any case.

    `among`: the ids of the accounts to search. Otherwise as `list_accounts`.
    """
    folded = words.casefold()
    # Folded here, because SQLite folds only ASCII letters.
    ids = [
        row.id
        for row in db.rows(_NAMES, {"after": after})
        if (among is None or row.id in among)
        and (folded in row.name.casefold() or folded in row.client_id.casefold())
    ]
    found: list[Account] = []
    size = min(limit or _AT_ONCE, _AT_ONCE)
    while ids and (limit is None or len(found) < limit):
        page, ids = ids[:size], ids[size:]
        for row in rows_of_several(db, _SOME_OF_ALL_ACCOUNTS, {"ids": page}):
            with suppress(Unreadable):
                found.append(account_of(row, plans))
    return found[:limit]


def account_names(db: Connection, among: Collection[int] | None = None) -> list[Any]:
    """Return the rows (id, client_id, name) of accounts by name; `among`: None for all accounts."""
    rows = [row for row in db.rows(_NAMES, {"after": 0}) if among is None or row.id in among]
    return sorted(rows, key=lambda row: (row.name.casefold(), row.client_id))


def plans_in_use(db: Connection) -> set[str]:
    """Also of plans that no longer exist."""
    return {row.plan for row in db.rows(_PLANS_OF_ALL_ACCOUNTS)}


def count_by_plan(db: Connection) -> dict[str, int]:
    return {row.plan: int(row.n) for row in db.rows(_COUNT_BY_PLAN)}


def account_ids(db: Connection) -> list[int]:
    """The oldest account first."""
    return [row.id for row in db.rows(_IDS)]


def client_ids(db: Connection) -> list[str]:
    """The oldest account first."""
    return [row.client_id for row in db.rows(CLIENT_IDS_OF_ALL_ACCOUNTS)]


def client_ids_by_id(db: Connection, ids: Collection[int]) -> dict[int, str]:
    return {row.id: row.client_id for row in db.rows(_CLIENT_IDS, {"ids": sorted(ids)})}


def unreadable(db: Connection) -> dict[str, list[str]]:
    """Return the names of columns that cannot be parsed, or have no connection, by client id."""
    found: dict[str, list[str]] = {}
    for row in rows_of_several(db, _TEXTS_OF_ALL_ACCOUNTS):
        texts = (row.switches, row.settings, row.field_map)
        for (column, read), text in zip(_READERS.items(), texts, strict=True):
            try:
                read(text)
            except _PARSE_ERRORS:
                found.setdefault(row.client_id, []).append(column)
    return found


def _read_switches(text: str) -> None:
    # Checked like new values: `"deadline_s": "long"` could be loaded but would fail later.
    Switches().changed(asdict(Switches.from_json(text)))


_READERS: Mapping[str, Callable[[str], object]] = {
    "switches": _read_switches,
    "connection.settings": lambda text: json.loads(text).items(),
    "connection.field_map": FieldMap.from_json,
}
