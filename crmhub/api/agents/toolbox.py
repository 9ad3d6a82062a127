from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import structlog
from mcp_types import CallToolResult, ListToolsResult, TextContent

from crmhub.api.agents.agent import Agent
from crmhub.api.agents.definition_tools import LIST_PIPELINES, LIST_PROPERTIES
from crmhub.api.agents.find_tools import FIND_CONTACTS, GET_RECORD, SEARCH_RECORDS
from crmhub.api.agents.other_tools import GET_ACTION, LINK_RECORDS, PICK_AGENT
from crmhub.api.agents.tool import Tool
from crmhub.api.agents.write_tools import CREATE_DEAL, CREATE_TICKET, LEAD, SET_PROPERTIES
from crmhub.api.http.failures import place_of
from crmhub.errors import HubError, Internal, error_body

_log = structlog.get_logger(__name__)

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        FIND_CONTACTS,
        GET_RECORD,
        SEARCH_RECORDS,
        LIST_PROPERTIES,
        LIST_PIPELINES,
        LEAD,
        SET_PROPERTIES,
        CREATE_DEAL,
        CREATE_TICKET,
        LINK_RECORDS,
        PICK_AGENT,
        GET_ACTION,
    )
}
"""The tools by name, in the order in which they are listed."""
_LONGEST_MESSAGE = 4_000


def list_tools(agent: Agent) -> ListToolsResult:
    allowed = [tool for tool in TOOLS.values() if tool.kinds_for(agent.scopes)]
    return ListToolsResult(tools=[tool.described(agent) for tool in allowed])


def call_tool(agent: Agent, tool: Tool, arguments: Mapping[str, Any]) -> CallToolResult:
    """An error is a result that says what to send instead."""
    try:
        answer = tool.call(agent, arguments)
    except HubError as exc:
        return _failed(exc)
    # Any other exception is a bug: its details go to the log, not to the caller.
    except Exception as exc:
        _log.error("unexpected failure of a tool", error=type(exc).__name__, place=place_of(exc))
        return _failed(Internal("The hub failed unexpectedly. Do not repeat the call."))
    return CallToolResult(content=[_text(answer)], structured_content=answer)


def _failed(error: HubError) -> CallToolResult:
    message = error.message
    if len(message) > _LONGEST_MESSAGE:
        message = message[:_LONGEST_MESSAGE] + "…"
    retry = error.headers.get("Retry-After")
    if retry:
        message += f" Try again in {retry} s."
    if error.action_id:
        message += f" The call is action {error.action_id}."
    body = error_body(error.category, message)
    text = TextContent(type="text", text=f"{error.category}: {message}")
    return CallToolResult(content=[text], structured_content=body, is_error=True)


def _text(answer: Mapping[str, Any]) -> TextContent:
    return TextContent(type="text", text=orjson.dumps(answer).decode())
