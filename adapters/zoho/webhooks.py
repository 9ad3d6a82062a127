"""Zoho's notifications: a channel set up, renewed and removed, its proof, and the ids that come.

Sources: Zoho's API file "notifications" (v8, June 2025), its pages on the notification APIs of v7
and v8, and its post "Kaizen #170" on them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from crmhub.adapter import WebhookRequest
from crmhub.adapter.answers import objects_in, parse_time, text_of, value_at
from crmhub.adapter.rest_adapter import RestAdapter
from crmhub.adapter.webhooks import body_of, check_proof, end_of

_PATH = ("actions", "watch")
# A channel lasts a week at most, and an hour if a longer time is asked for; clocks may differ.
_LASTS_S = 6.0 * 86_400.0


def ids_in(request: WebhookRequest, token: str) -> tuple[str, list[str]]:
    """Return the module and the ids of a notification, which repeats the token of its channel."""
    body = body_of(request)
    check_proof(text_of(value_at(body, "token")), token)
    ids = value_at(body, "ids")
    texts = [one for one in ids if isinstance(one, str)] if isinstance(ids, list) else []
    return text_of(value_at(body, "module")), texts


def watch(adapter: RestAdapter, address: str, token: str, modules: Sequence[str]) -> int:
    """Enable or renew the channel of this address; return when it ends, in ms since 1970."""
    id, ends_at = _channel_of(address), time.time() + _LASTS_S
    channel = {
        "channel_id": id,
        "events": [f"{module}.all" for module in modules],
        "channel_expiry": datetime.fromtimestamp(ends_at, UTC).isoformat(timespec="seconds"),
        "token": token,
        "notify_url": address,
        "notify_on_related_action": False,
    }
    method = "PUT" if _exists(adapter, id) else "POST"
    answer = adapter.call(method, *_PATH, body={"watch": [channel]})
    rows = answer.items("watch")
    named = [one for row in rows for one in objects_in(value_at(row, "details", "events"))]
    times = [at for one in named if (at := parse_time(one.get("channel_expiry")))]
    if len(named) < len(modules):
        raise answer.broken("it does not name all modules")
    return round(min([ends_at, *times]) * 1000)


def unwatch(adapter: RestAdapter, address: str) -> None:
    channel = _channel_of(address)
    if _exists(adapter, channel):
        adapter.call("DELETE", *_PATH, params={"channel_ids": channel})


def _channel_of(address: str) -> str:
    """Return the id of the channel, the same for all addresses that end like this one."""
    digest = hashlib.sha256(end_of(address).encode()).hexdigest()
    return str(int(digest[:12], 16) + 1)


def _exists(adapter: RestAdapter, channel: str) -> bool:
    answer = adapter.listed("GET", *_PATH, params={"channel_id": channel})
    rows: list[Mapping[str, Any]] = answer.items("watch") if answer.status == 200 else []
    return any(text_of(row.get("channel_id")) == channel for row in rows)
