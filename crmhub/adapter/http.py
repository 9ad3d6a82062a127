"""HTTP client for adapters: JSON requests with rate limits, time limits and safe retries.

An adapter creates one `Http` for its connection and calls `send` with the segments of a path.
`send` returns an `Answer` with a status of 2xx; any other result raises an error of the contract.

This module decides whether a failed request may have written something. A read writes nothing, and
neither does a request that was not sent or that a rate limit refused. Any other failed write raises
Uncertain unless the CRM clearly refused it, since a CRM may answer 500 although it stored the
record. Only requests that wrote nothing are repeated.

People read a CRM's error messages, so the connection's secrets are masked in them. Logs contain
statuses and correlation ids, but no URL and no error message.
"""

from __future__ import annotations

import json
import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn
from urllib.parse import quote, urlencode, urlsplit

import requests
from urllib3.exceptions import NameResolutionError, NewConnectionError, ReadTimeoutError

from crmhub import egress
from crmhub.adapter.answers import Answer, usual_failure
from crmhub.adapter.calls import record
from crmhub.adapter.context import Budget, Context, Response
from crmhub.adapter.errors import (
    AdapterError,
    BadConfig,
    Conflict,
    Denied,
    NotFound,
    NotYet,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
    Unreachable,
)
from crmhub.adapter.masking import auth_secrets, mask, mask_json

__all__ = ["GENERAL", "LONGEST_CALL", "Answer", "Failure", "Http", "TooLarge", "usual_failure"]

GENERAL = "general"
LONGEST_CALL = 30.0
"""The longest timeout of one request in seconds, even if the caller has more time."""
_ATTEMPTS = 3
_BACKOFF = 0.2
# A timeout after less time than this does not show that the CRM is unavailable.
_FAIR_CALL = 1.0
_SHORTEST_CALL = 0.05
_LONGEST_SEGMENT = 500
_LONGEST_CORRELATION = 100
_AFTER_HOST = re.compile(r"(https?://[^/?#\s'\"]*)[^\s'\"]*", re.IGNORECASE)
_log = logging.getLogger("crmhub.adapter")
# Send a request only if this multiple of the usual duration is left, since a write that is
# interrupted ends Uncertain.
_AMPLE = 1.5
# Weight of the newest call in the moving average of call durations.
_NEWEST = 0.1

Failure = Callable[[Answer], AdapterError | None]
"""Function that converts an answer with an error status to an error of the contract.

If it returns None, or raises an AdapterError because the body has an unexpected format, the error
follows from the HTTP status (`usual_failure`). If the body contains the CRM's correlation id, the
function sets it on the error.
"""


class TooLarge(Unavailable):
    """The CRM's answer to a read exceeds the size limit; the caller must request less data."""


