"""Answer the calls of the webhook helpers: flat JSON objects with a fixed set of keys.

Chatbot builders save each key into a variable, so no key is ever missing. Builders limit the size
of an answer, so the hub's own keys take less than 2,000 bytes together.

An answer may also have the form that Chatfuel or Manychat stores by itself. The forms are for
answers with status 2xx, also of soft errors. Other errors have the same body in each form, because
neither Chatfuel nor Manychat reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import flask
import orjson
from werkzeug.exceptions import HTTPException

from crmhub.accounts.accounts import Account
from crmhub.accounts.switches import Switches
from crmhub.adapter import Problem
from crmhub.api.helpers import schemas
from crmhub.api.helpers.bodies import HelperBody, load, read_body
from crmhub.api.helpers.callers import find_account
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import HEADER as API_KEY
from crmhub.api.http.authentication import SECRET, hub, take_place
from crmhub.api.http.blueprint import Blueprint
from crmhub.api.http.documentation import documents
from crmhub.api.http.failures import in_words
from crmhub.api.http.idempotency_key import HEADER, REPLAYED
from crmhub.bounds import MAX_ASKED_PROPERTIES
from crmhub.crm.deadlines import since
from crmhub.errors import BadRequest, HubError, listed
from crmhub.helpers.attempts import Done
from crmhub.identity.placeholders import is_unfilled_key
from crmhub.teams.choosing import Assignment
from crmhub.translatable import in_language, join_texts, translatable

Run = Callable[[Any, dict[str, Any]], dict[str, Any]]
"""A function that carries out a helper's call for an account, and returns its flat answer.

