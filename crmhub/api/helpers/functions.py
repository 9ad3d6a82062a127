"""The routes of the helpers getRandomInt, createDeal and createTicket (/crm-api-interface)."""

from __future__ import annotations

from typing import Any

import flask
from marshmallow import fields

from crmhub.accounts.accounts import Account
from crmhub.api.helpers.answers import (
    Answer,
    Posted,
    answer_body,
    answered,
    helper,
    idempotency_key,
    of_done,
)
from crmhub.api.helpers.bodies import HelperBody, PropertyValues, Said, Whole, body, load
from crmhub.api.helpers.callers import of_portal_id
from crmhub.api.helpers.cors import allow_pages
from crmhub.api.helpers.formats import requested_format
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import SECRET, hub
from crmhub.api.http.blueprint import Blueprint
from crmhub.crm.deadlines import is_deferred
from crmhub.helpers import create_linked, random_int
from crmhub.queue.slots import too_many_at_once

blueprint = Blueprint(
    "functions",
    __name__,
    url_prefix="/crm-api-interface",
    description="Webhook helpers for agent rotation, deals and tickets.",
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


@blueprint.post("/getRandomInt")
@helper(
    "getRandomInt",
    RangeBody,
    NumberAnswer,
    "Pick a random integer",
)
def get_random_int() -> flask.Response:
    wrap = requested_format()
    return as_json(wrap(_number(random_int.random_int(**load(RangeBody(), body())))))


@blueprint.post("/getRandomInt/<portal_id>")
@helper(
    "getRandomIntOfAccount",
    AccountRangeBody,
    NumberAnswer,
    "Pick an integer by the account's rotation",
    credentials=[SECRET],
)
def get_random_int_of(portal_id: str) -> flask.Response:
    return answer_int(of_portal_id(portal_id), body)


def answer_int(account: Account, posted: Posted) -> flask.Response:
    def pick_integer() -> dict[str, Any]:
        if is_deferred():
            raise too_many_at_once()
        sent = load(AccountRangeBody(), posted())
        return _number(random_int.int_of_account(hub().database, account, **sent))

    return answered(account, lambda: ["value", "text"], pick_integer)


def _number(value: int) -> dict[str, Any]:
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


@blueprint.post("/createDeal/<portal_id>")
@helper(
    "createDealForContact",
    RecordBody,
    DealAnswer,
    "Create a deal for a contact",
    credentials=[SECRET],
    writes=True,
)
def create_deal(portal_id: str) -> flask.Response:
    return answer_deal(of_portal_id(portal_id), body)


def answer_deal(account: Account, posted: Posted) -> flask.Response:
    def write_deal() -> dict[str, Any]:
        sent = load(RecordBody(), posted())
        done = create_linked.create_deal(hub(), account, **sent, key=idempotency_key())
        return of_done(done, dealId=done.record_id, contactId=done.contact_id)

    return answered(account, lambda: ["dealId", "contactId"], write_deal)


class TicketAnswer(Answer):
    ticketId = fields.String(required=True)
    contactId = fields.String(required=True)
    url = fields.String(metadata={"description": "Where the CRM has a page for the ticket."})


@blueprint.post("/createTicket/<portal_id>")
@helper(
    "createTicketForContact",
    RecordBody,
    TicketAnswer,
    "Create a ticket for a contact",
    credentials=[SECRET],
    writes=True,
)
def create_ticket(portal_id: str) -> flask.Response:
    return answer_ticket(of_portal_id(portal_id), body)


def answer_ticket(account: Account, posted: Posted) -> flask.Response:
    def write_ticket() -> dict[str, Any]:
        sent = load(RecordBody(), posted())
        done = create_linked.create_ticket(hub(), account, **sent, key=idempotency_key())
        return of_done(done, ticketId=done.record_id, contactId=done.contact_id)

    return answered(account, lambda: ["ticketId", "contactId"], write_ticket)
