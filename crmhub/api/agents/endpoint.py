"""`POST /mcp`: the Model Context Protocol over HTTP, without sessions.

HTTP faults get the API's error body, faults of a JSON-RPC message a JSON-RPC error.
"""

from __future__ import annotations

import flask

from crmhub.api.admin.callers import NoToken
from crmhub.api.http.authentication import HEADER, admit, count_auth_failure, hub
from crmhub.errors import Forbidden

PATH = "/mcp"


def authenticate(request: flask.Request) -> None:
    """Raises Unauthorized, Forbidden for a page of another website, and TooManyRequests above the
    rate limit or while the account uses all threads of its share."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    key = token.strip() if scheme.lower() == "bearer" else request.headers.get(HEADER, "")
    if not key:
        raise NoToken(f"Send an API key as Authorization: Bearer …, or in the header {HEADER}.")
    caller = hub().directory.by_api_key(key)
    if caller is None:
        wrong = NoToken("This is no live API key; `crmhub key create CLIENT_ID` makes one.")
        raise count_auth_failure(wrong, "the key")
    # Another website's page could reach a hub in its visitor's network (DNS rebinding).
    origin, allowed = request.headers.get("Origin"), hub().settings.public_url
    if origin is not None and (allowed is None or origin != allowed.rstrip("/")):
        raise Forbidden(
            "Origin: pages of this website may not call the hub. Connect the agent from a program,"
            " which sends no header Origin."
        )
    admit(request, caller)


def register(app: flask.Flask) -> None:
    app.add_url_rule(PATH, "mcp", _view, methods=["POST"])


def _view() -> flask.Response:
    # Hubs without agents need neither the time nor the memory.
    from crmhub.api.agents import http_messages

    return http_messages.answer()
