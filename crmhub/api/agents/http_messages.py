"""The HTTP side of MCP, imported with the first call to save time and memory."""

from __future__ import annotations

from typing import Any

import flask
from mcp_types import PROTOCOL_VERSION_META_KEY
from mcp_types.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from crmhub.api.agents import protocol
from crmhub.api.agents.agent import Agent
from crmhub.api.agents.protocol import Reply
from crmhub.api.http import flask_proxies
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import hub
from crmhub.api.http.reading import json_body
from crmhub.audit import Author
from crmhub.crm.deadlines import since
from crmhub.errors import BadRequest, TooManyRequests

VERSION = "MCP-Protocol-Version"
METHOD, NAME = "Mcp-Method", "Mcp-Name"
# Without the header, the specification says, a server assumes this version.
_ASSUMED = "2025-03-26"
_MOST_MESSAGES = 20
_NAMED = {"tools/call": "name"}


def answer() -> flask.Response:
    request = flask_proxies.request()
    try:
        message = json_body(request)
    except BadRequest as exc:
        error = protocol.ProtocolError(PARSE_ERROR, exc.message)
        return _response(protocol.failed(error, None))
    version = request.headers.get(VERSION, _ASSUMED)
    with since(flask_proxies.g().began):
        if isinstance(message, list):
            return _batch(message, version)
        return _single(message, version)


def _single(message: Any, version: str) -> flask.Response:
    request_id = message.get("id") if isinstance(message, dict) else None
    if version not in (*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS):
        return _response(
            protocol.failed(protocol.unsupported(version), protocol.shown_id(request_id))
        )
    if isinstance(message, dict) and "id" in message:
        modern = version in MODERN_PROTOCOL_VERSIONS or protocol.is_modern(message)
        if modern and (fault := _header_fault(message, version)):
            error = protocol.ProtocolError(HEADER_MISMATCH, fault)
            return _response(protocol.failed(error, protocol.shown_id(request_id)), modern=True)
    else:
        modern = False
    reply = protocol.answer(_agent(), message, version)
    if reply is None:
        return _accepted()
    return _response(reply, modern=modern)


def _header_fault(message: dict[str, Any], version: str) -> str:
    headers = flask_proxies.request().headers
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    said = meta.get(PROTOCOL_VERSION_META_KEY) if isinstance(meta, dict) else None
    # Without the version in the body, `answer` says what is missing.
    if said is not None and headers.get(VERSION) != said:
        return f"{VERSION}: the header does not match the version in the body"
    if headers.get(METHOD) != message.get("method"):
        return f"{METHOD}: the header does not match the body's method"
    named = _NAMED.get(str(message.get("method")))
    # The names of our tools need no encoding; an encoded one is none of them.
    if named and params.get(named) is not None and headers.get(NAME) != params[named]:
        return f"{NAME}: the header does not match the body's {named}"
    return ""


def _batch(messages: list[Any], version: str) -> flask.Response:
    if not protocol.takes_batches(version):
        words = f"Version {version[:20]} of the protocol has no batches; send one message at a time"
        return _response(protocol.failed(protocol.ProtocolError(INVALID_REQUEST, words), None))
    if not 1 <= len(messages) <= _MOST_MESSAGES:
        words = f"A batch has 1 to {_MOST_MESSAGES} messages"
        return _response(protocol.failed(protocol.ProtocolError(INVALID_REQUEST, words), None))
    # Each message counts as a request.
    for _ in messages[1:]:
        _count_again()
    replies = protocol.answer_all(_agent(), messages, version)
    return as_json(replies) if replies else _accepted()


def _count_again() -> None:
    g = flask_proxies.g()
    rate = hub().limits.hit(g.caller)
    if not rate.allowed:
        raise TooManyRequests(
            f"The batch has more messages than the account's rate limit ({rate.limit}) allows now.",
            retry_after=rate.retry_after,
        )


def _agent() -> Agent:
    caller = flask_proxies.g().caller
    return Agent(
        hub(),
        caller.account,
        caller.scopes,
        Author("key", caller.key_name or caller.key_id, caller.key_id),
        counted=True,
    )


def _response(reply: Reply, *, modern: bool = False) -> flask.Response:
    always = {PARSE_ERROR, INVALID_REQUEST, HEADER_MISMATCH, UNSUPPORTED_PROTOCOL_VERSION}
    status = 200
    if reply.code in always or (modern and reply.code == INVALID_PARAMS):
        status = 400
    elif modern and reply.code == METHOD_NOT_FOUND:
        status = 404
    return as_json(reply.body, status)


def _accepted() -> flask.Response:
    response = flask.Response(status=202)
    del response.headers["Content-Type"]
    return response
