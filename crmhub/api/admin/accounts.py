"""The admin API's routes for accounts: list, open, read, change, show usage.

A further route replaces a webhook id or the webhook secret.
"""

from __future__ import annotations

from typing import Any

import flask

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
        metadata={
            "description": "The language of words for yes and no, beside English, and of the"
            ' `message` of the helpers\' answers ("es" and "pt"): "" for English.'
        }
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
    mirror = Flag(
        metadata={
            "description": "The hub keeps a copy of the CRM's records for the public API, agents"
            " and events. false deletes all records of the copy at once, without a question, and"
            " nothing in the CRM."
        }
    )
    mirror_properties = Text(
        metadata={
            "description": 'The properties that are copied, joined by commas; "" for all. The'
            " values of others are not read from the CRM."
        }
    )
    mirror_every_s = Scalar(
        metadata={
            "type": ["number", "string"],
            "minimum": 10,
            "maximum": 86_400,
            "description": "Seconds after which the CRM is asked for changes again.",
        }
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
