"""The connection of an account to its CRM: the adapter, its settings and encrypted credentials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import sqlalchemy as sa

from crmhub.accounts.accounts import Account, ConnectionInfo, load_by_id
from crmhub.accounts.changes import insert_connection, locked
from crmhub.accounts.field_maps import FieldMap
from crmhub.accounts.plans import Plan
from crmhub.adapter import Adapter, BadConfig, configured
from crmhub.crm import definitions as crm_definitions
from crmhub.crm import past_connections
from crmhub.database import tables
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import set_where
from crmhub.database.statements import Statement, param
from crmhub.errors import Semantic
from crmhub.queue.outages import Outage
from crmhub.secrets import SealBroken, Vault

_COLUMN = "credentials"
LONGEST_ERROR = 500
_connection = tables.connection.c
_NEWEST_CONNECTION = Statement(
    sa.select(sa.func.max(_connection.id)).where(_connection.account_id == param("account_id"))
)


def seal_credentials(vault: Vault, account_id: int, credentials: Mapping[str, str]) -> str:
    """Encrypt credentials into the text that is stored, without empty ones; "" for none at all."""
    given = {name: value for name, value in credentials.items() if value}
    if not given:
        return ""
    return vault.seal(json.dumps(given), account_id=account_id, column=_COLUMN)


def open_credentials(vault: Vault, account: Account) -> dict[str, str]:
    """Return the stored credentials by name; raises SealBroken if they cannot be decrypted."""
    if not account.connection.credentials:
        return {}
    sealed = account.connection.credentials
    opened: dict[str, str] = json.loads(vault.open(sealed, account_id=account.id, column=_COLUMN))
    return opened


def proposed(
    account: Account,
    *,
    name: str,
    adapter: type[Adapter],
    settings: Mapping[str, str],
    credentials: Mapping[str, str],
    vault: Vault,
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the (settings, credentials) that `configure` would store for these arguments.

    If the account has this adapter already, given values replace the stored ones, and an empty
    value removes one. If any credential is given, those that the adapter has stored itself are
    removed. Raises Semantic if the adapter refuses the values, if a credential is given that only
    the adapter may store, or if stored credentials are needed but cannot be decrypted.
    """
    kept = {one.name for one in adapter.settings if one.kept}
    if given := sorted(kept & credentials.keys()):
        raise Semantic(
            "%(given)s: the adapter keeps this itself; leave it out", given=", ".join(given)
        )
    if account.connection.adapter == name:
        settings = {**account.connection.settings, **settings}
        stored = _stored(vault, account, adapter, credentials)
        if credentials:
            stored = {name: value for name, value in stored.items() if name not in kept}
        credentials = {**stored, **credentials}
    settings = {key: value for key, value in settings.items() if value}
    credentials = {key: value for key, value in credentials.items() if value}
    try:
        configured(adapter, settings, credentials)
    except BadConfig as exc:
        fields = [(problem.name, problem.reason) for problem in exc.problems]
        raise Semantic(exc.message, fields=fields) from exc
    return settings, credentials


def configure(
    tx: Connection,
    account_id: int,
    *,
    name: str,
    adapter: type[Adapter],
    settings: Mapping[str, str],
    credentials: Mapping[str, str],
    vault: Vault,
    plans: Mapping[str, Plan],
    grown: Mapping[str, str] | None = None,
    past: ConnectionInfo | None = None,
    crm_account: str = "",
) -> Account:
    """Store the settings and credentials that `proposed` returns; return the account.

    `past`: a former connection whose stored values count as the account's own, with its field map.
    `grown`: the credentials after the connection test, in which the adapter may have added some.
    `crm_account`: the account in the CRM to which given credentials belong, or "". The outage of
    the connection ends. Raises Semantic as `proposed` does; then nothing is stored.
    """
    account = locked(tx, account_id, plans)
    base = account if past is None else replace(account, connection=past)
    if not credentials and base.connection.adapter == name:
        crm_account = base.connection.crm_account
    settings, credentials = proposed(
        base,
        name=name,
        adapter=adapter,
        settings=settings,
        credentials=credentials,
        vault=vault,
    )
    if name != account.connection.adapter:
        past_connections.remember(tx, account)
    account = set_adapter(
        tx,
        account_id,
        adapter=name,
        settings=settings,
        credentials=seal_credentials(vault, account_id, grown or credentials),
        crm_account=crm_account,
        plans=plans,
    )
    if past is not None:
        account = set_field_map(tx, account_id, past.field_map, plans)
    # The change may have fixed the CRM's outage: let the next call find out.
    Outage(tx, account_id, account.connection.id).end()
    return account


def _stored(
    vault: Vault, account: Account, adapter: type[Adapter], given: Mapping[str, str]
) -> dict[str, str]:
    """Return the account's stored credentials.

    If they cannot be decrypted, return none if `given` has every secret of the adapter; otherwise
    raise Semantic.
    """
    try:
        return open_credentials(vault, account)
    except SealBroken as exc:
        if {one.name for one in adapter.settings if one.secret and not one.kept} <= given.keys():
            return {}
        raise Semantic(
            "%(reason)s Give every secret of the adapter again.", reason=str(exc)
        ) from exc


def set_adapter(
    tx: Connection,
    account_id: int,
    *,
    adapter: str,
    settings: Mapping[str, str],
    credentials: str,
    crm_account: str,
    plans: Mapping[str, Plan],
) -> Account:
    """Store the adapter of an account, with its settings and encrypted credentials, unchecked.

    If `adapter` differs from the present adapter, a new connection is created, so that no id of the
    former CRM is used again.
    """
    account = locked(tx, account_id, plans)
    if adapter == account.connection.adapter:
        crm_definitions.forget(tx, account_id, account.connection.id)
        set_where(
            tx,
            tables.connection,
            {"account_id": account_id, "id": account.connection.id},
            settings=json.dumps(dict(settings)),
            credentials=credentials,
            crm_account=crm_account,
        )
    else:
        connection_id = tx.scalar(_NEWEST_CONNECTION, {"account_id": account_id}) + 1
        insert_connection(
            tx, account_id, connection_id, adapter, settings, credentials, crm_account
        )
        set_where(tx, tables.account, {"id": account_id}, connection_id=connection_id)
    return load_by_id(tx, account_id, plans)


def set_field_map(
    tx: Connection, account_id: int, field_map: FieldMap, plans: Mapping[str, Plan]
) -> Account:
    account = locked(tx, account_id, plans)
    key = {"account_id": account_id, "id": account.connection.id}
    set_where(tx, tables.connection, key, field_map=field_map.to_json())
    return load_by_id(tx, account_id, plans)


def note_test(tx: Connection, account_id: int, connection_id: int, error: str) -> None:
    key = {"account_id": account_id, "id": connection_id}
    error = error[:LONGEST_ERROR]
    set_where(tx, tables.connection, key, tested_at=now_ms(), test_error=error)


def note_settings(tx: Connection, account_id: int, connection_id: int, *, tested: bool) -> None:
    now = now_ms()
    set_where(
        tx,
        tables.connection,
        {"account_id": account_id, "id": connection_id},
        settings_at=now,
        tested_at=now if tested else None,
        test_error="" if tested else None,
    )
