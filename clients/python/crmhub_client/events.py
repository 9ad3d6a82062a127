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

from crmhub_client.errors import InvalidSignatureError, NoAnswerError
from crmhub_client.operations import (
    AsyncGroup,
    Group,
    Steps,
    SyncGroup,
    in_path,
    new_key,
    operation,
)
from crmhub_client.results import Event, Subscription, TestDelivery, moment
from crmhub_client.values import time_text

_PREFIX = "whsec_"
_BASE = "events/subscriptions"
_MAX_ADDITIONS = 5


class EventOperations(Group):
    """The account's subscriptions to events."""

    @operation
    def list(self) -> Steps[Sequence[Subscription]]:
        """Return all subscriptions, without their secrets."""
        return (yield from self._api("GET", _BASE, parse=_subscriptions))

    @operation
    def get(self, id: str) -> Steps[Subscription]:
        """Return a subscription, without its secret."""
        return (yield from self._api("GET", _path(id), parse=Subscription.parse))

    @operation
    def add(
        self, url: str, types: Iterable[str], *, idempotency_key: str | None = None
    ) -> Steps[Subscription]:
        """Subscribe an https address to types of events; only this answer has the `secret`.

        With an `idempotency_key` that was used before, the `secret` is "".
        """
        body = {"url": url, "types": [*types]}
        for _ in range(_MAX_ADDITIONS):
            key = new_key(idempotency_key)
            made = yield from self._api("POST", _BASE, body, key=key, parse=Subscription.parse)
            if made.secret or idempotency_key is not None:
                break
            # The first answer got lost, and the hub does not show the secret again.
            yield from self._api("DELETE", _path(made.id))
        else:
            raise NoAnswerError("Each answer with the secret got lost. Nothing is subscribed.")
        return made

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
        return (yield from self._api("PATCH", _path(id), body, parse=Subscription.parse))

    @operation
    def remove(self, id: str) -> Steps[None]:
        """End a subscription."""
        yield from self._api("DELETE", _path(id))

    @operation
    def test(self, id: str, *, idempotency_key: str | None = None) -> Steps[TestDelivery]:
        """Send a test event now, and return what the address answered."""
        path, key = f"{_path(id)}/test", new_key(idempotency_key)
        result: TestDelivery = yield from self._api("POST", path, {}, key=key)
        return result

    @operation
    def replay(
        self,
        id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        event_ids: Iterable[str] | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[int]:
        """Deliver the events of a period, or those with these ids, again; return how many."""
        times = {"since": since, "until": until}
        body: dict[str, Any] = {n: time_text(time) for n, time in times.items() if time}
        if event_ids is not None:
            body["eventIds"] = [*event_ids]
        path, key = f"{_path(id)}/replay", new_key(idempotency_key)
        return (yield from self._api("POST", path, body, key=key, parse=_count))


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


def _count(raw: Any) -> int:
    return int(raw["events"])


def _subscriptions(raw: Any) -> list[Subscription]:
    return [Subscription.parse(each) for each in raw["results"]]


def _path(id: str) -> str:
    return f"{_BASE}/{in_path(id)}"
