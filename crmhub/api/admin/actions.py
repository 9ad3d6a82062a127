"""The admin API's routes for actions: list, read, retry, correct and discard them."""

from __future__ import annotations

from typing import Any

import flask
import marshmallow as ma
from marshmallow import fields
from werkzeug.routing import BaseConverter

from crmhub.api.admin.action_answers import (
    ActionListedShown,
    AttemptShown,
    VersionShown,
    action_shown,
    summary_shown,
)
from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.callers import author
from crmhub.api.admin.lists import Age, Filled, Listing, PageQuery, account_named
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import hub, needs
from crmhub.api.http.field_types import Items, Joined, Properties, Strict, Words
from crmhub.api.http.schemas import MOMENT, PageOf, Shown
from crmhub.errors import BadRequest
from crmhub.identity.bindings import LONGEST
from crmhub.operators.actions import action_queries, correct_action, discard_action, retry_action
from crmhub.operators.actions.action_queries import KINDS, STATES, Wanted
from crmhub.operators.actions.discard_action import LONGEST_REASON
from crmhub.operators.resources import WITH_BODY, WITHOUT_BODY

MOST_IDS = 10_000
_LONGEST_REASON = 500
_LONGEST_ID = 64
_CONFLICTS = (400, 401, 403, 404, 409, 429, 500, 503)


class ActionId(BaseConverter):
    """URL converter for action ids; it skips `retry` and `discard`, which are other routes."""

    regex = r"(?!(?:retry|discard)\Z)[^/]+"
    # Without this, Werkzeug would not accept the path with a slash at its end.
    part_isolating = True


# --- inputs ----------------------------------------------------------------------------------


def _some(given: Any) -> None:
    if not given:
        raise ma.ValidationError("is empty; leave it out, or name some")


class _Filters(Strict):
    """Base schema of the filters of actions; each subclass adds one by the reason."""

    account = Filled("The clientId of the account.", _LONGEST_ID)
    contact_token = Filled("Of this conversation's person.", LONGEST, data_key="contactToken")
    contact = Filled(
        "Of who has this id: the hub's (`hub-…`) or the CRM's.", LONGEST, data_key="contactId"
    )
    phone = Filled("Of who has this phone.", LONGEST)
    older_than = Age("Accepted so long ago: 2h.", data_key="olderThan")
    newer_than = Age("Accepted since so long ago: 2h.", data_key="newerThan")


_STATE = {"description": "In one of these states."}
_HELPER = {"description": "Accepted by one of these helpers."}


_REASON = "Whose reason contains this, in any case."


class ActionsQuery(PageQuery, _Filters):
    reason = Filled(_REASON, _LONGEST_REASON)
    state = Joined(STATES, metadata=_STATE)
    helper = Joined(KINDS, metadata=_HELPER)


class _Choice(_Filters):
    state = Words(STATES, validate=_some, metadata={**_STATE, "minItems": 1})
    helper = Words(KINDS, validate=_some, metadata={**_HELPER, "minItems": 1})
    ids = Items(
        Filled("The id of an action.", _LONGEST_ID),
        validate=_some,
        metadata={"description": "These actions.", "minItems": 1, "maxItems": MOST_IDS},
    )


class RetryInput(_Choice):
    """Schema of the filters of the actions to retry; failed ones without `state` and `ids`."""

    reason = Filled(_REASON, _LONGEST_REASON)


class DiscardInput(Strict):
    why = Filled(
        "Why; it is shown with the action. Printable characters.",
        LONGEST_REASON,
        data_key="reason",
        required=True,
    )


class DiscardsInput(_Choice, DiscardInput):
    """Schema of the filters of the actions to discard; failed ones without `state` and `ids`."""

    reason = Filled(_REASON, _LONGEST_REASON, data_key="reasonContains")


class CorrectionInput(Strict):
    properties = Properties(
        required=True,
        metadata={
            "description": "Of createLead `name`, `email` and `phone`; of the others any property,"
            ' and of deals and tickets `contactId`. "" clears a property of setProperties, and'
            " leaves a value out everywhere else.",
            "minProperties": 1,
        },
    )


# --- answers ---------------------------------------------------------------------------------


class ActionShown(ActionListedShown):
    request = fields.Dict(required=True, metadata={"description": "What was sent, as corrected."})
    mapped = fields.Dict(
        required=True,
        metadata={"description": "What its last attempt gave to the adapter; {} before the first."},
    )
    versions = fields.List(
        fields.Nested(VersionShown),
        required=True,
        metadata={"description": "What was sent before each correction, the oldest first."},
    )
    corrected = fields.Dict(
        keys=fields.String(),
        values=fields.String(metadata=MOMENT),
        required=True,
        metadata={"description": "When each value was corrected last."},
    )
    blocked = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "The actions that it blocks, 500 at most."},
    )
    result = fields.Dict(required=True, metadata={"description": "{} as long as it is not done."})
    history = fields.List(fields.Nested(AttemptShown), data_key="attempts", required=True)


