"""The nine error categories that callers see, as one exception tree.

HubError
  BadRequest        400  BadRequestError      cannot be read as the request it should be
  Unauthorized      401  UnauthorizedError    who is calling could not be established
  LimitExceeded     402  LimitExceededError   the account's plan is full
  Forbidden         403  ForbiddenError       known caller, missing permission
  NotFound          404  NotFoundError        nothing there that this caller may see
  Conflict          409  ConflictError        clashes with what is stored
  Semantic          422  SemanticError        readable, but makes no sense for this account
  TooManyRequests   429  ManyRequestError     retry after `retry_after` seconds
  Internal          500  InternalError        a fault of ours
    Unavailable     503  InternalError        the hub or a service it needs is unavailable

Each message tells what is wrong, where, and what to send instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar


class HubError(Exception):
    """A failure whose message is sent to the caller unchanged.

    `message` is shown to the caller word for word, so it never holds secrets.
    """

    status: ClassVar[int] = 500
    category: ClassVar[str] = "InternalError"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        # Whether this repeats the answer of an earlier call with the same Idempotency-Key.
        self.replayed = False
        # The path of the record that the request clashes with.
        self.location = ""
        # The action that a helper's call was accepted as before it was refused.
        self.action_id = ""

    @property
    def headers(self) -> dict[str, str]:
        """HTTP headers of the error answer."""
        values = {"Location": self.location, "Idempotent-Replayed": "true" if self.replayed else ""}
        return {name: value for name, value in values.items() if value}


class BadRequest(HubError):
    status = 400
    category = "BadRequestError"


class Unauthorized(HubError):
    status = 401
    category = "UnauthorizedError"


class LimitExceeded(HubError):
    status = 402
    category = "LimitExceededError"


class Forbidden(HubError):
    status = 403
    category = "ForbiddenError"


class NotFound(HubError):
    status = 404
    category = "NotFoundError"


class Conflict(HubError):
    status = 409
    category = "ConflictError"


class Semantic(HubError):
    status = 422
    category = "SemanticError"


class _ComeBack(HubError):
    """A temporary failure; `retry_after` is in whole seconds, at least 1."""

    def __init__(self, message: str, *, retry_after: float = 1) -> None:
        super().__init__(message)
        self.retry_after = max(1, math.ceil(retry_after))

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_after)}


class TooManyRequests(_ComeBack):
    status = 429
    category = "ManyRequestError"


class Internal(HubError):
    pass


class Unavailable(_ComeBack, Internal):
    status = 503


_SHOWN = 20


def listed(problems: Sequence[tuple[str, str]]) -> str:
    """Return one message for all `(where, what)` problems, with the first 20 in full."""
    shown = "; ".join(f"{where}: {what}" if where else what for where, what in problems[:_SHOWN])
    hidden = len(problems) - _SHOWN
    return f"{shown}; and {hidden} more" if hidden > 0 else shown
