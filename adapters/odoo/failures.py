"""Convert the errors of Odoo's two interfaces, and of `load`, into those of the contract."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from crmhub.adapter import (
    AdapterError,
    BadConfig,
    Denied,
    LacksRight,
    NotFound,
    NotYet,
    Problem,
    Rejected,
    Throttled,
    Unavailable,
)
from crmhub.adapter.http import Answer
from crmhub.adapter.types import to_text

COOLDOWN_S = 60.0
"""For how many seconds Odoo refuses all logins after five refused ones (base.login_cooldown)."""
_BUSY_S = 1.0
_SHOWN = 300
_BUSY = re.compile("could not serialize|deadlock|could not obtain lock|Serialization|Lock")
_NO_MODEL = re.compile("Object .* doesn't exist")
_OTHER_VERSION = frozenset({"NotFound", "UnprocessableEntity", "BadRequest", "AttributeError"})
_REFUSALS = frozenset(
    {"UserError", "ValidationError", "RedirectWarning", "ValueError", "TypeError", "KeyError"}
    | {"DataError", "NumericValueOutOfRange"}
)
_NO_INTERFACE = (
    "Odoo is not at this address, or has no such interface: json-2 is for Odoo 19 and later,"
    " json-rpc for 17 and 18. If the address has several databases, enter the right one."
)


class NotLoaded(Rejected):
    """Odoo refuses rows of a `load`; the problems have Odoo's names of the fields.

    `rows` are the indexes of the refused rows. It is empty if Odoo does not name them.
    """

    rows: frozenset[int] = frozenset()


def failure(answer: Answer) -> AdapterError | None:
    """Return the error that an answer of Odoo reports, or None for a result.

    Odoo rolls a call back that raises, so such an error is never Uncertain.
    """
    match answer.body:
        case {"result": {"ids": False, "messages": list(messages)}}:
            return _not_loaded(messages)
        case {"ids": False, "messages": list(messages)}:
            return _not_loaded(messages)
        case {"error": {"data": {"name": str(name), "message": str(message)}}}:
            return _raised(name, message)
        case {"name": str(name), "message": str(message), "arguments": _}:
            return _raised(name, message)
        case _ if answer.status in (404, 410):
            return BadConfig(_NO_INTERFACE)
        case _ if answer.status == 409:
            # A lock, told without its class.
            return NotYet("Odoo is busy with the same records.", retry_after=_BUSY_S)
    return None


def lacks(rights: Sequence[str]) -> LacksRight:
    """Return the error of rights that the user lacks in Odoo."""
    return LacksRight(f"The user lacks rights in Odoo: {', '.join(rights)}")


def _raised(name: str, message: str) -> AdapterError:
    """Return the error for an exception that was raised in Odoo, by its qualified name."""
    kind, words = name.rpartition(".")[2], _shown(message)
    if _BUSY.search(f"{kind} {message}"):
        return NotYet(f"Odoo is busy with the same records: {words}", retry_after=_BUSY_S)
    if _NO_MODEL.search(message) or kind in _OTHER_VERSION:
        return BadConfig(f"This Odoo lacks an app, or has another version: {words}")
    if kind == "OperationalError" and "database" in message:
        return BadConfig(f"Odoo has no such database: {words}")
    if kind in _REFUSALS:
        return Rejected([], f"Odoo does not take these values: {words}")
    match kind:
        case "AccessDenied" if "Too many" in message:
            return Throttled("Odoo refuses logins for a while.", retry_after=COOLDOWN_S)
        case "AccessDenied" | "Unauthorized" | "SessionExpiredException":
            return Denied(f"Odoo refuses the API key or the user: {words}")
        case "AccessError":
            return lacks([words])
        case "MissingError":
            return NotFound(f"Odoo has no such record: {words}")
    return Unavailable(f"Odoo broke down ({kind}): {words}")


def _not_loaded(messages: list[Any]) -> AdapterError:
    told = [one for one in messages if isinstance(one, dict) and one.get("type") == "error"]
    texts = [_shown(to_text(one.get("message"))) for one in told]
    if any(map(_BUSY.search, texts)):
        return NotYet(f"Odoo is busy with the same records: {texts[0]}", retry_after=_BUSY_S)
    fields = [to_text(one.get("field") or "") for one in told]
    named = [Problem(name, text) for name, text in zip(fields, texts, strict=True) if name]
    error = NotLoaded(named, "" if named else f"Odoo does not take this: {' '.join(texts)}")
    error.rows = frozenset(one["record"] for one in told if isinstance(one.get("record"), int))
    return error


def _shown(message: str) -> str:
    return " ".join(message.split())[:_SHOWN].rstrip(".")
