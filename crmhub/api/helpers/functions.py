"""The routes of the helpers of /crm-api-interface, which need no conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from marshmallow import fields

from crmhub.accounts.accounts import Account
from crmhub.adapter import Written
from crmhub.api.helpers.answers import answer_body, helper, idempotency_key, of_done, owner_keys
from crmhub.api.helpers.bodies import (
    HelperBody,
    NoteBody,
    PropertyValues,
    Said,
    Whole,
    YesOrNo,
    note_of,
)
from crmhub.api.helpers.callers import allow_pages
from crmhub.api.helpers.schemas import Answer
from crmhub.api.http.authentication import hub
from crmhub.api.http.blueprint import Blueprint
from crmhub.crm.deadlines import is_deferred
from crmhub.errors import BadRequest, Semantic
from crmhub.helpers import notes, random_int
from crmhub.helpers.assign_owner import AssignOwner, assign_owner
from crmhub.helpers.create_linked import CreateDeal, CreateTicket, create_for_contact
from crmhub.helpers.create_task import CreateTask
from crmhub.helpers.create_task import create_task as create_task_for_contact
from crmhub.identity.placeholders import is_unfilled_id
from crmhub.queue.slots import too_many_at_once
from crmhub.translatable import translatable

blueprint = Blueprint(
    "functions",
    __name__,
    url_prefix="/crm-api-interface",
    description="Webhook helpers for agent rotation, deals, tickets, notes and tasks.",
)
allow_pages(blueprint)


class RangeBody(HelperBody):
    document_name = "RandomIntInput"

    smallest = Whole(data_key="min", required=True)
    largest = Whole(data_key="max", required=True)


class AccountRangeBody(RangeBody):
    document_name = "AccountRandomIntInput"

    contact_id = Said(data_key="contactId", load_default=str, numbers=True, short=True)
    contact_token = Said(data_key="contactToken", load_default=str, numbers=True, short=True)


class NumberAnswer(Answer):
    value = fields.Integer(required=True)
    text = fields.String(required=True)


@helper(
    blueprint,
    "/getRandomInt",
    "getRandomInt",
    RangeBody,
    NumberAnswer,
    "Pick a random integer",
)
def get_random_int(_: None, sent: dict[str, Any]) -> dict[str, Any]:
    value = random_int.random_int(**sent)
    return answer_body("ok", value=value, text=str(value))


@helper(
    blueprint,
    "/getRandomInt/<portal_id>",
    "getRandomIntOfAccount",
    AccountRangeBody,
    NumberAnswer,
    "Pick an integer by the account's rotation",
)
def get_random_int_of(account: Account, sent: dict[str, Any]) -> dict[str, Any]:
    if is_deferred():
        raise too_many_at_once()
    value = random_int.int_of_account(hub().database, account, **sent)
    return answer_body("ok", value=value, text=str(value))


class RecordBody(HelperBody):
    """Schema of createDeal's and createTicket's body.

    The contact's id is the one that createLead answered, or the CRM's own id.
    """

    document_name = "NewForContactInput"

    contact_id = Said(data_key="contactId", required=True, numbers=True, short=True)
    properties = PropertyValues(required=True)


class DealAnswer(Answer):
    dealId = fields.String(required=True)
    contactId = fields.String(required=True)
    url = fields.String(metadata={"description": "Where the CRM has a page for the deal."})


@helper(
    blueprint,
    "/createDeal/<portal_id>",
    "createDealForContact",
    RecordBody,
    DealAnswer,
    "Create a deal for a contact",
    writes=True,
)
def create_deal(account: Account, sent: dict[str, Any]) -> dict[str, Any]:
    done = create_for_contact(hub(), account, CreateDeal(**sent), key=idempotency_key())
    return of_done(done, dealId=done.record_id, contactId=done.contact_id)


class TicketAnswer(Answer):
    ticketId = fields.String(required=True)
    contactId = fields.String(required=True)
    url = fields.String(metadata={"description": "Where the CRM has a page for the ticket."})


@helper(
    blueprint,
    "/createTicket/<portal_id>",
    "createTicketForContact",
    RecordBody,
    TicketAnswer,
    "Create a ticket for a contact",
    writes=True,
)
def create_ticket(account: Account, sent: dict[str, Any]) -> dict[str, Any]:
    done = create_for_contact(hub(), account, CreateTicket(**sent), key=idempotency_key())
    return of_done(done, ticketId=done.record_id, contactId=done.contact_id)


class RecordNoteBody(NoteBody):
    """Schema of addNote's body for a record; exactly one of the ids is sent."""

    document_name = "NoteForInput"
    any_of_fields = ("contactId", "dealId", "ticketId")

    contact_id = Said(data_key="contactId", numbers=True, short=True)
    deal_id = Said(data_key="dealId", numbers=True, short=True)
    ticket_id = Said(data_key="ticketId", numbers=True, short=True)


