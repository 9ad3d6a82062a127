"""Accounts: opening, finding and changing them, and the ids they are called by.

Every function takes a connection of the caller's, who commits; those that change something
belong inside `Database.transact`. After a change, `Directory.forget` makes it visible at once in
this process; the others see it within half a second.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from crmhub.accounts import keys
from crmhub.accounts.field_maps import EMPTY, FieldMap
from crmhub.accounts.plans import Plan
from crmhub.accounts.switches import Switches, read_switches
from crmhub.accounts.webhook_ids import ALIAS_FORM, is_alias, issue, rotate, set_alias
from crmhub.database import tables
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, in_list, param, params
from crmhub.errors import Conflict, Internal, NotFound, Semantic, listed

__all__ = [
    "Account",
    "ConnectionInfo",
    "IssuedIds",
    "Switches",
    "Unreadable",
    "client_id_of",
    "disable",
    "enable",
    "list_accounts",
    "load",
    "load_by_id",
    "open_account",
    "rotate",
    "search_accounts",
    "set_adapter",
    "set_field_map",
    "set_switches",
]

RESERVED = frozenset(
    {
        "admin",
        "chatbot",
        "console",
        "crm-api-interface",
        "docs",
        "healthz",
        "metrics",
        "readyz",
        "static",
    }
)
"""First parts of the service's own paths, which no account may have as its client id."""

_CLIENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
_LONGEST_NAME = 200
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


@dataclass(frozen=True, slots=True)
class IssuedIds:
    """What a new account is reached by; key and secret are not stored and not shown again."""

    api_key: str = field(repr=False)
    generated_id: str = field(repr=False)
    portal_id: str = field(repr=False)
    webhook_secret: str = field(repr=False)


# --- reading ---------------------------------------------------------------------------------

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
_CLIENT_IDS_OF_ALL_ACCOUNTS = Statement(sa.select(_account.client_id).order_by(_account.id))
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
    possible = _CLIENT_ID.fullmatch(client_id)
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
    return [row.client_id for row in db.rows(_CLIENT_IDS_OF_ALL_ACCOUNTS)]


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


# --- opening ---------------------------------------------------------------------------------

_FIRST_VALUES = {
    "switches": "{}",
    "connection_id": 1,
    "catalogue_version": 1,
    "next_prop_id": 1,
    "pipelines_edited": False,
}
_CREATE = Statement(
    lambda insert: (
        insert(tables.account)
        .values(params("client_id", "name", "plan", "created_at") | _FIRST_VALUES)
        .on_conflict_do_nothing(index_elements=["client_id"])
        .returning(_account.id)
    )
)
_CONNECT = Statement(
    sa.insert(tables.connection).values(
        params("account_id", "id", "adapter", "settings", "credentials", "created_at")
    )
)


def open_account(
    tx: Connection,
    *,
    name: str,
    client_id: str | None = None,
    adapter: str = "local",
    plan: str = "default",
    plans: Mapping[str, Plan],
) -> tuple[Account, IssuedIds]:
    """Make an account with one API key for everything, its webhook ids and its secret.

    Without `client_id` one is made from the name. Its catalogue is still empty: use
    `actions.opening.open_account`, which fills it in the same transaction. Raises Semantic for
    what does not fit and Conflict when the client id is taken.
    """
    name = _name(name)
    if plan not in plans:
        raise Semantic(f"plan: {_unknown_plan(plan, plans)}.")
    account_id = _insert(tx, name=name, client_id=client_id, plan=plan)
    _connect(tx, account_id, 1, adapter, {}, "")
    account = load_by_id(tx, account_id, plans)
    issued = IssuedIds(
        api_key=keys.create(tx, account_id).api_key,
        generated_id=issue(tx, account_id, "generated"),
        portal_id=issue(tx, account_id, "portal"),
        webhook_secret=issue(tx, account_id, "secret"),
    )
    return account, issued


def _insert(tx: Connection, *, name: str, client_id: str | None, plan: str) -> int:
    """Insert the account under `client_id`, or under the first free id made from its name."""
    for candidate in [_client_id(client_id)] if client_id is not None else _ids_from(name):
        # Not left to the unique key: on PostgreSQL its error would end the transaction.
        account_id: int | None = tx.scalar(
            _CREATE, {"client_id": candidate, "name": name, "plan": plan, "created_at": now_ms()}
        )
        if account_id is not None:
            return account_id
    raise Conflict(f"The client id {client_id!r} is taken; choose another one.")


def _client_id(text: str) -> str:
    if not _CLIENT_ID.fullmatch(text):
        raise Semantic(
            f"{text!r} is not a client id; give 1 to 63 lower-case letters, digits, - and _, "
            "the first a letter or a digit."
        )
    if text in RESERVED:
        raise Semantic(f"The client id {text!r} is a path of the service itself; choose another.")
    return text


def client_id_of(name: str) -> str:
    """Return the client id that an account of this name has, where that is free."""
    return next(_ids_from(name))


def _ids_from(name: str) -> Iterator[str]:
    """Yield client ids made from a name: `acme-gmbh`, `acme-gmbh-2`, `acme-gmbh-3`, …"""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    stem = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:50].rstrip("-") or "account"
    if stem not in RESERVED:
        yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


def _name(text: str) -> str:
    name = _as_name(text)
    if name is None:
        raise Semantic(f"{text[:_LONGEST_NAME]!r} {_NAME_FORM}.")
    return name


_NAME_FORM = f"cannot be the name of an account; give 1 to {_LONGEST_NAME} printable characters"


def _as_name(text: str) -> str | None:
    """Return a text as the name of an account, None when it cannot be one."""
    name = " ".join(text.split())
    return name if 1 <= len(name) <= _LONGEST_NAME and name.isprintable() else None


