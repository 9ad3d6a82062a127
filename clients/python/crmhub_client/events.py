"""Subscriptions to events, and the check of what is delivered."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from crmhub_client.errors import InvalidSignatureError
from crmhub_client.operations import (
    AsyncGroup,
    Group,
    Steps,
    SyncGroup,
    in_path,
    new_key,
    operation,
)
from crmhub_client.results import Event, Subscription, moment
from crmhub_client.values import time_text

_PREFIX = "whsec_"
_BASE = "events/subscriptions"


class EventOperations(Group):
    """The account's subscriptions to events."""

    @operation
    def list(self) -> Steps[Sequence[Subscription]]:
        """Return all subscriptions, without their secrets."""
        answer = yield from self._api("GET", _BASE)
        found = answer["results"] if isinstance(answer, dict) else answer
        return [Subscription.parse(each) for each in found]

    @operation
    def get(self, id: str) -> Steps[Subscription]:
        """Return a subscription, without its secret."""
        return Subscription.parse((yield from self._api("GET", _path(id))))

    @operation
    def add(
        self, url: str, types: Iterable[str], *, idempotency_key: str | None = None
    ) -> Steps[Subscription]:
        """Subscribe an https address to types of events; the answer alone has the `secret`."""
        body, key = {"url": url, "types": [*types]}, new_key(idempotency_key)
        return Subscription.parse((yield from self._api("POST", _BASE, body, key=key)))

    @operation
    def change(
        self,
        id: str,
        *,
        url: str | None = None,
        types: Iterable[str] | None = None,
        state: str | None = None,
    ) -> Steps[Subscription]:
        """Change what is given, and return the subscription."""
        given = {"url": url, "types": None if types is None else [*types], "state": state}
        body = {name: value for name, value in given.items() if value is not None}
        return Subscription.parse((yield from self._api("PATCH", _path(id), body)))

    @operation
    def remove(self, id: str) -> Steps[None]:
        """End a subscription."""
        yield from self._api("DELETE", _path(id))

    @operation
    def test(self, id: str, *, idempotency_key: str | None = None) -> Steps[Any]:
        """Send a test event, and return what the hub says of its delivery."""
        key = new_key(idempotency_key)
        return (yield from self._api("POST", f"{_path(id)}/test", {}, key=key))

    @operation
    def replay(
        self,
        id: str,
        *,
        since: datetime,
        until: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[Any]:
        """Deliver the events between two times once more, and return what the hub says of it."""
        body = {"since": time_text(since)}
        if until is not None:
            body["until"] = time_text(until)
        key = new_key(idempotency_key)
        return (yield from self._api("POST", f"{_path(id)}/replay", body, key=key))


class Events(EventOperations, SyncGroup):
    """The subscriptions to events, for Hub."""


class AsyncEvents(EventOperations, AsyncGroup):
    """The subscriptions to events, for AsyncHub."""


def verify_event(
    body: bytes,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance: float = 300,
    now: float | None = None,
) -> Event:
    """Return a delivered event whose signature is right, after Standard Webhooks.

    `body`: the bytes as received. `secret`: that of the subscription, or several while it changes.
    `tolerance`: how many seconds the signature may be older or newer than `now`. Raises
    InvalidSignatureError. An event may be delivered again, with the same `id`.
    """
    given = {name.lower(): value for name, value in headers.items()}
    id, stamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    signatures = given.get("webhook-signature", "").split()
    if not id or not signatures or not (stamp.isascii() and stamp.isdigit() and len(stamp) < 13):
        raise InvalidSignatureError("The headers webhook-id, -timestamp and -signature are needed.")
    signed = b".".join((id.encode(), stamp.encode(), body))
    secrets = [secret] if isinstance(secret, str) else secret
    expected = [f"v1,{_signature(each, signed)}".encode() for each in secrets]
    # Each pair is compared, so that the time taken says nothing.
    matches = [hmac.compare_digest(e, s.encode()) for e in expected for s in signatures]
    if not any(matches):
        raise InvalidSignatureError("The signature is wrong: another secret, or a changed body.")
    if abs((time.time() if now is None else now) - int(stamp)) > tolerance:
        raise InvalidSignatureError("The signature is too old, or of a clock that is wrong.")
    return _event(body)


def _signature(secret: str, signed: bytes) -> str:
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"the secret must be {_PREFIX} and base64") from None
    return base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def _event(body: bytes) -> Event:
    raw: dict[str, Any] = json.loads(body)
    texts = (str(raw.get(name, "")) for name in ("id", "type", "clientId"))
    id, type, client_id = texts
    return Event(id, type, moment(raw.get("createdAt")), client_id, raw.get("data", {}), raw)


def _path(id: str) -> str:
    return f"{_BASE}/{in_path(id)}"
