"""The JSON answers of the webhook helpers: flat objects with a fixed set of keys.

Chatbot builders save each key into a variable, so no key is ever missing. Builders limit the size
of an answer, so the hub's own keys take less than 2,000 bytes together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar, cast

import flask
import marshmallow as ma
import orjson
from marshmallow import fields
from werkzeug.exceptions import HTTPException

from crmhub.accounts.accounts import Account
from crmhub.adapter import Problem
from crmhub.api.helpers.bodies import HelperBody
from crmhub.api.helpers.formats import CHANNELS, format_of_error, requested_format
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import HEADER as API_KEY
from crmhub.api.http.authentication import SECRET, hub, take_place
from crmhub.api.http.document_schemas import name_enum
from crmhub.api.http.documentation import IDEMPOTENCY_KEY, documents
from crmhub.api.http.failures import in_words
from crmhub.api.http.idempotency_key import HEADER, REPLAYED
from crmhub.api.http.schemas import Shown
from crmhub.crm.deadlines import since
from crmhub.errors import BadRequest, HubError, listed
from crmhub.helpers.attempts import Done
from crmhub.identity.placeholders import is_unfilled_id

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")
Posted = Callable[[], dict[str, Any]]
"""A function that returns the body of a call; it raises BadRequest for an unreadable one."""

# Bytes of JSON. The hub's own keys take less than 2,000 together; property values are never cut.
_MESSAGE_ROOM = 700
NAMES_ROOM = 500
_LONGEST_KEY = 255
# Builders give up after 4 s; by then, the call must be stored.
_PATIENCE_S = 2.0

_CREDENTIALS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        SECRET: {
            "in": "header",
            "name": SECRET,
            "description": "The account's webhook secret; needed where the account demands it.",
            "required": False,
            "schema": {"type": "string"},
        },
        API_KEY: {
            "in": "header",
            "name": API_KEY,
            "description": "An API key of the account, in place of an id in the path.",
            "required": False,
            "schema": {"type": "string"},
        },
    }
)
_KEY_OF_CALL = IDEMPOTENCY_KEY | {
    "description": "Names the call for 24 hours: sent again, it is not carried out again but"
    " answered as the first time, or `queued` while that is under way. Another call: 422."
}
_ERRORS = (400, 413, 415, 422, 429, 500, 503)
STATUSES = ("created", "updated", "unchanged", "queued", "ok", "error")


def answer_body(
    status: str, *, message: str = "", refused: str = "", action_id: str = "", **own: Any
) -> dict[str, Any]:
    """Return the answer of a helper: the keys that all helpers share, then `own`.

    `refused`: names joined by commas. A message longer than 700 bytes is cut.
    """
    return {
        "status": status,
        "message": cut(message, _MESSAGE_ROOM),
        "actionId": action_id,
        "stale": "",
        "refused": refused,
        **own,
    }


def of_done(done: Done, **own: str) -> dict[str, Any]:
    reasons, refused = named(done.refused)
    message = ". ".join(filter(None, (done.message, reasons)))
    answer = answer_body(
        done.status, message=message, refused=refused, action_id=done.action_id, **own
    )
    # `answered` turns this key into a header.
    answer[REPLAYED] = done.replayed
    return answer if done.url is None else {**answer, "url": done.url}


def named(problems: Iterable[Problem]) -> tuple[str, str]:
    """Return the reasons of refused properties as a text, and their names joined by commas."""
    reasons = {problem.name: problem.reason for problem in problems}
    return listed(list(reasons.items())), joined(reasons)


def answered(
    account: Account, keys: Callable[[], Iterable[str]], make: Callable[[], dict[str, Any]]
) -> flask.Response:
    """Run `make`, which returns a helper's JSON answer, and return the HTTP response.

    An error is raised, unless the account has the switch `soft_errors`: then it is answered with
    status 200, and the helper's own keys, which `keys` returns, are blank.
    """
    try:
        wrap = requested_format(account)
        placed = take_place(flask.request.environ, hub(), account)
        with since(flask.g.began, deferred=not placed):
            answer = _patiently(make, account.switches.deadline_s)
        replayed = bool(answer.pop(REPLAYED, False))
        flask.g.action_id = answer["actionId"]
        response = as_json(wrap(answer), 202 if answer["status"] == "queued" else 200)
        if replayed:
            response.headers[REPLAYED] = "true"
        return response
    except (HubError, HTTPException) as exc:
        if not account.switches.soft_errors:
            raise
        # Flask raises an HTTPException for a body that it cannot read (too large).
        failed = exc if isinstance(exc, HubError) else in_words(exc)
        flask.g.failed_with = failed.status
        flask.g.action_id = failed.action_id
        own = answer_body("error", message=failed.message, action_id=failed.action_id)
        answer = {**dict.fromkeys(keys(), ""), **own, "category": failed.category}
        response = as_json(format_of_error(account)(answer))
        response.headers.extend(failed.headers)
        return response


def _patiently(attempt: Callable[[], _T], deadline_s: float = math.inf) -> _T:
    # Bots do not repeat a call, so the call waits while the database restarts. If it had
    # already committed when the connection broke, running it again changes nothing.
    until = flask.g.began + min(deadline_s, _PATIENCE_S)
    return hub().database.retry_while_unavailable(until, attempt)


def idempotency_key() -> str:
    """Return the request's Idempotency-Key header; "" without one, or for an unreplaced variable.

    Raises BadRequest for a key that is too long or not printable ASCII.
    """
    key = flask.request.headers.get(HEADER, "")
    if key and not (len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable()):
        raise BadRequest(f"{HEADER}: send 1 to {_LONGEST_KEY} printable ASCII characters")
    # With an unreplaced variable as key, the first call would be accepted, and all later calls
    # refused as different calls with the same key.
    return "" if is_unfilled_id(key) else key


def joined(names: Iterable[str], room: int = NAMES_ROOM) -> str:
    """Return names joined by commas, in at most `room` bytes of JSON.

    "…" at the end shows that some did not fit.
    """
    text = ",".join(dict.fromkeys(names))
    if _size(text) <= room:
        return text
    head = cut(text, room - 1).removesuffix("…")
    whole = head.rpartition(",")[0]
    return f"{whole},…" if whole else f"{head}…"


def cut(text: str, room: int) -> str:
    """Return the text, shortened to `room` bytes of JSON; a shortened text ends with "…"."""
    if _size(text) <= room:
        return text
    text = text[:room]
    while text and _size(text) > room - 3:
        text = text[: -max(1, (_size(text) - room) // 6)]
    return text + "…"


def _size(text: str) -> int:
    return len(orjson.dumps(text)) - 2


# The description of the helpers for the OpenAPI document.


class Answer(Shown):
    class Meta:
        # Requested properties are further keys, and later versions may add keys.
        unknown = ma.INCLUDE

    status = fields.String(required=True, metadata={"enum": list(STATUSES)})
    message = fields.String(required=True, metadata={"description": "What was refused, and why."})
    actionId = fields.String(
        required=True,
        metadata={"description": "Of a helper that writes: the action, for support. Else blank."},
    )
    stale = fields.String(
        required=True, metadata={"description": '"true" when the values are the last known ones.'}
    )
    refused = fields.String(
        required=True, metadata={"description": "Names of properties that were not taken."}
    )
    category = fields.String(metadata={"description": "Of an error, where errors are soft."})


class ChatfuelAnswer(ma.Schema):
    class Meta:
        unknown = ma.RAISE

    set_attributes = fields.Dict(
        keys=fields.String(),
        values=fields.Raw(metadata={"type": ["string", "integer"]}),
        required=True,
    )


class ManychatAction(ma.Schema):
    """Schema of an action of Manychat: a field gets the value, or loses the one that it had."""

    action = fields.String(
        required=True, metadata={"enum": ["set_field_value", "unset_field_value"]}
    )
    field_name = fields.String(required=True)
    value = fields.Raw(metadata={"type": ["string", "integer"]})


class ManychatContent(ma.Schema):
    type = fields.String(
        metadata={
            "enum": [type for type in CHANNELS.values() if type],
            "description": "The channel, as `channel` in the query names it; none for Messenger.",
        }
    )
    messages = fields.List(fields.Dict(), required=True)
    actions = fields.List(fields.Nested(ManychatAction), required=True)
    quick_replies = fields.List(fields.Dict())


class ManychatAnswer(ma.Schema):
    """Schema of a helper's answer with `format=manychat`: a dynamic block that stores its keys."""

    version = fields.String(required=True, metadata={"enum": ["v2"]})
    content = fields.Nested(ManychatContent, required=True)


