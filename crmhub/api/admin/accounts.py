"""The admin API's routes for accounts: list, open, read, change, show usage.

A further route replaces a webhook id or the webhook secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import flask
import marshmallow as ma

from crmhub.accounts.switches import Switches
from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.callers import author
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import hub, needs
from crmhub.api.http.field_types import Choice, Flag, Inner, Scalar, Strict, Text
from crmhub.api.http.resource_schemas import schema_of, shown
from crmhub.api.public.usage import UsageShown, usage_shown
from crmhub.operators.accounts import change_account
from crmhub.operators.accounts.resources import ACCOUNT

# --- inputs ----------------------------------------------------------------------------------

_LINE = {"minLength": 1, "maxLength": 200}


def _switch_field(name: str, metadata: Mapping[str, Any]) -> ma.fields.Field[Any]:
    kind, says = get_type_hints(Switches)[name], dict(metadata)
    if kind is bool:
        return Flag(metadata=says)
    if kind is str:
        return Text(metadata=says)
    if words := get_args(kind):
        return Choice(words, metadata=says)
    return Scalar(metadata={"type": ["number", "string"], **says})


# Switches that are not sent stay unchanged.
SwitchesInput = Strict.from_dict(
    {
        **{each.name: _switch_field(each.name, each.metadata) for each in fields(Switches)},
        "portal_alias": Text(
            metadata={"description": "The CRM's portal id, taken with the secret; empty for none."}
        ),
    },
    name="SwitchesInput",
)


class AccountChange(Strict):
    name = Text(metadata={**_LINE, "description": "What people call it."})
    plan = Text(metadata={"description": "Its plan."})
    disabled = Flag(metadata={"description": "Refused everywhere, within a second; its data stay."})
    switches = Inner(SwitchesInput)


# --- routes ----------------------------------------------------------------------------------


@blueprint.patch("/accounts/<client_id>")
@documented("updateAccount", 200, schema_of(ACCOUNT), "Change an account's name, plan or switches")
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
    return as_json(shown(ACCOUNT, change_account.detail(hub(), client_id)))


@blueprint.get("/accounts/<client_id>/usage")
@documented("getAccountUsage", 200, UsageShown, "Read an account's limits and what it uses")
@needs("accounts:read")
def _usage(client_id: str) -> flask.Response:
    return as_json(usage_shown(hub().load_account(client_id)))
