"""Notifications of the fake Zoho CRM: channels enabled, updated, listed, disabled and sent."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from adapters.fakes.answers import Answer
from adapters.fakes.sending import Sender
from adapters.fakes.zoho.failing import Row, fault, refused

_API = "https://www.zohoapis.com"
_WEEK_S, _USUAL_S = 7 * 86_400.0, 3_600.0
_OPERATIONS = ("create", "edit", "delete", "all")
# What a notification calls them.
_TOLD = {"create": "insert", "edit": "update", "delete": "delete"}
_NAMES = {"channel_id", "events", "channel_expiry", "token", "notify_url"}
_NAMES |= {"notify_on_related_action", "return_affected_field_values", "notification_condition"}


class Channels:
    """The channels by id; one sends nothing once it has ended."""

    def __init__(self) -> None:
        self.all: dict[str, dict[str, Any]] = {}
        self._sender = Sender()

    def enable(self, body: Mapping[str, Any], modules: Collection[str], *, anew: bool) -> Answer:
        """Enable a channel (`anew`, also one that exists), or update an existing one."""
        given = body.get("watch")
        if not isinstance(given, list) or not given:
            details = {"expected_data_type": "jsonarray", "api_name": "watch"}
            raise refused(400, "INVALID_DATA", "invalid data", **details)
        rows = [self._set(one, modules, anew) for one in given]
        failed = any(row["status"] == "error" for row in rows)
        return Answer(202 if failed else 201 if anew else 200, {"watch": rows})

    def _set(self, given: Any, modules: Collection[str], anew: bool) -> Row:
        for name in ("channel_id", "events", "notify_url"):
            if not given.get(name):
                return fault("MANDATORY_NOT_FOUND", "required field not found", api_name=name)
        for name in sorted(given.keys() - _NAMES):
            return fault("INVALID_DATA", "invalid data", api_name=name)
        channel, token = str(given["channel_id"]), given.get("token", "")
        if not channel.isdecimal() or int(channel) >= 2**63:
            return fault("INVALID_DATA", "invalid data", api_name="channel_id")
        if len(token) > 50:
            return fault("INVALID_DATA", "invalid data", api_name="token", maximum_length=50)
        events = [one.partition(".") for one in given["events"]]
        if any(module not in modules or what not in _OPERATIONS for module, _, what in events):
            return fault("INVALID_DATA", "invalid data", api_name="events")
        if not anew and channel not in self._live():
            return fault("NOT_SUBSCRIBED", "the channel is not subscribed", channel_id=channel)
        now = time.time()
        ends_at = _seconds(given.get("channel_expiry"))
        if not now < ends_at <= now + _WEEK_S:
            ends_at = now + _USUAL_S
        self.all[channel] = {**given, "channel_id": channel, "ends_at": ends_at}
        details = {"events": [self._event(channel, one) for one in self._modules(channel)]}
        message = "Successfully subscribed for actions-watch of the given module"
        message = message if anew else "Successfully updated the subscribe details"
        return {"code": "SUCCESS", "details": details, "message": message, "status": "success"}

    def listed(self, channel: str) -> Answer:
        live = self._live()
        found = {channel} & live if channel else live
        rows = [
            self._event(one, module) | {"notify_url": self.all[one]["notify_url"]}
            for one in sorted(found)
            for module in self._modules(one)
        ]
        info = {"per_page": 200, "page": 1, "count": len(rows), "more_records": False}
        return Answer(200, {"watch": rows, "info": info}) if rows else Answer(204)

    def disable(self, channels: str) -> Answer:
        rows = []
        for channel in channels.split(","):
            if channel not in self._live():
                wrong = fault("NOT_SUBSCRIBED", "the channel is not subscribed", id=channel)
                return Answer(202, {"watch": [wrong]})
            for module in self._modules(channel):
                message = "Successfully un-subscribed from actions-watch"
                details = self._event(channel, module)
                row = {"code": "SUCCESS", "details": details, "message": message}
                rows.append({**row, "status": "success"})
            del self.all[channel]
        return Answer(200, {"watch": rows})

    def tell(self, operation: str, module: str, record_id: str) -> None:
        """Send a notification to each channel of this operation; `operation` as in its events."""
        for channel in self._live():
            one = self.all[channel]
            if not {f"{module}.{operation}", f"{module}.all"} & {*one["events"]}:
                continue
            body: Row = {
                "server_time": round(time.time() * 1000),
                "query_params": {},
                "module": module,
                "resource_uri": f"{_API}/crm/v8/{module}",
                "ids": [record_id],
                "affected_fields": [],
                "operation": _TOLD[operation],
                "channel_id": channel,
                "token": one.get("token"),
            }
            self._sender.send(one["notify_url"], body)

    def _live(self) -> set[str]:
        now = time.time()
        return {id_ for id_, one in self.all.items() if one["ends_at"] > now}

    def _modules(self, channel: str) -> list[str]:
        return list(dict.fromkeys(one.partition(".")[0] for one in self.all[channel]["events"]))

    def _event(self, channel: str, module: str) -> Row:
        ends_at = datetime.fromtimestamp(self.all[channel]["ends_at"], UTC)
        return {
            "channel_expiry": ends_at.isoformat(timespec="seconds"),
            "resource_uri": f"{_API}/crm/v8/{module}",
            "resource_id": "5725767000000002179",
            "resource_name": module,
            "channel_id": channel,
        }


def _seconds(text: Any) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError):
        return 0.0
