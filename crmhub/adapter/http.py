"""JSON over HTTP for adapters: budgets, error classification, and safe retries.

An adapter creates one `Http` for its connection and calls `send` with the parts of a path. `send`
returns an `Answer` with a status of 2xx; any other result raises an error of the contract.

This module decides whether a failed call may have written: a read writes nothing, nor does a call
that was not sent or that a rate limit refused. Any other failed write without a definite refusal
is Uncertain, since CRMs answer 500 even to stored records. Only calls that wrote nothing are sent
again.

People read a CRM's error messages, so the connection's secrets are masked in them. Logs hold
statuses and correlation ids, never an address or a message.
"""

from __future__ import annotations

import json
import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, NoReturn
from urllib.parse import quote, quote_plus, unquote, urlencode, urlsplit

import requests
from urllib3.exceptions import NameResolutionError, NewConnectionError, ReadTimeoutError

from crmhub import egress
from crmhub.adapter.contract import (
    AdapterError,
    BadConfig,
    Budget,
    Conflict,
    Context,
    Denied,
    LacksRight,
    NotFound,
    NotYet,
    Rejected,
    Response,
    Throttled,
    Unavailable,
    Uncertain,
)

GENERAL = "general"
LONGEST_CALL = 30.0
"""Seconds that no single call may exceed, even where the caller has more."""
_ATTEMPTS = 3
_BACKOFF = 0.2
# A call that times out with less time than this says nothing about the CRM.
_FAIR_CALL = 1.0
_SHORTEST_CALL = 0.05
_THROTTLED_SECONDS = 10.0
_LONGEST_WAIT = 86_400.0
_LONGEST_SEGMENT = 500
_SHOWN = 300
_SHORTEST_SECRET = 6
_LONGEST_CORRELATION = 100
_AFTER_HOST = re.compile(r"(https?://[^/?#\s'\"]*)[^\s'\"]*", re.IGNORECASE)
_log = logging.getLogger("crmhub.adapter")


@dataclass(frozen=True, slots=True)
class Answer:
    """A CRM's answer; `body` is its JSON, or None if it is empty or not JSON.

    `is_json` is False for something else, such as a page: then often it was not the CRM that
    answered. `reads` is whether the call could write nothing.
    """

    crm: str
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: Any = field(repr=False)
    reads: bool = True
    correlation_id: str = ""
    is_json: bool = True

    def object(self) -> Mapping[str, Any]:
        """Return the body as an object; raises `broken` for anything else."""
        return self.mapping(self.body)

    def mapping(self, value: Any) -> Mapping[str, Any]:
        """Return a part of the body as an object; raises `broken` for anything else."""
        if not isinstance(value, dict):
            raise self.broken("an object was expected")
        return value

    def items(self, name: str = "results") -> list[Mapping[str, Any]]:
        """Return the list of objects under `name`; raises `broken` for anything else."""
        listed = self.object().get(name)
        if not isinstance(listed, list):
            raise self.broken(f"{name} is not a list")
        return [self.mapping(item) for item in listed]

    def id(self, value: Mapping[str, Any] | None = None) -> str:
        """Return the id of the body, or of `value`, as text; raises `broken` without an id."""
        record_id = (self.object() if value is None else value).get("id")
        if isinstance(record_id, bool) or not isinstance(record_id, str | int) or record_id == "":
            raise self.broken("it names no id")
        return str(record_id)

    def broken(self, why: str) -> AdapterError:
        """Return the error for an answer with an unexpected format."""
        message = f"{self.crm} answered {self.status} with something unexpected: {why}."
        error = Unavailable(message) if self.reads else Uncertain(message)
        error.correlation_id = self.correlation_id
        return error

    def seconds(self, header: str = "Retry-After") -> float | None:
        """Return the wait that the answer asks for, in seconds, or None.

        RFC 9110, 10.2.3: a number of seconds, or a date. At most a day.
        """
        return _seconds(self.headers.get(header, ""))


# Calls need this multiple of the usual duration: an interrupted write ends Uncertain.
_AMPLE = 1.5
# Weight of the newest call in the moving average of call durations.
_NEWEST = 0.1

Failure = Callable[[Answer], AdapterError | None]
"""What an adapter makes of a failed answer; None leaves it to the statuses' usual meaning.

Where the CRM gives its correlation id in the body, set it on the error. An error that is raised,
since the body was not what it should be (`Answer.object`), counts as None.
"""


