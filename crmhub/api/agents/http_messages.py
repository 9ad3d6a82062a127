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
from crmhub.api.agents.protocol import ProtocolError, Reply
from crmhub.api.agents.tool import Agent
from crmhub.api.http import flask_proxies
from crmhub.api.http.answers import as_json, nothing
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


def answer() -> flask.Response:
    request = flask_proxies.request()
    version = request.headers.get(VERSION, _ASSUMED)
    message: Any = None
    modern = False
    try:
        try:
            message = json_body(request)
        except BadRequest as exc:
            raise ProtocolError(PARSE_ERROR, exc.message) from None
        with since(flask_proxies.g().began):
            if isinstance(message, list):
                replies = _batch(message, version)
                return as_json(replies) if replies else nothing(202)
            if version not in (*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS):
                raise protocol.unsupported(version)
            if isinstance(message, dict) and "id" in message:
                modern = version in MODERN_PROTOCOL_VERSIONS or protocol.is_modern(message)
                if modern and (fault := _header_fault(message)):
                    raise ProtocolError(HEADER_MISMATCH, fault)
            reply = protocol.answer(_agent(), message, version)
    except ProtocolError as exc:
        reply = protocol.failed(exc, message)
    return nothing(202) if reply is None else _response(reply, modern=modern)


def _header_fault(message: dict[str, Any]) -> str:
    headers, method = flask_proxies.request().headers, message.get("method")
    # Without the version in the body, `answer` says what is missing.
    version = protocol.meta_of(message).get(PROTOCOL_VERSION_META_KEY)
    if version is not None and headers.get(VERSION) != version:
        return f"{VERSION}: the header does not match the version in the body"
    if headers.get(METHOD) != method:
        return f"{METHOD}: the header does not match the body's method"
    params = message.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    # The names of our tools need no encoding; an encoded one is none of them.
    if method == "tools/call" and name is not None and headers.get(NAME) != name:
        return f"{NAME}: the header does not match the body's name"
    return ""


def _batch(messages: list[Any], version: str) -> list[dict[str, Any]]:
    if not protocol.takes_batches(version):
        words = f"Version {version[:20]} of the protocol has no batches; send one message at a time"
        raise ProtocolError(INVALID_REQUEST, words)
    if not 1 <= len(messages) <= _MOST_MESSAGES:
        raise ProtocolError(INVALID_REQUEST, f"A batch has 1 to {_MOST_MESSAGES} messages")
    # Each message counts as a request.
    for _ in messages[1:]:
        rate = hub().limits.hit(flask_proxies.g().caller)
        if not rate.allowed:
            raise TooManyRequests(
                f"The batch has more messages than the account's rate limit ({rate.limit}) allows"
                " now.",
                retry_after=rate.retry_after,
            )
    return protocol.answer_all(_agent(), messages, version)


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
