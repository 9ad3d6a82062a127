"""Subscriptions, against a hub that answers as it is documented, and signatures of events."""

from __future__ import annotations

import base64
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from crmhub_client import InvalidSignatureError, NoAnswerError, verify_event
from tests.clients_python.callers import fake

# The reference vector of Standard Webhooks.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(b"another secret").decode()
BODY = b'{"test": 2432232314}'
AT = 1614265330
HEADERS = {
    "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "Webhook-Timestamp": str(AT),
    "Webhook-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}


def test_the_reference_vector_is_right() -> None:
    assert verify_event(BODY, HEADERS, SECRET, now=AT).raw == {"test": 2432232314}


def test_one_of_several_signatures_and_secrets_is_enough() -> None:
    signature = HEADERS["Webhook-Signature"]
    headers = HEADERS | {"Webhook-Signature": f"v1,AAAA v1a,xyz {signature}"}
    assert verify_event(BODY, headers, [OTHER, SECRET], now=AT)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"body": BODY + b" "}, "wrong"),
        ({"secret": OTHER}, "wrong"),
        ({"secret": []}, "wrong"),
        ({"headers": HEADERS | {"Webhook-Id": "msg_other"}}, "wrong"),
        ({"headers": HEADERS | {"Webhook-Timestamp": str(AT + 1)}}, "wrong"),
        ({"headers": HEADERS | {"Webhook-Timestamp": "١٦"}}, "needed"),
        ({"headers": HEADERS | {"Webhook-Timestamp": ""}}, "needed"),
        ({"headers": HEADERS | {"Webhook-Signature": "v1,é"}}, "wrong"),
        ({"headers": HEADERS | {"Webhook-Signature": " "}}, "needed"),
        ({"headers": {}}, "needed"),
        ({"now": AT + 301}, "too old"),
        ({"now": AT - 301}, "too old"),
    ],
    ids=str,
)
def test_a_forged_or_stale_event_is_refused(change: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {
        "body": BODY,
        "headers": HEADERS,
        "secret": SECRET,
        "now": AT,
        **change,
    }
    with pytest.raises(InvalidSignatureError, match=words):
        verify_event(**given)


def test_a_secret_of_another_form_is_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="base64") as raised:
        verify_event(BODY, HEADERS, "whsec_not base64!", now=AT)
    assert "not base64!" not in str(raised.value)


def test_an_event_is_read() -> None:
    data = {"id": 7, "properties": {"city": "London"}, "changed": ["city"], "previous": {}}
    sent = {"id": "evt_1", "type": "contact.updated", "clientId": "acme", "data": data}
    body = json.dumps({**sent, "createdAt": "2026-11-21T09:51:10.417Z"}).encode()
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    stamp = str(int(datetime.now(UTC).timestamp()))
    signed = b".".join((b"evt_1", stamp.encode(), body))
    signature = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    headers = {
        "webhook-id": "evt_1",
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{signature}",
    }
    event = verify_event(body, headers, SECRET)
    assert (event.id, event.type, event.client_id) == ("evt_1", "contact.updated", "acme")
    assert event.created_at == datetime(2026, 11, 21, 9, 51, 10, 417000, UTC)
    assert event.data == data


class _Subscriptions:
    """Answers as `/events/subscriptions` is documented, and keeps what was sent.

    The first `lost` answers with a secret get lost.
    """

    def __init__(self, lost: int = 0) -> None:
        self.lost = lost
        self.sent: list[tuple[str, str, Any]] = []
        self.keys: set[str] = set()
        self.shown = {"id": "sub_1", "url": "https://x.test", "types": ["*"], "state": "active"}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/acme/api/v1/events/subscriptions")
        body = json.loads(request.content) if request.content else None
        self.sent.append((request.method, path, body))
        assert (request.method == "POST") == ("Idempotency-Key" in request.headers)
        if request.method == "DELETE":
            return httpx.Response(204)
        if (request.method, path) == ("POST", ""):
            key = request.headers["Idempotency-Key"]
            secret = "" if key in self.keys else SECRET
            self.keys.add(key)
            if secret and self.lost:
                self.lost -= 1
                raise httpx.ReadError("cut", request=request)
            return httpx.Response(201, json={**self.shown, **body, "secret": secret})
        if (request.method, path) == ("GET", ""):
            cursor = {"next": "", "nextLink": ""}
            page = {"total": 1, "results": [self.shown], "cursor": cursor, "hasMore": False}
            return httpx.Response(200, json=page)
        if path.endswith("/replay"):
            return httpx.Response(200, json={"events": 3})
        return httpx.Response(200, json={**self.shown, **(body or {})})


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_subscriptions_are_managed(kind: str) -> None:
    hub = _Subscriptions()
    caller = fake(kind, hub)
    made = caller.call(lambda hub: hub.events.add("https://x.test", ["deal.created"]))
    assert (made.secret, made.types) == (SECRET, ["deal.created"])
    assert SECRET not in repr(made)
    [listed] = caller.call(lambda hub: hub.events.list())
    assert (listed.id, listed.secret) == ("sub_1", "")
    assert caller.call(lambda hub: hub.events.get("sub_1")) == listed
    changed = caller.call(lambda hub: hub.events.change("sub_1", state="paused", types=iter("a")))
    assert (changed.state, changed.types) == ("paused", ["a"])
    since = datetime(2026, 1, 2, tzinfo=UTC)
    caller.call(lambda hub: hub.events.test("sub_1"))
    assert caller.call(lambda hub: hub.events.replay("sub_1", since=since, until=since)) == 3
    caller.call(lambda hub: hub.events.replay("sub_1", event_ids=["evt_1"]))
    caller.call(lambda hub: hub.events.remove("sub_1"))
    moment = "2026-01-02T00:00:00.000Z"
    assert hub.sent[3:] == [
        ("PATCH", "/sub_1", {"types": ["a"], "state": "paused"}),
        ("POST", "/sub_1/test", {}),
        ("POST", "/sub_1/replay", {"since": moment, "until": moment}),
        ("POST", "/sub_1/replay", {"eventIds": ["evt_1"]}),
        ("DELETE", "/sub_1", None),
    ]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_subscription_whose_secret_got_lost_is_made_anew(kind: str) -> None:
    hub = _Subscriptions(lost=2)
    made = fake(kind, hub).call(lambda hub: hub.events.add("https://x.test", ["deal.created"]))
    assert made.secret == SECRET
    again = ["POST", "POST", "DELETE"]
    assert [method for method, _, _ in hub.sent] == [*again, *again, "POST"]
    hub = _Subscriptions(lost=99)
    with pytest.raises(NoAnswerError, match="secret"):
        fake(kind, hub).call(lambda hub: hub.events.add("https://x.test", []))
    assert hub.sent[-1][0] == "DELETE"
