"""Attacks on a running service by strangers and by one account, each in its own process.

`benchmarks.hostile` starts `python -m benchmarks.attacks NAME TARGET SECONDS`. The process attacks
for that long and prints how often each event happened, as a JSON object: the status of an answer,
0 for a broken connection, or `connections` for the opened ones.
"""

from __future__ import annotations

import html
import http.client
import json
import random
import re
import resource
import selectors
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

# Texts of one letter, and a part whose beginning fits everywhere in them and its end nowhere.
LONG_TEXT = "a" * 65_000
PART = "a" * 199 + "b"
_HOSTILE = 128_000
_ATOMS = (*"a1 \n@.-+(\"'<{[$%=", "a@", "1.", "1 ", "{{", "+1", "\u0301", "http://", "ext. ", "e+1")
_FILTERS = 50
_SEARCHES = 40
_LISTS = 16
_CALLERS = 16
_CONNECTIONS = 2_000
# A connection sends one byte this often.
_DRIP_S = 1.0
_HANG_UP_S = 0.05
_TIMEOUT_S = 60.0
# Connected to by the addresses of this network, which Linux has without being told.
_NETWORK = "127.0.{}.{}"


@dataclass(frozen=True, slots=True)
class Target:
    """The address of the service, the attacker's own account, and the account under attack."""

    host: str
    port: int
    client_id: str
    api_key: str
    records: list[int]
    """Contacts of the account; the values of the first 60 are as long as they may be."""
    operator: str
    """The email of somebody who signs in to the console."""

    def text(self) -> str:
        """Return the target as text for the command line."""
        return json.dumps(asdict(self))

    def call(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> int:
        """Call the public API of the attacker's account; return the status, 0 without an answer."""
        sent = {"service-apikey": self.api_key, **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        return self.raw(method, f"/{self.client_id}/api/v1{path}", data, sent)

    def raw(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> int:
        """Send a request on its own connection and return the status."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()


class Attack:
    """A running attack: its end, and counts of statuses and other events."""

    def __init__(self, target: Target, seconds: float) -> None:
        self.target = target
        self.happened = Counter[str]()
        self._end = time.monotonic() + seconds
        self._lock = threading.Lock()

    @property
    def goes_on(self) -> bool:
        """Whether the attack's time is not over."""
        return time.monotonic() < self._end

    def note(self, what: int | str) -> None:
        """Count a status or another event."""
        with self._lock:
            self.happened[str(what)] += 1

    def repeat(self, callers: int, call: Callable[[int], int]) -> None:
        """Run this many callers in threads.

        Each repeats the call, which gets the caller's number.
        """

        def caller(number: int) -> None:
            while self.goes_on:
                self.note(call(number))

        with ThreadPoolExecutor(callers) as pool:
            for done in [pool.submit(caller, number) for number in range(callers)]:
                done.result()


def _filters(part: str) -> list[dict[str, str]]:
    names = ("address", "jobtitle")
    return [
        {"propertyName": names[n % 2], "operator": "CONTAINS_TOKEN", "value": f"{part}{n:02}"}
        for n in range(_FILTERS)
    ]


def searches(attack: Attack) -> None:
    """Search long texts for parts that nearly match, with fifty filters at a time."""
    body = {"filters": _filters(PART[2:])}
    attack.repeat(_SEARCHES, lambda _: attack.target.call("POST", "/contacts/search", body))


def too_long(attack: Attack) -> None:
    """Search with values that exceed the maximum length."""
    body = {"filters": _filters("a" * 3_998)}
    attack.repeat(_SEARCHES, lambda _: attack.target.call("POST", "/contacts/search", body))


def hung_up(attack: Attack) -> None:
    """Start searches and disconnect before they are answered."""
    target = attack.target
    body = json.dumps({"filters": _filters(PART[2:])}).encode()
    request = (
        f"POST /{target.client_id}/api/v1/contacts/search HTTP/1.1\r\nHost: {target.host}\r\n"
        f"service-apikey: {target.api_key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body

    def begin(_: int) -> int:
        with suppress(OSError), socket.create_connection((target.host, target.port)) as connection:
            connection.sendall(request)
            time.sleep(_HANG_UP_S)
        return 0

    attack.repeat(_SEARCHES, begin)


def lists(attack: Attack) -> None:
    """Request the largest possible pages."""
    attack.repeat(_LISTS, lambda _: attack.target.call("GET", "/contacts?limit=100"))


def reads(attack: Attack) -> None:
    """Read the largest records in batches."""
    body = {"inputs": [{"id": id} for id in attack.target.records[:100]]}
    attack.repeat(_LISTS, lambda _: attack.target.call("POST", "/contacts/batch/read", body))


def kept(attack: Attack) -> None:
    """Fill the store of answers for Idempotency-Keys with long answers to small batches."""
    target = attack.target
    big, small = target.records[0], target.records[60:100]
    for n in range(5):
        for inputs in ([big] * 100, small):
            batch = {"inputs": [{"id": id, "properties": {"city": f"City {n}"}} for id in inputs]}
            key = {"Idempotency-Key": f"{random.random()}"}
            for _ in range(2):
                while attack.goes_on:
                    status = target.call("POST", "/contacts/batch/update", batch, headers=key)
                    attack.note(status)
                    if status != 429:
                        break
                    time.sleep(1)


def bodies(attack: Attack) -> None:
    """Send bodies that are slow to parse and are refused: deep, long, full of keys."""
    keys = {f"name_{n}": "x" for n in range(40_000)}
    sent = [
        b"[" * 500_000 + b"]" * 500_000,
        json.dumps({"properties": keys}).encode(),
        b'{"properties": {"city": ' + b"9" * 1_000_000 + b"}}",
        json.dumps({"inputs": [{"properties": keys}]})[:1_000_000].encode(),
    ]
    attack.repeat(_CALLERS, lambda n: attack.target.call("POST", "/contacts", sent[n % len(sent)]))


def hostile_texts(attack: Attack) -> None:
    """Send values and names of 128 kB that make careless expressions slow."""
    target = attack.target

    def send(number: int) -> int:
        atom = random.choice(_ATOMS)
        text = (atom * _HOSTILE)[:_HOSTILE]
        short = text[:65_000]
        api = (
            ("/contacts", {"properties": {"firstname": short, "phone": short, "email": short}}),
            ("/contacts", {"properties": {text: "1"}}),
            ("/contacts/search", {"filters": [_equal("city", short), _equal(text, "1")]}),
        )
        helpers = (
            ("getProperties", {"contactToken": "t", "props": [text]}),
            ("setProperties", {"contactToken": "t", "props": {"phone": text, text: text}}),
        )
        at = number % (len(api) + len(helpers))
        if at < len(api):
            return target.call("POST", *api[at])
        path, body = helpers[at - len(api)]
        headers = {"service-apikey": target.api_key, "Content-Type": "application/json"}
        return target.raw("POST", f"/chatbot/{path}", json.dumps(body).encode(), headers)

    attack.repeat(_CALLERS, send)


def _equal(name: str, value: str) -> dict[str, str]:
    return {"propertyName": name, "operator": "EQ", "value": value}


def hammer(attack: Attack) -> None:
    """Call as often as possible, far beyond the plan's rate."""
    attack.repeat(_SEARCHES, lambda _: attack.target.call("GET", "/contacts?limit=1"))


def wrong_keys(attack: Attack) -> None:
    """Guess API keys and webhook ids, with a different forwarded address in each request."""

    def guess(_: int) -> int:
        address = f"198.51.{random.randrange(256)}.{random.randrange(256)}"
        headers = {
            "service-apikey": f"chk_{random.random()}",
            "X-Forwarded-For": address,
            "X_Forwarded_For": address,
        }
        path = f"/{attack.target.client_id}/api/v1/contacts"
        attack.note(attack.target.raw("GET", path, None, headers))
        path = f"/chatbot/createLead/{random.random()}"
        return attack.target.raw("POST", path, b"{}", headers)

    attack.repeat(_CALLERS, guess)


def sign_ins(attack: Attack) -> None:
    """Try to sign in to the console as the operator, with wrong passwords."""
    attack.repeat(4, lambda n: sign_in(attack.target, f"wrong {n}")[0])


def sign_in(
    target: Target, password: str, cookies: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str]]:
    """Try to sign in to the console as the operator; return the status and the cookies."""
    held = dict(cookies or {})
    connection = http.client.HTTPConnection(target.host, target.port, timeout=_TIMEOUT_S)

    def send(method: str, body: str | None = None) -> tuple[int, str]:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in held.items())}
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, "/console/sign-in", body, headers)
        answer = connection.getresponse()
        for line in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = line.partition(";")[0].partition("=")
            held[name] = value
        return answer.status, answer.read().decode()

    try:
        _, form = send("GET")
        found = re.search(r'name="csrf"[^>]*value="([^"]*)"', form)
        fields = {
            "csrf": html.unescape(found[1]) if found else "",
            "email": target.operator,
            "password": password,
            "next": "/console",
        }
        text = "&".join(f"{name}={http_quoted(value)}" for name, value in fields.items())
        status, _ = send("POST", text)
        return status, held
    except (OSError, http.client.HTTPException):
        return 0, held
    finally:
        connection.close()


