"""The forms of a helper's answer: flat JSON, or what Chatfuel or Manychat stores by itself.

They are for answers with status 2xx, also of soft errors. Other errors have the same body in each
form, because neither Chatfuel nor Manychat reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import flask

from crmhub.accounts.accounts import Account
from crmhub.errors import BadRequest

Wrap = Callable[[dict[str, Any]], dict[str, Any]]
"""A function that returns a flat answer in another form."""

# https://manychat.github.io/dynamic_block_docs/: with more, Manychat refuses the answer.
_MOST_ACTIONS = 5
RESERVED = frozenset(
    ("status", "message", "actionId", "stale", "refused", "missing", "properties", "url")
)
"""The keys of answers that win over properties with the same name, `url` where the CRM has one."""
PREFIX = "prop_"
"""The prefix of the names that Chatfuel and Manychat store such properties under."""
CHANNELS = MappingProxyType(
    {"messenger": "", "instagram": "instagram", "whatsapp": "whatsapp", "telegram": "telegram"}
)
"""The `type` of a Manychat answer by the query parameter `channel`; "" for no type."""
# After the helper's own keys, in the order in which a bot is likely to need them.
_SHARED = ("status", "message", "category", "refused", "actionId", "stale", "missing", "url")


def _flat(answer: dict[str, Any]) -> dict[str, Any]:
    return answer


def _chatfuel(answer: dict[str, Any]) -> dict[str, Any]:
    return {"set_attributes": _flattened(answer)}


def _flattened(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer without the object `properties`, whose items are keys already.

    A property whose name is reserved gets the name `prop_<name>`.
    """
    properties: Mapping[str, str] = answer.get("properties") or {}
    taken = {
        f"{PREFIX}{name}": value
        for name, value in properties.items()
        if name in RESERVED and (name != "url" or answer.get(name) != value)
    }
    flat = {key: value for key, value in answer.items() if key != "properties"}
    return {**taken, **flat}


def _manychat(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer for Manychat's dynamic block, which stores the values of its actions.

    Manychat takes at most five actions. The query parameter `fields` names the keys to store;
    without it, these are the helper's own keys, then `status`, `message` and so on. A blank value
    clears its field, lest the field keep the value of an earlier call. Outside of Messenger,
    Manychat takes the block only with the `type` of its channel, which the query parameter
    `channel` names.
    """
    answer = _flattened(answer)
    own = [key for key in answer if key not in _SHARED]
    keys = _requested_fields() or [*own, *(key for key in _SHARED if key in answer)]
    actions: list[dict[str, Any]] = [
        {"action": "unset_field_value", "field_name": key}
        if answer[key] == ""
        else {"action": "set_field_value", "field_name": key, "value": answer[key]}
        for key in keys
        if key in answer
    ]
    type = CHANNELS.get(_requested_channel(), "")
    content: dict[str, Any] = {"type": type} if type else {}
    content |= {"messages": [], "actions": actions[:_MOST_ACTIONS]}
    if type not in ("whatsapp", "telegram"):
        # Those two have none.
        content["quick_replies"] = []
    return {"version": "v2", "content": content}


def _requested_channel() -> str:
    return flask.request.args.get("channel", "").strip().lower() or "messenger"


def _requested_fields() -> list[str]:
    text = flask.request.args.get("fields", "")
    return list(dict.fromkeys(name for each in text.split(",") if (name := each.strip())))


FORMATS: Mapping[str, Wrap] = MappingProxyType(
    {"flat": _flat, "chatfuel": _chatfuel, "manychat": _manychat}
)
"""The forms of an answer, by the values of `answer_format` and of the query parameter `format`."""


def requested_format(account: Account | None = None) -> Wrap:
    """Return the function for the form of this call's answer, by the query or the account.

    Raises BadRequest for an unknown form or `channel`, and for too many `fields`.
    """
    named = flask.request.args.get("format") or _format_of(account)
    if named not in FORMATS:
        raise BadRequest(f"format: is one of {', '.join(FORMATS)}")
    if named == "manychat" and _requested_channel() not in CHANNELS:
        raise BadRequest(f"channel: is one of {', '.join(CHANNELS)}")
    if named == "manychat" and len(_requested_fields()) > _MOST_ACTIONS:
        raise BadRequest(f"fields: Manychat stores at most {_MOST_ACTIONS} fields of an answer")
    return FORMATS[named]


def format_of_error(account: Account) -> Wrap:
    """Return the function for the form of an error's answer, whatever the query says."""
    named = flask.request.args.get("format", "")
    return FORMATS.get(named) or FORMATS[_format_of(account)]


def _format_of(account: Account | None) -> str:
    return account.switches.answer_format if account is not None else "flat"
