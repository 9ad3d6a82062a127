"""Accounts and what is theirs as JSON: the admin API answers so, and the commands print so."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from crmhub.accounts.accounts import Account
from crmhub.accounts.changes import IssuedIds
from crmhub.accounts.keys import IssuedKey, Key
from crmhub.accounts.plans import Plan
from crmhub.adapter import Setting
from crmhub.adapter.registry import Installed
from crmhub.api.usage import rate_shown
from crmhub.audit import Entry
from crmhub.helpers.get_type import Enrolment
from crmhub.operations.change_account import Detail
from crmhub.operations.map_fields import Preview
from crmhub.records.search.filters import iso


def moment(milliseconds: int | None) -> str | None:
    """Return a time as the API writes it, None for never."""
    return None if milliseconds is None else iso(milliseconds)


def outline_shown(account: Account) -> dict[str, Any]:
    """Return an account as a list shows it."""
    return {
        "clientId": account.client_id,
        "name": account.name,
        "plan": account.plan.name,
        "adapter": account.connection.adapter,
        "disabled": account.disabled,
        "createdAt": iso(account.created_at),
    }


def account_shown(found: Detail) -> dict[str, Any]:
    """Return an account with its switches, its connection and the ids it is called by."""

    def of(purpose: str) -> list[dict[str, Any]]:
        return [
            {"id": one.value, "expiresAt": moment(one.expires_at)}
            for one in found.ids
            if one.purpose == purpose
        ]

    generated, portal, alias = of("generated"), of("portal"), of("alias")
    connection = found.account.connection
    return {
        **outline_shown(found.account),
        "switches": {
            **asdict(found.account.switches),
            "portal_alias": alias[0]["id"] if alias else "",
        },
        "connection": {
            "id": connection.id,
            "settings": dict(connection.settings),
            "secrets": _secrets(found),
        },
        "generatedId": generated[0]["id"],
        "portalId": portal[0]["id"],
        "oldIds": {"generated": generated[1:], "portal": portal[1:]},
    }


def connection_shown(found: Detail) -> dict[str, Any]:
    """Return which CRM an account uses; of its secrets the names alone."""
    connection = found.account.connection
    return {
        "adapter": connection.adapter,
        "id": connection.id,
        "settings": dict(connection.settings),
        "secrets": _secrets(found),
        "former": [asdict(one) for one in found.former],
    }


def _secrets(found: Detail) -> list[str] | None:
    return None if found.secrets is None else list(found.secrets)


def preview_shown(found: Preview) -> dict[str, Any]:
    """Return what a helper's call would become."""
    return {
        "helper": found.helper,
        "kind": found.kind,
        "sent": [asdict(one) for one in found.sent],
        "refused": [{"name": one.name, "reason": one.reason} for one in found.refused],
        "note": found.note,
    }


def issued_shown(account: Account, issued: IssuedIds) -> dict[str, Any]:
    """Return what a new account is reached by, with what is shown this once."""
    return {
        "clientId": account.client_id,
        "apiKey": issued.api_key,
        "generatedId": issued.generated_id,
        "portalId": issued.portal_id,
        "webhookSecret": issued.webhook_secret,
    }


def issued_key_shown(issued: IssuedKey) -> dict[str, Any]:
    """Return a new API key, which is shown this once."""
    return {
        "keyId": issued.key_id,
        "apiKey": issued.api_key,
        "scopes": list(issued.scopes),
        "expiresAt": moment(issued.expires_at),
    }


def key_shown(one: Key) -> dict[str, Any]:
    """Return an API key without showing it."""
    return {
        "keyId": one.key_id,
        "hint": one.hint,
        "scopes": list(one.scopes),
        "createdAt": moment(one.created_at),
        "expiresAt": moment(one.expires_at),
        "revokedAt": moment(one.revoked_at),
        "lastUsedAt": moment(one.last_used_at),
    }


def adapter_shown(one: Installed) -> dict[str, Any]:
    """Return an installed adapter with the settings it declares."""
    return {
        "name": one.name,
        "title": one.title,
        "version": one.version,
        "distribution": one.distribution,
        "features": sorted(one.features),
        "settings": [_setting_shown(each) for each in one.settings],
        "error": one.error,
    }


def _setting_shown(one: Setting) -> dict[str, Any]:
    shown = asdict(one)
    # Nobody is asked for what an adapter keeps itself.
    del shown["kept"]
    return shown


def plan_shown(plan: Plan) -> dict[str, Any]:
    """Return a plan with its limits; null is none."""
    return {
        "name": plan.name,
        "rateLimit": rate_shown(plan.rate_limit),
        "keyRateLimit": rate_shown(plan.key_rate_limit),
        "quotas": dict(plan.quotas),
    }


def enrolment_shown(one: Enrolment) -> dict[str, Any]:
    """Return that a contact entered a workflow."""
    return {
        "workflowId": one.workflow_id,
        "contactId": one.contact_id,
        "enrolledAt": iso(one.at),
    }


def entry_shown(entry: Entry) -> dict[str, Any]:
    """Return an entry of the audit log."""
    return {
        "id": entry.id,
        "at": iso(entry.at),
        "by": asdict(entry.by),
        "verb": entry.verb,
        "object": entry.object,
        "objectId": entry.object_id,
        "clientId": entry.client_id,
        "before": dict(entry.before),
        "after": dict(entry.after),
    }
