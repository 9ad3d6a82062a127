"""JSON over HTTP, for adapters: budgets, failures told apart, retries that can do no harm.

An adapter makes one `Http` for its connection and calls `send` with the parts of a path. What
comes back is an `Answer` with a status of 2xx; everything else is raised as the error of the
contract that says what the caller can do.

Whether something was written is decided here, once: a call that only reads never leaves a doubt,
one that could not be sent wrote nothing, and neither did one that the CRM counted as too many.
Any other failure of a call that writes is Uncertain, whatever the status says, since CRMs answer
500 to what they have stored. Only calls that wrote nothing for sure are sent again.

What a CRM says in a failure goes to people, so the connection's secrets are blotted out of it
before anybody reads it. Logs hold statuses and correlation ids, never an address or a message.
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
_TRIES = 3
_BACKOFF = 0.2
# Who has less time than this and gets no answer, says nothing about the CRM.
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
    """A CRM's answer. `body` is the JSON in it, None when it was empty or something else.

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
        """Return the body, which must be an object; raises `broken` otherwise."""
        return self.mapping(self.body)

    def mapping(self, value: Any) -> Mapping[str, Any]:
        """Return a part of the body that must be an object; raises `broken` otherwise."""
        if not isinstance(value, dict):
            raise self.broken("an object was expected")
        return value

    def items(self, name: str = "results") -> list[Mapping[str, Any]]:
        """Return the objects listed under `name`; raises `broken` when it is no such list."""
        found = self.object().get(name)
        if not isinstance(found, list):
            raise self.broken(f"{name} is not a list")
        return [self.mapping(item) for item in found]

    def id(self, value: Mapping[str, Any] | None = None) -> str:
        """Return the id of the body, or of a part of it, as text; raises `broken` without one."""
        found = (self.object() if value is None else value).get("id")
        if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
            raise self.broken("it names no id")
        return str(found)

    def broken(self, why: str) -> AdapterError:
        """Return the error for an answer that is not what it should be."""
        message = f"{self.crm} answered {self.status} with something unexpected: {why}."
        error = Unavailable(message) if self.reads else Uncertain(message)
        error.correlation_id = self.correlation_id
        return error

    def seconds(self, header: str = "Retry-After") -> float | None:
        """Return how long the answer asks to wait, in seconds; None where it does not say.

        RFC 9110, 10.2.3: a number of seconds, or a date. At most a day.
        """
        return _seconds(self.headers.get(header, ""))


# A call that is likely to be broken off leaves a doubt whether it has written.
_AMPLE = 1.5
# The share of the newest call in how long they usually take.
_NEWEST = 0.1

Failure = Callable[[Answer], AdapterError | None]
"""What an adapter makes of a failed answer; None leaves it to the statuses' usual meaning.

Where the CRM gives its correlation id in the body, set it on the error. An error that is raised,
since the body was not what it should be (`Answer.object`), counts as None.
"""


class TooLarge(Unavailable):
    """The answer to a call that only reads holds more than is read of one: ask for less."""