class TooLarge(Unavailable):
    """The answer to a read exceeds the size limit; request less data."""


class Http:
    """Calls one CRM at `base_url` for one connection; thread-safe.

    `authorize` returns the authentication headers. After a 401, `renew` is called once and returns
    whether a retry with new headers makes sense. `failure` converts the CRM's own errors. `heed`
    receives every answer with its lane, so that budgets can follow rate limit headers. `secrets`
    returns the texts to mask in messages.
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
        heed: Callable[[str, Answer], None] = lambda lane, answer: None,
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
        self._heed = heed
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
        """Send one request and return its successful (2xx) answer.

        Each part of `path` is one URL segment and may come from a caller: it is quoted, and a
        segment that could lead to another path, such as one with a slash, raises NotFound. `body`
        is sent as JSON, `form` as a form. `headers` are added to this call only. `reads` declares a
        POST that writes nothing. `anonymous` sends no credentials. Raises every error of the
        contract except Unsupported, and the errors of `authorize` and `renew`.
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
        """Return the text with the connection's secrets replaced by `***`, however encoded."""
        return _masked(text, self._secrets())

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
        """Send the request once; return the answer, and its error if it failed.

        An answer that did not come has the status 0.
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
            self._heed(lane, answer)
            error = self._error_of(answer)
        if error is not None:
            self._log_failure(method, answer, error, time.monotonic() - started)
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
        hidden = () if 200 <= status < 300 else (*self._secrets(), *_credentials(auth_headers))
        try:
            if response.content.strip():
                body = _masked_json(hidden, _parsed(response.content))
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
        host = urlsplit(self._base).hostname
        if short_deadline and _timed_out(exc) and (reads or _not_sent(exc)):
            return NotYet(f"There was too little time left to call {self.crm}.", retry_after=1.0)
        if isinstance(exc, requests.exceptions.InvalidURL):
            # The egress guard's message tells what to do; the path may be an email and is cut.
            return BadConfig(self.mask(_AFTER_HOST.sub(r"\1", str(exc))))
        if isinstance(exc, requests.exceptions.SSLError):
            return Unavailable(f"{host} could not prove that it is {self.crm} (TLS failed).")
        what = type(exc).__name__
        if _not_sent(exc):
            return Unavailable(f"{self.crm} could not be reached at {host} ({what}).")
        if reads and isinstance(exc, egress.TooLarge):
            return TooLarge(f"{self.crm} answers with more than can be read of one answer.")
        message = f"{self.crm} gave no whole answer ({what})."
        return Unavailable(message) if reads else Uncertain(message)


def usual_failure(answer: Answer) -> AdapterError:
    """Return the error for a status, for answers without a more specific CRM error."""
    crm, status, reason = answer.crm, answer.status, _reason_in(answer)
    if 300 <= status < 500 and status not in (303, 304, 408, 499):
        return _refusal(answer, reason)
    if status >= 500 or status in (408, 499):
        message = f"{crm} is out of order ({status})"
        if answer.reads:
            return Unavailable(f"{message}.", retry_after=answer.seconds())
        return Uncertain(f"{message}; it may have stored this all the same.")
    # A 303 after a POST may mean success; 304 is unexpected without a conditional request.
    return answer.broken("no such status was to be expected")


def _refusal(answer: Answer, reason: str) -> AdapterError:
    """Return the error for a status from 300 to 499, which means that nothing was done."""
    crm, status, wait = answer.crm, answer.status, answer.seconds()
    if status < 400:
        return BadConfig(f"{crm} answered with a redirect ({status}); correct its address.")
    if status == 401:
        return Denied(f"{crm} refuses the credentials{reason}.")
    if status in (423, 425, 429) or wait is not None:
        return Throttled(
            f"{crm} wants fewer calls{reason}.",
            retry_after=_THROTTLED_SECONDS if wait is None else wait,
        )
    if status in (403, 404, 409, 410) and not answer.is_json:
        return _page_error(answer)
    if status in (402, 403, 451):
        return LacksRight(f"The credentials lack a right in {crm} ({status}){reason}.")
    if status in (404, 410):
        return NotFound(f"{crm} has no such record{reason}")
    if status == 409:
        return Conflict(f"{crm} has another record with such a value{reason}")
    if status in (400, 413, 414, 422):
        return Rejected([], f"{crm} does not take these values{reason}")
    if status == 421:
        return Unavailable(f"{crm} is not served by the machine that answered (421).")
    return BadConfig(f"{crm} does not understand the request ({status}){reason}.")


def _page_error(answer: Answer) -> AdapterError:
    """Return the error for an HTML page instead of JSON: blame the proxy or URL, not the record."""
    if answer.status == 403:
        return Denied(
            f"A page with status 403 came instead of {answer.crm}'s own answer: the credentials"
            " lack a right, or a firewall on the way refuses this machine."
        )
    return Unavailable(
        f"A page with status {answer.status} came instead of {answer.crm}'s own answer: its"
        " address is wrong, or something on the way cannot reach it."
    )


def _wait(exc: Throttled | Unavailable, attempts: int) -> float:
    """Return the seconds to wait before the next attempt."""
    backoff = float(_BACKOFF * 2 ** (attempts - 1) * random.uniform(0.5, 1))
    return max(exc.retry_after or 0.0, backoff)


def _reason_in(answer: Answer) -> str:
    """Return the CRM's own message as the end of a sentence, or ""."""
    body = answer.body[0] if isinstance(answer.body, list) and answer.body else answer.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    for name in ("message", "error_description", "detail", "error"):
        text_value = body.get(name) if isinstance(body, dict) else None
        if isinstance(text_value, str) and text_value.strip():
            text = "".join(c if c.isprintable() else " " for c in text_value[: 2 * _SHOWN])
            return f": {' '.join(text.split())[:_SHOWN].rstrip('.')}"
    return ""