class NoteIdAnswer(Answer):
    noteId = fields.String(required=True)


@helper(
    blueprint,
    "/addNote/<portal_id>",
    "addNoteById",
    RecordNoteBody,
    NoteIdAnswer,
    "Add a note to a contact, deal or ticket",
    writes=True,
)
def add_note(account: Account, sent: dict[str, Any]) -> dict[str, Any]:
    ids = {kind: sent[name].strip() for kind, name in _NOTE_IDS.items() if name in sent}
    sent_ids = [kind for kind, id in ids.items() if id]
    # Builders send all their variables, also those without a value.
    named = [kind for kind in sent_ids if not is_unfilled_id(ids[kind])] or sent_ids[:1]
    if len(named) != 1:
        if named:
            raise Semantic("contactId, dealId, ticketId: send only one of them")
        missing = translatable("contactId, dealId, ticketId: send one of them")
        # A missing key is 400, a blank value is 422.
        raise Semantic(missing) if ids else BadRequest(missing)
    note = replace(note_of(sent), of=named[0], record_id=ids[named[0]])
    done = notes.add_note(hub(), account, note, key=idempotency_key())
    return of_done(done, noteId=done.record_id)


_NOTE_IDS: Mapping[Written, str] = {
    "contacts": "contact_id",
    "deals": "deal_id",
    "tickets": "ticket_id",
}


class TaskAnswer(Answer):
    taskId = fields.String(required=True)
    contactId = fields.String(required=True)


@helper(
    blueprint,
    "/createTask/<portal_id>",
    "createTaskForContact",
    RecordBody,
    TaskAnswer,
    "Create a task for a contact",
    writes=True,
)
def create_task(account: Account, sent: dict[str, Any]) -> dict[str, Any]:
    done = create_task_for_contact(hub(), account, CreateTask(**sent), key=idempotency_key())
    return of_done(done, taskId=done.record_id, contactId=done.contact_id)


class OwnerBody(HelperBody):
    """Schema of assignOwner's body; the deal's id is the CRM's."""

    document_name = "AssignOwnerInput"

    contact_id = Said(data_key="contactId", required=True, numbers=True, short=True)
    team = Said(load_default=str, short=True)
    keep = YesOrNo(default=True)
    deal_id = Said(data_key="dealId", load_default=str, numbers=True, short=True)


class OwnerAnswer(Answer):
    ownerId = fields.String(required=True)
    ownerName = fields.String(required=True)
    ownerEmail = fields.String(required=True)
    value = fields.Integer(
        required=True,
        metadata={"description": "The place in the team, from 1; 0 for nobody in it."},
    )
    text = fields.String(required=True)
    reason = fields.String(required=True)
    url = fields.String(metadata={"description": "Where the CRM has a page for the contact."})


@helper(
    blueprint,
    "/assignOwner/<portal_id>",
    "assignOwner",
    OwnerBody,
    OwnerAnswer,
    "Assign an owner from a team to a contact",
    writes=True,
)
def assign_owner_to(account: Account, sent: dict[str, Any]) -> dict[str, Any]:
    done, chosen = assign_owner(hub(), account, AssignOwner(**sent), key=idempotency_key())
    return of_done(done, **owner_keys(chosen))
