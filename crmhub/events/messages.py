"""The messages that subscriptions get: their JSON, and what is left out if it would be too long."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from crmhub.durations import iso
from crmhub.secrets import BASE36, time_digits, token

MAX_BODY_BYTES = 128 * 1024
# More than id, type, time and client id take.
_MAX_DATA_BYTES = MAX_BODY_BYTES - 1024
_PARTS = ("properties", "previous")


def new_id(moment: int) -> str:
    """Return a new random event id; ids of later times (`moment`, ms since 1970) sort after it."""
    return f"evt_{time_digits(moment)}{token(77, BASE36)}"


def dump_data(data: Mapping[str, Any]) -> str:
    """Return the `data` of a message as JSON text that fits into a message.

    If it is too long, the longest values of `properties` and `previous` are left out as a whole,
    and named in a further key `shortened`, such as `["properties.description"]`.
    """
    text = _dump(data)
    if len(text.encode()) <= _MAX_DATA_BYTES:
        return text
    parts = {part: dict(data.get(part) or {}) for part in _PARTS}
    lengths = sorted(
        ((len(_dump(value).encode()), part, name) for part in _PARTS
         for name, value in parts[part].items()),
        reverse=True,
    )  # fmt: skip
    shortened: list[str] = []
    excess = len(text.encode()) - _MAX_DATA_BYTES
    for length, part, name in lengths:
        if excess <= 0:
            break
        del parts[part][name]
        left_out = f"{part}.{name}"
        shortened.append(left_out)
        # Its name takes as much room in the list as it has left.
        excess -= length - len(part) - 4
    return _dump({**data, **parts, "shortened": shortened})


def body(*, id: str, type: str, created_at: int, client_id: str, data: str) -> bytes:
    """Return the body of a message; `data` is JSON text, `created_at` in ms since 1970."""
    head = _dump({"id": id, "type": type, "createdAt": iso(created_at), "clientId": client_id})
    return f'{head[:-1]},"data":{data}}}'.encode()


def alert_body(*, type: str, created_at: int, data: str) -> bytes:
    """Return the body of a message to the operator's webhook."""
    head = _dump({"type": type, "timestamp": iso(created_at)})
    return f'{head[:-1]},"data":{data}}}'.encode()


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