def _unknown_plan(plan: Any, plans: Mapping[str, Plan]) -> str:
    return f"there is no plan {plan!r}; known are {', '.join(sorted(plans))}"


def _connect(
    tx: Connection,
    account_id: int,
    connection_id: int,
    adapter: str,
    settings: Mapping[str, str],
    credentials: str,
) -> None:
    tx.run(
        _CONNECT,
        {
            "account_id": account_id,
            "id": connection_id,
            "adapter": adapter,
            "settings": json.dumps(dict(settings)),
            "credentials": credentials,
            "created_at": now_ms(),
        },
    )


# --- changing --------------------------------------------------------------------------------

_IS_ACCOUNT = _account.id == param("account_id")
_IS_CONNECTION = sa.and_(
    _connection.account_id == param("account_id"), _connection.id == param("id")
)
_LOCK = Statement(sa.select(_account.id).where(_IS_ACCOUNT).with_for_update())
_SET_SWITCHES = Statement(
    sa.update(tables.account)
    .where(_IS_ACCOUNT)
    .values(
        switches=param("switches"),
        name=sa.func.coalesce(param("name"), _account.name),
        plan=sa.func.coalesce(param("plan"), _account.plan),
    )
)
_CONFIGURE = Statement(
    sa.update(tables.connection).where(_IS_CONNECTION).values(params("settings", "credentials"))
)
_NEWEST_CONNECTION = Statement(
    sa.select(sa.func.max(_connection.id)).where(_connection.account_id == param("account_id"))
)
_SET_CONNECTION = Statement(
    sa.update(tables.account).where(_IS_ACCOUNT).values(params("connection_id"))
)
_SET_FIELD_MAP = Statement(
    sa.update(tables.connection).where(_IS_CONNECTION).values(params("field_map"))
)
_DISABLE = Statement(
    sa.update(tables.account)
    .where(_IS_ACCOUNT, _account.disabled_at.is_(None))
    .values(params("disabled_at"))
)
_ENABLE = Statement(sa.update(tables.account).where(_IS_ACCOUNT).values(disabled_at=sa.null()))


def set_switches(
    tx: Connection,
    account_id: int,
    values: Mapping[str, Any],
    plans: Mapping[str, Plan],
    *,
    under: str = "",
) -> Account:
    """Set switches, `name`, `plan` and `portal_alias` from texts or JSON values.

    Returns the account. An empty `portal_alias` removes it. Raises Semantic naming every fault,
    switches with `under` before their name, and Conflict when the alias belongs to another account.
    """
    account = locked(tx, account_id, plans)
    switches = {name: value for name, value in values.items() if name not in _BESIDE}
    read, faults = read_switches(switches, beside=_BESIDE)
    problems = [(f"{under}{name}", reason) for name, reason in faults]
    name, plan, alias = (values.get(each) for each in _BESIDE)
    if name is not None and _as_name(name) is None:
        problems.append(("name", f"{name[:_LONGEST_NAME]!r} {_NAME_FORM}"))
    if plan is not None and plan not in plans:
        problems.append(("plan", _unknown_plan(plan, plans)))
    if alias and not is_alias(alias):
        problems.append((f"{under}portal_alias", ALIAS_FORM))
    if problems:
        raise Semantic(listed(problems))
    tx.run(
        _SET_SWITCHES,
        {
            "account_id": account_id,
            "switches": replace(account.switches, **read).to_json(),
            "name": None if name is None else _as_name(name),
            "plan": plan,
        },
    )
    if alias is not None:
        set_alias(tx, account_id, alias)
    return load_by_id(tx, account_id, plans)


_BESIDE = ("name", "plan", "portal_alias")


def set_adapter(
    tx: Connection,
    account_id: int,
    *,
    adapter: str,
    settings: Mapping[str, str],
    credentials: str,
    plans: Mapping[str, Plan],
) -> Account:
    """Set the account's CRM with its settings and sealed credentials; return the account.

    Another adapter than now makes a new connection, so that no id of the former CRM is reused.
    What may be set is checked by `accounts.connections.configure`, which calls this.
    """
    account = locked(tx, account_id, plans)
    if adapter == account.connection.adapter:
        tx.run(
            _CONFIGURE,
            {
                "account_id": account_id,
                "id": account.connection.id,
                "settings": json.dumps(dict(settings)),
                "credentials": credentials,
            },
        )
    else:
        connection_id = tx.scalar(_NEWEST_CONNECTION, {"account_id": account_id}) + 1
        _connect(tx, account_id, connection_id, adapter, settings, credentials)
        tx.run(_SET_CONNECTION, {"account_id": account_id, "connection_id": connection_id})
    return load_by_id(tx, account_id, plans)


def set_field_map(
    tx: Connection, account_id: int, field_map: FieldMap, plans: Mapping[str, Plan]
) -> Account:
    """Set the field map of the account's present connection; return the account."""
    account = locked(tx, account_id, plans)
    connection = {"account_id": account_id, "id": account.connection.id}
    tx.run(_SET_FIELD_MAP, connection | {"field_map": field_map.to_json()})
    return load_by_id(tx, account_id, plans)


def disable(tx: Connection, account_id: int) -> None:
    """Refuse the account everywhere from now on; its data stay as they are."""
    tx.run(_DISABLE, {"account_id": account_id, "disabled_at": now_ms()})


def enable(tx: Connection, account_id: int) -> None:
    """Let a disabled account work again."""
    tx.run(_ENABLE, {"account_id": account_id})


def locked(tx: Connection, account_id: int, plans: Mapping[str, Plan]) -> Account:
    """Return the account as it stays until this transaction ends."""
    tx.row(_LOCK, {"account_id": account_id})
    return load_by_id(tx, account_id, plans)
