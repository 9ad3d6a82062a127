"""The Model Context Protocol over standard input and output: one JSON-RPC message in each line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import orjson
from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR

from crmhub.api.agents import protocol
from crmhub.api.agents.protocol import ProtocolError
from crmhub.api.agents.tool import Agent
from crmhub.api.http.reading import read_json
from crmhub.bounds import MAX_BODY_BYTES
from crmhub.errors import BadRequest, HubError


def serve(current: Callable[[], Agent], lines: BinaryIO, out: BinaryIO) -> None:
    """`current` returns the agent as it is now; raises HubError if the account is unusable."""
    version = protocol.negotiated(None)
    for line in _read(lines):
        reply, version = _reply(current, line, version)
        if reply is not None:
            out.write(orjson.dumps(reply) + b"\n")
            out.flush()


def _read(lines: BinaryIO) -> Iterator[bytes]:
    while line := lines.readline(MAX_BODY_BYTES + 1):
        rest = line
        while len(rest) > MAX_BODY_BYTES and not rest.endswith(b"\n"):
            rest = lines.readline(MAX_BODY_BYTES + 1)
            if len(rest) <= MAX_BODY_BYTES:
                break
        if line.strip():
            yield line


def _reply(current: Callable[[], Agent], line: bytes, version: str) -> tuple[Any, str]:
    message = None
    try:
        if len(line) > MAX_BODY_BYTES:
            raise ProtocolError(INVALID_REQUEST, "The message is larger than 1 MiB.")
        try:
            message = read_json(line)
        except BadRequest as exc:
            raise ProtocolError(PARSE_ERROR, exc.message) from None
        try:
            agent = current()
        except HubError as exc:
            raise ProtocolError(INTERNAL_ERROR, exc.message) from None
    except ProtocolError as exc:
        return protocol.failed(exc, message).body, version
    if isinstance(message, list) and protocol.takes_batches(version):
        return protocol.answer_all(agent, message, version) or None, version
    reply = protocol.answer(agent, message, version)
    if reply is None:
        return None, version
    if isinstance(message, dict) and message.get("method") == "initialize" and not reply.code:
        version = str(reply.body["result"]["protocolVersion"])
    return reply.body, version
