"""HTTP client for adapters: JSON requests with rate limits, time limits and safe retries.

`Http.send` returns an `Answer` with a status of 2xx, or 304 to a request with `If-Modified-Since`;
any other result raises an error of the contract. A failed write raises Uncertain, unless it was not
sent or the CRM clearly refused it, since a CRM may answer 500 although it stored the record. Only
requests that wrote nothing are repeated.

The connection's secrets are masked in error messages. Logs contain statuses and correlation ids,
but no URL and no error message.
"""

from __future__ import annotations

import json
import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn
from urllib.parse import urlencode

import requests

from crmhub.adapter.answers import Answer, usual_failure
from crmhub.adapter.calls import record
from crmhub.adapter.context import Context, Response
from crmhub.adapter.errors import (
    AdapterError,
    Conflict,
    Denied,
    LacksRight,
    NotFound,
    NotYet,
    Rejected,
    Throttled,
    Unavailable,
)
from crmhub.adapter.masking import auth_secrets, mask, mask_json
from crmhub.adapter.simultaneous import Simultaneous
from crmhub.adapter.unanswered import TooLarge, unanswered
from crmhub.adapter.urls import Params, after_base, check_address

__all__ = [
    "GENERAL",
    "LONGEST_CALL",
    "QUOTA",
    "Answer",
    "Failure",
    "Http",
    "Limit",
    "TooLarge",
    "usual_failure",
]

GENERAL = "general"
"""The lane of a request that names none."""
QUOTA = "quota"
"""The lane of a limit that counts tokens or credits: every request takes its `cost` from it."""
LONGEST_CALL = 30.0
"""The longest timeout of one request in seconds, even if the caller has more time."""
_ATTEMPTS = 3
_BACKOFF = 0.2
# A timeout after less time than this does not show that the CRM is unavailable.
_FAIR_CALL = 1.0
_SHORTEST_CALL = 0.05
_LONGEST_CORRELATION = 100
_COUNT = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_log = logging.getLogger("crmhub.adapter")
# Send a request only if this multiple of the usual duration is left, since a write that is
# interrupted ends Uncertain.
_AMPLE = 1.5
# With this header, a 304 is a success: nothing has changed since.
_CONDITION = "If-Modified-Since"
# Weight of the newest call in the moving average of call durations.
_NEWEST = 0.1

Failure = Callable[[Answer], AdapterError | None]
"""Function that converts an answer that reports an error to an error of the contract.

It is called for every JSON answer, since some CRMs report errors with a status of 2xx. The result
None leaves it to the HTTP status: a status of 2xx is a success, and any other is an error
(`usual_failure`). So is an AdapterError that the function raises because the body has an unexpected
format, except that it is the error itself if the status is 2xx. If the body contains the CRM's
correlation id, the function sets it on the error.
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `calls` requests of a lane in `seconds`, until the CRM announces another number.

    `key`: the name of the limit that all processes share, if it is not the lane. `headers`: the
    response headers with the number of calls and with the window in milliseconds, "" for none.
    """

    calls: int
    seconds: float
    lane: str = GENERAL
    key: str = ""
    headers: tuple[str, str] = ("", "")


