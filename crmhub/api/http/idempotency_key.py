"""`Idempotency-Key`: a POST that is sent twice is carried out once and answered twice alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from hashlib import sha256
from typing import Any, TypeVar, cast

import flask
import orjson
from werkzeug.exceptions import HTTPException

from crmhub import idempotency
from crmhub.api.http import flask_proxies
from crmhub.api.http.answers import JsonAnswer
from crmhub.api.http.authentication import account, hub, needs
from crmhub.bounds import MAX_KEPT_ANSWER_BYTES
from crmhub.errors import BadRequest, HubError
from crmhub.idempotency import Answer

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
# Blanks at the ends do not travel in a header.
KEY = r"[!-~]([ -~]{0,253}[!-~])?"
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Remade:
    """How an answer that is too long to be kept is made anew.

    `shorten` takes the values out of the answer's JSON, `fill` puts in those of now.
    """

    shorten: Callable[[Any], Any]
    fill: Callable[[Any], Any]


def once(view: _F, remade: Remade) -> _F:
    """Keep what the view answers to a POST with an Idempotency-Key, and answer that from then on.

    Everything that the view does is one transaction with keeping the answer. It goes around
    what reads the body, and inside of what checks the caller's rights: those count each time.
    Of an answer of more than MAX_KEPT_ANSWER_BYTES its status, headers and ids are kept.
    """

    @wraps(view)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        request = flask_proxies.request()
        key = request.headers.get(HEADER)
        if key is None or request.method != "POST":
            return view(*args, **kwargs)
        return _answered(_checked(key), lambda: view(*args, **kwargs), remade)

    # Whatever wraps the view from here on takes this along, as functools.wraps does.
    wrapper.takes_key = True  # type: ignore[attr-defined]
    return cast(_F, wrapper)


def writes(scope: str, remade: Remade) -> Callable[[_F], _F]:
    """Refuse a view that writes to keys without `scope`, with Forbidden; it takes `once`."""
    return lambda view: needs(scope)(once(view, remade))


def _checked(sent: str) -> str:
    key = sent.strip(" \t")
    if not re.fullmatch(KEY, key):
        raise BadRequest(f"{HEADER}: send 1 to 255 printable ASCII characters, such as a UUID.")
    return key


def _answered(key: str, view: Callable[[], flask.Response], remade: Remade) -> flask.Response:
    database = hub().database
    made: list[flask.Response] = []

    def first() -> Answer:
        # A transaction within: a refusal undoes what was written before it, and is kept.
        response = _answer_of(lambda: database.transact(lambda _: view()))
        made.append(response)
        return _to_keep(response, remade)

    # Reads the body before the transaction, which a slow caller must not keep open.
    fingerprint = _fingerprint(flask.request)
    kept, old = idempotency.once(database, account().id, key, fingerprint, first)
    if not old:
        # The last one: what was tried again was undone before.
        return made[-1]
    body: str | bytes = kept.body
    if kept.shortened:
        body = orjson.dumps(remade.fill(orjson.loads(kept.body)))
    response = flask.Response(body, status=kept.status)
    response.headers.clear()
    response.headers.extend(kept.headers)
    response.headers[REPLAYED] = "true"
    return response


def _fingerprint(request: flask.Request) -> str:
    # The type, too: what was refused for the lack of it deserves better than that answer again.
    head = [
        request.method,
        request.path,
        sorted(request.args.items(multi=True)),
        request.mimetype,
    ]
    return sha256(orjson.dumps(head) + b"\n" + request.get_data(cache=True)).hexdigest()


def _answer_of(view: Callable[[], flask.Response]) -> flask.Response:
    """Return the view's answer, also where it refuses; raise what is not to be kept."""
    try:
        return view()
    except (HubError, HTTPException) as refusal:
        app = flask.current_app
        response = app.make_response(app.handle_user_exception(refusal))
        if response.status_code == 429 or response.status_code >= 500:
            raise
        return response


def _to_keep(response: flask.Response, remade: Remade) -> Answer:
    headers = tuple((n, v) for n, v in response.headers.items() if n != "Content-Length")
    body = response.get_data()
    # A refusal is no such answer, and short.
    value = response.value if isinstance(response, JsonAnswer) else None
    shortened = value is not None and len(body) > MAX_KEPT_ANSWER_BYTES
    if shortened:
        body = orjson.dumps(remade.shorten(value))
    return Answer(response.status_code, headers, body.decode(), shortened)
