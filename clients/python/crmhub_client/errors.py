"""The exceptions of the client: one class for each status of the hub, one for each lost answer.

HubClientError
  ApiError                the hub refused the request
    BadRequestError       400, and 405, 413, 415: cannot be read as a valid request
    UnauthorizedError     401  the caller cannot be identified
    LimitExceededError    402  a limit of the account's plan is reached
    ForbiddenError        403  the key lacks a scope
    NotFoundError         404  nothing exists there
    ConflictError         409  conflicts with stored data
    SemanticError         422  valid form, but not possible for this account
    ManyRequestError      429  too many requests; the retries are used up
    InternalError         500  a bug of the hub
      UnavailableError    503, 502, 504: the hub is unavailable; the retries are used up
  UnexpectedAnswerError   the answer is not the hub's: another service is at this address
  StillQueuedError      202  the hub carries the write out later; the retries are used up
  NoAnswerError           the retries are used up
    TimedOutError         the hub did not answer in time
    ConnectionFailedError no connection, or it broke
      ProxyFailedError    the HTTP proxy refused the connection
  InvalidSignatureError   an event's signature is wrong, or too old
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import httpx

from crmhub_client.results import INPUT, Batch, ItemError, shifted

__all__ = [
    "ApiError", "BadRequestError", "ConflictError", "ConnectionFailedError", "ForbiddenError",
    "HubClientError", "InternalError", "InvalidSignatureError", "LimitExceededError",
    "ManyRequestError", "NoAnswerError", "NotFoundError", "ProxyFailedError", "SemanticError",
    "StillQueuedError", "TimedOutError", "UnauthorizedError", "UnavailableError",
    "UnexpectedAnswerError",
]  # fmt: skip

_PROBLEM = re.compile(r"(?:^|; )(?=inputs\[\d+\])")
_EXISTING = re.compile(r"Existing ID: (\d+)\.?\Z")
_SHOWN = 200


class HubClientError(Exception):
    """Base class of all errors of the client.

    `message`: what went wrong. `uncertain`: whether an attempt of the request ended without a
    clear answer, so that it may have been carried out. `done`: for a batch of more than one
    request, what the requests before the failed one stored.
    """

    def __init__(self, message: str, *, uncertain: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.uncertain = uncertain
        self.done: Batch | None = None


class ApiError(HubClientError):
    """The hub refused the request.

    `status`: the HTTP status. `category`: the hub's name for it. `request_id`: for the operator,
    who finds the request by it. `retry_after`: seconds. `existing_id` and `location`: the record
    with which the request conflicts. `errors`: for a batch, the problems of its inputs. `body`: the
    JSON of the answer.
    """

    statuses: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        message: str,
        *,
        # With a default, as unpickling gives the message alone; the rest is restored.
        status: int = 0,
        category: str = "",
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        uncertain: bool = False,
    ) -> None:
        super().__init__(message, uncertain=uncertain)
        headers = headers or {}
        self.status = status
        self.category = category
        self.request_id = headers.get("X-Request-Id", "")
        self.retry_after = retry_after(headers)
        self.location = headers.get("Location", "")
        self.existing_id = _existing_id(message)
        self.body = dict(body or {})
        self.errors: tuple[ItemError, ...] = ()

    def shift(self, offset: int) -> None:
        """Number the inputs that the message names as the caller does; fill `errors`.

        `offset`: how many inputs were sent in earlier requests.
        """
        self.message = shifted(self.message, offset)
        self.args = (self.message,)
        self.errors = tuple(
            ItemError(int(named[1]), self.category, problem, _existing_id(problem))
            for problem in _PROBLEM.split(self.message)
            if (named := INPUT.match(problem))
        )


class BadRequestError(ApiError):
    statuses = (400, 405, 406, 411, 412, 413, 414, 415, 417, 431)


class UnauthorizedError(ApiError):
    statuses = (401,)


class LimitExceededError(ApiError):
    statuses = (402,)


class ForbiddenError(ApiError):
    statuses = (403,)


class NotFoundError(ApiError):
    statuses = (404,)


class ConflictError(ApiError):
    statuses = (409,)


class SemanticError(ApiError):
    statuses = (422,)


class ManyRequestError(ApiError):
    statuses = (429,)


class InternalError(ApiError):
    statuses: ClassVar[tuple[int, ...]] = (500,)


class UnavailableError(InternalError):
    statuses = (502, 503, 504)


class StillQueuedError(HubClientError):
    """The account's CRM has not answered yet; the hub carries the write out by itself.

    Do not send it again with another key. `action_id`: for the operator, who finds it by that.
    """

    def __init__(self, message: str, *, action_id: str = "") -> None:
        super().__init__(message, uncertain=True)
        self.action_id = action_id


class UnexpectedAnswerError(HubClientError):
    """The answer is not the hub's. `status`: its HTTP status."""

    def __init__(self, message: str, *, status: int = 0, uncertain: bool = False) -> None:
        super().__init__(message, uncertain=uncertain)
        self.status = status