class Http:
    """HTTP client for one connection to the CRM at `base_url`; thread-safe.

    - `crm`: the CRM's name for messages.
    - `authorize`: returns the authentication headers; called before every request.
    - `renew`: called once after a 401; returns whether to retry with new headers.
    - `failure`: converts the CRM's own error answers, see `Failure`.
    - `budgets`: the rate limit of each lane; a lane is a kind of requests, such as searches.
    - `on_response`: called with the lane and the answer of every request, such as to read rate
      limit headers.
    - `secrets`: returns the texts to mask in messages.
    - `correlation_header`: the response header with the CRM's id for the request.
    """

    def __init__(
        self,
        context: Context,
        base_url: str,
        *,
        crm: str,
        authorize: Callable[[], Mapping[str, str]],
        renew: Callable[[], bool] = lambda: False,
        failure: Failure = lambda answer: None,
        budgets: Mapping[str, Budget] | None = None,
        on_response: Callable[[str, Answer], None] = lambda lane, answer: None,
        secrets: Callable[[], Iterable[str]] = lambda: (),
        correlation_header: str = "X-Request-Id",
    ) -> None:
        _check_address(base_url)
        self.crm = crm
        self._context = context
        self._base = base_url.rstrip("/")
        self._authorize = authorize
        self._renew = renew
        self._failure = failure
        self._budgets = budgets or {}
        self._on_response = on_response
        self._secrets = secrets
        self._correlation_header = correlation_header
        self._usual_seconds = 0.0

    def send(
        self,
        method: str,
        *path: str,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        lane: str = GENERAL,
        reads: bool | None = None,
        anonymous: bool = False,
    ) -> Answer:
        """Send one request and return its successful (2xx) answer; retry while nothing was written.

        - `path`: the segments of the URL after `base_url`, not yet percent-encoded. A segment may
          come from a caller: one that could lead to another path, such as one with a slash, raises
          NotFound.
        - `params`: the query parameters.
        - `body`, `form`: the content, sent as JSON or as a form; at most one is given.
        - `headers`: additional headers for this request.
        - `lane`: the name of the rate limit in `budgets` that counts this request.
        - `reads`: whether the request writes nothing; by default True for GET and HEAD.
        - `anonymous`: whether to send the request without credentials.

        Raises every error of the contract except Unsupported, and the errors of `authorize` and
        `renew`.
        """
        if reads is None:
            reads = method in ("GET", "HEAD")
        try:
            url = self._url(path, params)
            data, own = _encoded(body, form)
        except UnicodeEncodeError:
            raise Rejected([], "the values hold half a character, which cannot be sent") from None
        all_headers = {**own, **(headers or {})}
        may_renew, attempts = not anonymous, 0
        while True:
            auth_headers = {} if anonymous else self._authorize()
            answer, error = self._once(
                method, url, data, all_headers, auth_headers, lane=lane, reads=reads
            )
            if error is None:
                return answer
            if may_renew and answer.status == 401 and isinstance(error, Denied):
                may_renew = False
                if self._renew():
                    continue
            elif isinstance(error, Throttled | Unavailable) and not isinstance(error, TooLarge):
                attempts += 1
                wait = _wait(error, attempts)
                if attempts < _ATTEMPTS and wait + _SHORTEST_CALL < self._context.remaining():
                    time.sleep(wait)
                    continue
            raise error

    def mask(self, text: str) -> str:
        """Return `text` with the connection's secrets, in any encoding, replaced by `***`."""
        return mask(text, self._secrets())

    def _url(self, path: Iterable[str], params: Mapping[str, str] | None) -> str:
        for segment in path:
            if segment in ("", ".", "..") or len(segment) > _LONGEST_SEGMENT:
                raise self._invalid_path()
            if "/" in segment or "\\" in segment or not segment.isprintable():
                raise self._invalid_path()
        url = "/".join((self._base, *(quote(segment, safe="") for segment in path)))
        return f"{url}?{urlencode(params)}" if params else url

    def _invalid_path(self) -> NotFound:
        # The message omits the segment, which may be an email.
        return NotFound(f"{self.crm} has nothing under an id of this form")

    def _once(
        self,
        method: str,
        url: str,
        data: bytes | None,
        headers: Mapping[str, str],
        auth_headers: Mapping[str, str],
        *,
        lane: str,
        reads: bool,
    ) -> tuple[Answer, AdapterError | None]:
        """Send the request once; return the answer, and the error if the request failed, else None.

        If the CRM did not answer, the returned answer has the status 0.
        """
        budget = self._budgets.get(lane)
        self._timeout()
        if budget is not None:
            budget.take()
        started, timeout = time.monotonic(), self._timeout()
        answer = Answer(self.crm, 0, {}, None, reads)
        error: AdapterError | None
        try:
            response = self._context.session.request(
                method, url, headers={**headers, **auth_headers}, data=data, timeout=timeout
            )
        except requests.RequestException as exc:
            # Returned, not raised: a traceback would include the request exception with its URL.
            error = self._unanswered(exc, reads=reads, short_deadline=timeout < _FAIR_CALL)
        else:
            # Without a lock threads may overwrite a measurement; the next call corrects it.
            took = time.monotonic() - started
            self._usual_seconds += (took - self._usual_seconds) * (
                _NEWEST if self._usual_seconds else 1.0
            )
            answer = self._read(response, auth_headers, reads=reads)
            self._on_response(lane, answer)
            error = self._error_of(answer)
        seconds = time.monotonic() - started
        correlation_id = (error.correlation_id if error else "") or answer.correlation_id
        record(method, self.mask(url), answer.status, round(1000 * seconds), correlation_id)
        if error is not None:
            self._log_failure(method, answer, error, seconds)
        if isinstance(error, Throttled) and budget is not None:
            budget.pause(error.retry_after)
        return answer, error

    def _timeout(self) -> float:
        timeout = min(self._context.remaining(), LONGEST_CALL)
        if timeout < max(_SHORTEST_CALL, min(self._usual_seconds * _AMPLE, _FAIR_CALL)):
            # Not Unavailable: the caller's time ran out, the CRM may be fine.
            raise NotYet(f"There was no time left to call {self.crm}.", retry_after=1.0)
        return timeout

    def _log_failure(
        self, method: str, answer: Answer, error: AdapterError, seconds: float
    ) -> None:
        # Errors that only the caller can fix are routine, such as a missing contact.
        usual = isinstance(error, NotFound | Rejected | Conflict)
        _log.log(
            logging.INFO if usual else logging.WARNING,
            "%s answered %s to a %s for %s after %d ms: %s (correlation id %s)",
            self.crm,
            answer.status or "nothing",
            method,
            self._context.client_id,
            round(1000 * seconds),
            type(error).__name__,
            error.correlation_id or "none",
        )

    def _read(self, response: Response, auth_headers: Mapping[str, str], *, reads: bool) -> Answer:
        status, is_json, body = response.status_code, True, None
        # Only failures are shown to people; the data of a success stays unmasked.
        hidden = () if 200 <= status < 300 else (*self._secrets(), *auth_secrets(auth_headers))
        try:
            if response.content.strip():
                body = mask_json(hidden, _parsed(response.content))
        # Deeply nested JSON raises RecursionError.
        except (ValueError, RecursionError):
            is_json = False
        correlation = _correlation(response.headers.get(self._correlation_header))
        return Answer(self.crm, status, response.headers, body, reads, correlation, is_json)

    def _error_of(self, answer: Answer) -> AdapterError | None:
        if 200 <= answer.status < 300:
            return None if answer.is_json else answer.broken("it is not JSON")
        try:
            error = self._failure(answer) or usual_failure(answer)
        except AdapterError:
            error = usual_failure(answer)
        error.message = self.mask(error.message)
        error.args = (error.message,)
        error.correlation_id = _correlation(error.correlation_id) or answer.correlation_id
        return error

    def _unanswered(
        self, exc: requests.RequestException, *, reads: bool, short_deadline: bool
    ) -> AdapterError:
        base = urlsplit(self._base)
        if short_deadline and _timed_out(exc) and (reads or _not_sent(exc)):
            return NotYet(f"There was too little time left to call {self.crm}.", retry_after=1.0)
        if isinstance(exc, requests.exceptions.InvalidURL):
            # The egress guard's message tells what to do; the path may be an email and is cut.
            return BadConfig(self.mask(_AFTER_HOST.sub(r"\1", str(exc))))
        if isinstance(exc, requests.exceptions.SSLError):
            return Unavailable(
                f"{base.hostname} could not prove that it is {self.crm} (TLS failed)."
            )
        if _not_sent(exc):
            place = base.netloc.rpartition("@")[2]
            return Unreachable(f"Couldn't connect to {base.scheme}://{place}.")
        what = type(exc).__name__
        if reads and isinstance(exc, egress.TooLarge):
            return TooLarge(f"{self.crm} answers with more than can be read of one answer.")
        message = f"{self.crm} gave no whole answer ({what})."
        return Unavailable(message) if reads else Uncertain(message)


