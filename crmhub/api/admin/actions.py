"""What helpers accepted and what became of it: list, show, retry."""

from __future__ import annotations

from typing import Any

import flask
import marshmallow as ma
import orjson
from marshmallow import fields, validate
from werkzeug.routing import BaseConverter

from crmhub import durations
from crmhub.accounts.accounts import Account
from crmhub.actions import mending
from crmhub.actions.bindings import LONGEST
from crmhub.actions.mending import KINDS, STATES, Wanted
from crmhub.api.admin.action_answers import action_shown, summary_shown
from crmhub.api.admin.blueprint import blueprint
from crmhub.api.admin.callers import needs
from crmhub.api.answers import answer, as_json, page_frame
from crmhub.api.authentication import hub
from crmhub.api.documentation import ADMIN_TOKEN, documents
from crmhub.api.schemas import (
    LIMIT,
    MOMENT,
    CursorShown,
    Digits,
    Exactly,
    Items,
    Joined,
    Shown,
    Strict,
    Text,
    Words,
)
from crmhub.errors import BadRequest, NotFound
from crmhub.records.paging import sealed, unsealed
from crmhub.secrets import derive

MOST_IDS = 10_000
_DEFAULT_LIMIT = 20
_LONGEST_REASON = 500
_LONGEST_ID = 64
_CONFLICTS = (400, 401, 403, 404, 409, 429, 500, 503)


class ActionId(BaseConverter):
    """The part of a path that names an action; `retry` is none, so other methods on it are 405."""

    regex = r"(?!retry(?:/|$))[^/]+"


# --- what is asked -----------------------------------------------------------------------------


class _Filled(Text):
    """A text that says something: a blank one would quietly widen the choice."""

    def __init__(self, description: str, longest: int, **kwargs: Any) -> None:
        shown = {"description": description, "maxLength": longest, "pattern": r"\S"}
        super().__init__(metadata=shown, **kwargs)
        self._longest = longest

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not text.strip():
            raise ma.ValidationError("is blank; leave it out, or send what to look for")
        if len(text) > self._longest:
            raise ma.ValidationError(f"is longer than {self._longest} characters")
        return text