SHAPES: Mapping[str, type[ma.Schema]] = MappingProxyType(
    {"chatfuel": ChatfuelAnswer, "manychat": ManychatAnswer}
)
"""The schema of each form but `flat`, which has a schema for each helper."""
name_enum("AnswerFormat", ["flat", *SHAPES])
name_enum("AnswerStatus", STATUSES)
_FORMAT = {
    "in": "query",
    "name": "format",
    "description": "The form of the answer: flat by default; others for the builders of that name.",
    "required": False,
    "schema": {"type": "string", "enum": ["flat", *SHAPES]},
    "example": "flat",
}


def helper(
    operation_id: str,
    body: type[HelperBody],
    answer: type[Answer],
    summary: str,
    *,
    credentials: Sequence[str] = (),
    writes: bool = False,
) -> Callable[[_F], _F]:
    """Return a decorator for a helper's view: it documents the view for OpenAPI and retries it.

    The document has JSON alone, although forms are taken, too: generators make a client for each
    media type. `credentials`: the headers that may identify the account. With `writes`, the answer
    may be 202 and an Idempotency-Key is accepted.
    """
    content = {"application/json": {"schema": body}}
    errors = {*_ERRORS, *((401, 404, 409) if credentials else ())}
    errors |= {403} if API_KEY in credentials else set()
    key = _KEY_OF_CALL | {"example": f"{operation_id}-1"}
    parameters = [
        _FORMAT,
        *([key] if writes else []),
        *(_CREDENTIALS[each] for each in credentials),
    ]

    def decorator(view: _F) -> _F:
        @wraps(view)
        def patient(**ids: str) -> Any:
            return _patiently(lambda: view(**ids))

        return cast(
            _F,
            documents(
                operation_id,
                200,
                {"oneOf": [answer, *SHAPES.values()]},
                summary,
                # None is needed, as generated clients understand `security`.
                security=(),
                others={202: "Queued, and carried out once the CRM takes it"} if writes else None,
                headers=[REPLAYED] if writes else [],
                parameters=parameters,
                errors=sorted(errors),
                body={"required": True, "content": content},
            )(patient),
        )

    return decorator