def _wait(exc: Throttled | Unavailable, attempts: int) -> float:
    """Return how many seconds to wait before the next attempt, after `attempts` failed attempts."""
    backoff = float(_BACKOFF * 2 ** (attempts - 1) * random.uniform(0.5, 1))
    return max(exc.retry_after or 0.0, backoff)


def _correlation(value: object) -> str:
    """Return a correlation id (the CRM's id for a request), shortened for logs.

    Return "" if `value` is not a printable text.
    """
    text = value[:_LONGEST_CORRELATION] if isinstance(value, str) else ""
    return text if text.isprintable() else ""


def _parsed(content: bytes) -> Any:
    """Parse JSON; raises ValueError if it is invalid, RecursionError if nested too deeply."""
    body = json.loads(content, parse_constant=_no_constant)
    if b"\\ud" in content.lower():
        # Half a surrogate pair, such as from a truncated emoji, cannot be stored or sent.
        body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    return body


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _check_address(base_url: str) -> None:
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    # The message omits the address, which may contain a password.
    if not usable or parts.username or parts.query or parts.fragment:
        raise BadConfig(
            "The address of the CRM is none that can be called; give one like https://host/path,"
            " without user, password, ? and #."
        )


def _timed_out(exc: requests.RequestException) -> bool:
    if isinstance(exc, requests.exceptions.Timeout):
        return True
    cause = exc.args[0] if exc.args else None
    return isinstance(getattr(cause, "reason", cause), ReadTimeoutError)


def _not_sent(exc: requests.RequestException) -> bool:
    if isinstance(exc, requests.exceptions.ConnectTimeout):
        return True
    cause = exc.args[0] if exc.args else None
    reason = getattr(cause, "reason", cause)
    return isinstance(reason, NewConnectionError | NameResolutionError)


def _encoded(body: Any, form: Mapping[str, str] | None) -> tuple[bytes | None, dict[str, str]]:
    headers = {"Accept": "application/json", "User-Agent": "crmhub"}
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        return urlencode(form).encode(), headers
    if body is None:
        return None, headers
    headers["Content-Type"] = "application/json"
    return json.dumps(body, ensure_ascii=False).encode(), headers