class NoAnswerError(HubClientError):
    """The hub did not answer."""


class TimedOutError(NoAnswerError, TimeoutError):
    """The hub did not answer in time."""


class ConnectionFailedError(NoAnswerError, ConnectionError):
    """The connection could not be established, or it broke."""


class ProxyFailedError(ConnectionFailedError):
    """The HTTP proxy refused the connection."""


class InvalidSignatureError(HubClientError):
    """The signature of an event is missing, wrong or too old."""


_CLASSES = (
    BadRequestError,
    UnauthorizedError,
    LimitExceededError,
    ForbiddenError,
    NotFoundError,
    ConflictError,
    SemanticError,
    ManyRequestError,
    InternalError,
    UnavailableError,
)
_BY_STATUS: dict[int, type[ApiError]] = {s: each for each in _CLASSES for s in each.statuses}
_BY_CATEGORY: dict[str, type[ApiError]] = {each.__name__: each for each in _CLASSES}


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of the header Retry-After; None without one, or for a date."""
    text = headers.get("Retry-After", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def api_error(response: httpx.Response, *, uncertain: bool = False) -> HubClientError:
    """Return the exception for an answer that is no success."""
    status, body = response.status_code, _json_object(response)
    if isinstance(body.get("message"), str) and body.get("status") == "error":
        category = str(body.get("category", ""))
        kind = _BY_STATUS.get(status) or _BY_CATEGORY.get(category, ApiError)
        return kind(
            body["message"],
            status=status,
            category=category,
            headers=response.headers,
            body=body,
            uncertain=uncertain,
        )
    if status in UnavailableError.statuses or status == 429:
        message = f"{status} {response.reason_phrase}, from a proxy before the hub"
        return _BY_STATUS[status](
            message, status=status, headers=response.headers, uncertain=uncertain
        )
    return unexpected(response, uncertain=uncertain)


def helper_error(answer: Mapping[str, Any], response: httpx.Response) -> ApiError:
    """Return the exception for a helper's answer that reports an error with status 200."""
    category = str(answer.get("category", ""))
    kind = _BY_CATEGORY.get(category, ApiError)
    status = kind.statuses[0] if kind.statuses else response.status_code
    return kind(
        str(answer.get("message", "")),
        status=status,
        category=category,
        headers=response.headers,
        body=answer,
    )


def unexpected(response: httpx.Response, *, uncertain: bool = False) -> UnexpectedAnswerError:
    """Return the exception for an answer that is not the hub's."""
    what = response.headers.get("Content-Type", "no Content-Type")
    message = f"{response.status_code} with {what}: not an answer of the hub. Check the URL."
    if 300 <= response.status_code < 400:
        message = f"{response.status_code}: redirected to another address. Use that one as the URL."
    return UnexpectedAnswerError(message[:_SHOWN], status=response.status_code, uncertain=uncertain)


def still_queued(response: httpx.Response) -> StillQueuedError:
    """Return the exception for a write that the hub carries out later."""
    action_id = str(_json_object(response).get("actionId", ""))
    words = f"The CRM has not answered yet; the hub carries the write out as {action_id}."
    return StillQueuedError(words, action_id=action_id)


def no_answer(exc: httpx.RequestError, *, uncertain: bool = False) -> NoAnswerError:
    """Return the exception for a request without an answer; `exc` is httpx's."""
    reason = f"{type(exc).__name__}: {exc}".removesuffix(": ")[:_SHOWN]
    kind: type[NoAnswerError] = ConnectionFailedError
    if isinstance(exc, httpx.ProxyError):
        kind = ProxyFailedError
    elif isinstance(exc, httpx.TimeoutException):
        kind = TimedOutError
    return kind(f"No answer from the hub ({reason}).", uncertain=uncertain)


def _existing_id(message: str) -> int | None:
    named = _EXISTING.search(message)
    return int(named[1]) if named else None


def _json_object(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
