"""The HTTP calls of one attempt, recorded for operators: no header, no body, no query value.

`Http` records each call with `record`, and the hub collects them with `recording`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

MOST_CALLS = 20
"""The most calls that are kept of one attempt: the last ones, since they led to its outcome."""
LONGEST_PATH = 200
"""The greatest length of a recorded path, in characters."""
_HIDDEN = "…"
# A segment with other characters (such as @, + or a blank) may be an email, a phone or a name.
_PLAIN_SEGMENT = re.compile(r"[A-Za-z0-9_.~:-]{0,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP call to a CRM; `number` counts from 1, `status` is 0 without an answer."""

    number: int
    method: str
    path: str
    status: int
    ms: int
    correlation_id: str = ""


@dataclass(slots=True)
class Recording:
    total: int = 0
    calls: deque[Call] = field(default_factory=lambda: deque(maxlen=MOST_CALLS))


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recording() -> Iterator[Recording]:
    mine = Recording()
    before = _recording.set(mine)
    try:
        yield mine
    finally:
        _recording.reset(before)


def record(method: str, url: str, status: int, ms: int, correlation_id: str) -> None:
    """Add a call of `url` to the recording of the current attempt; without one, do nothing."""
    current = _recording.get()
    if current is not None:
        current.total += 1
        call = Call(current.total, method, shown_path(url), status, ms, correlation_id)
        current.calls.append(call)


def shown_path(url: str) -> str:
    """Return at most 200 characters without query values and segments that may be personal.

    `https://api.example/contacts/ann@example.com?idProperty=email` becomes
    `/contacts/…?idProperty=…`.
    """
    parts = urlsplit(url)
    path = "/".join(
        segment if _PLAIN_SEGMENT.fullmatch(unquote(segment)) else _HIDDEN
        for segment in parts.path.split("/")
    )
    names = [
        name if _PLAIN_SEGMENT.fullmatch(name) else _HIDDEN
        for name, _ in parse_qsl(parts.query, keep_blank_values=True)
    ]
    query = "&".join(f"{name}={_HIDDEN}" for name in names)
    shown = f"{path}?{query}" if query else path
    return shown if len(shown) <= LONGEST_PATH else f"{shown[: LONGEST_PATH - 1]}{_HIDDEN}"


def to_stored(calls: Sequence[Call]) -> list[list[str | int]]:
    return [[c.number, c.method, c.path, c.status, c.ms, c.correlation_id] for c in calls]


def from_stored(stored: Sequence[Sequence[str | int]]) -> tuple[Call, ...]:
    return tuple(
        Call(int(number), str(method), str(path), int(status), int(ms), str(correlation_id))
        for number, method, path, status, ms, correlation_id in stored
    )
