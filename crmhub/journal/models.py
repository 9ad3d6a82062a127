"""The journal's models: actions to accept, actions under a lease, and outcomes of attempts."""

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

    `identity`: a hash that equal actions of a contact share; a repetition within a minute gets the
    first action's result. "" turns this off.

    `first`: the person is new, so the journal cannot have another action of this person.
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

    Times are in ms since 1970 by the database's clock, 0 for a missing time. `tries`: counted
    attempts so far. `doubt_since`: the start of the first attempt that may have written to the CRM.
    `written_at`: the latest time at which such an attempt may have written. `probing`: the circuit
    is open, and this attempt probes the CRM. `corrected`: when an operator last corrected each
    value, by property name or by key of the request.
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
        """Return when the action's value of a property was accepted or last corrected (ms)."""
        # Both parts of a name are sent together.
        keys = (name, "name") if name in ("firstname", "lastname") else (name,)
        return max(self.created_at, *(self.corrected.get(key, 0) for key in keys))


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of accepting an action; `entry` is set if the action may be attempted now.

    `hub_id`: the hub's id of the contact. `earlier`: the result of an equal action accepted before;
    None if there is no such action or it is unfinished. `refused`: `earlier` is an error.
    `replayed`: the equal action was accepted with the same Idempotency-Key.
    """

    action_id: str
    hub_id: str
    entry: Entry | None = None
    earlier: Mapping[str, Any] | None = None
    refused: bool = False
    replayed: bool = False
    behind: bool = False
    """True if the action waits only for an earlier action of the same person."""
    stopped: bool = False
    """True if the equal earlier action has failed or is blocked and needs an operator."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one attempt of an action.

    `state`: the action's new state. `word`: the status or the name of the error. `mapped`: the
    properties sent, by the CRM's names. `behind`: the id of the failed action that blocks a
    `parked` action. `wait_s`: seconds until a `queued` action is retried; if it is 0 and the
    attempt `counts`, the retry schedule applies.

    `away`: why the circuit is open, so that the whole connection waits. `throttled`: the whole
    connection waits `wait_s`, with a closed circuit. `trouble`: the message of a call for which the
    CRM is to blame. `doubt`: the attempt may have written to the CRM. `ms`: its duration. `ended`:
    its end by `time.monotonic`, 0 for now.
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
    """The connections with due actions at a `moment` (ms), as (account id, connection id).

    `later`: the time in ms until further actions are due, None if there are none.
    """

    now: list[tuple[int, int]]
    later: int | None
    moment: int


def shown(text: str) -> str:
    """Return a CRM's message in the form that the database stores: 500 printable characters."""
    return "".join(c if c.isprintable() else "�" for c in text[:_SHOWN])


def new_id(moment: int) -> str:
    """Return a new random action id; ids sort by their time `moment` (ms since 1970)."""
    return earliest_id(moment) + random_token(77, BASE36)


def is_id(text: str) -> bool:
    """Return whether `text` has the form of an action id, whether or not the action exists."""
    return _ID.fullmatch(text) is not None


def earliest_id(moment: int) -> str:
    """Return a text that sorts before all action ids of `moment` (ms) and after all older ids."""
    # Nine digits of base 36 last until the year 5188.
    digits = ""
    for _ in range(9):
        moment, digit = divmod(moment, 36)
        digits = BASE36[digit] + digits
    return f"act-{digits}"


def as_json(value: Mapping[str, Any]) -> str:
    """Return a request or result as the JSON text that the journal stores."""
    return json.dumps(value, ensure_ascii=False)


def as_result(text: str | None) -> Mapping[str, Any] | None:
    """Return the mapping of a stored JSON result; None if there is no result."""
    if text is None:
        return None
    result: Mapping[str, Any] = json.loads(text)
    return result
