"""Webhooks of the fake Pipedrive (v1 of its API): created, listed, deleted and sent."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from adapters.fakes.fields import Check, Field, integer, short
from adapters.fakes.sending import Sender

_OBJECTS = (
    *("activity", "deal", "lead", "note", "organization", "person", "pipeline", "product"),
    *("stage", "user", "*"),
)
_MOST = 40
_TEXT = short(2_000)


def _address(value: Any) -> str:
    is_address = isinstance(value, str) and value.startswith(("https://", "http://"))
    return "" if is_address else "must be a full URL"


def _nullable(check: Check) -> Check:
    return lambda value: "" if value is None else check(value)


_FIELDS: Mapping[str, Field] = {
    "subscription_url": Field(check=_address),
    "event_action": Field(options=("create", "change", "delete", "*")),
    "event_object": Field(options=_OBJECTS),
    "name": Field(check=short(255)),
    "user_id": Field(check=integer),
    "http_auth_user": Field(check=_nullable(_TEXT)),
    "http_auth_password": Field(check=_nullable(_TEXT)),
    "version": Field(options=("1.0", "2.0")),
}
"""What a new webhook may contain; the first four are required."""
_REQUIRED = tuple(_FIELDS)[:4]
_USUAL: Mapping[str, Any] = {
    **dict.fromkeys(("http_auth_user", "http_auth_password", "remove_time", "remove_reason")),
    **dict.fromkeys(("last_delivery_time", "last_http_status")),
    "version": "2.0",
    "is_active": 1,
    "type": "general",
}


class Webhooks:
    """The webhooks of a company, as the API lists them; `all` holds them by id."""

    def __init__(self) -> None:
        self.all: dict[int, dict[str, Any]] = {}
        self._made = 0
        self._sender = Sender()

    def create(self, body: Any) -> dict[str, Any] | tuple[str, str]:
        """Return the new webhook, or the name of a wrong field and what is wrong with it."""
        if not isinstance(body, dict):
            return "body", "must be an object"
        for name in _REQUIRED:
            if name not in body:
                return name, "is required"
        for name, value in body.items():
            field = _FIELDS.get(name)
            if field is None:
                return name, "is not allowed"
            if field.options and value not in field.options:
                return name, f"must be one of {', '.join(field.options)}"
            if why := field.check(value):
                return name, why
        if len(self.all) >= _MOST:
            return "user_id", f"has {_MOST} webhooks already"
        self._made += 1
        self.all[self._made] = {"id": self._made, **_USUAL, **body}
        return self.all[self._made]

    def tell(self, action: str, entity: str, record_id: int, data: Mapping[str, Any]) -> None:
        """Send the webhooks about a change of a record."""
        for one in self.all.values():
            if one["event_action"] not in (action, "*") or one["event_object"] not in (entity, "*"):
                continue
            meta = {
                "action": action,
                "entity": entity,
                "entity_id": str(record_id),
                "version": one["version"],
                "webhook_id": str(one["id"]),
                "attempt": 1,
            }
            body = {"meta": meta, "data": None if action == "delete" else data, "previous": None}
            user, password = one["http_auth_user"], one["http_auth_password"]
            pair = base64.b64encode(f"{user}:{password}".encode()).decode()
            headers = {"Authorization": f"Basic {pair}"} if user else {}
            self._sender.send(one["subscription_url"], body, headers)
