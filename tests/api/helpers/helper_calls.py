"""Short ways to call the webhook helpers in tests."""

from __future__ import annotations

from typing import Any

import flask
from werkzeug.test import TestResponse

from crmhub.accounts.changes import set_switches
from crmhub.hub import Hub
from tests.clients import Client

Json = Any

OWN = ["status", "message", "actionId", "stale", "refused"]
CREATE_LEAD = "/chatbot/createLead/{generated}"
GET_PROPERTIES = "/chatbot/getProperties/{generated}"
SET_PROPERTIES = "/chatbot/setProperties/{generated}"
GET_TYPE = "/chatbot/getType/{generated}"
GET_RANDOM_INT = "/crm-api-interface/getRandomInt/{portal}"
CREATE_DEAL = "/crm-api-interface/createDeal/{portal}"
CREATE_TICKET = "/crm-api-interface/createTicket/{portal}"
ADD_NOTE = "/chatbot/addNote/{generated}"
ADD_NOTE_TO = "/crm-api-interface/addNote/{portal}"
CREATE_TASK = "/crm-api-interface/createTask/{portal}"

# A body that each helper takes once the token `t` is bound; a contactId is added where needed.
BODIES: dict[str, dict[str, Json]] = {
    CREATE_LEAD: {"contactToken": "t", "name": "Ann Lee", "email": "ann@x.org"},
    GET_PROPERTIES: {"contactToken": "t", "props": ["email"]},
    SET_PROPERTIES: {"contactToken": "t", "props": {"city": "Rome"}},
    GET_TYPE: {"contactnumber": "+12025550100", "interval": 48, "lastChatInterval": 0},
    GET_RANDOM_INT: {"min": 1, "max": 3},
    CREATE_DEAL: {"properties": {"dealname": "A deal"}},
    CREATE_TICKET: {"properties": {"subject": "A ticket"}},
    ADD_NOTE: {"contactToken": "t", "text": "A note"},
    ADD_NOTE_TO: {"text": "A note"},
    CREATE_TASK: {"properties": {"subject": "A task"}},
}


def lead(client: Client, token: str = "t", /, **fields: Json) -> TestResponse:
    """Call createLead with a token, a name and an email unless told otherwise; None leaves out."""
    body = {"contactToken": token, "name": "Ann Lee", "email": "ann@x.org", **fields}
    body = {key: value for key, value in body.items() if value is not None}
    return client.helper(CREATE_LEAD, body)


def known(client: Client, token: str = "t", /, **fields: Json) -> str:
    """Call createLead, which must work, and return the contact's id."""
    contact_id: str = create_lead_answer(client, token, **fields)["contactId"]
    return contact_id


def set_city(client: Client, city: str, token: str = "t") -> TestResponse:
    """Call setProperties with a city."""
    return client.helper(SET_PROPERTIES, {"contactToken": token, "props": {"city": city}})


def create_lead_answer(client: Client, token: str, /, **fields: Json) -> Json:
    """Call createLead, which must work, and return its answer."""
    answer = lead(client, token, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json


def stored(client: Client, contact_id: str) -> dict[str, str]:
    """Return the properties of a contact, by the public API."""
    answer = client.get(f"/contacts/{contact_id}")
    assert answer.status_code == 200, answer.text
    properties: dict[str, str] = answer.json["properties"]  # type: ignore[index]
    return properties


def switch(app: flask.Flask, client: Client, **switches: Json) -> None:
    """Set switches of the client's account."""
    hub: Hub = app.extensions["crmhub"]
    client.account = hub.database.transact(
        lambda tx: set_switches(tx, client.account.id, switches, hub.plans)
    )
    hub.directory.forget(client.account.id)


def body_for(client: Client, path: str) -> dict[str, Json]:
    """Return a body that works, for which the token `t` is bound."""
    body = dict(BODIES[path])
    if path in (CREATE_DEAL, CREATE_TICKET, ADD_NOTE_TO, CREATE_TASK):
        body["contactId"] = known(client)
    elif path in (GET_PROPERTIES, SET_PROPERTIES, ADD_NOTE):
        known(client)
    return body
