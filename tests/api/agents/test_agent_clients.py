"""Clients that others wrote, against a served hub and over standard input and output.

The official SDK's client, the command line of its inspector (from npm), and the client of FastMCP
(from PyPI, in an environment of its own).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from crmhub.api.agents.protocol import TOOLS
from tests import coroutines, databases
from tests.cli.conftest import CRMHUB, CommandLine, environment
from tests.server.servers import serving, soon

pytestmark = pytest.mark.databases("sqlite")
_PATIENCE = 300
_INSPECTOR = "@modelcontextprotocol/inspector@2"
LEAD = {"name": "Ada Lovelace", "email": "ada@example.com"}


@dataclass(frozen=True)
class Served:
    """A served hub with one account."""

    root: Path
    url: str
    client_id: str
    key: str

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


@pytest.fixture(scope="module")
def served_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root: Path = tmp_path_factory.mktemp("agents")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("CRMHUB_")]:
            patch.delenv(name)
        made = CommandLine(root, {}).json("account", "create", "Acme")
        with serving(root, "--workers", "1", "--threads", "4") as server:
            url = f"http://127.0.0.1:{server.port}/mcp"
            yield Served(root, url, made["clientId"], made["apiKey"])


def calls(ids: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Return a call of each tool; `ids` are those of a contact, a deal, a company and an action."""
    return [
        ("find_contacts", {"query": "Ada"}),
        ("get_record", {"resource": "contacts", "id": ids["contact"]}),
        ("search_records", {"resource": "deals", "limit": 5}),
        ("list_properties", {"resource": "contacts", "query": "status"}),
        ("list_pipelines", {"resource": "deals"}),
        ("create_or_update_lead", LEAD),
        ("create_or_update_company", {"domain": "example.com", "name": "Example"}),
        ("set_properties", {"id": ids["contact"], "properties": {"city": "London"}}),
        ("create_deal", {"contactId": ids["contact"], "properties": {"dealname": "Engine"}}),
        ("create_ticket", {"contactId": ids["contact"], "properties": {"subject": "Help"}}),
        (
            "link_records",
            {
                "resource": "deals",
                "id": ids["deal"],
                "toResource": "contacts",
                "toId": ids["contact"],
            },
        ),
        ("pick_agent", {"min": 1, "max": 3}),
        ("get_action", {"actionId": ids["action"]}),
        ("list_failed", {}),
    ]


async def prepare(client: Client) -> dict[str, str]:
    lead = (await client.call_tool("create_or_update_lead", LEAD)).structured_content
    deal = {"contactId": lead["contactId"], "properties": {"dealname": "First"}}
    made = (await client.call_tool("create_deal", deal)).structured_content
    return {"contact": lead["contactId"], "deal": made["dealId"], "action": lead["actionId"]}


async def use_all(client: Client) -> list[str]:
    """Call each tool; the SDK holds each answer against the tool's schema."""
    names = [tool.name for tool in (await client.list_tools()).tools]
    for tool, arguments in calls(await prepare(client)):
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        assert json.loads(result.content[0].text) == result.structured_content
    wrong = await client.call_tool("find_contacts", {"emial": "x"})
    assert wrong.is_error
    assert "did you mean email" in wrong.content[0].text
    return names


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_sdks_client_uses_all_tools_over_http(served_hub: Served, mode: str) -> None:
    async def run() -> list[str]:
        async with (
            httpx2.AsyncClient(headers=served_hub.authorization, timeout=_PATIENCE) as http,
            Client(streamable_http_client(served_hub.url, http_client=http), mode=mode) as client,
        ):
            return await use_all(client)

    assert len(coroutines.run(run())) == len(TOOLS)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_sdks_client_uses_all_tools_over_stdio(served_hub: Served, mode: str) -> None:
    command, *arguments = CRMHUB
    server = StdioServerParameters(
        command=command,
        args=[*arguments, "mcp", served_hub.client_id],
        env=environment(),
        cwd=served_hub.root,
    )

    async def run() -> list[str]:
        async with Client(stdio_client(server), mode=mode) as client:
            return await use_all(client)

    assert len(coroutines.run(run())) == len(TOOLS)


# The inspector


@pytest.fixture(scope="module")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if reason := databases.left_out("npm"):
        pytest.skip(f"npm left out: {reason}")
    root = tmp_path_factory.mktemp("inspector")
    (root / "package.json").write_text('{"name": "tests", "private": true}')
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", _INSPECTOR]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    return root / "node_modules" / ".bin" / "mcp-inspector"


