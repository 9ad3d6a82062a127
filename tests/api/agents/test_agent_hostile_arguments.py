"""Hostile arguments: each tool answers any of them, and none of them as a bug of the hub."""

from __future__ import annotations

from typing import Any

import pytest

from crmhub.api.agents.protocol import TOOLS
from crmhub.api.agents.tool import Tool, schema_of
from tests.api.agents.agent_calls import AgentCaller
from tests.clients import Client

# The records that tasks read and write are the API's, which is tested on each database.
pytestmark = pytest.mark.databases("sqlite")

VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "zero": 0,
    "a fraction": 0.5,
    "a huge number": 10**400,
    "a negative number": -(2**63),
    "nothing": "",
    "blanks": " \t\n",
    "a long text": "x" * 70_000,
    "a text of quotes": "'\";--\\",
    "a path": "../../etc/passwd",
    "a template": "{{contact.email}}",
    "right to left": "\u202egro.elpmaxe@ada",
    "full width digits": "１２３４５６７８",
    "control characters": "\x1b[31m\x7f",
    "a hub id": "hub-" + "0" * 19,
    "an action id": "act-" + "0" * 24,
    "no list": [],
    "a list": ["a", 1, None],
    "a nested list": [[["a"]]],
    "no object": {},
    "an object": {"email": {"a": 1}, "__class__": "x", "": ""},
    "names": {"x" * 200: "y", "Ärger": "z", "id": 5},
}
_REQUIRED: dict[str, Any] = {
    "resource": "contacts", "id": "481516234211", "toResource": "deals", "toId": "481516234211",
    "name": "Ada", "email": "ada@example.com", "properties": {"city": "x"}, "min": 1, "max": 3,
    "text": "Calls back.", "contactId": "481516234211", "actionId": "act-" + "0" * 24,
}  # fmt: skip


def arguments_of(tool: Tool) -> dict[str, Any]:
    """Return arguments that the tool's schema takes."""
    given = {name: _REQUIRED[name] for name in schema_of(tool.takes).get("required", ())}
    if tool.name in ("create_deal", "create_ticket"):
        given["properties"] = {"dealname": "E", "subject": "E"}
    if tool.name == "list_pipelines":
        given["resource"] = "deals"
    if tool.name == "find_contacts":
        given["query"] = "Ada"
    return given


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_hostile_values_of_each_argument_are_answered(client: Client, tool: Tool) -> None:
    caller = AgentCaller(client)
    for name in schema_of(tool.takes)["properties"]:
        for value in VALUES.values():
            given = arguments_of(tool) | {name: value}
            if name in ("email", "phone") and tool.name == "find_contacts":
                del given["query"]
            called = caller.call(tool.name, **given)
            shown = (name, str(value)[:60], called.answer)
            assert called.answer.get("category") != "InternalError", shown
            assert not called.is_error or called.message.isprintable(), shown


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_hostile_values_of_properties_and_filters_are_answered(client: Client, value: Any) -> None:
    caller = AgentCaller(client)
    contact = str(client.make())
    calls: list[tuple[str, dict[str, Any]]] = [
        ("set_properties", {"id": contact, "properties": {"city": value, "email": value}}),
        ("set_properties", {"id": contact, "properties": {"numemployees": value}, "dryRun": True}),
        ("create_deal", {"contactId": contact, "properties": {"dealname": "E", "amount": value}}),
        ("create_deal", {"contactId": contact, "properties": {"dealname": "E", "pipeline": value}}),
        ("search_records", {"resource": "contacts", "filters": [
            {"propertyName": "city", "operator": "EQ", "value": value}]}),
        ("search_records", {"resource": "deals", "filters": [
            {"propertyName": "amount", "operator": "IN", "values": [value]}]}),
        ("search_records", {"resource": "deals", "filters": [
            {"propertyName": value, "operator": value, "value": "1"}]}),
    ]  # fmt: skip
    for tool, given in calls:
        called = caller.call(tool, **given)
        assert called.answer.get("category") != "InternalError", (tool, given, called.answer)
