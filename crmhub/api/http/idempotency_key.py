"""The header `Idempotency-Key` of the public API.

A POST that is repeated with the same key is executed once; the repetition gets the first answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import flask
import orjson
from werkzeug.exceptions import HTTPException

from crmhub import idempotency
from crmhub.api.http.answers import JsonAnswer
from crmhub.api.http.authentication import account, hub
from crmhub.bounds import MAX_KEPT_ANSWER_BYTES
from crmhub.errors import BadRequest, HubError
from crmhub.idempotency import Answer

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
# HTTP strips blanks at the ends of a header.
KEY = r"[!-~]([ -~]{0,253}[!-~])?"


@dataclass(frozen=True, slots=True)
class Rebuild:
    """How answers that are too long to be stored are shortened and restored.

    `shorten` removes values from an answer's JSON before it is stored, `fill` adds the present
    ones. `always`: short answers are shortened, too, such as those with a secret. `by_journal`: the
    writes of an account with a copy of its CRM are made by the journal, which knows the key, too.
    """

    shorten: Callable[[Any], Any]
    fill: Callable[[Any], Any]
    always: bool = False
    by_journal: bool = False


def once(rebuild: Rebuild, view: Callable[[], flask.Response]) -> flask.Response:
    """Answer a request with an Idempotency-Key: a repeated one as the first time.

    `view` and the storing of its answer share a transaction.
    """
    key = given_key()
    database = hub().database
    calls_crm = rebuild.by_journal and account().switches.mirror
    made: list[flask.Response] = []

    def first() -> Answer:
        # A nested transaction: a refusal rolls back the view's writes but is stored itself.
        response = _answer_of(view if calls_crm else lambda: database.transact(lambda _: view()))
        made.append(response)
        return _to_keep(response, rebuild)

    # Read the body before the transaction, which a slow caller must not keep open.
    fingerprint = _fingerprint(flask.request)
    # No transaction may be open while the CRM is called.
    once = idempotency.once_outside if calls_crm else idempotency.once
    kept, old = once(database, account().id, key, fingerprint, first)
    if not old:
        # The last one: the transaction may have been repeated after a rollback.
        return made[-1]
    body: str | bytes = kept.body
    if kept.shortened:
        body = orjson.dumps(rebuild.fill(orjson.loads(kept.body)))
    response = flask.Response(body, status=kept.status)
    response.headers.clear()
    response.headers.extend(kept.headers)
    response.headers[REPLAYED] = "true"
    return response


def given_key() -> str:
    """Return the request's key, "" without one; raises BadRequest."""
    key = flask.request.headers.get(HEADER)
    if key is None:
        return ""
    key = key.strip(" \t")
    if not re.fullmatch(KEY, key):
        raise BadRequest(f"{HEADER}: send 1 to 255 printable ASCII characters, such as a UUID.")
    return key


def _fingerprint(request: flask.Request) -> str:
    # With the type, so that a request that lacked it can be repeated correctly.
    head = [
        request.method,
        request.path,
        sorted(request.args.items(multi=True)),
        request.mimetype,
    ]
    return sha256(orjson.dumps(head) + b"\n" + request.get_data(cache=True)).hexdigest()


def _answer_of(view: Callable[[], flask.Response]) -> flask.Response:
    """Errors with status 429 or 5xx are raised, since their answers must not be stored."""
    try:
        return view()
    except (HubError, HTTPException) as refusal:
        app = flask.current_app
        response = app.make_response(app.handle_user_exception(refusal))
        if response.status_code == 429 or response.status_code >= 500:
            raise
        return response


def _to_keep(response: flask.Response, rebuild: Rebuild) -> Answer:
    headers = tuple((n, v) for n, v in response.headers.items() if n != "Content-Length")
    body = response.get_data()
    # Refusals have no `value`; they are short.
    value = response.value if isinstance(response, JsonAnswer) else None
    shortened = value is not None and (rebuild.always or len(body) > MAX_KEPT_ANSWER_BYTES)
    if shortened:
        body = orjson.dumps(rebuild.shorten(value))
    return Answer(response.status_code, headers, body.decode(), shortened)