def http_quoted(text: str) -> str:
    """Return a text in the encoding of an HTML form."""
    return "".join(c if c.isalnum() else "".join(f"%{b:02X}" for b in c.encode()) for c in text)


# --- Connections ------------------------------------------------------------------------------


def headers_drip(attack: Attack) -> None:
    """Hold two thousand connections of one address with requests whose headers never end."""
    _hold(attack, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Drip: ", b"a", addresses=1)


def bodies_drip(attack: Attack) -> None:
    """Hold two thousand connections of many addresses with bodies that never end."""
    start = (
        b"POST /chatbot/createLead/x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000000\r\n\r\n{"
    )
    _hold(attack, start, b" ", addresses=200)


def silent(attack: Attack) -> None:
    """Hold two thousand connections of many addresses without sending anything."""
    _hold(attack, b"", b"", addresses=200)


def _hold(attack: Attack, start: bytes, drip: bytes, *, addresses: int) -> None:
    """Keep connections open, send `drip` on each from time to time, and replace closed ones."""
    selector = selectors.DefaultSelector()
    open_until_now = dict[socket.socket, float]()
    number = 0
    while attack.goes_on:
        # In portions: what is there is looked after between two.
        for _ in range(min(200, _CONNECTIONS - len(open_until_now))):
            source = number % addresses
            connection = socket.socket()
            connection.setblocking(False)
            if addresses > 1:
                connection.bind((_NETWORK.format(1 + source // 250, 1 + source % 250), 0))
            connection.connect_ex((attack.target.host, attack.target.port))
            selector.register(connection, selectors.EVENT_WRITE)
            open_until_now[connection] = 0.0
            number += 1
            attack.note("connections")
        for key, events in selector.select(0.1):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            try:
                if events & selectors.EVENT_WRITE:
                    connection.sendall(start)
                    selector.modify(connection, selectors.EVENT_READ)
                    open_until_now[connection] = time.monotonic()
                elif not connection.recv(4096):
                    raise ConnectionError
            except OSError:
                attack.note("closed")
                selector.unregister(connection)
                connection.close()
                del open_until_now[connection]
        if drip:
            now = time.monotonic()
            for connection, last in open_until_now.items():
                if last and now - last > _DRIP_S:
                    # Where it was closed, reading tells.
                    with suppress(OSError):
                        connection.send(drip)
                    open_until_now[connection] = now
    for connection in open_until_now:
        connection.close()


ATTACKS: dict[str, Callable[[Attack], None]] = {
    attack.__name__.replace("_", "-"): attack
    for attack in (
        searches,
        too_long,
        hung_up,
        lists,
        reads,
        kept,
        bodies,
        hostile_texts,
        hammer,
        wrong_keys,
        sign_ins,
        headers_drip,
        bodies_drip,
        silent,
    )
}

CONNECTION_ATTACKS = {"headers-drip", "bodies-drip", "silent"}
"""The attacks that hold connections, which a proxy has to end."""


def main() -> None:
    """Run an attack from the command line, and print the counts."""
    name, target, seconds = sys.argv[1:]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attack = Attack(Target(**json.loads(target)), float(seconds))
    ATTACKS[name](attack)
    print(json.dumps(dict(attack.happened)))


if __name__ == "__main__":
    main()