def inspect(inspector: Path, served: Served, *arguments: str) -> Any:
    """Return the JSON that the inspector's command line prints."""
    command = [
        str(inspector), "--cli", served.url, "--transport", "http",
        "--header", f"Authorization: Bearer {served.key}", *arguments,
    ]  # fmt: skip
    home = {**os.environ, "HOME": str(served.root), "MCP_CATALOG_PATH": str(served.root / "c.json")}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_PATIENCE, check=False, env=home
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_inspector_lists_and_calls_all_tools(inspector: Path, served_hub: Served) -> None:
    listed = inspect(inspector, served_hub, "--method", "tools/list", "--strict")
    names = [tool["name"] for tool in listed["tools"]]
    assert len(names) == len(TOOLS)

    def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        pairs = [
            word
            for name, value in arguments.items()
            for word in (
                "--tool-arg",
                f"{name}={value if isinstance(value, str) else json.dumps(value)}",
            )
        ]
        method = ("--method", "tools/call", "--tool-name", tool)
        result = inspect(inspector, served_hub, *method, *pairs)
        assert not result.get("isError"), result
        answer: dict[str, Any] = result["structuredContent"]
        return answer

    lead = call("create_or_update_lead", LEAD)
    deal = call("create_deal", {"contactId": lead["contactId"], "properties": {"dealname": "I"}})
    ids = {"contact": lead["contactId"], "deal": deal["dealId"], "action": lead["actionId"]}
    for tool, arguments in calls(ids):
        call(tool, arguments)
        names.remove(tool)
    assert names == []


# FastMCP

_PROGRAM = """
import asyncio, json, sys
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

async def main(url, key):
    transport = StreamableHttpTransport(url, headers={"Authorization": f"Bearer {key}"})
    async with Client(transport) as client:
        tools = [tool.name for tool in await client.list_tools()]
        lead = await client.call_tool("create_or_update_lead", json.loads(sys.argv[3]))
        found = await client.call_tool("find_contacts", {"email": "ada@example.com"})
        wrong = await client.call_tool("get_record", {"resource": "x"}, raise_on_error=False)
        print(json.dumps([len(tools), lead.structured_content, found.structured_content,
                          wrong.is_error]))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def test_fastmcps_client_finds_and_creates(served_hub: Served, tmp_path: Path) -> None:
    if reason := databases.left_out("pypi"):
        pytest.skip(f"PyPI left out: {reason}")
    venv.create(tmp_path / "fastmcp", with_pip=True)
    python = str(tmp_path / "fastmcp" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "fastmcp"]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"fastmcp cannot be installed: {installed.stderr[-200:]}")
    done = subprocess.run(
        [python, "-c", _PROGRAM, served_hub.url, served_hub.key, json.dumps(LEAD)],
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    tools, lead, found, refused = json.loads(done.stdout)
    assert tools == len(TOOLS)
    assert found["results"][0]["id"] == lead["contactId"]
    assert refused is True


# Standard input


def talk(served: Served, *lines: bytes, scopes: tuple[str, ...] = ()) -> list[Any]:
    """Return the answers to lines on standard input; the command must end with them."""
    options = [word for scope in scopes for word in ("--scope", scope)]
    done = subprocess.run(
        [*CRMHUB, "mcp", served.client_id, *options],
        input=b"".join(line + b"\n" for line in lines),
        capture_output=True,
        cwd=served.root,
        env=environment(),
        timeout=_PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rpc(id: Any, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def test_standard_input_survives_hostile_lines(served_hub: Served) -> None:
    answers = talk(
        served_hub,
        b"{",
        b"",
        b"\xff",
        b"[" * 5000,
        b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * 3_000_000 + b'"}',
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        b"[]",
        rpc("last", "ping"),
    )
    codes = [one.get("error", {}).get("code") for one in answers]
    assert codes == [-32700, -32700, -32700, -32600, -32600, None]
    assert answers[-1] == {"jsonrpc": "2.0", "id": "last", "result": {}}


def test_scopes_of_the_command_decide_which_tools_are_listed(served_hub: Served) -> None:
    write = {"name": "create_or_update_lead", "arguments": LEAD}
    lines = [rpc(1, "tools/list"), rpc(2, "tools/call", **write)]
    listed, refused = talk(served_hub, *lines, scopes=("deals:read",))
    names = [tool["name"] for tool in listed["result"]["tools"]]
    assert names == [
        "get_record",
        "search_records",
        "list_properties",
        "list_pipelines",
        "get_action",
        "list_failed",
    ]
    assert refused["result"]["structuredContent"]["category"] == "ForbiddenError"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("nobody",), "nobody"), (("acme", "--scope", "all:read"), "all:read")],
    ids=["account", "scope"],
)
def test_the_command_names_what_it_does_not_know(
    served_hub: Served, arguments: tuple[str, ...], words: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "crmhub", "mcp", *arguments],
        capture_output=True,
        text=True,
        cwd=served_hub.root,
        env=environment(),
        timeout=_PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stdout == ""


def test_the_command_sees_changes_of_the_account(served_hub: Served) -> None:
    """Such a command runs for days: what an operator changes holds for the next message."""
    made = CommandLine(served_hub.root, {}).json("account", "create", "Beta")["clientId"]
    with subprocess.Popen(
        [*CRMHUB, "mcp", made],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=served_hub.root,
        env=environment(),
    ) as process:
        assert process.stdin
        assert process.stdout

        def ask() -> Any:
            process.stdin.write(rpc(1, "ping") + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        assert "result" in ask()
        CommandLine(served_hub.root, {})("account", "disable", made, "--yes")
        soon(lambda: "disabled" in ask().get("error", {}).get("message", ""))
        process.stdin.close()
    assert process.returncode == 0
