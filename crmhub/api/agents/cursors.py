"""Cursors of the tools' answers: signed, and valid for one account, tool and set of arguments."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from crmhub.api.agents.agent import Agent
from crmhub.errors import BadRequest
from crmhub.records.search.cursor import Cursor, sealed, unsealed
from crmhub.secrets import derive

_INVALID = (
    "cursor: it does not belong to this call; send the cursor of the previous answer with the same"
    " arguments, or no cursor to start again"
)
_NOT_COMPARED = ("cursor", "limit")


def seal(agent: Agent, tool: str, arguments: Mapping[str, Any], state: list[Any]) -> str:
    return sealed([agent.account.id, tool, _fingerprint(arguments), state], _key(agent))


def state_of(agent: Agent, tool: str, arguments: Mapping[str, Any]) -> list[Any] | None:
    """None without a cursor. Raises BadRequest for another account, tool or arguments."""
    text = arguments.get("cursor")
    if not text:
        return None
    try:
        account_id, name, fingerprint, state = unsealed(text, _key(agent))
    except (BadRequest, ValueError):
        raise BadRequest(_INVALID) from None
    expected = (agent.account.id, tool, _fingerprint(arguments))
    if (account_id, name, fingerprint) != expected:
        raise BadRequest(_INVALID)
    return list(state)


def of_listing(cursor: Cursor) -> list[Any]:
    return list(cursor._replace(counted="", properties=None, include=()))


def to_listing(state: list[Any]) -> Cursor:
    cursor = Cursor(*state)
    return cursor._replace(include=tuple(cursor.include), shown=tuple(cursor.shown))


def _key(agent: Agent) -> bytes:
    return derive(agent.hub.settings.secret_key, "agent cursor")


def _fingerprint(arguments: Mapping[str, Any]) -> str:
    return digest({n: value for n, value in arguments.items() if n not in _NOT_COMPARED})[:16]


def digest(value: Any) -> str:
    """Independent of key order. Takes Decimal and large integers, which orjson refuses."""
    text = json.dumps(value, default=str, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
