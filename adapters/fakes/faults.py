"""Injected faults of a fake CRM: their kinds, their calls, and their number.

Faults are applied to the open socket, so clients see real network failures. If a fault is
`written`, it is applied after the call was executed: the record is created, but the response is
lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import NoneType
from typing import Any

from adapters.fakes.answers import JSON, Answer
from adapters.fakes.limits import RetryAfter, retry_header

KINDS = (
    "status",  # another status, with a body of its own or what the CRM sends with it
    "latency",  # nothing but the delay
    "html",  # a page, with status 200 unless told otherwise
    "broken_json",  # the true answer, its JSON broken off but the length right
    "empty",  # no body at all
    "reset",  # the connection is reset
    "close",  # the connection is closed without an answer
    "cut",  # the true answer breaks off in its middle
    "expired",  # 401 for an expired token, until a token is refreshed
)
_PAGE = b"<!DOCTYPE html><html><head><title>%s</title></head><body><h1>%s</h1></body></html>"
_OF_THE_EDGE = {
    502: "502 Bad Gateway",
    504: "504 Gateway Timeout",
    520: "520: Web server is returning an unknown error",
    521: "521: Web server is down",
    522: "522: Connection timed out",
    523: "523: Origin is unreachable",
    524: "524: A timeout occurred",
}


@dataclass(slots=True, kw_only=True)
class Fault:
    """One injected fault, and the calls to which it applies.

    `kind` is one of KINDS. The fault applies to calls whose method and path match `method` and
    `path` (shell patterns, with `|` between methods). The first `skip` matching calls get no fault.
    Each later matching call gets the fault with `probability`, until `times` faults were applied;
    None means no end.

    `seconds` is a pause before the call is executed, or after it if `written` is True.
    `existing_id` is the id of the record that a conflict (status 409) names. `struck` counts the
    faults that were applied.
    """

    kind: str = "status"
    method: str = "*"
    path: str = "*"
    times: int | None = 1
    skip: int = 0
    probability: float = 1.0
    written: bool = False
    seconds: float = 0.0
    status: int | None = None
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str | None = None
    retry_after: RetryAfter | None = None
    retry_seconds: float = 10.0
    existing_id: str = "1"
    struck: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind: {self.kind} is none of {', '.join(KINDS)}")
        if self.kind == "status" and self.status is None:
            raise ValueError("status: a fault of this kind needs one")
        if self.retry_after not in (None, "none", "seconds", "date"):
            raise ValueError("retry_after: one of none, seconds, date")

    def meets(self, method: str, path: str) -> bool:
        """Return whether the fault must be applied to a call with this method and path.

        The call is counted in `skip` and `times`, so the result may differ for the next equal call.
        """
        if not any(
            fnmatchcase(method, method_pattern) for method_pattern in self.method.split("|")
        ):
            return False
        if not fnmatchcase(path, self.path) or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        # The random number needs no cryptographic strength.
        if self.probability < 1 and random.random() >= self.probability:
            return False
        self.times = None if self.times is None else self.times - 1
        self.struck += 1
        return True

    @property
    def needs_answer(self) -> bool:
        """Whether the call is executed by the fake although the fault is applied to it."""
        return self.written or self.kind in ("latency", "broken_json", "cut")

    def answer(self, true: Answer | None, usual: Callable[[Fault], Answer]) -> Answer:
        """Return the response that this fault sends in place of the correct response `true`.

        `true` is None if the call was not executed. `usual` returns the CRM's own response to a
        fault of the kind "status" or "expired".
        """
        match self.kind:
            case "status":
                return self._status(usual)
            case "expired":
                return usual(self)
            case "html":
                return self._sent(200, _PAGE % (b"Please wait", b"Please wait"), "text/html")
            case "empty":
                return self._sent(200, b"", JSON)
            case "broken_json":
                whole = true.encoded() if true else b"{}"
                return self._sent(true.status if true else 200, whole[:-2] + b",,", JSON)
        # All further kinds of faults affect only how the real response is sent.
        return true or Answer(200)

    def _sent(self, status: int, body: bytes, content_type: str) -> Answer:
        return Answer(
            self.status or status, body, dict(self.headers), self.content_type or content_type
        )

    def _status(self, usual: Callable[[Fault], Answer]) -> Answer:
        status = self.status or 500
        headers = {**retry_header(self.retry_seconds, self.retry_after or "none"), **self.headers}
        if self.body is not None:
            body = self.body.encode() if isinstance(self.body, str) else self.body
            return Answer(status, body, headers, self.content_type or JSON)
        if status in _OF_THE_EDGE:
            words = _OF_THE_EDGE[status].encode()
            return Answer(status, _PAGE % (words, words), headers, "text/html; charset=UTF-8")
        answer = usual(self)
        answer.headers |= headers
        return answer


_NUMBER = (int, float)
_TYPES: dict[str, type | tuple[type, ...]] = {
    "kind": str,
    "method": str,
    "path": str,
    "times": (int, NoneType),
    "skip": int,
    "probability": _NUMBER,
    "written": bool,
    "seconds": _NUMBER,
    "status": int,
    "body": object,
    "headers": dict,
    "content_type": str,
    "retry_after": str,
    "retry_seconds": _NUMBER,
    "existing_id": str,
}


def parse(given: Any) -> Fault:
    """Build a fault from the JSON of a control request.

    Raises ValueError if a field is unknown or has a wrong type.
    """
    if not isinstance(given, dict):
        raise ValueError(f"{given!r}: a fault is an object")
    for name, value in given.items():
        if name not in _TYPES:
            raise ValueError(f"{name}: a fault knows {', '.join(_TYPES)}")
        truth = isinstance(value, bool) and _TYPES[name] not in (bool, object)
        if truth or not isinstance(value, _TYPES[name]):
            raise ValueError(f"{name}: {value!r} is of a type that it does not take")
    return Fault(**given)


class Faults:
    """All injected faults, in the order in which they were added."""

    def __init__(self) -> None:
        self.waiting: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Add a fault to the end of the list of faults."""
        self.waiting.append(fault)

    def strike(self, method: str, path: str) -> Fault | None:
        """Return the first fault to apply to a call with this method and path, or None.

        The fault is counted as applied. After its last application it is removed.
        """
        for fault in self.waiting:
            if fault.meets(method, path):
                self.waiting = [other for other in self.waiting if other.times != 0]
                return fault
        return None

    def refreshed(self) -> None:
        """Remove all faults of the kind `expired`.

        Such faults answer that the access token has expired; a refresh of the token ends them.
        """
        self.waiting = [fault for fault in self.waiting if fault.kind != "expired"]

    def clear(self) -> None:
        """Remove all faults."""
        self.waiting = []
