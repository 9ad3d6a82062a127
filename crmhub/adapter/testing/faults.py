"""Network and HTTP faults that the proxy injects between an adapter and a CRM."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from functools import cache
from typing import Any

from crmhub.adapter.testing.proxy import Exchange, Fault, FaultProxy, Reply, Request, head

_HTML = b"<!doctype html><title>Sign in</title><p>Sign in to go on.</p>"
_JSON = {"Content-Type": "application/json"}


def answers(status: int, body: Any = None, **headers: str) -> Fault:
    """Answer instead of the CRM; the arguments are those of `made`."""
    reply = made(status, body, **headers)
    return lambda exchange: exchange.reply(reply)


def answers_after(status: int, body: Any = None, **headers: str) -> Fault:
    """Forward the request, but replace the CRM's response; the arguments are those of `made`."""
    reply = made(status, body, **headers)

    def fault(exchange: Exchange) -> None:
        exchange.forward()
        exchange.reply(reply)

    return fault


def made(status: int, body: Any = None, **headers: str) -> Reply:
    """`body`: bytes, JSON, or None for none; underscores in `headers` become hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is None:
        return Reply(status, b"", named)
    if isinstance(body, bytes):
        return Reply(status, body, named)
    return Reply(status, json.dumps(body).encode(), _JSON | named)


def echoes(status: int) -> Fault:
    """Answer with an error that quotes the request with all secrets; do not forward it."""

    def fault(exchange: Exchange) -> None:
        said = f"cannot take {exchange.quotation}"
        exchange.reply(made(status, {"message": said, "error": said}))

    return fault


def says(status: int, body: Any, *, after: bool = False) -> Fault:
    """Answer with an error in the CRM's form, in which `{request}` quotes the request and secrets.

    The request is not forwarded to the CRM, unless `after` is True.
    """

    def fault(exchange: Exchange) -> None:
        if after:
            exchange.forward()
        exchange.reply(made(status, _filled(body, exchange.quotation)))

    return fault


def _filled(body: Any, request: str) -> Any:
    if isinstance(body, str):
        return body.replace("{request}", request)
    if isinstance(body, Mapping):
        return {name: _filled(value, request) for name, value in body.items()}
    if isinstance(body, list | tuple):
        return [_filled(value, request) for value in body]
    return body


def edits(edit: Callable[[Any, Exchange], Any]) -> Fault:
    """Forward the request, and edit the JSON of the CRM's response, if it is JSON."""

    def fault(exchange: Exchange) -> None:
        reply = exchange.forward()
        with suppress(ValueError):
            edited = json.dumps(edit(json.loads(reply.body), exchange)).encode()
            reply = Reply(reply.status, edited, reply.headers)
        exchange.reply(reply)

    return fault


def in_pages_of_one(paging: str) -> Fault:
    """Forward with a page size of 1; group 1 of `paging` is the size, in path or body."""

    def one(found: re.Match[str]) -> str:
        start, end = (at - found.start() for at in found.span(1))
        return f"{found[0][:start]}1{found[0][end:]}"

    def fault(exchange: Exchange) -> None:
        request = exchange.request
        request.target = re.sub(paging, one, request.target)
        request.body = re.sub(paging, one, request.body.decode()).encode()
        exchange.reply(exchange.forward())

    return fault


def quoted_everywhere(value: Any, exchange: Exchange) -> Any:
    if isinstance(value, list):
        return [quoted_everywhere(item, exchange) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: f"{item} {exchange.quotation}"
        if name in _REASONS and isinstance(item, str)
        else quoted_everywhere(item, exchange)
        for name, item in value.items()
    }


def unknown_codes(value: Any, exchange: Exchange) -> Any:
    if isinstance(value, str) and _CODE.fullmatch(value):
        return "OF_A_KIND_THAT_IS_NEW"
    if isinstance(value, list):
        return [unknown_codes(item, exchange) for item in value]
    if isinstance(value, dict):
        return {name: unknown_codes(item, exchange) for name, item in value.items()}
    return value


def one_less(value: Any, exchange: Exchange) -> Any:
    if not exchange.request.wrote:
        return value
    if isinstance(value, list):
        return [one_less(item, exchange) for item in value[:-1]]
    if isinstance(value, dict):
        return {name: one_less(item, exchange) for name, item in value.items()}
    return value


class Held:
    """Hold requests back until more than `most` are there, or time is up; `running`: the most."""

    def __init__(self, most: int) -> None:
        self.running = 0
        self._most = most
        self._present = 0
        self._decided = False
        self._changed = threading.Condition()

    def __call__(self, exchange: Exchange) -> None:
        with self._changed:
            self._present += 1
            self.running = max(self.running, self._present)
            self._decided |= self.running > self._most
            self._changed.notify_all()
            self._decided = self._changed.wait_for(lambda: self._decided, _HELD_S) or True
        reply = exchange.forward()
        with self._changed:
            self._present -= 1
        exchange.reply(reply)


def reset_before(exchange: Exchange) -> None:
    exchange.reset()


def closed_before(exchange: Exchange) -> None:
    exchange.close()


def reset_after(exchange: Exchange) -> None:
    exchange.forward()
    exchange.reset()


def closed_after(exchange: Exchange) -> None:
    exchange.forward()
    exchange.close()


