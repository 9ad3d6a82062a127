"""What operators may learn of the secrets that an account has stored for its CRM."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from crmhub.accounts.accounts import Account
from crmhub.adapter import BadConfig
from crmhub.audit import SET
from crmhub.crm.stored_connections import open_credentials
from crmhub.hub import Hub
from crmhub.secrets import SealBroken


def secret_names(hub: Hub, account: Account) -> tuple[str, ...] | None:
    """Return the sorted names of the operator's secrets; None if they cannot be decrypted."""
    stored = stored_secrets(hub, account)
    return None if stored is None else tuple(sorted(stored))


def stored_secrets(hub: Hub, account: Account) -> dict[str, str] | None:
    """Return the operator's secrets by name; None if they cannot be decrypted."""
    try:
        stored = open_credentials(hub.vault, account)
    except SealBroken:
        return None
    # The adapter's own credentials, such as an access token, are not an operator's.
    with suppress(BadConfig):
        for setting in hub.registry.load(account.connection.adapter).settings:
            if setting.kept:
                stored.pop(setting.name, None)
    return stored


def audit_facts(hub: Hub, before: Account, after: Account) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the old and the new connection for the audit log, without the secrets' values."""
    old, new = stored_secrets(hub, before) or {}, stored_secrets(hub, after) or {}
    same = before.connection.id == after.connection.id
    replaced = {name for name in new if same and name in old and old[name] != new[name]}
    return (
        {
            "adapter": before.connection.adapter,
            "settings": dict(before.connection.settings),
            "secrets": dict.fromkeys(sorted(old), SET),
        },
        {
            "adapter": after.connection.adapter,
            "settings": dict(after.connection.settings),
            "secrets": {name: f"{SET} anew" if name in replaced else SET for name in sorted(new)},
        },
    )
