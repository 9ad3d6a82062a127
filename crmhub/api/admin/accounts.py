"""The admin API's routes for accounts: list, open, read, change, show usage.

A further route replaces a webhook id or the webhook secret.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import flask
from marshmallow import fields

from crmhub.accounts import accounts
from crmhub.accounts.switches import Switches
from crmhub.accounts.webhook_ids import WEEK_MS
from crmhub.api.admin.account_answers import (
    ONCE,
    AccountListedShown,
    OpenedAccountShown,
    account_shown,
    issued_shown,
    moment,
)
from crmhub.api.admin.blueprint import WITH_BODY, blueprint, documented
from crmhub.api.admin.callers import author
from crmhub.api.admin.lists import Age, Listing, PageQuery
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import hub, needs
from crmhub.api.http.field_types import Choice, Flag, Inner, Scalar, Strict, Text
from crmhub.api.http.schemas import MOMENT, PageOf, Shown
from crmhub.api.public.usage import UsageShown, usage_shown
from crmhub.operators.accounts import change_account
from crmhub.operators.accounts.open_account import open_account

# --- inputs ----------------------------------------------------------------------------------

_LINE = {"minLength": 1, "maxLength": 200}


class AccountInput(Strict):
    name = Text(required=True, metadata={**_LINE, "description": "What people call it."})
    client_id = Text(
        data_key="clientId",
        metadata={
            "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$",
            "description": "Its id in addresses; without one it is made from the name.",
        },
    )
    adapter = Text(metadata={"description": "Its CRM.", "default": "local"})
    plan = Text(metadata={"description": "Its plan.", "default": "default"})


class SwitchesInput(Strict):
    """Schema of the switches (options) to set; switches that are not sent stay unchanged."""

    strict = Flag(metadata={"description": "One bad property refuses the whole helper call."})
    soft_errors = Flag(metadata={"description": "Helpers answer errors with status 200."})
    require_secret = Flag(metadata={"description": "Helpers demand the webhook secret."})
    bare_tokens = Flag(metadata={"description": "A contactToken alone may find the account."})
    lead_requires = Choice(
        ("email", "email_or_phone"),
        metadata={"description": "What createLead needs beside the name."},
    )
    deadline_s = Scalar(
        metadata={
            "type": ["number", "string"],
            "minimum": 1,
            "maximum": 25,
            "description": "Seconds that a helper call may take.",
        }
    )
    region = Text(
        metadata={
            "description": "The country of phones without country code, and of the order of day"
            ' and month: "DE", "" for none.'
        }
    )
    language = Text(
        metadata={"description": 'The language of words for yes and no: "es", "" for English.'}
    )
    blank_clears = Flag(metadata={"description": "Blank values of setProperties clear."})
    auto_define_properties = Flag(
        metadata={"description": "The public API defines unknown properties as text."}
    )
    rotation = Text(
        metadata={
            "maxLength": 1000,
            "description": "How getRandomInt chooses: random, round_robin, shuffle_bag or"
            " weighted:5,3,1, with +sticky behind it where a contact keeps its number.",
        }
    )
    phone_identifies = Flag(
        metadata={"description": "A lead's phone decides before its conversation."}
    )
    answer_format = Choice(
        ("flat", "chatfuel", "manychat"),
        metadata={"description": "The form of the helpers' answers."},
    )
    allowed_origins = Text(
        metadata={
            "description": "Origins whose pages may call the helpers, such as"
            ' "https://www.example.com", joined by commas; "" for none.'
        }
    )
    portal_alias = Text(
        metadata={"description": "The CRM's portal id, taken with the secret; empty for none."}
    )


class AccountChange(Strict):
    name = Text(metadata={**_LINE, "description": "What people call it."})
    plan = Text(metadata={"description": "Its plan."})
    disabled = Flag(metadata={"description": "Refused everywhere, within a second; its data stay."})
    switches = Inner(SwitchesInput)


class RotateInput(Strict):
    what = Choice(
        ("generated", "portal", "secret"),
        required=True,
        metadata={"description": "The generated id, the portal id, or the webhook secret."},
    )
    keep_old = Age(
        "How long the old one stays valid: 7d when not given, 0s to end it at once.",
        data_key="keepOld",
    )


# --- answers ---------------------------------------------------------------------------------


class AccountPageShown(PageOf):
    results = fields.List(fields.Nested(AccountListedShown), required=True)


_SHOWN_TYPES = {bool: fields.Boolean, float: fields.Float, str: fields.String}
SwitchesShown = Shown.from_dict(
    {
        name: _SHOWN_TYPES[type(default)](required=True)
        for name, default in {**asdict(Switches()), "portal_alias": ""}.items()
    },
    name="SwitchesShown",
)


def _secrets() -> fields.List[Any]:
    return fields.List(
        fields.String(),
        required=True,
        allow_none=True,
        metadata={"description": "Names of the stored ones; null: they cannot be opened."},
    )


class OwnConnectionShown(Shown):
    id = fields.Integer(required=True, metadata={"minimum": 1})
    settings = fields.Dict(keys=fields.String(), values=fields.String(), required=True)
    secrets = _secrets()


class FormerShown(Shown):
    """Schema of a previous CRM of an account, with the numbers of its unfinished actions."""

    id = fields.Integer(required=True, metadata={"minimum": 1})
    adapter = fields.String(required=True)
    queued = fields.Integer(required=True, metadata={"minimum": 0})
    running = fields.Integer(required=True, metadata={"minimum": 0})


class RestorableShown(Shown):
    """Schema of a previous connection whose settings and secrets are still kept."""

    id = fields.Integer(required=True, metadata={"minimum": 1})
    adapter = fields.String(required=True)
    left_at = fields.String(data_key="leftAt", required=True, metadata=MOMENT)


class ConnectionShown(OwnConnectionShown):
    """Schema of an account's connection; another adapter gets another `id`."""

    adapter = fields.String(required=True)
    former = fields.List(fields.Nested(FormerShown), required=True)
    restorable = fields.List(fields.Nested(RestorableShown), required=True)


