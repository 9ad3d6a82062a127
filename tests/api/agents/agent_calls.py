"""Call the tools of agents in tests; each answer is held against the rules that all must keep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import flask
import jsonschema
from werkzeug.test import TestResponse

from crmhub.accounts import keys
from crmhub.api.agents.answers import ROOM
from crmhub.api.agents.protocol import TOOLS
from crmhub.api.agents.tool import answers_of, schema_of
from crmhub.hub import Hub
from tests.clients import Client

VERSION = "2025-06-18"
ERROR_KEYS = {"category", "message", "timestamp", "status"}


@dataclass(frozen=True)
class Called:
    """The result of a tool's call: its structured content, and whether it is an error."""

    answer: dict[str, Any]
    is_error: bool

    @property
    def message(self) -> str:
        """The message of a refusal."""
        assert self.is_error, self.answer
        message: str = self.answer["message"]
        return message


class AgentCaller:
    """Calls /mcp with the key of an account, or with another key of it."""

    def __init__(self, client: Client, key: str = "") -> None:
        self.client = client
        self.key = key or client.key

    def post(self, body: Any, *, headers: Mapping[str, str] | None = None) -> TestResponse:
        """Send a body, JSON or bytes, and return the HTTP response."""
        sent = {
            "Authorization": f"Bearer {self.key}",
            "MCP-Protocol-Version": VERSION,
            "Content-Type": "application/json",
            **(headers or {}),
        }
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client._http.post("/mcp", data=data, headers=sent)

    def rpc(self, method: str, params: Any = None, **options: Any) -> TestResponse:
        """Send a JSON-RPC request."""
        message = {"jsonrpc": "2.0", "id": 7, "method": method}
        return self.post(message if params is None else {**message, "params": params}, **options)

    def result(self, method: str, params: Any = None) -> dict[str, Any]:
        """Return the result of a request that must succeed."""
        response = self.rpc(method, params)
        assert response.status_code == 200, response.text
        assert "result" in response.json, response.text
        return response.json["result"]

    def names(self) -> list[str]:
        """Return the names of the tools that the key may use."""
        return [tool["name"] for tool in self.result("tools/list")["tools"]]

    def call(self, tool: str, /, **arguments: Any) -> Called:
        """Call a tool; its answer must keep the rules of all answers."""
        result = self.result("tools/call", {"name": tool, "arguments": arguments})
        answer, is_error = result["structuredContent"], result.get("isError", False)
        [content] = result["content"]
        assert content["type"] == "text"
        assert len(content["text"]) <= ROOM, len(content["text"])
        validator(tool).validate(answer)
        if is_error:
            assert set(answer) == ERROR_KEYS, answer
            assert answer["message"] in content["text"]
        else:
            assert json.loads(content["text"]) == answer
        return Called(answer, is_error)

    def ok(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Return the answer of a call that must succeed."""
        called = self.call(tool, **arguments)
        assert not called.is_error, called.answer
        return called.answer

    def pages(self, tool: str, /, **arguments: Any) -> list[dict[str, Any]]:
        """Return all answers of a call that is continued until its end."""
        answers = [self.ok(tool, **arguments)]
        while answers[-1]["hasMore"]:
            assert len(answers) < 200
            answers.append(self.ok(tool, **arguments, cursor=answers[-1]["cursor"]))
        assert answers[-1]["cursor"] == ""
        return answers


@cache
def validator(tool: str) -> jsonschema.Draft202012Validator:
    """Return the validator of a tool's answers, and of the API's error body."""
    error = {"type": "object", "required": sorted(ERROR_KEYS)}
    whole = {**schema_of(TOOLS[tool].answers), "additionalProperties": False}
    return jsonschema.Draft202012Validator(
        {"anyOf": [whole, error], "allOf": [answers_of(TOOLS[tool])]}
    )


def caller_with(
    client: Client, app: flask.Flask, scopes: Sequence[str], name: str = ""
) -> AgentCaller:
    """Return a caller with a new key that has these scopes."""
    hub: Hub = app.extensions["crmhub"]
    issued = hub.database.transact(
        lambda tx: keys.create(tx, client.account.id, name=name, scopes=scopes)
    )
    return AgentCaller(client, issued.api_key)