class HeldBack:
    """Reset the connection; forward the request later, when `land` is called."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy
        self._requests: list[Request] = []

    def __call__(self, exchange: Exchange) -> None:
        self._requests.append(exchange.request)
        exchange.reset()

    def land(self) -> None:
        while self._requests:
            self._proxy.hand_on(self._requests.pop(0))


def cut_after(exchange: Exchange) -> None:
    reply = exchange.forward()
    body = reply.body or b'{"id": "1"}'
    exchange.send(head(reply, length=len(body) + 100) + body[: len(body) // 2])
    exchange.close()


def mislabelled(exchange: Exchange) -> None:
    reply = exchange.forward()
    headers = {k: v for k, v in reply.headers.items() if k.lower() != "content-type"}
    exchange.reply(Reply(reply.status, reply.body, {**headers, "Content-Type": "image/png"}))


def not_http(exchange: Exchange) -> None:
    exchange.forward()
    exchange.send(b"\x00\x01\x02 220 mail.example.org ESMTP\r\n\r\n")
    exchange.close()


def falsely_compressed(exchange: Exchange) -> None:
    reply = exchange.forward()
    exchange.reply(Reply(200, reply.body or b"{}", {**reply.headers, "Content-Encoding": "gzip"}))


def stalled_after(exchange: Exchange) -> None:
    reply = exchange.forward()
    exchange.drip(head(reply) + reply.body, every=1.0)


def dripping_head(exchange: Exchange) -> None:
    exchange.drip(b"HTTP/1.1 200 OK\r\n" + b"X-Slow: yes\r\n" * 10_000, every=0.05)


def dripping_body(exchange: Exchange) -> None:
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n")
    exchange.drip(b"\r\n" + b" " * 99_999, every=0.05)


def huge(exchange: Exchange) -> None:
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
    exchange.send(f'Content-Length: {2 + (48 << 20)}\r\n\r\n"'.encode())
    for _ in range(768):
        exchange.send(b"x" * 65_536)
    exchange.send(b'"')
    exchange.close()


def bomb(exchange: Exchange) -> None:
    exchange.reply(Reply(200, compressed(), {**_JSON, "Content-Encoding": "gzip"}))


@cache
def compressed() -> bytes:
    return gzip.compress(b'"' + b"x" * (64 << 20) + b'"', 1)


def http_date(seconds: float) -> str:
    return formatdate(seconds, usegmt=True)


@dataclass(frozen=True, slots=True)
class Harm:
    """`silent`: a success without a body, as some CRMs answer. `harmless`: may be survived."""

    name: str
    fault: Fault
    silent: bool = False
    harmless: bool = False

    @property
    def temporary(self) -> bool:
        """Whether the hub must retry, since the CRM did not refuse the values."""
        return _TEMPORARY.match(self.name) is not None


def harms() -> dict[str, list[Harm]]:
    return {
        "a refusal": [
            *(Harm(f"{status}", answers(status, {"message": "no"})) for status in _STATUSES),
            Harm("403 in HTML", answers(403, _HTML, Content_Type="text/html")),
            Harm("404 in HTML", answers(404, _HTML, Content_Type="text/html")),
            Harm("409 with an id in the text", answers(409, {"message": "Existing ID: 987654321"})),
            Harm("302 elsewhere", answers(302, None, Location="http://127.0.0.1:9/elsewhere")),
        ],
        "a quotation": [Harm(f"{one} that repeats all", echoes(one)) for one in _REPEATED],
        "an outage": [
            Harm("429 without Retry-After", answers(429, {"message": "slow down"})),
            Harm("429 with Retry-After", answers(429, None, Retry_After="1")),
            Harm("502 in HTML", answers(502, _HTML, Content_Type="text/html")),
            Harm("503 with Retry-After", answers(503, None, Retry_After="1")),
            Harm("reset before", reset_before),
            Harm("closed before", closed_before),
        ],
        "a lost answer": [
            Harm("reset after", reset_after),
            Harm("closed after", closed_after),
            Harm("500 after", answers_after(500, {"message": "oops"})),
            Harm("502 in HTML after", answers_after(502, _HTML, Content_Type="text/html")),
            Harm("cut off after", cut_after),
            Harm("no HTTP after", not_http),
        ],
        "nonsense": [
            Harm("HTML", answers(200, _HTML, Content_Type="text/html")),
            Harm("HTML after", answers_after(200, _HTML, Content_Type="text/html")),
            Harm("broken JSON", answers(200, b'{"id": "1", ', **_AS_JSON)),
            Harm("broken JSON after", answers_after(200, b'{"id": "1", ', **_AS_JSON)),
            Harm("a string", answers(200, "fine")),
            Harm("a number", answers(200, 1)),
            Harm("a list of lists", answers(200, [[]])),
            Harm("something else", answers(200, {"status": "something else", "results": 7})),
            Harm("something else after", answers_after(200, {"status": "else", "results": "x"})),
            Harm("5,000 brackets", answers(200, b"[" * 5000 + b"]" * 5000, **_AS_JSON)),
            Harm("no UTF-8", answers(200, b'{"id": "\xff\xfe"}', **_AS_JSON)),
            Harm("mislabelled", mislabelled, harmless=True),
            Harm("falsely compressed", falsely_compressed),
        ],
        "an answer in part": [
            Harm("207", answers(207, {"results": [{}], "errors": [{"message": "no"}]})),
            Harm("one less after", edits(one_less), harmless=True),
            Harm("nothing", answers(200), silent=True),
            Harm("204", answers(204), silent=True),
            Harm("null", answers(200, b"null", **_AS_JSON), silent=True),
            Harm("nothing after", answers_after(200)),
        ],
    }


_REASONS = frozenset({"message", "reason", "error", "detail"})
_CODE = re.compile(r"[A-Z]+(?:_[A-Z]+)*")
_TEMPORARY = re.compile(r"429|5\d\d|reset|closed|cut")
_STATUSES = (400, 401, 403, 404, 405, 409, 410, 422, 500, 599)
_REPEATED = (200, 400, 401, 403, 404, 409, 422, 429, 500)
# How long a request waits for others; an adapter that limits its calls lets it wait this long once.
_HELD_S = 1.0
_AS_JSON = {"Content_Type": "application/json"}
