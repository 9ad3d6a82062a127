"""What helpers accepted and what became of it: list, show, retry."""

from __future__ import annotations

from typing import Any

import flask
import marshmallow as ma
from marshmallow import fields, validate
from werkzeug.routing import BaseConverter

from crmhub.actions import mending
from crmhub.actions.bindings import LONGEST
from crmhub.actions.mending import KINDS, STATES, Wanted
from crmhub.api.admin.action_answers import action_shown, summary_shown
from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.callers import author, needs
from crmhub.api.admin.lists import Age, Filled, Listing, PageOf, PageQuery, account_named
from crmhub.api.answers import as_json
from crmhub.api.authentication import hub
from crmhub.api.schemas import (
    MOMENT,
    Items,
    Joined,
    Shown,
    Strict,
    Words,
)
from crmhub.errors import BadRequest

MOST_IDS = 10_000
_LONGEST_REASON = 500
_LONGEST_ID = 64
_CONFLICTS = (400, 401, 403, 404, 409, 429, 500, 503)


class ActionId(BaseConverter):
    """The part of a path that names an action; `retry` is none, so other methods on it are 405."""

    regex = r"(?!retry\Z)[^/]+"
    # Never more than a part. Else a slash at the end of the path is none that may be left out.
    part_isolating = True


# --- what is asked -----------------------------------------------------------------------------


def _some(given: Any) -> None:
    if not given:
        raise ma.ValidationError("is empty; leave it out, or name some")


class _Narrowing(Strict):
    account = Filled("The clientId of the account.", _LONGEST_ID)
    contact_token = Filled("Of this conversation's person.", LONGEST, data_key="contactToken")
    contact = Filled(
        "Of who has this id: the hub's (`hub-…`) or the CRM's.", LONGEST, data_key="contactId"
    )
    phone = Filled("Of who has this phone.", LONGEST)
    reason = Filled("Whose reason contains this, in any case.", _LONGEST_REASON)
    older_than = Age("Accepted so long ago: 2h.", data_key="olderThan")
    newer_than = Age("Accepted since so long ago: 2h.", data_key="newerThan")


_STATE = {"description": "In one of these states."}
_HELPER = {"description": "Accepted by one of these helpers."}


class ActionsQuery(PageQuery, _Narrowing):
    """Which actions to list; all conditions must hold."""

    state = Joined(STATES, metadata=_STATE)
    helper = Joined(KINDS, metadata=_HELPER)


class RetryInput(_Narrowing):
    """Which actions to try again; all conditions must hold. Without state and ids: dead ones."""

    state = Words(STATES, validate=_some, metadata={**_STATE, "minItems": 1})
    helper = Words(KINDS, validate=_some, metadata={**_HELPER, "minItems": 1})
    ids = Items(
        Filled("The id of an action.", _LONGEST_ID),
        validate=_some,
        metadata={"description": "These actions.", "minItems": 1, "maxItems": MOST_IDS},
    )


# --- what is answered --------------------------------------------------------------------------


class ActionListedShown(Shown):
    """An action as a list shows it."""

    id = fields.String(data_key="actionId", required=True)
    client_id = fields.String(data_key="clientId", required=True)
    kind = fields.String(data_key="helper", required=True, validate=validate.OneOf(KINDS))
    state = fields.String(required=True, validate=validate.OneOf(STATES))
    hub_id = fields.String(
        data_key="contactId", required=True, metadata={"description": "The hub's id (`hub-…`)."}
    )
    tries = fields.Integer(required=True, metadata={"minimum": 0})
    reason = fields.String(required=True, metadata={"description": "What went wrong last."})
    created_at = fields.String(data_key="acceptedAt", required=True, metadata=MOMENT)
    run_at = fields.String(data_key="nextTryAt", required=True, allow_none=True, metadata=MOMENT)
    finished_at = fields.String(data_key="endedAt", required=True, allow_none=True, metadata=MOMENT)
    behind = fields.String(
        data_key="parkedBehind",
        required=True,
        metadata={"description": "The dead action of the same person that a parked one waits for."},
    )