class Http:
    """Calls one CRM at `base_url` for one connection, for several threads at once.

    `authorize` returns the headers that prove who calls. `renew` is asked once when the CRM
    refuses them (401), and says whether new ones are worth another try. `failure` reads the CRM's
    own errors. `heed` is shown every answer with its lane, so that budgets can follow its headers.
    `secrets` returns what must never show in a message.
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
        self._usual = 0.0

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
        """Send one request and return its answer, which has a status of 2xx.

        Each part of `path` is one segment and may come from a caller: it is quoted, and what
        could lead elsewhere is NotFound (a slash, too: many servers decode it first). `body` is
        sent as JSON, `form` as a form. `headers` go with this call alone. `reads` says that
        nothing is written although the method is not GET. `anonymous` sends no credentials.
        Raises every error of the contract but Unsupported, and what `authorize` and `renew` raise.
        """
        if reads is None:
            reads = method in ("GET", "HEAD")
        try:
            url = self._url(path, params)
            data, own = _encoded(body, form)
        except UnicodeEncodeError:
            raise Rejected([], "the values hold half a character, which cannot be sent") from None
        told = {**own, **(headers or {})}
        may_renew, tries = not anonymous, 0
        while True:
            proof = {} if anonymous else self._authorize()
            answer, error = self._once(method, url, data, told, proof, lane=lane, reads=reads)
            if error is None:
                return answer
            if may_renew and answer.status == 401 and isinstance(error, Denied):
                may_renew = False
                if self._renew():
                    continue
            elif isinstance(error, Throttled | Unavailable) and not isinstance(error, TooLarge):
                tries += 1
                wait = _wait(error, tries)
                if tries < _TRIES and wait + _SHORTEST_CALL < self._context.remaining():
                    time.sleep(wait)
                    continue
            raise error

    def mask(self, text: str) -> str:
        """Return the text with the connection's secrets blotted out, however they are written."""
        return _masked(text, self._secrets())

    def _url(self, path: Iterable[str], params: Mapping[str, str] | None) -> str:
        for segment in path:
            if segment in ("", ".", "..") or len(segment) > _LONGEST_SEGMENT:
                raise self._nowhere()
            if "/" in segment or "\\" in segment or not segment.isprintable():
                raise self._nowhere()
        url = "/".join((self._base, *(quote(segment, safe="") for segment in path)))
        return f"{url}?{urlencode(params)}" if params else url

    def _nowhere(self) -> NotFound:
        # What was asked for is not repeated: it may be an email.
        return NotFound(f"{self.crm} has nothing under an id of this form")

    def _once(
        self,
        method: str,
        url: str,
        data: bytes | None,
        headers: Mapping[str, str],
        proof: Mapping[str, str],
        *,
        lane: str,
        reads: bool,
    ) -> tuple[Answer, AdapterError | None]:
        """Send once; return the answer, and its error unless it is a good one.

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
                method, url, headers={**headers, **proof}, data=data, timeout=timeout
            )
        except requests.RequestException as exc:
            # Raised by the caller, not here: as a context it would bring the URL along.
            error = self._unanswered(exc, reads=reads, hurried=timeout < _FAIR_CALL)
        else:
            # Threads may lose each other's measure: the next call brings it again.
            took = time.monotonic() - started
            self._usual += (took - self._usual) * (_NEWEST if self._usual else 1.0)
            answer = self._read(response, proof, reads=reads)
            self._heed(lane, answer)
            error = self._fault(answer)
        if error is not None:
            self._tell(method, answer, error, time.monotonic() - started)
        if isinstance(error, Throttled) and budget is not None:
            budget.pause(error.retry_after)
        return answer, error

    def _timeout(self) -> float:
        timeout = min(self._context.remaining(), LONGEST_CALL)
        if timeout < max(_SHORTEST_CALL, min(self._usual * _AMPLE, _FAIR_CALL)):
            # The CRM is not to blame, and others may well reach it.
            raise NotYet(f"There was no time left to call {self.crm}.", retry_after=1.0)
        return timeout

    def _tell(self, method: str, answer: Answer, error: AdapterError, seconds: float) -> None:
        # What only the caller can mend is everyday life: a contact that is not there yet.
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

    def _read(self, response: Response, proof: Mapping[str, str], *, reads: bool) -> Answer:
        status, is_json, body = response.status_code, True, None
        # Only what failed is told to people; what succeeded is data, and stays as it is.
        hidden = () if 200 <= status < 300 else (*self._secrets(), *_credentials(proof))
        try:
            if response.content.strip():
                body = _without(hidden, _parsed(response.content))
        # Five thousand brackets are a RecursionError.
        except (ValueError, RecursionError):
            is_json = False
        correlation = _correlation(response.headers.get(self._correlation_header))
        return Answer(self.crm, status, response.headers, body, reads, correlation, is_json)

    def _fault(self, answer: Answer) -> AdapterError | None:
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
        self, exc: requests.RequestException, *, reads: bool, hurried: bool
    ) -> AdapterError:
        host = urlsplit(self._base).hostname
        if hurried and _timed_out(exc) and (reads or _not_sent(exc)):
            return NotYet(f"There was too little time left to call {self.crm}.", retry_after=1.0)
        if isinstance(exc, requests.exceptions.InvalidURL):
            # Who guards the session says here what to do; a path may hold an email.
            return BadConfig(self.mask(_AFTER_HOST.sub(r"\1", str(exc))))
        if isinstance(exc, requests.exceptions.SSLError):
            return Unavailable(f"{host} could not prove that it is {self.crm} (TLS failed).")
        what = type(exc).__name__
        if _not_sent(exc):
            return Unavailable(f"{self.crm} could not be reached at {host} ({what}).")
        if reads and isinstance(exc, egress.TooLarge):
            return TooLarge(f"{self.crm} answers with more than can be read of one answer.")
        said = f"{self.crm} gave no whole answer ({what})."
        return Unavailable(said) if reads else Uncertain(said)


def usual_failure(answer: Answer) -> AdapterError:
    """Return what a status means where the CRM says nothing more exact."""
    crm, status, said = answer.crm, answer.status, _said(answer)
    if 300 <= status < 500 and status not in (303, 304, 408, 499):
        return _refusal(answer, said)
    if status >= 500 or status in (408, 499):
        message = f"{crm} is out of order ({status})"
        if answer.reads:
            return Unavailable(f"{message}.", retry_after=answer.seconds())
        return Uncertain(f"{message}; it may have stored this all the same.")
    # 303 after a POST may be "done, look there"; the others nobody asked for.
    return answer.broken("no such status was to be expected")


def _refusal(answer: Answer, said: str) -> AdapterError:
    """Return what a status from 300 to 499 means: nothing was done."""
    crm, status, wait = answer.crm, answer.status, answer.seconds()
    if status < 400:
        return BadConfig(f"{crm} answered with a redirect ({status}); correct its address.")
    if status == 401:
        return Denied(f"{crm} refuses the credentials{said}.")
    if status in (423, 425, 429) or wait is not None:
        return Throttled(
            f"{crm} wants fewer calls{said}.",
            retry_after=_THROTTLED_SECONDS if wait is None else wait,
        )
    if status in (403, 404, 409, 410) and not answer.is_json:
        return _page(answer)
    if status in (402, 403, 451):
        return LacksRight(f"The credentials lack a right in {crm} ({status}){said}.")
    if status in (404, 410):
        return NotFound(f"{crm} has no such record{said}")
    if status == 409:
        return Conflict(f"{crm} has another record with such a value{said}")
    if status in (400, 413, 414, 422):
        return Rejected([], f"{crm} does not take these values{said}")
    if status == 421:
        return Unavailable(f"{crm} is not served by the machine that answered (421).")
    return BadConfig(f"{crm} does not understand the request ({status}){said}.")


def _page(answer: Answer) -> AdapterError:
    """Return what a page in place of data means: the way to the CRM is at fault, no record."""
    if answer.status == 403:
        return Denied(
            f"A page with status 403 came instead of {answer.crm}'s own answer: the credentials"
            " lack a right, or a firewall on the way refuses this machine."
        )
    return Unavailable(
        f"A page with status {answer.status} came instead of {answer.crm}'s own answer: its"
        " address is wrong, or something on the way cannot reach it."
    )


def _wait(exc: Throttled | Unavailable, tries: int) -> float:
    """Return how many seconds to wait before another try."""
    backoff = float(_BACKOFF * 2 ** (tries - 1) * random.uniform(0.5, 1))
    return max(exc.retry_after or 0.0, backoff)


def _said(answer: Answer) -> str:
    """Return the CRM's own words, where it has some, as the end of a sentence."""
    body = answer.body[0] if isinstance(answer.body, list) and answer.body else answer.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    for name in ("message", "error_description", "detail", "error"):
        found = body.get(name) if isinstance(body, dict) else None
        if isinstance(found, str) and found.strip():
            text = "".join(c if c.isprintable() else " " for c in found[: 2 * _SHOWN])
            return f": {' '.join(text.split())[:_SHOWN].rstrip('.')}"
    return ""


