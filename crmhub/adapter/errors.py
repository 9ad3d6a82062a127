"""The errors that an adapter raises, named by what the caller can do.

AdapterError
  BadConfig     fix the connection's settings
  Denied        renew the credentials
    LacksRight  grant a right; calls that need other rights work
  NotFound      name another record
  Rejected      send other values
  Conflict      use the existing record
  Throttled     retry after `retry_after` seconds
  Unavailable   retry: nothing was written
    NotYet      retry after `retry_after` seconds: nothing failed, it is too early
  Uncertain     look it up before retrying: it may have been written
  Unsupported   go on without: the CRM or the adapter does not support this
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class AdapterError(Exception):
    """A failure that an adapter reports; callers read `message`, so it holds no credential.

    `correlation_id` is the CRM's id of the failed call, which its support may ask for.
    """

    correlation_id: str = ""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadConfig(AdapterError):
    """The connection's settings cannot work; the message names the setting and the reason."""


class Denied(AdapterError):
    """The CRM refuses the credentials; nothing was written."""


class LacksRight(Denied):
    """The credentials are valid but lack a right for this call; the message names the right."""


class NotFound(AdapterError):
    """The CRM has no such record, or no longer has it. Never raised for a failed search."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the CRM refused one property.

    `name` is the property's name as sent, or the name of a missing property. `reason` tells what is
    wrong and what to send. `options` are the accepted internal values, if there are few.
    """

    name: str
    reason: str
    options: tuple[str, ...] = ()


class Rejected(AdapterError):
    """The CRM refuses these values, and wrote nothing of this call.

    `problems` names each refused property, including missing required ones. Without problems, the
    CRM refuses the values as a whole and `message` gives the reason.
    """

    def __init__(self, problems: Sequence[Problem], message: str = "") -> None:
        super().__init__(
            message or "; ".join(f"{problem.name}: {problem.reason}" for problem in problems)
        )
        self.problems = tuple(problems)


class Conflict(AdapterError):
    """A value that must be unique belongs to another record; nothing was written.

    `existing_id` is the other record's id, if the CRM names it, and `name` the property as sent.
    """

    def __init__(self, message: str, *, existing_id: str = "", name: str = "") -> None:
        super().__init__(message)
        self.existing_id = existing_id
        self.name = name


class Throttled(AdapterError):
    """The CRM's rate limit is exhausted; nothing was written.

    `retry_after` is in seconds. `scope` names the exhausted limit (`burst`, `daily`, `search`, …),
    so that calls under other limits can continue.
    """

    def __init__(self, message: str, *, retry_after: float, scope: str = "") -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.scope = scope


class Unavailable(AdapterError):
    """The CRM is unreachable or failing, and nothing was written."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotYet(Unavailable):
    """The call must be repeated later; nothing failed and nothing was written.

    Another process may be making the call, or the CRM may still process an earlier call.
    `retry_after` is in seconds.
    """

    retry_after: float

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message, retry_after=retry_after)


class Uncertain(AdapterError):
    """The call failed after it was sent, so it may have been written."""


class Unsupported(AdapterError):
    """The CRM or the adapter does not support this call."""