class AttemptShown(Shown):
    """One try of an action."""

    number = fields.Integer(required=True, metadata={"minimum": 1})
    at = fields.String(required=True, metadata=MOMENT)
    ms = fields.Integer(required=True, metadata={"description": "How long it took."})
    outcome = fields.String(required=True)
    message = fields.String(required=True)
    correlation_id = fields.String(
        data_key="correlationId",
        required=True,
        metadata={"description": "What the CRM called the request."},
    )


class ActionShown(ActionListedShown):
    """A whole action; it holds personal data."""

    request = fields.Dict(required=True, metadata={"description": "What was sent."})
    mapped = fields.Dict(
        required=True,
        metadata={"description": "What its last try gave to the adapter; {} before the first."},
    )
    result = fields.Dict(required=True, metadata={"description": "{} as long as it is not done."})
    attempts = fields.List(fields.Nested(AttemptShown), required=True)


class ActionPageShown(PageOf):
    """A page of actions."""

    results = fields.List(fields.Nested(ActionListedShown), required=True)


class RetriedShown(Shown):
    """How many actions will be tried again, with what was parked behind them."""

    retried = fields.Integer(required=True, metadata={"minimum": 0})


# --- the paths ---------------------------------------------------------------------------------


@blueprint.get("/actions")
@documented(
    "listActions",
    200,
    ActionPageShown,
    "List what helpers accepted, the newest first",
)
@needs("actions:read")
@blueprint.arguments(ActionsQuery(), location="query")
def _list(query: dict[str, Any]) -> flask.Response:
    asked = Listing.asked("actions", query)
    wanted = _wanted(asked.filters, after=asked.after or "")
    found = mending.listed(hub().database, wanted, limit=asked.limit + 1)
    return asked.page(found, summary_shown, lambda one: one.id)


@blueprint.get("/actions/<action:action_id>")
@documented("getAction", 200, ActionShown, "Read an action with each try")
@needs("actions:read")
def _get(action_id: str) -> flask.Response:
    return as_json(action_shown(mending.shown(hub().database, action_id)))


@blueprint.post("/actions/<action:action_id>/retry")
@documented(
    "retryAction",
    200,
    RetriedShown,
    "Try an action again, with what is parked behind it",
    errors=_CONFLICTS,
)
@needs("actions:write")
def _retry_one(action_id: str) -> flask.Response:
    return as_json({"retried": mending.retry_one(hub().database, action_id, by=author())})


@blueprint.post("/actions/retry")
@documented(
    "retryActions",
    200,
    RetriedShown,
    "Try actions again, with what is parked behind them",
)
@needs("actions:write")
@blueprint.arguments(RetryInput())
def _retry(body: dict[str, Any]) -> flask.Response:
    wanted = _wanted(body)
    if not wanted.narrows:
        raise BadRequest(
            "body: chooses nothing; send ids, or narrow by account, state, helper, contactToken,"
            " contactId, phone, reason, olderThan or newerThan."
            ' {"state": ["dead"]} means everything that is dead.'
        )
    return as_json({"retried": mending.retry(hub().database, wanted, by=author())})


def _wanted(asked: dict[str, Any], *, after: str = "") -> Wanted:
    return Wanted(
        account=account_named(asked["account"]) if "account" in asked else None,
        states=asked.get("state", ()),
        kinds=asked.get("helper", ()),
        contact_token=asked.get("contact_token", ""),
        contact=asked.get("contact", ""),
        phone=asked.get("phone", ""),
        reason=asked.get("reason", ""),
        older_than_ms=asked.get("older_than", 0),
        newer_than_ms=asked.get("newer_than", 0),
        ids=asked.get("ids", ()),
        after=after,
    )
