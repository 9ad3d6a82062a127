"""Receivers of events in tests: an HTTP server that notes what it gets and answers as told."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import sqlalchemy as sa

from crmhub.database.statements import Statement, param
from crmhub.database.tables import event, event_delivery, event_subscription
from crmhub.hub import Hub
from crmhub.operators.events import event_subscriptions
from crmhub.operators.events.event_subscriptions import NewSubscription
from tests.clients import TESTS, Client

HOOK = "http://127.0.0.1:9/secret-path/"
"""An address at which nobody listens."""
_EVENTS = Statement(
    sa.select(event, event_delivery.c.position)
    .join(
        event_delivery,
        sa.and_(
            event_delivery.c.account_id == event.c.account_id,
            event_delivery.c.event_id == event.c.id,
        ),
    )
    .where(event.c.account_id == param("account_id"))
    .order_by(event_delivery.c.position, event.c.id)
)


def subscribe(hub: Hub, client: Client, *types: str, url: str = HOOK) -> NewSubscription:
    """Subscribe the client's account to these types of events."""
    return event_subscriptions.add(hub, client.account.client_id, url=url, types=types, by=TESTS)


def events_of(hub: Hub, client: Client) -> list[Any]:
    """Return the events of the client's account, in the order in which they are delivered."""
    with hub.database.across_accounts(), hub.database.reading() as db:
        return db.rows(_EVENTS, {"account_id": client.account.id})


@dataclass(frozen=True)
class Received:
    """A message that a receiver got."""

    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        """Return whether the signature is right, by the rules of Standard Webhooks."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        id, at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        signed = hmac.new(key, f"{id}.{at}.".encode() + self.body, hashlib.sha256).digest()
        return self.headers["webhook-signature"] == f"v1,{base64.b64encode(signed).decode()}"


Answer = int | tuple[int, Mapping[str, str]]


@dataclass
class Receiver:
    """An HTTP server on this machine; `answer` says what a message is answered."""

    answer: Callable[[Received], Answer] = lambda received: 204
    received: list[Received] = field(default_factory=list)
    url: str = ""

    @property
    def types(self) -> list[str]:
        return [each.json["type"] for each in self.received]

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        got = Received({name.lower(): value for name, value in request.headers.items()}, body)
        self.received.append(got)
        answer = self.answer(got)
        status, headers = (answer, {}) if isinstance(answer, int) else answer
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", "0")
        request.end_headers()


@contextmanager
def receiving(answer: Callable[[Received], Answer] = lambda received: 204) -> Iterator[Receiver]:
    """Run a receiver until the block ends."""
    receiver = Receiver(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.handle(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/secret-path/"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def hurry(hub: Hub, client: Client) -> None:
    """Let every wait of the account's deliveries and subscriptions end now."""
    of = {"account_id": client.account.id}

    def work(tx: Any) -> None:
        tx.run(_HURRY_DELIVERIES, of)
        tx.run(_HURRY_SUBSCRIPTIONS, of)

    with hub.database.across_accounts():
        hub.database.transact(work)


_HURRY_DELIVERIES = Statement(
    sa.update(event_delivery)
    .where(event_delivery.c.account_id == param("account_id"))
    .values(run_at=sa.literal_column("1"))
)
_HURRY_SUBSCRIPTIONS = Statement(
    sa.update(event_subscription)
    .where(event_subscription.c.account_id == param("account_id"))
    .values(paused_until=sa.literal_column("0"))
)
