"""The routes of the helpers createLead, getProperties, setProperties and getType (/chatbot)."""

from __future__ import annotations

from typing import Any

from marshmallow import fields

from crmhub.accounts.accounts import Account
from crmhub.api.helpers.answers import (
    NAMES_ROOM,
    PREFIX,
    RESERVED,
    answer_body,
    helper,
    idempotency_key,
    joined,
    named,
    of_done,
    owner_keys,
)
from crmhub.api.helpers.bodies import (
    HelperBody,
    Hours,
    LeadNote,
    LeadTeam,
    Names,
    NoteBody,
    Phone,
    PropertyValues,
    Said,
    note_of,
)
from crmhub.api.helpers.callers import allow_pages
from crmhub.api.helpers.schemas import Answer
from crmhub.api.http.authentication import hub
from crmhub.api.http.blueprint import Blueprint
from crmhub.helpers import contact_properties, notes
from crmhub.helpers import create_lead as leads
from crmhub.helpers import get_type as workflows
from crmhub.translatable import join_texts, translatable

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
    note = LeadNote(load_default=None)
    team = LeadTeam(numbers=True, short=True, load_default=None)

    @classmethod
    def of_account(cls, account: Account | None) -> HelperBody:
        # If the account accepts leads with only a phone, name and email may be missing.
        by_phone = account is not None and account.switches.lead_requires == "email_or_phone"
        return cls(partial=("name", "email") if by_phone else ())


class ContactAnswer(Answer):
    contactId = fields.String(required=True)
    url = fields.String(metadata={"description": "Where the CRM has a page for the contact."})


class LeadAnswer(ContactAnswer):
    noteId = fields.String(metadata={"description": "With a note: its id."})
    ownerId = fields.String(metadata={"description": "With a team, as all keys below."})
    ownerName = fields.String()
    ownerEmail = fields.String()
    value = fields.Integer(metadata={"description": "The place in the team, from 1; 0 for nobody."})
    text = fields.String()
    reason = fields.String()


@helper(
    blueprint,
    "/createLead/<generated_id>",
    "createLead",
    LeadBody,
    LeadAnswer,
    "Create or update the contact of a conversation",
    writes=True,
)
def create_lead(account: Account, lead: dict[str, Any]) -> dict[str, Any]:
    said = {"name": "", "email": "", **lead}
    result = leads.create_lead(hub(), account, **said, key=idempotency_key())
    done = result.lead
    own: dict[str, str | int] = {}
    if said["note"] is not None:
        own["noteId"] = result.note_id
    if said["team"] is not None:
        own |= owner_keys(result.owner)
        if any(problem.name == "team" for problem in done.refused):
            # The message says why nobody is chosen.
            own["reason"] = ""
    return of_done(done, contactId=done.contact_id, **own)


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
        required=True,
        metadata={"description": "Names that the CRM does not know; if stale, the hub."},
    )
    url = fields.String(metadata={"description": "Where the CRM has a page for the contact."})


@helper(
    blueprint,
    "/getProperties",
    "getProperties",
    GetBody,
    PropertiesAnswer,
    "Read properties of the contact of a conversation",
    scope="contacts:read",
)
def get_properties(account: Account, wanted: dict[str, Any]) -> dict[str, Any]:
    found = contact_properties.get_properties(hub(), account, **wanted)
    reasons, refused = named(found.refused)
    reserved = RESERVED if found.url is not None else RESERVED - {"url"}
    taken = [name for name in found.values if name in reserved]
    elsewhere = ""
    if taken:
        stored = f"{PREFIX}{taken[0]}"
        elsewhere = translatable(
            "%(names)s: read the value under properties (Chatfuel, Manychat: %(stored)s)",
            names=", ".join(taken),
            stored=stored,
        )
    message = join_texts(". ", filter(None, (elsewhere, reasons)))
    own = answer_body("ok", message=message, refused=refused)
    own["stale"] = "true" if found.stale else ""
    answer = {**own, **{name: v for name, v in found.values.items() if name not in taken}}
    answer["properties"] = dict(found.values)
    answer["missing"] = joined(found.missing, NAMES_ROOM if refused else _MISSING_ROOM)
    return answer if found.url is None else {**answer, "url": found.url}


class SetBody(HelperBody):
    document_name = "SetPropertiesInput"

    contact_token = Said(data_key="contactToken", required=True, numbers=True, short=True)
    properties = PropertyValues(data_key="props", required=True)


@helper(
    blueprint,
    "/setProperties",
    "setProperties",
    SetBody,
    ContactAnswer,
    "Change properties of the contact of a conversation",
    scope="contacts:write",
    writes=True,
)
def set_properties(account: Account, sent: dict[str, Any]) -> dict[str, Any]:
    done = contact_properties.set_properties(hub(), account, **sent, key=idempotency_key())
    return of_done(done, contactId=done.contact_id)


class ChatNoteBody(NoteBody):
    document_name = "NoteInput"

    contact_token = Said(data_key="contactToken", required=True, numbers=True, short=True)


class NoteAnswer(Answer):
    noteId = fields.String(required=True)
    contactId = fields.String(required=True)


@helper(
    blueprint,
    "/addNote/<generated_id>",
    "addNote",
    ChatNoteBody,
    NoteAnswer,
    "Add a note to the contact of a conversation",
    writes=True,
)
def add_note(account: Account, sent: dict[str, Any]) -> dict[str, Any]:
    done = notes.add_note(hub(), account, note_of(sent), key=idempotency_key())
    return of_done(done, noteId=done.record_id, contactId=done.contact_id)


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


@helper(
    blueprint,
    "/getType/<generated_id>",
    "getType",
    TypeBody,
    TypeAnswer,
    "Tell the active workflow of a contact",
)
def get_type(account: Account, asked: dict[str, Any]) -> dict[str, Any]:
    active = workflows.get_type(hub(), account, **asked)
    own = answer_body("ok", workflowId=active.workflow_id, reason=active.reason)
    return own | {"stale": "true" if active.stale else ""}
