"""Retries: which answers are waited for, how long, and when to give up."""

from __future__ import annotations

import random
import ssl
from collections.abc import Generator
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import httpx

from crmhub_client.errors import api_error, no_answer, retry_after, still_queued

if TYPE_CHECKING:
    from crmhub_client.operations import Request

# 502 and 504 are of proxies before the hub.
_TRANSIENT = (429, 502, 503, 504)
# The request did not reach the hub.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# Of settings, not of the moment.
_PERMANENT = (httpx.ProxyError, httpx.UnsupportedProtocol, httpx.LocalProtocolError)
# The last attempt has a chance, too.
_LEAST_S = 1.0


@dataclass(frozen=True, slots=True)
class Sleep:
    """Effect: wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Retry:
    """How patient the client is.

    `attempts`: requests in all, 1 for no retries. `total`: seconds from the first attempt, within
    which no other one begins that would have to wait longer. `first`: seconds before the second
    attempt, doubled each time up to `longest`, each with jitter. `Retry-After` wins.
    """

    attempts: int = 6
    total: float = 60.0
    first: float = 0.25
    longest: float = 15.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or min(self.total, self.first, self.longest) < 0:
            raise ValueError("Retry: attempts must be at least 1, times at least 0")

    def wait(self, attempt: int, after: float | None) -> float:
        """Return the seconds to wait behind an attempt; `after` is the answer's Retry-After."""
        backoff = min(self.longest, self.first * 2 ** min(attempt - 1, 30))
        if after is None:
            return random.uniform(backoff / 2, backoff)
        # Callers that were sent away together must not come back together.
        return after + random.uniform(0, self.first)


def attempts(request: Request, retry: Retry) -> Generator[Any, Any, httpx.Response]:
    """Send a request until it is answered, and return the answer.

    A 404 to a DELETE after an attempt whose answer got lost is a success, too: that attempt did it.
    Raises ApiError for another refusal, StillQueuedError for a write that the hub carries out
    later, NoAnswerError without an answer.
    """
    end = monotonic() + retry.total
    attempt, uncertain = 1, False
    while True:
        left = max(end - monotonic(), _LEAST_S)
        reply = yield replace(request, timeout=min(request.timeout, left))
        failed = isinstance(reply, httpx.RequestError)
        if not failed and reply.status_code == 202 and "/api/v1/" in request.path:
            # The CRM has not answered the hub yet; the same request gets the result.
            wait = retry.wait(attempt, None)
            if "Idempotency-Key" not in request.headers or monotonic() + wait > end:
                raise still_queued(reply)
            attempt, uncertain = attempt + 1, True
            yield Sleep(wait)
            continue
        if not failed and (reply.is_success or _is_gone(request, reply, uncertain)):
            response: httpx.Response = reply
            return response
        after = None if failed else retry_after(reply.headers)
        is_running = not failed and reply.status_code == 409 and after is not None
        wait = retry.wait(1 if is_running else attempt, after)
        may_retry = is_running or (attempt < retry.attempts and _is_transient(reply))
        if not may_retry or monotonic() + wait > end:
            if failed:
                raise no_answer(reply, uncertain=uncertain or _may_be_done(reply)) from reply
            raise api_error(reply, uncertain=uncertain or _may_be_done(reply))
        # The first request with this key is still in progress: waiting for it is no new attempt.
        attempt += 0 if is_running else 1
        uncertain = uncertain or _may_be_done(reply)
        yield Sleep(wait)


def _is_gone(request: Request, response: httpx.Response, uncertain: bool) -> bool:
    return uncertain and request.method == "DELETE" and response.status_code == 404


def _is_transient(reply: httpx.Response | httpx.RequestError) -> bool:
    if isinstance(reply, httpx.Response):
        return reply.status_code in _TRANSIENT
    return not isinstance(reply, _PERMANENT) and not _is_certificate(reply)


def _is_certificate(exc: BaseException | None) -> bool:
    """Return whether the server's certificate was refused: no retry changes that."""
    while exc is not None:
        if isinstance(exc, ssl.SSLCertVerificationError):
            return True
        exc = exc.__cause__ or exc.__context__
    return False


def _may_be_done(reply: httpx.Response | httpx.RequestError) -> bool:
    """Return whether the hub may have carried the request out, although it did not say so."""
    if isinstance(reply, httpx.Response):
        return reply.status_code >= 500
    return not isinstance(reply, (*_UNSENT, *_PERMANENT))
