"""The console's test call of a helper, from an account's page for bots.

It takes the way of a bot's call from the body on. All test calls are of one conversation, so that
one contact of the CRM is the test's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import flask

from crmhub.accounts.accounts import Account
from crmhub.api.helpers import chatbot, functions
from crmhub.api.helpers.answers import Posted
from crmhub.api.http.answers import failure
from crmhub.api.http.authentication import hub
from crmhub.api.http.reading import read_json
from crmhub.console.snippets import Helper, fill
from crmhub.errors import BadRequest, Conflict, HubError
from crmhub.identity import bindings

TEST_TOKEN = "crmhub-test"
"""The contactToken of all test calls of an account."""
_MAX_BODY = 10_000
_SAMPLES = {
    "contactToken": TEST_TOKEN,
    "name": "Crmhub Test",
    "email": "crmhub-test@example.com",
    "phone": "+1 202-555-0166",
    "city": "Hampton",
    "dealname": "A test of crmhub",
    "subject": "A test of crmhub",
}
_ANSWERS: Mapping[str, Callable[[Account, Posted], flask.Response]] = {
    "createLead": chatbot.answer_lead,
    "getProperties": chatbot.answer_properties,
    "setProperties": chatbot.answer_changes,
    "getType": chatbot.answer_type,
    "createDeal": functions.answer_deal,
    "createTicket": functions.answer_ticket,
    "getRandomInt": functions.answer_int,
}
WRITING = frozenset({"createLead", "setProperties", "createDeal", "createTicket"})


@dataclass(frozen=True, slots=True)
class Answered:
    """HTTP status, JSON as text, and the action's id or ""."""

    status: int
    text: str
    action_id: str


def sample_body(account: Account, helper: Helper) -> str:
    """Return the body of a test call as JSON text, with the contact of earlier test calls."""
    with hub().database.reading() as db:
        known = bindings.of_token(db, account, TEST_TOKEN)
    contact_id = (known.crm_id or known.hub_id) if known else ""
    samples = {**_SAMPLES, "contactId": contact_id or "call createLead first"}
    body = fill(helper.body, lambda name: samples[name])
    return json.dumps(body, indent=2, ensure_ascii=False)


def call(account: Account, helper: Helper, text: str) -> Answered:
    """Return a helper's answer, which may be an error; a disabled account is a Conflict."""
    if account.disabled:
        raise Conflict("The account is disabled: its helpers refuse every call.")

    def posted() -> dict[str, Any]:
        if len(text) > _MAX_BODY:
            raise BadRequest(f"body: send at most {_MAX_BODY:,} characters.")
        body = read_json(text.encode("utf-8", "replace"), strict=False)
        if not isinstance(body, dict):
            raise BadRequest("body: send a JSON object.")
        return body

    try:
        answer = _ANSWERS[helper.name](account, posted)
    except HubError as exc:
        answer = failure(exc)
    value: Any = json.loads(answer.get_data())
    shown = json.dumps(value, indent=2, ensure_ascii=False)
    return Answered(answer.status_code, shown, flask.g.get("action_id", ""))
