"""HTTP responses of a fake CRM, and refusals as exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

JSON = "application/json;charset=utf-8"


@dataclass(slots=True)
class Answer:
    """An HTTP response: status, body, headers and content type.

    A body that is not bytes is sent as JSON; None means no body.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = JSON

    def encoded(self) -> bytes:
        """Return the body as bytes; return empty bytes if there is no body."""
        if self.body is None:
            return b""
        return self.body if isinstance(self.body, bytes) else orjson.dumps(self.body)


class Refused(Exception):
    """A CRM refuses a request with this status, body and headers.

    A CRM that reports errors with status 200 is refused with status 200, too.
    """

    def __init__(
        self,
        status: int,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> None:
        super().__init__(body)
        self.status = status
        self.body = body
        self.headers = dict(headers or {})
        self.content_type = content_type

    def answer(self) -> Answer:
        """Return this refusal as an HTTP response."""
        return Answer(self.status, self.body, dict(self.headers), self.content_type)