def _correlation(value: object) -> str:
    """Return a correlation id that may be logged and shown, "" when there is none."""
    text = value[:_LONGEST_CORRELATION] if isinstance(value, str) else ""
    return text if text.isprintable() else ""


def _parsed(content: bytes) -> Any:
    """Return the JSON; raises ValueError, RecursionError."""
    body = json.loads(content, parse_constant=_no_constant)
    if b"\\ud" in content.lower():
        # Half a character, as of an emoji that was cut in two, can be stored and sent nowhere.
        body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    return body


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _credentials(proof: Mapping[str, str]) -> list[str]:
    """Return what must not show of the headers that prove who calls: `Basic <this>`, too."""
    return [part for value in proof.values() for part in (value, value.partition(" ")[2])]


def _without(hidden: Iterable[str], value: Any) -> Any:
    """Return JSON with these secrets blotted out of its texts."""
    if not hidden:
        return value
    if isinstance(value, str):
        return _masked(value, hidden)
    if isinstance(value, list):
        return [_without(hidden, one) for one in value]
    if isinstance(value, dict):
        return {name: _without(hidden, one) for name, one in value.items()}
    return value


def _masked(text: str, secrets: Iterable[str]) -> str:
    for form in _written(frozenset(secrets)):
        text = text.replace(form, "***")
    return text


@lru_cache(maxsize=256)
def _written(secrets: frozenset[str]) -> list[str]:
    """Return the forms in which these secrets may stand in a text."""
    written: set[str] = set()
    for secret in {part for one in secrets for part in (one, *parts_of_address(one))}:
        if len(secret) >= _SHORTEST_SECRET:
            written |= {secret, json.dumps(secret)[1:-1]}
            written |= {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    # The longest first: one secret may be a part of another.
    return sorted(written, key=len, reverse=True)


def parts_of_address(secret: str) -> list[str]:
    """Return the segments of the path and the values of the query of a secret that is an address.

    Of a webhook that is secret as a whole, a CRM and its errors repeat these alone.
    """
    if not secret.startswith(("https://", "http://")):
        return []
    path, _, query = secret.partition("://")[2].partition("#")[0].partition("?")
    values = [unquote(one.rpartition("=")[2]) for one in query.split("&")]
    return [one for one in (*map(unquote, path.split("/")[1:]), *values) if one]


def _check_address(base_url: str) -> None:
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    # Not repeated: it may hold a password.
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
