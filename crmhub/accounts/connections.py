"""An account's connection to its CRM: which adapter, its settings, its sealed credentials."""

from __future__ import annotations

import json
from collections.abc import Mapping

from crmhub.accounts.accounts import Account, load_by_id, set_adapter
from crmhub.accounts.plans import Plan
from crmhub.adapter.contract import Adapter, BadConfig, configured
from crmhub.db import Connection
from crmhub.errors import Semantic
from crmhub.secrets import SealBroken, Vault

_COLUMN = "credentials"


def seal_credentials(vault: Vault, account_id: int, credentials: Mapping[str, str]) -> str:
    """Return credentials as the database keeps them; none at all is an empty text."""
    given = {name: value for name, value in credentials.items() if value}
    if not given:
        return ""
    return vault.seal(json.dumps(given), account_id=account_id, column=_COLUMN)


def open_credentials(vault: Vault, account: Account) -> dict[str, str]:
    """Return the credentials of the account's connection; raises SealBroken."""
    if not account.connection.credentials:
        return {}
    sealed = account.connection.credentials
    opened: dict[str, str] = json.loads(vault.open(sealed, account_id=account.id, column=_COLUMN))
    return opened


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
) -> Account:
    """Set the CRM of an account, checked against what the adapter declares; return the account.

    On the adapter it has already, what is not named stays, and an empty value removes. Raises
    Semantic with every fault, and nothing is stored.
    """
    account = load_by_id(tx, account_id, plans)
    if account.connection.adapter == name:
        settings = {**account.connection.settings, **settings}
        credentials = {**_kept(vault, account, adapter, credentials), **credentials}
    settings = {key: value for key, value in settings.items() if value}
    credentials = {key: value for key, value in credentials.items() if value}
    try:
        configured(adapter, settings, credentials)
    except BadConfig as exc:
        raise Semantic(exc.message) from exc
    return set_adapter(
        tx,
        account_id,
        adapter=name,
        settings=settings,
        credentials=seal_credentials(vault, account_id, credentials),
        plans=plans,
    )


def _kept(
    vault: Vault, account: Account, adapter: type[Adapter], given: Mapping[str, str]
) -> dict[str, str]:
    """Return the stored credentials, which need not be readable when all are given anew."""
    try:
        return open_credentials(vault, account)
    except SealBroken as exc:
        if {one.name for one in adapter.settings if one.secret} <= given.keys():
            return {}
        raise Semantic(f"{exc} Give every secret of the adapter anew.") from exc