class Http:
    """HTTP client for one connection to a CRM; thread-safe. A CRM's second host gets a second
    client.

    - `base_url`: a function is called before every request, after `authorize`.
    - `authorize`: returns the authentication headers; called before every request.
    - `renew`: called once after an answer that means Denied but not LacksRight; returns whether to
      retry with new headers.
    - `failure`: converts the CRM's own error answers, see `Failure`.
    - `limits`: the rate limit of each lane, a kind of requests; `QUOTA` counts all their costs.
    - `at_once`: the most simultaneous requests; 0 for no such limit.
    - `correlation_header`: the response header with the CRM's id for the request.
    """

    def __init__(
        self,
        context: Context,
        base_url: str | Callable[[], str],
        *,
        crm: str,
        authorize: Callable[[], Mapping[str, str]],
        renew: Callable[[], bool] = lambda: False,
        failure: Failure = lambda answer: None,
        limits: Iterable[Limit] = (),
        at_once: int = 0,
        trailing_slash: bool = False,
        secrets: Callable[[], Iterable[str]] = lambda: (),
        correlation_header: str = "X-Request-Id",
    ) -> None:
        self.crm = crm
        self._context = context
        self._base_url: Callable[[], str]
        if isinstance(base_url, str):
            fixed = check_address(base_url)
            self._base_url = lambda: fixed
        else:
            self._base_url = lambda: check_address(base_url())
        self._authorize = authorize
        self._renew = renew
        self._failure = failure
        self._limits = tuple(limits)
        self._budgets = {
            one.lane: context.budget(one.key or one.lane, calls=one.calls, seconds=one.seconds)
            for one in self._limits
        }
        self._places = Simultaneous(context, crm, at_once) if at_once else None
        self._trailing_slash = trailing_slash
        self._secrets = secrets
        self._correlation_header = correlation_header
        self._usual_seconds = 0.0
        self.clock_ahead = 0.0
        """By how many seconds the CRM's clock is ahead of this machine's, as its answers say."""

    def send(
        self,
        method: str,
        *path: str,
        params: Params | None = None,
        body: Any = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        lane: str = GENERAL,
        cost: int = 1,
        reads: bool | None = None,
        anonymous: bool = False,
    ) -> Answer:
        """Return the successful answer; retry while nothing was written.

        - `path`: unencoded segments; one that could lead to another path, as by a slash, raises
          NotFound.
        - `params`: one with several values is repeated.
        - `body`, `form`: sent as JSON or as a form; at most one is given.
        - `lane`, `cost`: the rate limit that counts the request, and its credits of the lane
          `QUOTA`.
        - `reads`: whether the request writes nothing; by default True for GET and HEAD.

        Raises every error of the contract except Unsupported, and those of `authorize` and `renew`.
        """
        if reads is None:
            reads = method in ("GET", "HEAD")
        try:
            rest = after_base(self.crm, path, params, slash=self._trailing_slash)
            data, own = _encoded(body, form)
        except UnicodeEncodeError:
            raise Rejected([], "the values hold half a character, which cannot be sent") from None
        all_headers = {**own, **(headers or {})}
        may_renew, attempts = not anonymous, 0
        while True:
            auth_headers = {} if anonymous else self._authorize()
            url = f"{self._base_url()}{rest}"
            answer, error = self._once(
                method, url, data, all_headers, auth_headers, lane=lane, cost=cost, reads=reads
            )
            if error is None:
                return answer
            if may_renew and _is_refused(answer, error):
                may_renew = False
                if self._renew():
                    continue
            elif isinstance(error, Throttled | Unavailable) and not isinstance(error, TooLarge):
                attempts += 1
                backoff = float(_BACKOFF * 2 ** (attempts - 1) * random.uniform(0.5, 1))
                wait = max(error.retry_after or 0.0, backoff)
                if attempts < _ATTEMPTS and wait + _SHORTEST_CALL < self._context.remaining():
                    time.sleep(wait)
                    continue
            raise error

    def mask(self, text: str) -> str:
        """Return `text` with the connection's secrets, in any encoding, replaced by `***`."""
        return mask(text, self._secrets())

    def _once(
        self,
        method: str,
        url: str,
        data: bytes | None,
        headers: Mapping[str, str],
        auth_headers: Mapping[str, str],
        *,
        lane: str,
        cost: int,
        reads: bool,
    ) -> tuple[Answer, AdapterError | None]:
        """Send the request once; return the answer (status 0 for none), and the error or None."""
        self._take(lane, cost)
        with self._places.call(self._timeout()) if self._places else nullcontext():
            started, timeout = time.monotonic(), self._timeout()
            answer = Answer(self.crm, 0, {}, None, reads)
            error: AdapterError | None
            try:
                response = self._context.session.request(
                    method, url, headers={**headers, **auth_headers}, data=data, timeout=timeout
                )
            except requests.RequestException as exc:
                # Returned, not raised: a traceback would include the exception with its URL.
                error = unanswered(self.crm, url, exc, reads=reads, short=timeout < _FAIR_CALL)
                error.message = self.mask(error.message)
                error.args = (error.message,)
            else:
                # Without a lock threads may overwrite a measurement; the next call corrects it.
                weight = _NEWEST if self._usual_seconds else 1.0
                took = time.monotonic() - started
                self._usual_seconds += (took - self._usual_seconds) * weight
                hidden = (*self._secrets(), *auth_secrets(auth_headers))
                answer = self._read(response, hidden, reads=reads)
                with suppress(ValueError, OverflowError):
                    sent = parsedate_to_datetime(answer.headers.get("Date", ""))
                    self.clock_ahead = sent.timestamp() - time.time()
                self._follow_limits(lane, answer)
                unchanged = answer.status == 304 and _CONDITION in headers
                error = None if unchanged else self._error_of(answer, hidden)
        seconds = time.monotonic() - started
        correlation_id = (error.correlation_id if error else "") or answer.correlation_id
        record(method, self.mask(url), answer.status, round(1000 * seconds), correlation_id)
        if error is not None:
            self._log_failure(method, answer, error, seconds)
        if isinstance(error, Throttled):
            quota, own = self._budgets.get(QUOTA), self._budgets.get(lane)
            budget = quota if error.scope == QUOTA else own or quota
            if budget is not None:
                budget.pause(error.retry_after)
        return answer, error

    def _follow_limits(self, lane: str, answer: Answer) -> None:
        for limit in self._limits:
            calls, window = (answer.headers.get(name, "") for name in limit.headers)
            if limit.lane in (lane, QUOTA) and _COUNT.fullmatch(calls):
                seconds = int(window) / 1000 if _COUNT.fullmatch(window) else limit.seconds
                self._budgets[limit.lane].follow(int(calls), seconds)

    def _take(self, lane: str, cost: int) -> None:
        self._timeout()
        for name, units in ({lane: 1} | {QUOTA: cost}).items():
            budget = self._budgets.get(name)
            if budget is not None:
                budget.take(units)

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

    def _read(self, response: Response, hidden: Iterable[str], *, reads: bool) -> Answer:
        status, is_json, body = response.status_code, True, None
        try:
            if response.content.strip():
                # Only failures are shown to people; the data of a success stays unmasked.
                masked = () if 200 <= status < 300 else hidden
                body = mask_json(masked, _parsed(response.content))
        # Deeply nested JSON raises RecursionError.
        except (ValueError, RecursionError):
            is_json = False
        correlation = _correlation(response.headers.get(self._correlation_header))
        return Answer(self.crm, status, response.headers, body, reads, correlation, is_json)

    def _error_of(self, answer: Answer, hidden: Iterable[str]) -> AdapterError | None:
        success = 200 <= answer.status < 300
        if success and not answer.is_json:
            return answer.broken("it is not JSON")
        try:
            error = self._failure(answer)
            if error is not None and success:
                # Its texts come from a body that is not masked.
                masked = replace(answer, body=mask_json(hidden, answer.body))
                error = self._failure(masked) or error
        except AdapterError as exc:
            error = exc if success else None
        if error is None:
            if success:
                return None
            error = usual_failure(answer)
        error.message = self.mask(error.message)
        error.args = (error.message,)
        error.correlation_id = _correlation(error.correlation_id) or answer.correlation_id
        return error


def _correlation(value: object) -> str:
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


def _is_refused(answer: Answer, error: AdapterError) -> bool:
    if not isinstance(error, Denied) or isinstance(error, LacksRight):
        return False
    # A page with another status than 401 comes from a firewall.
    return answer.status == 401 or answer.is_json


def _encoded(body: Any, form: Mapping[str, str] | None) -> tuple[bytes | None, dict[str, str]]:
    headers = {"Accept": "application/json", "User-Agent": "crmhub"}
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        return urlencode(form).encode(), headers
    if body is None:
        return None, headers
    headers["Content-Type"] = "application/json"
    return json.dumps(body, ensure_ascii=False).encode(), headers
