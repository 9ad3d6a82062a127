"""The errors that an adapter raises; each class tells the caller what to do next.

AdapterError
  BadConfig     correct the connection's settings
  Denied        renew the credentials
    LacksRight  grant a missing right; calls that need other rights still work
  NotFound      name another record
  Rejected      send other values
  Conflict      use the existing record
  Throttled     retry after `retry_after` seconds; nothing was written
  Unavailable   retry; nothing was written
    Unreachable check the address; there was no connection
    NotYet      retry after `retry_after` seconds; nothing failed, it is too early
  Uncertain     look the record up before a retry, since it may have been written
  Unsupported   do without this call: the CRM or the adapter does not support it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace


class AdapterError(Exception):
    """A failure that an adapter reports; callers read `message`: it contains no credential.

    `correlation_id`: the CRM's id for the request, which its support may ask for.
    """

    correlation_id: str = ""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Problem:
    """Why one property or setting was refused: what is wrong, and what to send instead.

    `name` is as the caller sent it, or missing and required. `options`: accepted values, maybe
    incomplete.
    """

    name: str
    reason: str
    options: tuple[str, ...] = ()


class BadConfig(AdapterError):
    """The settings cannot work; `problems` names the wrong ones, where they are known."""

    def __init__(self, message: str = "", *, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message or _listed(problems))
        self.problems = tuple(problems)


class Denied(AdapterError):
    """The CRM does not accept the credentials; nothing was written."""


class LacksRight(Denied):
    """The credentials are valid but lack a right for this call; the message names the right."""


class NotFound(AdapterError):
    """The CRM has no record with this id, or has deleted it; never for an empty search."""


class Rejected(AdapterError):
    """The CRM refuses values of the call; nothing was written.

    Without `problems` it refuses the values as a whole, and `message` gives the reason.
    """

    def __init__(self, problems: Sequence[Problem], message: str = "") -> None:
        super().__init__(message or _listed(problems))
        self.problems = tuple(problems)

    def rename(self, new_name: Callable[[str], str]) -> None:
        """Replace the name of each problem by `new_name(name)`, also in a message made of them."""
        self.set_problems(
            [replace(problem, name=new_name(problem.name)) for problem in self.problems]
        )

    def set_problems(self, problems: Sequence[Problem]) -> None:
        if self.message == _listed(self.problems):
            self.message = _listed(problems)
            self.args = (self.message,)
        self.problems = tuple(problems)


def _listed(problems: Sequence[Problem]) -> str:
    return "; ".join(f"{problem.name}: {problem.reason}" for problem in problems)


class Conflict(AdapterError):
    """A value that must be unique belongs to another record; nothing was written.

    `existing_id`: that record, or "". `name`: the property as the caller sent it, or "". Of
    `Adapter.link`, it is the record with which the only possible association exists.
    """

    def __init__(self, message: str, *, existing_id: str = "", name: str = "") -> None:
        super().__init__(message)
        self.existing_id = existing_id
        self.name = name


class Throttled(AdapterError):
    """The CRM's rate limit is exhausted; nothing was written.

    `retry_after`: in seconds. `scope`: the limit (`burst`, `daily`, `search`, …), so that calls
    under others can continue; "" if unknown.
    """

    def __init__(self, message: str, *, retry_after: float, scope: str = "") -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.scope = scope


class Unavailable(AdapterError):
    """The CRM is unreachable or fails, and nothing was written; `retry_after`: seconds or None."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unreachable(Unavailable):
    """There was no connection to the CRM, perhaps because its address is wrong."""


class NotYet(Unavailable):
    """The call must be repeated after `retry_after` seconds; nothing failed or was written.

    Another process makes the same call, or an earlier call may still take effect.
    """

    retry_after: float

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message, retry_after=retry_after)


class Uncertain(AdapterError):
    """The call failed after the request was sent, so the CRM may have written the values."""


class Unsupported(AdapterError):
    """The CRM, or its adapter, does not support this call."""