It gets the body as the helper's schema loads it. The account is None for a helper without one.
"""

# Bytes of JSON. The hub's own keys take less than 2,000 together; property values are never cut.
_MESSAGE_ROOM = 700
NAMES_ROOM = 500
_LONGEST_KEY = 255
# Builders give up after 4 s; by then, the call must be stored.
_PATIENCE_S = 2.0
_OPEN = translatable("The CRM must first tell who owns this contact; it is unavailable now.")

# https://manychat.github.io/dynamic_block_docs/: with more, Manychat refuses the answer.
_MOST_ACTIONS = 5
RESERVED = frozenset(
    ("status", "message", "actionId", "stale", "refused", "missing", "properties", "url")
)
"""The keys of answers that win over properties with the same name, `url` where the CRM has one."""
PREFIX = "prop_"
"""The prefix of the names that Chatfuel and Manychat store such properties under."""
# After the helper's own keys, in the order in which a bot is likely to need them.
_SHARED = ("status", "message", "category", "refused", "actionId", "stale", "missing", "url")


def helper(
    blueprint: Blueprint,
    path: str,
    operation_id: str,
    body: type[HelperBody],
    answer: type[schemas.Answer],
    summary: str,
    *,
    scope: str = "",
    writes: bool = False,
) -> Callable[[Run], Run]:
    """Return a decorator that adds a helper's route, and its description for OpenAPI.

    The document has JSON alone, although forms are taken, too: generators make a client for each
    media type. `scope`: of an API key that may identify the account; a second route has the
    account's id in the path. With `writes`, the answer may be 202 and an Idempotency-Key is
    accepted.
    """
    has_account = bool(scope) or "<" in path
    credentials = [SECRET, API_KEY] if scope else [SECRET] if has_account else []
    errors = [*schemas.ERRORS, *([401, 404, 409] if has_account else []), *([403] if scope else [])]
    routes = [(path, operation_id, summary)]
    if scope:
        own = f"{path}/<generated_id>", f"{operation_id}OfAccount", f"{summary} of this account"
        routes.append(own)

    def decorator(run: Run) -> Run:
        for path, operation_id, summary in routes:

            def view(**ids: str) -> flask.Response:
                account = None
                if has_account:
                    account = hub().database.retry_while_unavailable(
                        flask.g.began + _PATIENCE_S, partial(find_account, ids, scope)
                    )
                return answer_call(run, body, answer, account, read_body)

            key = schemas.KEY_OF_CALL | {"example": f"{operation_id}-1"}
            described = documents(
                operation_id,
                200,
                {"oneOf": [answer, *schemas.SHAPES.values()]},
                summary,
                # None is needed, as generated clients understand `security`.
                security=(),
                others={202: "Queued, and carried out once the CRM takes it"} if writes else None,
                headers=[REPLAYED] if writes else [],
                parameters=[
                    schemas.FORMAT,
                    *([key] if writes else []),
                    *(schemas.CREDENTIALS[name] for name in credentials),
                ],
                errors=sorted(errors),
                body={"required": True, "content": {"application/json": {"schema": body}}},
            )(view)
            blueprint.post(path, endpoint=operation_id)(described)
        return run

    return decorator


def answer_call(
    run: Run,
    body: type[HelperBody],
    answer: type[schemas.Answer],
    account: Account | None,
    read: Callable[[], dict[str, Any]],
) -> flask.Response:
    """Carry out a helper's call, and return its answer in the form that the call wants.

    `read` returns the body, and raises BadRequest for an unreadable one. An error is raised, unless
    the account has the switch `soft_errors`: then it is answered with status 200, and the helper's
    own keys are blank.
    """
    switches = account.switches if account else Switches()
    sent: dict[str, Any] = {}
    try:
        wrap = requested_format(switches)
        placed = account is None or take_place(flask.request.environ, hub(), account)
        with since(flask.g.began, deferred=not placed):
            sent = load(body.of_account(account), read())
            # Bots do not repeat a call, so the call waits while the database restarts. If it had
            # already committed when the connection broke, running it again changes nothing.
            until = flask.g.began + min(switches.deadline_s, _PATIENCE_S)
            found = hub().database.retry_while_unavailable(until, partial(run, account, sent))
        replayed = found.pop(REPLAYED, False)
        _translate(found, switches.language)
        flask.g.action_id = found["actionId"]
        response = as_json(wrap(found), 202 if found["status"] == "queued" else 200)
        if replayed:
            response.headers[REPLAYED] = "true"
        return response
    except (HubError, HTTPException) as exc:
        if not switches.soft_errors:
            raise
        # Flask raises an HTTPException for a body that it cannot read (too large).
        failed = exc if isinstance(exc, HubError) else in_words(exc)
        flask.g.failed_with = failed.status
        flask.g.action_id = failed.action_id
        own = [
            name
            for name, field in answer().fields.items()
            if field.required and name not in schemas.Answer().fields
        ]
        blank = dict.fromkeys([*sent.get("names", ())[:MAX_ASKED_PROPERTIES], *own], "")
        error = answer_body("error", message=failed.message, action_id=failed.action_id)
        _translate(error, switches.language)
        wrap = FORMATS.get(flask.request.args.get("format", "")) or FORMATS[switches.answer_format]
        response = as_json(wrap({**blank, **error, "category": failed.category}))
        response.headers.extend(failed.headers)
        return response


def answer_body(
    status: str, *, message: str = "", refused: str = "", action_id: str = "", **own: Any
) -> dict[str, Any]:
    """Return the answer of a helper: the keys that all helpers share, then `own`.

    `refused`: names joined by commas. `answer_call` translates the message, and cuts it.
    """
    return {
        "status": status,
        "message": message,
        "actionId": action_id,
        "stale": "",
        "refused": refused,
        **own,
    }


def _translate(answer: dict[str, Any], language: str) -> None:
    """Put the texts for people into the account's language; a message has at most 700 bytes."""
    answer["message"] = cut(in_language(answer["message"], language), _MESSAGE_ROOM)
    if reason := answer.get("reason"):
        answer["reason"] = in_language(reason, language)


def of_done(done: Done, **own: str | int) -> dict[str, Any]:
    reasons, refused = named(done.refused) if done.refused else ("", "")
    message = join_texts(". ", filter(None, (done.message, reasons)))
    answer = answer_body(
        done.status, message=message, refused=refused, action_id=done.action_id, **own
    )
    # `answer_call` turns this key into a header.
    answer[REPLAYED] = done.replayed
    return answer if done.url is None else {**answer, "url": done.url}


def owner_keys(chosen: Assignment | None) -> dict[str, str | int]:
    """Return the keys that name the chosen owner; None while nobody could be chosen."""
    place = chosen.place if chosen else 0
    return {
        "ownerId": chosen.owner_id if chosen else "",
        "ownerName": chosen.name if chosen else "",
        "ownerEmail": chosen.email if chosen else "",
        "value": place,
        "text": str(place),
        "reason": chosen.reason if chosen else _OPEN,
    }


def named(problems: Iterable[Problem]) -> tuple[str, str]:
    """Return the reasons of refused properties as a text, and their names joined by commas."""
    reasons = {problem.name: problem.reason for problem in problems}
    return listed(list(reasons.items())), joined(reasons)


