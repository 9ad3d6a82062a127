"""Open accounts and change them, in the transaction `tx` of the caller.

After the commit the caller calls `Directory.forget`: this process then uses the changed account at
once, other processes within half a second.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from crmhub.accounts import keys
from crmhub.accounts.accounts import CLIENT_ID, Account, load_by_id
from crmhub.accounts.plans import Plan
from crmhub.accounts.switches import read_switches
from crmhub.accounts.webhook_ids import ALIAS_FORM, is_alias, issue, set_alias
from crmhub.database import tables
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import find_row, insert_row, set_where
from crmhub.database.statements import Statement, params
from crmhub.errors import Conflict, Semantic, listed
from crmhub.translatable import translatable

RESERVED = frozenset(
    {
        "admin",
        "chatbot",
        "console",
        "crm-api-interface",
        "crm-changes",
        "docs",
        "healthz",
        "mcp",
        "metrics",
        "readyz",
        "static",
    }
)
"""The first parts of the service's URL paths; no account may have one as its client id."""

_LONGEST_NAME = 200
_account = tables.account.c


@dataclass(frozen=True, slots=True)
class IssuedIds:
    """The API key, webhook ids and webhook secret of a new account, never to be shown again."""

    api_key: str = field(repr=False)
    generated_id: str = field(repr=False)
    portal_id: str = field(repr=False)
    webhook_secret: str = field(repr=False)


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


def open_account(
    tx: Connection,
    *,
    name: str,
    client_id: str | None = None,
    adapter: str = "local",
    plan: str = "default",
    plans: Mapping[str, Plan],
) -> tuple[Account, IssuedIds]:
    """The account has no properties yet; `operators.accounts.open_account` adds them.

    Raises Semantic for invalid values, and Conflict for a client id that is taken.
    """
    valid_name = _as_name(name)
    if valid_name is None:
        raise Semantic("%(fault)s.", field="name", fault=_name_fault(name))
    if plan not in plans:
        raise Semantic("plan: %(fault)s.", fault=_unknown_plan(plan, plans))
    account_id = _insert(tx, name=valid_name, client_id=client_id, plan=plan)
    insert_connection(tx, account_id, 1, adapter, {}, "")
    account = load_by_id(tx, account_id, plans)
    issued = IssuedIds(
        api_key=keys.create(tx, account_id).api_key,
        generated_id=issue(tx, account_id, "generated"),
        portal_id=issue(tx, account_id, "portal"),
        webhook_secret=issue(tx, account_id, "secret"),
    )
    return account, issued


def _insert(tx: Connection, *, name: str, client_id: str | None, plan: str) -> int:
    for candidate in [_client_id(client_id)] if client_id is not None else _ids_from(name):
        # ON CONFLICT: on PostgreSQL the error of a unique key would end the transaction.
        account_id: int | None = tx.scalar(
            _CREATE, {"client_id": candidate, "name": name, "plan": plan, "created_at": now_ms()}
        )
        if account_id is not None:
            return account_id
    raise Conflict(
        "The client id %(client_id)s is taken; choose another one.",
        field="client_id",
        client_id=repr(client_id),
    )


def _client_id(text: str) -> str:
    if not CLIENT_ID.fullmatch(text):
        raise Semantic(
            "%(text)s is not a client id; give 1 to 63 lower-case letters, digits, - and _, the"
            " first a letter or a digit.",
            field="client_id",
            text=repr(text),
        )
    if text in RESERVED:
        raise Semantic(
            "The client id %(text)s is a path of the service itself; choose another.",
            field="client_id",
            text=repr(text),
        )
    return text


def client_id_of(name: str) -> str:
    """The client id that `open_account` tries first; it may be taken."""
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


def _name_fault(name: str) -> str:
    return translatable(
        "%(name)s cannot be the name of an account; give 1 to %(longest)s printable characters",
        name=repr(name[:_LONGEST_NAME]),
        longest=_LONGEST_NAME,
    )


def _as_name(text: str) -> str | None:
    """With single blanks; None if it is no valid name."""
    name = " ".join(text.split())
    return name if 1 <= len(name) <= _LONGEST_NAME and name.isprintable() else None


def _unknown_plan(plan: Any, plans: Mapping[str, Plan]) -> str:
    return translatable(
        "there is no plan %(plan)s; known are %(plans)s",
        plan=repr(plan),
        plans=", ".join(sorted(plans)),
    )


def insert_connection(
    tx: Connection,
    account_id: int,
    connection_id: int,
    adapter: str,
    settings: Mapping[str, str],
    credentials: str,
    crm_account: str = "",
) -> None:
    """`credentials` are encrypted."""
    insert_row(
        tx,
        tables.connection,
        {
            "account_id": account_id,
            "id": connection_id,
            "adapter": adapter,
            "settings": json.dumps(dict(settings)),
            "credentials": credentials,
            "crm_account": crm_account,
            "created_at": now_ms(),
        },
    )


# --- changing --------------------------------------------------------------------------------


def set_switches(
    tx: Connection,
    account_id: int,
    values: Mapping[str, Any],
    plans: Mapping[str, Plan],
    *,
    under: str = "",
) -> Account:
    """Set switches, `name`, `plan` and `portal_alias`, given as texts or JSON values.

    An empty `portal_alias` removes the alias. `under` precedes the names of switches in messages.
    Raises Semantic with all faults, and Conflict if another account has the alias.
    """
    account = locked(tx, account_id, plans)
    switches = {name: value for name, value in values.items() if name not in _BESIDE}
    read, faults = read_switches(switches, beside=_BESIDE)
    problems = [(f"{under}{name}", reason) for name, reason in faults]
    name, plan, alias = (values.get(each) for each in _BESIDE)
    if name is not None and _as_name(name) is None:
        problems.append(("name", _name_fault(name)))
    if plan is not None and plan not in plans:
        problems.append(("plan", _unknown_plan(plan, plans)))
    if alias and not is_alias(alias):
        problems.append((f"{under}portal_alias", ALIAS_FORM))
    if problems:
        raise Semantic(listed(problems), fields=problems)
    given = {"name": None if name is None else _as_name(name), "plan": plan}
    changed = {each: value for each, value in given.items() if value is not None}
    stored = replace(account.switches, **read).to_json()
    set_where(tx, tables.account, {"id": account_id}, switches=stored, **changed)
    if alias is not None:
        set_alias(tx, account_id, alias)
    return load_by_id(tx, account_id, plans)


_BESIDE = ("name", "plan", "portal_alias")


def set_disabled(tx: Connection, account_id: int, disabled: bool) -> None:
    at = now_ms() if disabled else None
    set_where(tx, tables.account, {"id": account_id}, disabled_at=at)


def locked(tx: Connection, account_id: int, plans: Mapping[str, Plan]) -> Account:
    """Lock the account's row until the transaction ends."""
    find_row(tx, tables.account, {"id": account_id}, lock=True)
    return load_by_id(tx, account_id, plans)
