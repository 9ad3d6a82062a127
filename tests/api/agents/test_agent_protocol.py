"""The Model Context Protocol at /mcp: who may call, versions, errors, batches and hostile input."""

from __future__ import annotations

import json
from typing import Any

import flask
import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from crmhub.accounts import keys
from crmhub.adapter.registry import Registry
from crmhub.hub import Hub
from tests.api.agents.agent_calls import AgentCaller, caller_with
from tests.api.refusals import refused
from tests.clients import Client, open_client

# The records that tasks read and write are the API's, which is tested on each database.
pytestmark = pytest.mark.databases("sqlite")

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
MODERN = MODERN_PROTOCOL_VERSIONS[-1]
_META = "io.modelcontextprotocol/"


def modern(method: str, **params: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the body and the headers of a request that names its version itself."""
    meta = {f"{_META}protocolVersion": MODERN, f"{_META}clientCapabilities": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    return body, headers | ({"Mcp-Name": params["name"]} if "name" in params else {})


# Who may call


def test_the_key_is_taken_as_bearer_token_and_as_the_apis_header(agent: AgentCaller) -> None:
    headers = {"Authorization": "", "service-apikey": agent.key}
    assert agent.rpc("ping", headers=headers).json["result"] == {}
    assert agent.rpc("ping").json["result"] == {}
    assert int(agent.rpc("ping").headers["RateLimit-Limit"]) > 0


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer nothing", "Basic YTpi"])
def test_without_a_live_key_the_answer_is_401(agent: AgentCaller, authorization: str) -> None:
    answer = agent.rpc("ping", headers={"Authorization": authorization})
    refused(answer, 401)
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_revoked_key_is_refused(client: Client, app: flask.Flask) -> None:
    caller = caller_with(client, app, ("contacts:read",))
    hub: Hub = app.extensions["crmhub"]
    assert caller.names()
    with hub.database.reading() as db:
        key_id = keys.list_keys(db, client.account.id)[-1].key_id
    hub.database.transact(lambda tx: keys.revoke(tx, client.account.id, key_id))
    hub.directory.forget(client.account.id)
    refused(caller.rpc("ping"), 401)


def test_wrong_keys_are_throttled(agent: AgentCaller) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    statuses = [agent.rpc("ping", headers=wrong).status_code for _ in range(70)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    # Who has a key is served on.
    assert agent.rpc("ping").status_code == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_are_no_sessions_and_no_streams(agent: AgentCaller, method: str) -> None:
    headers = {"Authorization": f"Bearer {agent.key}"}
    answer = agent.client._http.open("/mcp", method=method, headers=headers)
    assert "POST" in answer.headers["Allow"]
    refused(answer, 405)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000"])
def test_pages_of_other_websites_are_refused(agent: AgentCaller, origin: str) -> None:
    assert "Origin" in refused(agent.rpc("ping", headers={"Origin": origin}), 403)


def test_the_rate_limit_of_the_plan_applies(app: flask.Flask) -> None:
    caller = AgentCaller(open_client(app, plan="free"))
    statuses = [caller.rpc("ping").status_code for _ in range(110)]
    assert statuses.count(200) == 100 // app.extensions["crmhub"].settings.workers
    message = refused(caller.rpc("ping"), 429)
    assert "try again" in message


def test_a_batch_counts_each_of_its_messages(app: flask.Flask) -> None:
    caller = AgentCaller(open_client(app, plan="free"))
    batch = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(20)]
    answers = [caller.post(batch, headers={"MCP-Protocol-Version": "2025-03-26"}) for _ in range(6)]
    whole = 100 // app.extensions["crmhub"].settings.workers // 20
    assert [answer.status_code for answer in answers] == [200] * whole + [429] * (6 - whole)


def test_an_account_is_not_named_mcp(app: flask.Flask) -> None:
    from crmhub.accounts.changes import RESERVED

    assert "mcp" in RESERVED


# Which tools


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        (
            ("companies:read",),
            ["get_record", "search_records", "list_properties", "get_action", "list_failed"],
        ),
        (
            ("contacts:read",),
            [
                "find_contacts",
                "get_record",
                "search_records",
                "list_properties",
                "get_action",
                "list_failed",
            ],
        ),
        (
            ("deals:write",),
            [
                "set_properties",
                "create_deal",
                "add_note",
                "link_records",
                "get_action",
                "list_failed",
            ],
        ),
        (
            ("companies:write",),
            [
                "create_or_update_company",
                "set_properties",
                "link_records",
                "get_action",
                "list_failed",
            ],
        ),
    ],
)
def test_the_scopes_of_the_key_decide_which_tools_are_listed(
    client: Client, app: flask.Flask, scopes: tuple[str, ...], expected: list[str]
) -> None:
    caller = caller_with(client, app, scopes)
    assert caller.names() == expected
    kinds = {scope.partition(":")[0] for scope in scopes}
    for tool in caller.result("tools/list")["tools"]:
        resource = tool["inputSchema"]["properties"].get("resource")
        assert resource is None or set(resource["enum"]) == kinds


def test_there_are_at_most_sixteen_tools(agent: AgentCaller) -> None:
    assert len(agent.names()) <= 16


# Versions


@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, "1999-01-01"])
def test_initialize_answers_the_version_or_the_newest(client: Client, version: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    body["params"] = {**INITIALIZE, "protocolVersion": version}
    headers = {"Authorization": f"Bearer {client.key}"}
    result = client._http.post("/mcp", json=body, headers=headers).json["result"]
    known = version in HANDSHAKE_PROTOCOL_VERSIONS
    assert result["protocolVersion"] == (version if known else HANDSHAKE_PROTOCOL_VERSIONS[-1])
    assert result["serverInfo"]["name"] == "crmhub"
    assert "tools" in result["capabilities"]


@pytest.mark.parametrize("version", ["1999-01-01", "x", "2025-06-18, 2025-06-18"])
def test_an_unknown_version_in_the_header_is_refused(agent: AgentCaller, version: str) -> None:
    answer = agent.rpc("ping", headers={"MCP-Protocol-Version": version})
    assert answer.status_code == 400
    assert answer.json["error"]["code"] == -32022
    assert "2025-06-18" in answer.json["error"]["data"]["supported"]


def test_the_newest_version_needs_no_handshake(agent: AgentCaller) -> None:
    body, headers = modern("server/discover")
    found = agent.post(body, headers=headers).json["result"]
    assert MODERN in found["supportedVersions"]
    body, headers = modern("tools/call", name="find_contacts", arguments={"query": "x"})
    result = agent.post(body, headers=headers).json["result"]
    assert result["structuredContent"]["results"] == []
    assert result["resultType"] == "complete"
    assert result["_meta"][f"{_META}serverInfo"]["name"] == "crmhub"


@pytest.mark.parametrize(
    "wrong",
    [
        {"Mcp-Method": "tools/list"},
        {"Mcp-Method": ""},
        {"Mcp-Name": "get_record"},
        {"Mcp-Name": ""},
        {"MCP-Protocol-Version": "2025-06-18"},
    ],
    ids=["method", "no method", "name", "no name", "version"],
)
def test_headers_that_contradict_the_body_are_refused(
    agent: AgentCaller, wrong: dict[str, str]
) -> None:
    body, headers = modern("tools/call", name="find_contacts", arguments={"query": "x"})
    answer = agent.post(body, headers={**headers, **wrong})
    assert (answer.status_code, answer.json["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize("lacking", ["protocolVersion", "clientCapabilities"])
def test_a_request_of_the_newest_version_names_what_it_lacks(
    agent: AgentCaller, lacking: str
) -> None:
    body, headers = modern("tools/list")
    del body["params"]["_meta"][f"{_META}{lacking}"]
    answer = agent.post(body, headers=headers)
    assert (answer.status_code, answer.json["error"]["code"]) == (400, -32602)
    assert lacking in answer.json["error"]["message"]


def test_methods_of_other_versions_are_unknown(agent: AgentCaller) -> None:
    body, headers = modern("ping")
    answer = agent.post(body, headers=headers)
    assert (answer.status_code, answer.json["error"]["code"]) == (404, -32601)
    assert agent.rpc("server/discover").json["error"]["code"] == -32601


# Messages


@pytest.mark.parametrize(
    "method", ["notifications/initialized", "notifications/cancelled", "notifications/unknown"]
)
def test_notifications_are_accepted(agent: AgentCaller, method: str) -> None:
    answer = agent.post({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}})
    assert (answer.status_code, answer.data) == (202, b"")


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", MODERN])
def test_batches_are_refused_where_the_version_has_none(agent: AgentCaller, version: str) -> None:
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}]
    answer = agent.post(batch, headers={"MCP-Protocol-Version": version})
    assert (answer.status_code, answer.json["error"]["code"]) == (400, -32600)


def test_a_batch_of_an_older_version_is_answered_in_order(agent: AgentCaller) -> None:
    batch = [
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "b", "method": "nothing"},
        {"jsonrpc": "2.0", "id": "c", "method": "initialize", "params": INITIALIZE},
        5,
    ]
    headers = {"MCP-Protocol-Version": "2025-03-26"}
    answers = agent.post(batch, headers=headers).json
    assert [one["id"] for one in answers] == ["a", "b", "c", None]
    assert [one.get("error", {}).get("code") for one in answers] == [None, -32601, -32600, -32600]
    alone = agent.post([batch[1]], headers=headers)
    assert (alone.status_code, alone.data) == (202, b"")


@pytest.mark.parametrize("size", [0, 21])
def test_a_batch_has_a_bound(agent: AgentCaller, size: int) -> None:
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}] * size
    answer = agent.post(batch, headers={"MCP-Protocol-Version": "2025-03-26"})
    assert answer.json["error"]["code"] == -32600


BROKEN = {
    "nothing": b"",
    "no JSON": b"{",
    "a number": b"5",
    "a text": b'"x"',
    "no UTF-8": b'{"jsonrpc": "\xff"}',
    "a key twice": b'{"jsonrpc": "2.0", "jsonrpc": "2.0", "id": 1, "method": "ping"}',
    "NaN": b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}',
    "too deep": b"[" * 5000 + b"]" * 5000,
    "half a surrogate": b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}',
    "a nul": b'{"jsonrpc": "2.0", "id": "\\u0000", "method": "ping"}',
    "no version": b'{"id": 1, "method": "ping"}',
    "a wrong version": b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
    "no method": b'{"jsonrpc": "2.0", "id": 1}',
    "a method that is a number": b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
    "an id that is a list": b'{"jsonrpc": "2.0", "id": [1], "method": "ping"}',
    "an id that is null": b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
    "an id that is true": b'{"jsonrpc": "2.0", "id": true, "method": "ping"}',
    "an id that is a fraction": b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}',
    "an id of many digits": b'{"jsonrpc": "2.0", "id": 1' + b"0" * 60 + b', "method": "ping"}',
    "params that are a list": b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}',
    "an answer": b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_broken_messages_are_answered_with_an_error(agent: AgentCaller, body: bytes) -> None:
    answer = agent.post(body)
    assert answer.status_code == 400, answer.text
    assert answer.json["jsonrpc"] == "2.0"
    assert answer.json["error"]["code"] in (-32700, -32600)
    assert agent.rpc("ping").json["result"] == {}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "name"),
        ({"name": 5}, "name"),
        ({"name": "no_such_tool"}, "find_contacts"),
        ({"name": "find_contacts", "arguments": [1]}, "arguments"),
        ({"name": "find_contacts", "arguments": "x"}, "arguments"),
    ],
    ids=["empty", "number", "unknown", "list", "text"],
)
def test_a_call_that_names_no_tool_is_a_protocol_error(
    agent: AgentCaller, params: dict[str, Any], words: str
) -> None:
    error = agent.rpc("tools/call", params).json["error"]
    assert error["code"] == -32602
    assert words in error["message"]


def test_the_list_of_tools_is_short_enough_for_a_model(agent: AgentCaller) -> None:
    listed = agent.rpc("tools/list").text
    assert len(listed) < 30_000


def test_the_list_of_tools_has_one_page(agent: AgentCaller) -> None:
    assert agent.rpc("tools/list", {"cursor": "x"}).json["error"]["code"] == -32602


def test_the_body_is_json_of_at_most_a_mebibyte(agent: AgentCaller) -> None:
    refused(agent.post(b"{}", headers={"Content-Type": "text/plain"}), 415)
    huge = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x" * (1024 * 1024)}).encode()
    refused(agent.post(huge), 413)
    refused(agent.post(b"{}", headers={"Content-Encoding": "gzip"}), 415)


def test_a_bug_tells_no_secrets(agent: AgentCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise RuntimeError("secret of ada@example.com")

    monkeypatch.setattr(Registry, "is_remote", fail)
    called = agent.call("find_contacts", query="x")
    assert called.answer["category"] == "InternalError"
    assert "secret" not in called.message
