"""The console's page for bot builders: helper URLs and snippets to copy, and webhook ids."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast, get_args

import flask
from flask_babel import LazyString, lazy_gettext

from crmhub.accounts.accounts import Account
from crmhub.accounts.webhook_ids import WEEK_MS, Rotatable
from crmhub.api.helpers import chatbot, functions
from crmhub.api.helpers.answers import Run, answer_call
from crmhub.api.helpers.bodies import HelperBody
from crmhub.api.helpers.schemas import Answer
from crmhub.api.http.answers import failure
from crmhub.api.http.authentication import hub
from crmhub.api.http.reading import read_json
from crmhub.console.accounts import SAVED, account_context
from crmhub.console.pages import add_page, done, errors_on, page, typed
from crmhub.console.sessions import author, blueprint, needs
from crmhub.console.sign_in import absolute
from crmhub.console.snippets import BUILDERS, HELPERS, Helper, fill, with_format
from crmhub.errors import BadRequest, Conflict, HubError
from crmhub.identity import bindings
from crmhub.operators.accounts import change_account
from crmhub.operators.accounts.change_account import Detail

_DAY_MS = 24 * 3600 * 1000
_OLD_VALID = {
    "7d": (lazy_gettext("for a week"), WEEK_MS),
    "1d": (lazy_gettext("for a day"), _DAY_MS),
    "30d": (lazy_gettext("for 30 days"), 30 * _DAY_MS),
    "0": (lazy_gettext("not at all"), 0),
}
_ANSWER_SWITCHES = ("answer_format", "allowed_origins")
_FORMATS = (
    ("flat", lazy_gettext("Flat JSON, for most builders")),
    ("chatfuel", lazy_gettext("Chatfuel: set_attributes")),
    ("manychat", lazy_gettext("Manychat: actions of a dynamic block")),
)
_ROTATABLE_LABELS: dict[Rotatable, LazyString] = {
    "generated": lazy_gettext("Generated id"),
    "portal": lazy_gettext("Portal id"),
    "secret": lazy_gettext("Webhook secret"),
}
TEST_TOKEN = "crmhub-test"
"""The contactToken of all test calls of an account."""
_MAX_BODY = 10_000
_TEST_VALUES = {
    "contactToken": TEST_TOKEN,
    "name": "Crmhub Test",
    "email": "crmhub-test@example.com",
    "phone": "+1 202-555-0166",
    "city": "Hampton",
    "transcript": "Bot: Is this a test?\nCrmhub: Yes.",
    "dealname": "A test of crmhub",
    "subject": "A test of crmhub",
    # Without a deal, the contact alone gets an owner.
    "dealId": "",
}
_CALLS: Mapping[str, tuple[Run, type[HelperBody], type[Answer]]] = {
    "createLead": (chatbot.create_lead, chatbot.LeadBody, chatbot.LeadAnswer),
    "getProperties": (chatbot.get_properties, chatbot.GetBody, chatbot.PropertiesAnswer),
    "setProperties": (chatbot.set_properties, chatbot.SetBody, chatbot.ContactAnswer),
    "getType": (chatbot.get_type, chatbot.TypeBody, chatbot.TypeAnswer),
    "addNote": (chatbot.add_note, chatbot.ChatNoteBody, chatbot.NoteAnswer),
    "assignOwner": (functions.assign_owner_to, functions.OwnerBody, functions.OwnerAnswer),
    "createDeal": (functions.create_deal, functions.RecordBody, functions.DealAnswer),
    "createTask": (functions.create_task, functions.RecordBody, functions.TaskAnswer),
    "createTicket": (functions.create_ticket, functions.RecordBody, functions.TicketAnswer),
    "getRandomInt": (
        functions.get_random_int_of,
        functions.AccountRangeBody,
        functions.NumberAnswer,
    ),
}
_WRITING = frozenset(_CALLS) - {"getProperties", "getType", "getRandomInt"}


def _context(client_id: str) -> dict[str, Any]:
    shared = account_context(client_id)
    detail: Detail = shared["detail"]
    name = flask.request.values.get("helper", "")
    helper = next((one for one in HELPERS if one.name == name), HELPERS[0])
    switches = detail.account.switches
    shown = {name: getattr(switches, name) for name in _ANSWER_SWITCHES}
    url = _url(helper, detail)
    return dict(
        **shared,
        body=_sample_body(detail.account, helper),
        writes=helper.name in _WRITING,
        title=hub().registry.title(detail.account.connection.adapter),
        addresses=[(candidate, _url(candidate, detail)) for candidate in HELPERS],
        helper=helper,
        snippets=[
            (
                name,
                use,
                make(
                    helper,
                    with_format(url, wanted, own=switches.answer_format),
                    secret=switches.require_secret,
                ),
            )
            for name, use, make, wanted in BUILDERS
        ],
        formats=_FORMATS,
        given=shown,
        seen=change_account.settings_version(hub(), detail.account, _ANSWER_SWITCHES),
        ids=[(_ROTATABLE_LABELS[what], _ids(detail, what)) for what in get_args(Rotatable)[:2]],
        alias=_ids(detail, "alias"),
        what=list(_ROTATABLE_LABELS.items()),
        kept=[(name, label) for name, (label, _) in _OLD_VALID.items()],
    )


def _url(helper: Helper, detail: Detail) -> str:
    """Return the URL of a helper for the account, with host and scheme of the present request."""
    ids = {purpose: _ids(detail, purpose)[0].value for purpose in ("generated", "portal")}
    return absolute(helper.path.format(**ids))


def _ids(detail: Detail, purpose: str) -> list[Any]:
    return [webhook_id for webhook_id in detail.ids if webhook_id.purpose == purpose]


add_page("/accounts/<client_id>/bots", "bots", needs("change"), "account/bots.html", _context)


def _typed() -> dict[str, str]:
    return typed(*_ANSWER_SWITCHES)


@blueprint.post("/accounts/<client_id>/bots/answers")
@needs("change")
@errors_on("account/bots.html", _context, _typed)
def bots_answers(client_id: str) -> flask.Response:
    change_account.change(
        hub(),
        client_id,
        _typed(),
        by=author(),
        shown=_ANSWER_SWITCHES,
        expected=flask.request.form.get("seen"),
    )
    return done(SAVED, "console.bots", client_id=client_id)


@blueprint.post("/accounts/<client_id>/bots/test")
@needs("change")
def bots_test(client_id: str) -> flask.Response:
    context = _context(client_id)
    body = flask.request.form.get("body", "")
    answer = _call_helper(context["account"], context["helper"], body)
    return page("account/bots.html", **{**context, "body": body, "answer": answer})


@blueprint.post("/accounts/<client_id>/bots/rotate")
@needs("change")
def bots_rotate(client_id: str) -> flask.Response:
    what, validity = flask.request.form.get("what", ""), flask.request.form.get("kept", "")
    if what not in get_args(Rotatable) or validity not in _OLD_VALID:
        raise BadRequest("what, kept: choose what to replace, and how long to keep the old one.")
    rotatable = cast(Rotatable, what)
    value, until = change_account.rotate(
        hub(), client_id, rotatable, keep_ms=_OLD_VALID[validity][1], by=author()
    )
    return page(
        "account/rotated.html",
        **account_context(client_id),
        what=rotatable,
        label=_ROTATABLE_LABELS[rotatable],
        value=value,
        until=until if _OLD_VALID[validity][1] else None,
    )


# --- test calls ----------------------------------------------------------------------------------


def _sample_body(account: Account, helper: Helper) -> str:
    """Return the body of a test call as JSON text, with the contact of earlier test calls."""
    with hub().database.reading() as db:
        known = bindings.of_token(db, account, TEST_TOKEN)
    contact_id = (known.crm_id or known.hub_id) if known else ""
    samples = {**_TEST_VALUES, "contactId": contact_id or "call createLead first"}
    body = fill(helper.body, lambda name: samples[name])
    return json.dumps(body, indent=2, ensure_ascii=False)


def _call_helper(account: Account, helper: Helper, text: str) -> dict[str, Any]:
    """Return the status, the JSON text and the action's id, or "", of a helper's answer.

    The answer may be an error; a disabled account is a Conflict.
    """
    if account.disabled:
        raise Conflict("The account is disabled: its helpers refuse every call.")

    def posted() -> dict[str, Any]:
        if len(text) > _MAX_BODY:
            raise BadRequest("body: send at most %(most)s characters.", most=f"{_MAX_BODY:,}")
        body = read_json(text.encode("utf-8", "replace"), strict=False)
        if not isinstance(body, dict):
            raise BadRequest("body: send a JSON object.")
        return body

    try:
        answer = answer_call(*_CALLS[helper.name], account, posted)
    except HubError as exc:
        answer = failure(exc)
    value: Any = json.loads(answer.get_data())
    shown = json.dumps(value, indent=2, ensure_ascii=False)
    action_id = flask.g.get("action_id", "")
    return {"status": answer.status_code, "text": shown, "action_id": action_id}