class _Age(Text):
    """A length of time as the command line takes it; gives milliseconds."""

    def __init__(self, **kwargs: Any) -> None:
        shown = {"pattern": f"^{durations.PATTERN}$", "description": "Accepted so long ago: 2h."}
        super().__init__(metadata=shown, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        milliseconds = durations.milliseconds(text)
        if milliseconds is None:
            raise ma.ValidationError(f"must be {durations.FORM}")
        return milliseconds


def _some(given: Any) -> None:
    if not given:
        raise ma.ValidationError("is empty; leave it out, or name some")


class _Narrowing(Strict):
    account = _Filled("The clientId of the account.", _LONGEST_ID)
    contact_token = _Filled("Of this conversation's person.", LONGEST, data_key="contactToken")
    phone = _Filled("Of who has this phone.", LONGEST)
    reason = _Filled("Whose reason contains this, in any case.", _LONGEST_REASON)
    older_than = _Age(data_key="olderThan")


_STATE = {"description": "In one of these states."}
_HELPER = {"description": "Accepted by one of these helpers."}


class ActionsQuery(_Narrowing):
    """Which actions to list; all conditions must hold."""

    state = Joined(STATES, metadata=_STATE)
    helper = Joined(KINDS, metadata=_HELPER)
    limit = Digits(1, 100, metadata={"description": LIMIT, "default": _DEFAULT_LIMIT})
    cursor = Text(
        metadata={"description": "`cursor.next` of the page before; it brings the filters along."}
    )


class RetryInput(_Narrowing):
    """Which actions to try again; all conditions must hold. Without state and ids: dead ones."""

    state = Words(STATES, validate=_some, metadata={**_STATE, "minItems": 1})
    helper = Words(KINDS, validate=_some, metadata={**_HELPER, "minItems": 1})
    ids = Items(
        _Filled("The id of an action.", _LONGEST_ID),
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


class ActionPageShown(Exactly):
    """A page of actions."""

    results = fields.List(fields.Nested(ActionListedShown), required=True)
    cursor = fields.Nested(CursorShown, required=True)
    has_more = fields.Boolean(data_key="hasMore", required=True)


class RetriedShown(Shown):
    """How many actions will be tried again, with what was parked behind them."""

    retried = fields.Integer(required=True, metadata={"minimum": 0})


# --- the paths ---------------------------------------------------------------------------------


@blueprint.get("/actions")
@documents(
    blueprint,
    "listActions",
    200,
    ActionPageShown,
    "List what helpers accepted, the newest first",
    security=ADMIN_TOKEN,
)
@needs("actions:read")
@blueprint.arguments(ActionsQuery(), location="query")
def _list(query: dict[str, Any]) -> flask.Response:
    cursor, limit = query.pop("cursor", ""), query.pop("limit", None)
    after = ""
    if cursor:
        query, before_limit, after = _continued(cursor, query)
        limit = limit or before_limit
    limit = limit or _DEFAULT_LIMIT
    found = mending.listed(hub().database, _wanted(query, after=after), limit=limit + 1)
    page, following = found[:limit], ""
    if len(found) > limit:
        following = sealed([query, limit, page[-1].id], _signing_key())
    return answer(page_frame(orjson.dumps([summary_shown(one) for one in page]), following))


@blueprint.get("/actions/<action:action_id>")
@documents(
    blueprint, "getAction", 200, ActionShown, "Read an action with each try", security=ADMIN_TOKEN
)
@needs("actions:read")
def _get(action_id: str) -> flask.Response:
    return as_json(action_shown(mending.shown(hub().database, action_id)))


@blueprint.post("/actions/<action:action_id>/retry")
@documents(
    blueprint,
    "retryAction",
    200,
    RetriedShown,
    "Try an action again, with what is parked behind it",
    security=ADMIN_TOKEN,
    errors=_CONFLICTS,
)
@needs("actions:write")
def _retry_one(action_id: str) -> flask.Response:
    return as_json({"retried": mending.retry_one(hub().database, action_id)})


@blueprint.post("/actions/retry")
@documents(
    blueprint,
    "retryActions",
    200,
    RetriedShown,
    "Try actions again, with what is parked behind them",
    security=ADMIN_TOKEN,
)
@needs("actions:write")
@blueprint.arguments(RetryInput())
def _retry(body: dict[str, Any]) -> flask.Response:
    wanted = _wanted(body)
    if not wanted.narrows:
        raise BadRequest(
            "body: chooses nothing; send ids, or narrow by account, state, helper, contactToken,"
            ' phone, reason or olderThan. {"state": ["dead"]} means everything that is dead.'
        )
    return as_json({"retried": mending.retry(hub().database, wanted)})


def _wanted(asked: dict[str, Any], *, after: str = "") -> Wanted:
    return Wanted(
        account=_account(asked["account"]) if "account" in asked else None,
        states=asked.get("state", ()),
        kinds=asked.get("helper", ()),
        contact_token=asked.get("contact_token", ""),
        phone=asked.get("phone", ""),
        reason=asked.get("reason", ""),
        older_than_ms=asked.get("older_than", 0),
        ids=asked.get("ids", ()),
        after=after,
    )


def _account(client_id: str) -> Account:
    account = hub().directory.by_client_id(client_id)
    if account is None:
        raise NotFound(f"account: there is none with the clientId {client_id!r}.")
    return account


def _continued(cursor: str, query: dict[str, Any]) -> tuple[dict[str, Any], int, str]:
    """Return what was asked for the page before, its limit and its last action."""
    filters, limit, last = unsealed(cursor, _signing_key())
    asked = {name: list(each) if isinstance(each, tuple) else each for name, each in query.items()}
    if asked and asked != filters:
        raise BadRequest("cursor: it belongs to a list with other filters; start without it.")
    return filters, limit, last


def _signing_key() -> bytes:
    # Of its own: no cursor of an account's records is one here.
    return derive(hub().settings.secret_key, "cursor of actions")
