from __future__ import annotations

import re
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import NameResolutionError, NewConnectionError, ReadTimeoutError

from crmhub import egress
from crmhub.adapter.errors import (
    AdapterError,
    BadConfig,
    NotYet,
    Unavailable,
    Uncertain,
    Unreachable,
)
from crmhub.translatable import translatable

_AFTER_HOST = re.compile(r"(https?://[^/?#\s'\"]*)[^\s'\"]*", re.IGNORECASE)


class TooLarge(Unavailable):
    """The CRM's answer to a read exceeds the size limit; the caller must request less data."""


def unanswered(
    crm: str, url: str, exc: requests.RequestException, *, reads: bool, short: bool
) -> AdapterError:
    """`short`: the request had so little time that its end says nothing about the CRM."""
    base = urlsplit(url)
    if short and _timed_out(exc) and (reads or _not_sent(exc)):
        return NotYet(
            translatable("There was too little time left to call %(crm)s.", crm=crm),
            retry_after=1.0,
        )
    if isinstance(exc, requests.exceptions.InvalidURL):
        # The egress guard's message tells what to do; the path may be an email and is cut.
        return BadConfig(_AFTER_HOST.sub(r"\1", str(exc)))
    if isinstance(exc, requests.exceptions.SSLError):
        return Unavailable(
            translatable(
                "%(host)s could not prove that it is %(crm)s (TLS failed).",
                host=base.hostname,
                crm=crm,
            )
        )
    if _not_sent(exc):
        place = base.netloc.rpartition("@")[2]
        return Unreachable(
            translatable("Couldn't connect to %(url)s.", url=f"{base.scheme}://{place}")
        )
    what = type(exc).__name__
    if reads and isinstance(exc, egress.TooLarge):
        return TooLarge(
            translatable("%(crm)s answers with more than can be read of one answer.", crm=crm)
        )
    message = translatable("%(crm)s gave no whole answer (%(what)s).", crm=crm, what=what)
    return Unavailable(message) if reads else Uncertain(message)


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
