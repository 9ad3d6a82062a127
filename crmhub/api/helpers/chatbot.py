"""The routes of the helpers createLead, getProperties, setProperties and getType (/chatbot)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flask
from marshmallow import fields

from crmhub.accounts.accounts import Account
from crmhub.api.helpers.answers import (
    NAMES_ROOM,
    Answer,
    Posted,
    answer_body,
    answered,
    helper,
    idempotency_key,
    joined,
    named,
    of_done,
)
from crmhub.api.helpers.bodies import (
    HelperBody,
    Hours,
    Names,
    Phone,
    PropertyValues,
    Said,
    body,
    load,
)
from crmhub.api.helpers.callers import of_conversation, of_generated_id
from crmhub.api.helpers.cors import allow_pages
from crmhub.api.helpers.formats import PREFIX, RESERVED
from crmhub.api.http.authentication import HEADER, SECRET, hub
from crmhub.api.http.blueprint import Blueprint
from crmhub.bounds import MAX_ASKED_PROPERTIES
from crmhub.helpers import contact_properties
from crmhub.helpers import create_lead as leads
from crmhub.helpers import get_type as workflows
from crmhub.helpers.inputs import filled

blueprint = Blueprint(
    "chatbot",
    __name__,
    url_prefix="/chatbot",
    description="Webhook helpers for the contact of a conversation: lead, properties, workflow.",
)
allow_pages(blueprint)

# More than NAMES_ROOM, for answers without refused properties.
_MISSING_ROOM = 1200


class LeadBody(HelperBody):
    document_name = "LeadInput"

    contact_token = Said(data_key="contactToken", required=True, numbers=True, short=True)
    name = Said(required=True)
    email = Said(required=True)
    phone = Phone(load_default=str)


class ContactAnswer(Answer):
    contactId = fields.String(required=True)
    url = fields.String(metadata={"description": "Where the CRM has a page for the contact."})


@blueprint.post("/createLead/<generated_id>")
@helper(
    "createLead",
    LeadBody,
    ContactAnswer,
    "Create or update the contact of a conversation",
    credentials=[SECRET],
    writes=True,
)
def create_lead(generated_id: str) -> flask.Response:
    return answer_lead(of_generated_id(generated_id), body)


def answer_lead(account: Account, posted: Posted) -> flask.Response:
    def write_contact() -> dict[str, Any]:
        # If the account accepts leads with only a phone, name and email may be missing.
        by_phone = account.switches.lead_requires == "email_or_phone"
        lead = load(LeadBody(partial=("name", "email") if by_phone else ()), posted())
        said = {"name": "", "email": "", **lead}
        done = leads.create_lead(hub(), account, **said, key=idempotency_key())
        return of_done(done, contactId=done.contact_id)

    return answered(account, lambda: ["contactId"], write_contact)


class GetBody(HelperBody):
    document_name = "GetPropertiesInput"

    contact_token = Said(data_key="contactToken", required=True, numbers=True, short=True)
    names = Names(data_key="props", required=True)


class PropertiesAnswer(Answer):
    """Schema of getProperties' answer; unknown properties are in `missing`.

    Every requested property is a key of the object `properties`, and also a key of the answer
    itself unless answers use this key (such as `status`).
    """

    properties = fields.Dict(keys=fields.String(), values=fields.String(), required=True)
    missing = fields.String(
        required=True, metadata={"description": "Names that the CRM does not know."}
    )
    url = fields.String(metadata={"description": "Where the CRM has a page for the contact."})


@blueprint.post("/getProperties")
@helper(
    "getProperties",
    GetBody,
    PropertiesAnswer,
    "Read properties of the contact of a conversation",
    credentials=[SECRET, HEADER],
)
def get_properties() -> flask.Response:
    return answer_properties(_of_conversation(None, "contacts:read"), body)


@blueprint.post("/getProperties/<generated_id>")
@helper(
    "getPropertiesOfAccount",
    GetBody,
    PropertiesAnswer,
    "Read properties of the contact of a conversation of this account",
    credentials=[SECRET, HEADER],
)
def get_properties_of(generated_id: str) -> flask.Response:
    return answer_properties(_of_conversation(generated_id, "contacts:read"), body)


def answer_properties(account: Account, posted: Posted) -> flask.Response:
    asked: list[str] = []

    def read_properties() -> dict[str, Any]:
        wanted = load(GetBody(), posted())
        asked.extend(wanted["names"])
        found = contact_properties.get_properties(hub(), account, **wanted)
        reasons, refused = named(found.refused)
        reserved = RESERVED if found.url is not None else RESERVED - {"url"}
        taken = [name for name in found.values if name in reserved]
        message = ". ".join(filter(None, (_elsewhere(taken), reasons)))
        own = answer_body("ok", message=message, refused=refused)
        own["stale"] = "true" if found.stale else ""
        answer = {**own, **{name: v for name, v in found.values.items() if name not in taken}}
        answer["properties"] = dict(found.values)
        answer["missing"] = joined(found.missing, NAMES_ROOM if refused else _MISSING_ROOM)
        return answer if found.url is None else {**answer, "url": found.url}

    return answered(
        account, lambda: [*asked[:MAX_ASKED_PROPERTIES], "properties", "missing"], read_properties
    )


def _elsewhere(names: Sequence[str]) -> str:
    """Return the sentence that says where the properties with reserved names are; "" for none."""
    if not names:
        return ""
    keys, stored = ", ".join(names), f"{PREFIX}{names[0]}"
    return f"{keys}: read the value under properties (Chatfuel, Manychat: {stored})"


class SetBody(HelperBody):
    document_name = "SetPropertiesInput"

    contact_token = Said(data_key="contactToken", required=True, numbers=True, short=True)
    properties = PropertyValues(data_key="props", required=True)


@blueprint.post("/setProperties")
@helper(
    "setProperties",
    SetBody,
    ContactAnswer,
    "Change properties of the contact of a conversation",
    credentials=[SECRET, HEADER],
    writes=True,
)
def set_properties() -> flask.Response:
    return answer_changes(_of_conversation(None, "contacts:write"), body)


@blueprint.post("/setProperties/<generated_id>")
@helper(
    "setPropertiesOfAccount",
    SetBody,
    ContactAnswer,
    "Change properties of the contact of a conversation of this account",
    credentials=[SECRET, HEADER],
    writes=True,
)
def set_properties_of(generated_id: str) -> flask.Response:
    return answer_changes(_of_conversation(generated_id, "contacts:write"), body)


def answer_changes(account: Account, posted: Posted) -> flask.Response:
    def change_properties() -> dict[str, Any]:
        sent = load(SetBody(), posted())
        done = contact_properties.set_properties(hub(), account, **sent, key=idempotency_key())
        return of_done(done, contactId=done.contact_id)

    return answered(account, lambda: ["contactId"], change_properties)


class TypeBody(HelperBody):
    """Schema of getType's body, with two periods in hours.

    The contact must have entered the workflow within `look_back`, and must have had no helper call
    within `silence`.
    """

    document_name = "GetTypeInput"

    phone = Said(data_key="contactnumber", required=True, numbers=True)
    look_back = Hours(data_key="interval", required=True)
    silence = Hours(data_key="lastChatInterval", required=True)


class TypeAnswer(Answer):
    document_name = "WorkflowAnswer"

    workflowId = fields.String(required=True)
    reason = fields.String(required=True)


@blueprint.post("/getType/<generated_id>")
@helper(
    "getType",
    TypeBody,
    TypeAnswer,
    "Tell the active workflow of a contact",
    credentials=[SECRET],
)
def get_type(generated_id: str) -> flask.Response:
    return answer_type(of_generated_id(generated_id), body)


def answer_type(account: Account, posted: Posted) -> flask.Response:
    def find_workflow() -> dict[str, Any]:
        active = workflows.get_type(hub(), account, **load(TypeBody(), posted()))
        own = answer_body("ok", workflowId=active.workflow_id, reason=active.reason)
        return own | {"stale": "true" if active.stale else ""}

    return answered(account, lambda: ["workflowId", "reason"], find_workflow)


class _TokenBody(HelperBody):
    contact_token = Said(data_key="contactToken", required=True, numbers=True, short=True)


def _of_conversation(generated_id: str | None, scope: str) -> Account:
    def token() -> str:
        sent: str = load(_TokenBody(), body())["contact_token"]
        return filled(sent, "contactToken")

    return of_conversation(generated_id, token, scope=scope)