class ActionPageShown(PageOf):
    results = fields.List(fields.Nested(ActionListedShown), required=True)


class RetriedShown(Shown):
    """Schema of the number of retried actions, with those that they had blocked."""

    retried = fields.Integer(required=True, metadata={"minimum": 0})


class DiscardedShown(Shown):
    """Schema of the number of discarded actions, with those that they had blocked."""

    discarded = fields.Integer(required=True, metadata={"minimum": 0})


# --- routes ----------------------------------------------------------------------------------


@blueprint.get("/actions")
@documented(
    "listActions",
    200,
    ActionPageShown,
    "List what helpers accepted, the newest first",
    errors=WITHOUT_BODY,
)
@needs("actions:read")
@blueprint.arguments(ActionsQuery(), location="query")
def _list(query: dict[str, Any]) -> flask.Response:
    listing = Listing.from_query("actions", query)
    wanted = _selection(listing.filters, after=listing.after or "")
    found = action_queries.listed(hub().database, wanted, limit=listing.limit + 1)
    return listing.page(found, summary_shown, lambda action: action.id)


@blueprint.get("/actions/<action:action_id>")
@documented("getAction", 200, ActionShown, "Read an action with each attempt")
@needs("actions:read")
def _get(action_id: str) -> flask.Response:
    return as_json(action_shown(action_queries.shown(hub().database, action_id)))


@blueprint.post("/actions/<action:action_id>/retry")
@documented(
    "retryAction",
    200,
    RetriedShown,
    "Retry an action, with what is blocked behind it",
    errors=_CONFLICTS,
)
@needs("actions:write")
def _retry_one(action_id: str) -> flask.Response:
    return as_json({"retried": retry_action.retry_one(hub().database, action_id, by=author())})


@blueprint.post("/actions/<action:action_id>/edit")
@documented(
    "editAction",
    200,
    RetriedShown,
    "Correct the values of a dead or parked action, and retry it",
)
@needs("actions:write")
@blueprint.arguments(CorrectionInput())
def _edit(body: dict[str, Any], action_id: str) -> flask.Response:
    count = correct_action.correct(hub(), action_id, body["properties"], by=author())
    return as_json({"retried": count})


@blueprint.post("/actions/<action:action_id>/discard")
@documented(
    "discardAction",
    200,
    DiscardedShown,
    "Discard an action, with what is blocked behind it",
)
@needs("actions:write")
@blueprint.arguments(DiscardInput())
def _discard_one(body: dict[str, Any], action_id: str) -> flask.Response:
    count = discard_action.discard_one(hub().database, action_id, reason=body["why"], by=author())
    return as_json({"discarded": count})


@blueprint.post("/actions/retry")
@documented(
    "retryActions",
    200,
    RetriedShown,
    "Retry actions, with what is blocked behind them",
    errors=WITH_BODY,
)
@needs("actions:write")
@blueprint.arguments(RetryInput())
def _retry(body: dict[str, Any]) -> flask.Response:
    return as_json({"retried": retry_action.retry(hub().database, _chosen(body), by=author())})


@blueprint.post("/actions/discard")
@documented(
    "discardActions",
    200,
    DiscardedShown,
    "Discard actions, with what is blocked behind them",
    errors=WITH_BODY,
)
@needs("actions:write")
@blueprint.arguments(DiscardsInput())
def _discard(body: dict[str, Any]) -> flask.Response:
    wanted, why = _chosen(body), body["why"]
    count = discard_action.discard(hub().database, wanted, reason=why, by=author())
    return as_json({"discarded": count})


def _chosen(body: dict[str, Any]) -> Wanted:
    """Return the filters in a body; raises BadRequest without any, which would mean all actions."""
    wanted = _selection(body)
    if not wanted.narrows:
        raise BadRequest(
            "body: chooses nothing; send ids, or narrow by account, state, helper, contactToken,"
            " contactId, phone, reason, olderThan or newerThan."
            ' {"state": ["dead"]} means everything that is dead.'
        )
    return wanted


def _selection(filters: dict[str, Any], *, after: str = "") -> Wanted:
    return Wanted(
        account=account_named(filters["account"]) if "account" in filters else None,
        states=filters.get("state", ()),
        kinds=filters.get("helper", ()),
        contact_token=filters.get("contact_token", ""),
        contact=filters.get("contact", ""),
        phone=filters.get("phone", ""),
        reason=filters.get("reason", ""),
        older_than_ms=filters.get("older_than", 0),
        newer_than_ms=filters.get("newer_than", 0),
        ids=filters.get("ids", ()),
        after=after,
    )
