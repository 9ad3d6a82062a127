"""The journal's models: an accepted action, an entry under a lease, an attempt's outcome."""

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
    """An action to accept.

    `identity`: equal for equal actions of one contact. Within a minute, the first one's result
    answers the others. "" turns that off.

    `first`: the person is new, so no other action can be of this person.
    """

    kind: str
    person: str
    hub_id: str
    request: Mapping[str, Any]
    identity: str = ""
    first: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """An action whose lease this process holds.

    Times are the database's, in ms since 1970, 0 for none. `doubt_since`: start of the first
    attempt that may have written something. `written_at`: the latest time at which such an attempt
    may have sent a write. `probing`: the circuit is open, and this attempt finds out whether the
    CRM is back. `corrected`: when an operator corrected each value, by property name or key of the
    request.
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
        """Return when a property's value was accepted or, if later, corrected (ms)."""
        # A name is sent as a whole.
        keys = (name, "name") if name in ("firstname", "lastname") else (name,)
        return max(self.created_at, *(self.corrected.get(key, 0) for key in keys))


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of accepting an action: `entry` if it may be attempted now, else it is queued.

    `earlier`: the result of the same action accepted before; None for a new action, or while the
    earlier one is unfinished. `refused`: `earlier` holds an error.
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
    """The outcome of one attempt.

    `mapped`: the properties sent to the CRM. `behind`: the failed action that blocks a `parked`
    one. A `queued` action is retried after `wait_s`; if that is 0 and the attempt `counts`, after
    the delay of the schedule.

    `away`: the message of an open circuit; the whole connection waits. `throttled`: the whole
    connection waits `wait_s`, with its circuit closed. `trouble`: the message of a failed call.
    `doubt`: the attempt may have written something. `ended`: when it ended, by `time.monotonic`; 0
    for now.
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
    """The connections with actions to attempt, as (account, connection), at a `moment` (ms).

    `later`: ms until more actions fall due, None for never.
    """

    now: list[tuple[int, int]]
    later: int | None
    moment: int


def shown(text: str) -> str:
    """Return a CRM's message as the database stores it: shortened, printable characters only."""
    return "".join(c if c.isprintable() else "�" for c in text[:_SHOWN])


def new_id(moment: int) -> str:
    """Return a new action id; ids sort by their moment (ms)."""
    return earliest_id(moment) + random_token(77, BASE36)


def is_id(text: str) -> bool:
    """Return whether `text` has the form of an action id; the action need not exist."""
    return _ID.fullmatch(text) is not None


def earliest_id(moment: int) -> str:
    """Return a text that sorts before all ids of this moment (ms) and after all earlier ids."""
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
    """Return a stored result as a mapping, None for no result."""
    if text is None:
        return None
    result: Mapping[str, Any] = json.loads(text)
    return result
