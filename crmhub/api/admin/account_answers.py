"""Schemas and functions that make the JSON of accounts, API keys, plans and adapters.

The admin API answers with this JSON, and `crmhub … --json` prints it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from marshmallow import fields, validate

from crmhub.accounts.accounts import Account
from crmhub.accounts.changes import IssuedIds
from crmhub.api.http.schemas import Moment, Shown
from crmhub.api.public.usage import RATE
from crmhub.audit import AUTHOR_KINDS, OBJECTS, VERBS
from crmhub.operators.accounts.change_account import Detail
from crmhub.operators.crm.map_fields import Preview
from crmhub.records.search.filters import iso


def moment(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso(milliseconds)


class AccountListedShown(Shown):
    client_id = fields.String(data_key="clientId", required=True)
    name = fields.String(required=True)
    plan = fields.String(required=True, attribute="plan.name")
    adapter = fields.String(required=True, attribute="connection.adapter")
    disabled = fields.Boolean(required=True)
    created_at = Moment(data_key="createdAt", required=True)


ONCE = {"description": "Shown this once: the hub keeps a hash of it."}
_SCOPES = {"description": "What it may do."}


def _or_never(name: str) -> Moment:
    description = {"description": "null: never."}
    return Moment(data_key=name, required=True, allow_none=True, metadata=description)


class IssuedKeyShown(Shown):
    key_id = fields.String(data_key="keyId", required=True)
    api_key = fields.String(
        data_key="apiKey",
        required=True,
        metadata=ONCE,
    )
    scopes = fields.List(fields.String(), required=True, metadata=_SCOPES)
    expires_at = _or_never("expiresAt")


class KeyShown(Shown):
    key_id = fields.String(data_key="keyId", required=True)
    name = fields.String(required=True, metadata={"description": "What it is for; may be empty."})
    hint = fields.String(required=True)
    scopes = fields.List(fields.String(), required=True, metadata=_SCOPES)
    created_at = _or_never("createdAt")
    expires_at = _or_never("expiresAt")
    revoked_at = _or_never("revokedAt")
    last_used_at = _or_never("lastUsedAt")


class PlanShown(Shown):
    name = fields.String(required=True)
    rate_limit = fields.String(data_key="rateLimit", required=True, allow_none=True, metadata=RATE)
    key_rate_limit = fields.String(
        data_key="keyRateLimit", required=True, allow_none=True, metadata=RATE
    )
    quotas = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(metadata={"minimum": 0}),
        required=True,
        metadata={
            "description": "How many records of a kind; a kind that is missing has no limit."
        },
    )


class EnrolmentShown(Shown):
    workflow_id = fields.String(data_key="workflowId", required=True)
    contact_id = fields.String(data_key="contactId", required=True)
    enrolled_at = Moment(attribute="at", data_key="enrolledAt", required=True)


class AuthorShown(Shown):
    """Schema of the author of a change: a user of the system or console, or an admin token."""

    kind = fields.String(required=True, validate=validate.OneOf(AUTHOR_KINDS))
    name = fields.String(required=True)
    id = fields.String(
        required=True, metadata={"description": 'Of the token or the user of the console; else "".'}
    )


def _values(when: str) -> fields.Dict:
    description = f"What differs, as it was {when}; a secret is `set`."
    return fields.Dict(keys=fields.String(), required=True, metadata={"description": description})


class EntryShown(Shown):
    id = fields.Integer(required=True, metadata={"minimum": 1})
    at = Moment(required=True)
    by = fields.Nested(AuthorShown, required=True)
    verb = fields.String(required=True, validate=validate.OneOf(VERBS))
    object = fields.String(required=True, validate=validate.OneOf(OBJECTS))
    object_id = fields.String(data_key="objectId", required=True)
    client_id = fields.String(
        data_key="clientId", required=True, metadata={"description": '"" where it is of none.'}
    )
    before = _values("before")
    after = _values("afterwards")


class SettingShown(Shown):
    """Schema of a setting of a CRM connection, which the adapter declares."""

    name = fields.String(required=True)
    label = fields.String(required=True)
    type = fields.String(required=True)
    help = fields.String(required=True)
    default = fields.String(required=True)
    choices = fields.List(fields.String(), required=True)
    secret = fields.Boolean(
        required=True, metadata={"description": "It belongs among the secrets."}
    )
    required = fields.Boolean(required=True)


class _Sorted(fields.List[str]):
    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> list[str]:
        return sorted(value)


class AdapterShown(Shown):
    name = fields.String(required=True)
    title = fields.String(required=True)
    version = fields.String(required=True)
    distribution = fields.String(required=True)
    features = _Sorted(
        fields.String(), required=True, metadata={"description": "What it can do beside the least."}
    )
    settings = fields.List(fields.Nested(SettingShown), required=True)
    error = fields.String(
        required=True, metadata={"description": 'Why it cannot be used; "" when it can.'}
    )


class OpenedAccountShown(Shown):
    client_id = fields.String(data_key="clientId", required=True)
    api_key = fields.String(data_key="apiKey", required=True, metadata=ONCE)
    generated_id = fields.String(data_key="generatedId", required=True)
    portal_id = fields.String(data_key="portalId", required=True)
    webhook_secret = fields.String(data_key="webhookSecret", required=True, metadata=ONCE)


def account_shown(found: Detail) -> dict[str, Any]:
    def of(purpose: str) -> list[dict[str, Any]]:
        return [
            {"id": webhook_id.value, "expiresAt": moment(webhook_id.expires_at)}
            for webhook_id in found.ids
            if webhook_id.purpose == purpose
        ]

    generated, portal, alias = of("generated"), of("portal"), of("alias")
    connection = found.account.connection
    return {
        **AccountListedShown().dump(found.account),
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
    """Return the JSON of an account's connection, with only the names of its secrets.

    `former` lists the account's previous CRMs that still have unfinished actions, `restorable`
    those whose settings and secrets are still kept.
    """
    connection = found.account.connection
    return {
        "adapter": connection.adapter,
        "id": connection.id,
        "settings": dict(connection.settings),
        "secrets": _secrets(found),
        "former": [crm._asdict() for crm in found.former],
        "restorable": [
            {"id": past.id, "adapter": past.adapter, "leftAt": moment(past.left_at)}
            for past in found.past
        ],
    }


def _secrets(found: Detail) -> list[str] | None:
    return None if found.secrets is None else list(found.secrets)


def preview_shown(found: Preview) -> dict[str, Any]:
    return {
        "helper": found.helper,
        "kind": found.kind,
        "sent": [asdict(sent) for sent in found.sent],
        "refused": [{"name": refused.name, "reason": refused.reason} for refused in found.refused],
        "note": found.note,
    }


def issued_shown(account: Account, issued: IssuedIds) -> dict[str, Any]:
    answer: dict[str, Any] = OpenedAccountShown().dump(
        {"client_id": account.client_id, **asdict(issued)}
    )
    return answer
