"""Error handlers: errors of the hub and of Flask, and bugs, are answered with the same JSON."""

from __future__ import annotations

import flask
import structlog
from werkzeug.exceptions import HTTPException, InternalServerError, default_exceptions

from crmhub.api.http.answers import failure
from crmhub.api.http.authentication import account
from crmhub.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    HubError,
    Internal,
    NotFound,
    Semantic,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from crmhub.properties.validation import DuplicateValue
from crmhub.translatable import translatable

_log = structlog.get_logger(__name__)

_OURS: dict[int, type[HubError]] = {
    kind.status: kind
    for kind in (BadRequest, Unauthorized, Forbidden, NotFound, Conflict, Semantic)
} | {429: TooManyRequests, 500: Internal, 503: Unavailable}

_WORDS = {
    404: "There is nothing at this path; /openapi.json lists what there is.",
    413: translatable("The body is larger than 1 MiB; send less at a time."),
}
_HELPERS = ("/chatbot/", "/crm-api-interface/")
# The router takes an encoded slash for a slash.
_NO_PATH = (
    ' A value of idProperty that holds a slash, or is "search" or "merge", cannot stand in a path;'
    " read it by POST to batch/read, with idProperty in the body."
)


def register(app: flask.Flask) -> None:
    app.register_error_handler(HubError, failure)
    app.register_error_handler(HTTPException, _http)
    # Any other exception is a bug: its details go to the log, not to the caller.
    app.register_error_handler(Exception, _bug)


def _http(error: HTTPException) -> flask.Response:
    original = getattr(error, "original_exception", None)
    if original is not None:
        return _bug(original)
    response = failure(in_words(error))
    response.status_code = error.code or 500
    for name, value in error.get_headers():
        if name in ("Allow", "Retry-After"):
            response.headers[name] = value
    return response


def duplicate(error: DuplicateValue, kind: str) -> flask.Response:
    """Answer that another record has the unique value; Location has its path."""
    error.location = f"/{account().client_id}/api/v1/{kind}/{error.existing_id}"
    return failure(error)


def in_words(error: HTTPException) -> HubError:
    """The same status with a message of the hub."""
    status = error.code or 500
    kind = _OURS.get(status) or (Internal if status >= 500 else BadRequest)
    message = _WORDS.get(status) or error.description or error.name
    if status == 405 and (methods := getattr(error, "valid_methods", None)):
        message = f"This path takes {', '.join(sorted(methods))}, not {flask.request.method}."
    if status == 404 and flask.request.path.startswith("/admin/"):
        message = message.replace("/openapi.json", "/openapi-admin.json")
    if status == 404:
        # The path may lack its webhook id.
        words = flask.request.path.casefold().split("/")
        helpers = [
            rule.rule
            for rule in flask.current_app.url_map.iter_rules()
            if rule.rule.startswith(_HELPERS) and rule.rule.split("/")[2].casefold() in words
        ]
        if helpers:
            message = f"There is nothing at this path; did you mean {' or '.join(helpers)}?"
    if status in (404, 405) and "idProperty" in flask.request.args:
        message += _NO_PATH
    return kind(message)


def in_shape(response: flask.Response) -> flask.Response:
    """Return the response, as JSON if it is an error that Werkzeug made by itself."""
    # The console answers errors with an HTML page of its own.
    if response.mimetype == "application/json" or flask.g.get("is_page"):
        return response
    response.close()
    return _http(default_exceptions.get(response.status_code, InternalServerError)())


def _bug(error: Exception) -> flask.Response:
    # Only type and place: the exception's text may contain a caller's data.
    _log.error("unexpected failure", error=type(error).__name__, place=place_of(error))
    return failure(
        Internal(
            translatable(
                "The hub failed unexpectedly; the operator finds it under this X-Request-Id."
            )
        )
    )


def place_of(error: Exception) -> list[str]:
    """Files, lines and functions, but no values."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_qualname}")
        trace = trace.tb_next
    return places[-12:]