def _correlation(value: object) -> str:
    """Return a correlation id that is safe to log and show, or ""."""
    text = value[:_LONGEST_CORRELATION] if isinstance(value, str) else ""
    return text if text.isprintable() else ""


def _parsed(content: bytes) -> Any:
    """Parse JSON; raises ValueError, RecursionError."""
    body = json.loads(content, parse_constant=_no_constant)
    if b"\\ud" in content.lower():
        # Half a surrogate pair, such as from a truncated emoji, cannot be stored or sent.
        body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    return body


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _credentials(auth_headers: Mapping[str, str]) -> list[str]:
    """Return the secret values of the authentication headers.

    An error may repeat `Basic <credentials>` without its first word, so both forms are returned.
    """
    return [part for value in auth_headers.values() for part in (value, value.partition(" ")[2])]


def _masked_json(hidden: Iterable[str], value: Any) -> Any:
    """Return a JSON value with these secrets masked in all of its texts."""
    if not hidden:
        return value
    if isinstance(value, str):
        return _masked(value, hidden)
    if isinstance(value, list):
        return [_masked_json(hidden, item) for item in value]
    if isinstance(value, dict):
        return {name: _masked_json(hidden, item) for name, item in value.items()}
    return value


def _masked(text: str, secrets: Iterable[str]) -> str:
    for form in _encodings(frozenset(secrets)):
        text = text.replace(form, "***")
    return text


@lru_cache(maxsize=256)
def _encodings(secrets: frozenset[str]) -> list[str]:
    """Return every encoding in which these secrets may appear in a text."""
    written: set[str] = set()
    for secret in {
        part for secret_text in secrets for part in (secret_text, *parts_of_address(secret_text))
    }:
        if len(secret) >= _SHORTEST_SECRET:
            written |= {secret, json.dumps(secret)[1:-1]}
            written |= {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    # Longest first, since one secret may be part of another.
    return sorted(written, key=len, reverse=True)


def parts_of_address(secret: str) -> list[str]:
    """Return the path segments and query values of a secret URL; nothing for other secrets.

    Of a webhook that is secret as a whole, a CRM and its errors repeat these alone.
    """
    if not secret.startswith(("https://", "http://")):
        return []
    path, _, query = secret.partition("://")[2].partition("#")[0].partition("?")
    values = [unquote(part.rpartition("=")[2]) for part in query.split("&")]
    return [part for part in (*map(unquote, path.split("/")[1:]), *values) if part]


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


def _seconds(text: str) -> float | None:
    text = text.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), _LONGEST_WAIT)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, moment.timestamp() - time.time()), _LONGEST_WAIT)


def _encoded(body: Any, form: Mapping[str, str] | None) -> tuple[bytes | None, dict[str, str]]:
    headers = {"Accept": "application/json", "User-Agent": "crmhub"}
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        return urlencode(form).encode(), headers
    if body is None:
        return None, headers
    headers["Content-Type"] = "application/json"
    return json.dumps(body, ensure_ascii=False).encode(), headers