def idempotency_key() -> str:
    """Return the request's Idempotency-Key header; "" without one, or for an unreplaced variable.

    Raises BadRequest for a key that is too long or not printable ASCII.
    """
    key = flask.request.headers.get(HEADER, "")
    if key and not (len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable()):
        raise BadRequest(
            "%(header)s: send 1 to %(longest)s printable ASCII characters",
            header=HEADER,
            longest=_LONGEST_KEY,
        )
    # With an unreplaced variable as key, the first call would be accepted, and all later calls
    # refused as different calls with the same key.
    return "" if key and is_unfilled_key(key) else key


def joined(names: Iterable[str], room: int = NAMES_ROOM) -> str:
    """Return names joined by commas, in at most `room` bytes of JSON.

    "…" at the end shows that some did not fit.
    """
    text = ",".join(dict.fromkeys(names))
    if cut(text, room) == text:
        return text
    head = cut(text, room - 1).removesuffix("…")
    whole = head.rpartition(",")[0]
    return f"{whole},…" if whole else f"{head}…"


def cut(text: str, room: int) -> str:
    """Return the text, shortened to `room` bytes of JSON; a shortened text ends with "…"."""
    if len(orjson.dumps(text)) - 2 <= room:
        return text
    text = text[:room]
    # The quotation marks of JSON, and the three bytes of "…".
    while text and (excess := len(orjson.dumps(text)) - 2 - (room - 3)) > 0:
        text = text[: -max(1, excess // 6)]
    return text + "…"


# The forms of an answer.


def _flattened(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer without the object `properties`, whose items are keys already.

    A property whose name is reserved gets the name `prop_<name>`.
    """
    properties: Mapping[str, str] = answer.get("properties") or {}
    taken = {
        f"{PREFIX}{name}": value
        for name, value in properties.items()
        if name in RESERVED and (name != "url" or answer.get(name) != value)
    }
    flat = {key: value for key, value in answer.items() if key != "properties"}
    return {**taken, **flat}


def _manychat(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer for Manychat's dynamic block, which stores the values of its actions.

    Manychat takes at most five actions. The query parameter `fields` names the keys to store;
    without it, these are the helper's own keys, then `status`, `message` and so on. A blank value
    clears its field, lest the field keep the value of an earlier call. Outside of Messenger,
    Manychat takes the block only with the `type` of its channel, which the query parameter
    `channel` names.
    """
    answer = _flattened(answer)
    own = [key for key in answer if key not in _SHARED]
    keys = _requested_fields() or [*own, *(key for key in _SHARED if key in answer)]
    actions: list[dict[str, Any]] = [
        {"action": "unset_field_value", "field_name": key}
        if answer[key] == ""
        else {"action": "set_field_value", "field_name": key, "value": answer[key]}
        for key in keys
        if key in answer
    ]
    type = schemas.CHANNELS.get(_requested_channel(), "")
    content: dict[str, Any] = {"type": type} if type else {}
    content |= {"messages": [], "actions": actions[:_MOST_ACTIONS]}
    if type not in ("whatsapp", "telegram"):
        # Those two have none.
        content["quick_replies"] = []
    return {"version": "v2", "content": content}


def _requested_channel() -> str:
    return flask.request.args.get("channel", "").strip().lower() or "messenger"


def _requested_fields() -> list[str]:
    text = flask.request.args.get("fields", "")
    return list(dict.fromkeys(name for each in text.split(",") if (name := each.strip())))


FORMATS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = MappingProxyType(
    {
        "flat": dict,
        "chatfuel": lambda answer: {"set_attributes": _flattened(answer)},
        "manychat": _manychat,
    }
)
"""The functions that return a flat answer in another form, by the names of the forms.

The names are values of the switch `answer_format` and of the query parameter `format`.
"""


def requested_format(switches: Switches) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the function for the form of this call's answer, by the query or the account.

    Raises BadRequest for an unknown form or `channel`, and for too many `fields`.
    """
    named = flask.request.args.get("format") or switches.answer_format
    if named not in FORMATS:
        raise BadRequest("format: is one of %(formats)s", formats=", ".join(FORMATS))
    if named == "manychat" and _requested_channel() not in schemas.CHANNELS:
        raise BadRequest("channel: is one of %(channels)s", channels=", ".join(schemas.CHANNELS))
    if named == "manychat" and len(_requested_fields()) > _MOST_ACTIONS:
        raise BadRequest(
            "fields: Manychat stores at most %(most)s fields of an answer", most=_MOST_ACTIONS
        )
    return FORMATS[named]
