"""What the journal takes and gives: an action, an entry to work on, what a try came to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from crmhub.secrets import BASE36
from crmhub.secrets import token as random_token

State = Literal["running", "queued", "done", "refused", "dead", "parked", "discarded"]
UNFINISHED = ("running", "queued")
_SHOWN = 500
_ID = re.compile(r"act-[0-9a-z]{24}", re.ASCII)


@dataclass(frozen=True, slots=True)
class New:
    """An action to accept; `identity` is the same for the same one of the same contact.

    Where it is given, one of the last minute answers for it.

    `first` says that nobody else can know of its person yet.
    """

    kind: str
    person: str
    hub_id: str
    request: Mapping[str, Any]
    identity: str = ""
    first: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """An action in the hands of whoever holds its lease.

    `doubt_since` is when the first attempt began of which nobody knows what it wrote (ms), and
    `written_at` until when the last such attempt may have sent a write; both are 0 without one.
    Like all times of the journal they are the database's. `probing` says that its connection is
    thought to be unavailable. `corrected` tells when an operator corrected a value (ms), by the
    property's name or the request's key.
    """

    account_id: int
    id: str
    connection_id: int
    kind: str
    person: str
    hub_id: str
    request: Mapping[str, Any] = field(repr=False)
    tries: int
    lease: str
    doubt_since: int
    created_at: int
    give_up_at: int
    probing: bool = False
    corrected: Mapping[str, int] = field(default_factory=dict)
    written_at: int = 0

    def accepted_at(self, name: str) -> int:
        """Return when the value of a property was accepted, or else corrected (ms)."""
        # A name is sent as a whole.
        keys = (name, "name") if name in ("firstname", "lastname") else (name,)
        return max(self.created_at, *(self.corrected.get(key, 0) for key in keys))


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of accepting an action: it may be tried now (`entry`), or stands in the queue.

    `earlier` is the result of the same action accepted before, None for a new one or when that
    is still under way; when `refused`, it tells the error.
    """

    action_id: str
    hub_id: str
    entry: Entry | None = None
    earlier: Mapping[str, Any] | None = None
    refused: bool = False
    replayed: bool = False
    behind: bool = False
    """Whether it waits for nothing but an earlier action of the same person."""
    stopped: bool = False
    """Whether it waits for an operator's decision."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one try came to.

    `mapped` holds the properties as the CRM was sent them. A `parked` one waits `behind`
    that dead action.
    A `queued` one is tried again: after `wait_s`, and when that is 0 and it `counts`, after the
    schedule's delay.
    `away` says in words why the whole connection has to wait; with `throttled` it waits `wait_s`
    and is not thought to be away. `trouble` says in words what went wrong with the CRM this time.
    `doubt` says that something may have been written. `ended` is when the attempt ended, by
    `time.monotonic`; 0 stands for now.
    """

    state: State
    word: str
    message: str = ""
    result: Mapping[str, Any] | None = None
    mapped: Mapping[str, str] | None = field(default=None, repr=False)
    behind: str = ""
    counts: bool = False
    wait_s: float = 0.0
    away: str = ""
    trouble: str = ""
    throttled: bool = False
    doubt: bool = False
    correlation_id: str = ""
    ms: int = 0
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class Due:
    """The connections with something to do, by account and connection, at a `moment` (ms).

    More is due `later`, in so many ms, None for never.
    """

    now: list[tuple[int, int]]
    later: int | None
    moment: int


def shown(text: str) -> str:
    """Return the words of a CRM as a database takes them: cut, and nothing unprintable."""
    return "".join(c if c.isprintable() else "�" for c in text[:_SHOWN])


def new_id(moment: int) -> str:
    """Return an id for an action of this moment; ids sort as their moments do."""
    return earliest_id(moment) + random_token(77, BASE36)


def is_id(text: str) -> bool:
    """Return whether `text` can be the id of an action; there may be none."""
    return _ID.fullmatch(text) is not None


def earliest_id(moment: int) -> str:
    """Return what sorts before every id of this moment (ms) and behind all earlier ones."""
    # Nine digits of base 36 last until the year 5188.
    digits = ""
    for _ in range(9):
        moment, digit = divmod(moment, 36)
        digits = BASE36[digit] + digits
    return f"act-{digits}"


def as_json(value: Mapping[str, Any]) -> str:
    """Return a value as the journal stores it."""
    return json.dumps(value, ensure_ascii=False)


def as_result(text: str | None) -> Mapping[str, Any] | None:
    """Return a stored result, None for none."""
    if text is None:
        return None
    result: Mapping[str, Any] = json.loads(text)
    return result