class OldIdShown(Shown):
    id = fields.String(required=True)
    expires_at = fields.String(data_key="expiresAt", required=True, metadata=MOMENT)


class OldIdsShown(Shown):
    """Schema of the replaced webhook ids that are still valid, by purpose."""

    generated = fields.List(fields.Nested(OldIdShown), required=True)
    portal = fields.List(fields.Nested(OldIdShown), required=True)


class AccountShown(AccountListedShown):
    switches = fields.Nested(SwitchesShown, required=True)
    connection = fields.Nested(OwnConnectionShown, required=True)
    generated_id = fields.String(data_key="generatedId", required=True)
    portal_id = fields.String(data_key="portalId", required=True)
    old_ids = fields.Nested(OldIdsShown, data_key="oldIds", required=True)


class RotatedShown(Shown):
    """Schema of a new webhook id or webhook secret; the JSON key of the value is its kind."""

    generated = fields.String()
    portal = fields.String()
    secret = fields.String(metadata=ONCE)
    old_valid_until = fields.String(data_key="oldValidUntil", required=True, metadata=MOMENT)


# --- routes ----------------------------------------------------------------------------------


@blueprint.get("/accounts")
@documented("listAccounts", 200, AccountPageShown, "List the accounts, the oldest first")
@needs("accounts:read")
@blueprint.arguments(PageQuery(), location="query")
def _list(query: dict[str, Any]) -> flask.Response:
    listing = Listing.from_query("accounts", query)
    with hub().database.reading() as db:
        found = accounts.list_accounts(
            db, hub().plans, after=listing.after or 0, limit=listing.limit + 1
        )
    return listing.page(found, AccountListedShown().dump, lambda account: account.id)


@blueprint.post("/accounts")
@documented(
    "createAccount", 201, OpenedAccountShown, "Open an account, with an API key for everything"
)
@needs("accounts:write")
@blueprint.arguments(AccountInput())
def _open(body: dict[str, Any]) -> flask.Response:
    account, issued = open_account(hub(), **body, by=author())
    return as_json(issued_shown(account, issued), 201)


@blueprint.get("/accounts/<client_id>")
@documented("getAccount", 200, AccountShown, "Read an account with its switches and ids")
@needs("accounts:read")
def _get(client_id: str) -> flask.Response:
    return as_json(account_shown(change_account.detail(hub(), client_id)))


@blueprint.patch("/accounts/<client_id>")
@documented("updateAccount", 200, AccountShown, "Change an account's name, plan or switches")
@needs("accounts:write")
@blueprint.arguments(AccountChange())
def _change(body: dict[str, Any], client_id: str) -> flask.Response:
    disabled, switches = body.pop("disabled", None), body.pop("switches", {})
    change_account.change(
        hub(),
        client_id,
        {**body, **switches},
        disabled=disabled,
        path="switches.",
        by=author(),
    )
    return as_json(account_shown(change_account.detail(hub(), client_id)))


@blueprint.post("/accounts/<client_id>/webhook-ids/rotate")
@documented(
    "rotateWebhookId",
    200,
    RotatedShown,
    "Replace a webhook id or the webhook secret",
    errors=WITH_BODY,
)
@needs("accounts:write")
@blueprint.arguments(RotateInput())
def _rotate(body: dict[str, Any], client_id: str) -> flask.Response:
    what, keep_ms = body["what"], body.get("keep_old", WEEK_MS)
    value, until = change_account.rotate(hub(), client_id, what, keep_ms=keep_ms, by=author())
    return as_json({what: value, "oldValidUntil": moment(until)})


@blueprint.get("/accounts/<client_id>/usage")
@documented("getAccountUsage", 200, UsageShown, "Read an account's limits and what it uses")
@needs("accounts:read")
def _usage(client_id: str) -> flask.Response:
    return as_json(usage_shown(hub().load_account(client_id)))
