"""The exceptions that become error answers to callers, in nine categories.

HubError
  BadRequest        400  BadRequestError      cannot be parsed as a valid request
  Unauthorized      401  UnauthorizedError    the caller cannot be identified
  LimitExceeded     402  LimitExceededError   a limit of the account's plan is reached
  Forbidden         403  ForbiddenError       the caller lacks a permission
  NotFound          404  NotFoundError        nothing exists there that the caller may see
  Conflict          409  ConflictError        conflicts with stored data
    ChangedMeanwhile     ConflictError        the caller has seen an older state than the stored one
  Semantic          422  SemanticError        valid form, but not possible for this account
  TooManyRequests   429  ManyRequestError     retry after the seconds in `Retry-After`
  Internal          500  InternalError        a bug of the hub
    Unavailable     503  InternalError        the hub or a service it needs is unavailable

Each message says what is wrong, where, and what to send instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from crmhub.translatable import join_texts, named, translatable


class HubError(Exception):
    """An error whose `message` is sent to the caller unchanged, so it must contain no secrets.

    A message with `values` has their names, such as `%(email)s`: so it can be translated.
    `fields` are pairs of a form's field and its fault; `field` is the one that `message` is about.
    """

    status: ClassVar[int] = 500
    category: ClassVar[str] = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        field: str = "",
        fields: Sequence[tuple[str, str]] = (),
        **values: Any,
    ) -> None:
        self.message = translatable(message, **values) if values else message
        super().__init__(self.message)
        self.fields = ((field, self.message),) if field else tuple(fields)
        # True if this repeats the answer of an earlier call with the same Idempotency-Key.
        self.replayed = False
        # The path of the record with which the request conflicts.
        self.location = ""
        # Set if the helper call was accepted as an action before it was refused.
        self.action_id = ""

    @property
    def headers(self) -> dict[str, str]:
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


class ChangedMeanwhile(Conflict):
    pass


class Semantic(HubError):
    status = 422
    category = "SemanticError"


class _ComeBack(HubError):
    """`retry_after`: seconds, rounded up to at least 1."""

    def __init__(self, message: str, *, retry_after: float = 1, **values: Any) -> None:
        super().__init__(message, **values)
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


def error_body(category: str, message: str) -> dict[str, str]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"category": category, "message": message, "timestamp": now, "status": "error"}


_SHOWN = 20


def listed(problems: Sequence[tuple[str, str]]) -> str:
    """Only the first 20 of the pairs (place or "", description) are listed in full."""
    shown = [named(where, what) if where else what for where, what in problems[:_SHOWN]]
    hidden = len(problems) - _SHOWN
    rest = [translatable("and %(hidden)s more", hidden=hidden)] if hidden > 0 else []
    return join_texts("; ", [*shown, *rest])


def shortened(text: str, room: int = 60) -> str:
    """At most `room` characters, all printable."""
    cut = text if len(text) <= room else text[:room] + "…"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "�" for c in cut)
