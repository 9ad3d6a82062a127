"""The journal's models: new actions, actions under a lease, and outcomes of attempts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from crmhub.adapter.calls import Call
from crmhub.secrets import BASE36
from crmhub.secrets import token as random_token

State = Literal["running", "queued", "done", "refused", "dead", "parked", "discarded"]
UNFINISHED = ("running", "queued")
_SHOWN = 500
_ID = re.compile(r"act-[0-9a-z]{24}", re.ASCII)


@dataclass(frozen=True, slots=True)
class New:
    """An action that the journal is to store.

    `kind`: the helper, such as `createLead`. `person`: the id of the group of bindings that the hub
    takes for one human being; its actions run in order. `hub_id`: the contact's id in the hub or in
    the CRM. `request`: the helper's parameters. `identity`: a hash that is equal for equal actions
    of a contact. A repeated action within a minute is not stored: it gets the first action's
    result. "" turns this off. `first`: whether the person is new, so that the journal cannot
    contain another action of the person.
    """

    kind: str
    person: str
    hub_id: str
    request: Mapping[str, Any]
    identity: str = ""
    first: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """An action on which this process holds a lease, so that only this process may attempt it.

    Times are in ms since 1970 by the database's clock, 0 for a missing time. `person`: the id of
    the group of bindings that the hub takes for one human being. `tries`: the number of attempts so
    far that count for the retry schedule. `doubt_since`: the start of the first attempt that may
    have written to the CRM. `written_at`: the latest time at which an earlier attempt may have
    written. `probing`: this attempt probes whether an unavailable CRM answers again. `corrected`:
    when an operator last corrected each value, by property name or by key of the request.
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
        """Return when the action's value of the property `name` was accepted or last corrected.

        The time is in ms since 1970.
        """
        # Both parts of a name are sent together.
        keys = (name, "name") if name in ("firstname", "lastname") else (name,)
        return max(self.created_at, *(self.corrected.get(key, 0) for key in keys))


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of accepting an action.

    `hub_id`: the contact id that the caller gets: the one that its conversation is bound to, which
    is the hub's own (`hub-…`) or the CRM's. `entry`: the action under a lease; None if it must not
    be attempted now. `earlier`: the result of an equal action that was accepted earlier; None if
    there is no such action or it has no result yet. `refused`: whether `earlier` is an error.
    `replayed`: whether the equal action was accepted with the same Idempotency-Key.
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

    `state`: the action's new state. `word`: a status of success, or the name of the error's class.
    `mapped`: the properties that were sent, by the CRM's names. `behind`: the id of the failed lead
    that blocks the action, if the state is `parked`. `counts`: whether the attempt counts for the
    retry schedule. `wait_s`: the seconds until a `queued` action is retried. If it is 0 and the
    attempt counts, the retry schedule applies.

    `away`: the reason to open the circuit breaker, so that the whole connection waits; "" for none.
    `throttled`: whether the whole connection waits `wait_s` seconds without an open circuit
    breaker. `trouble`: the message of an error for which the CRM is to blame, "" for none. `doubt`:
    whether the attempt may have written to the CRM. `calls`: the HTTP calls of the attempt. `ms`:
    the duration of the attempt. `ended`: its end by `time.monotonic`, 0 for now.
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
    calls: Sequence[Call] = ()
    ms: int = 0
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class Due:
    """The connections that have due actions; `now` lists them as (account id, connection id).

    `later`: in how many ms further actions are due, None if there are none.
    """

    now: list[tuple[int, int]]
    later: int | None


def shown(text: str) -> str:
    """Return an error message of a CRM in the form that the database stores.

    The result has at most 500 characters; unprintable characters are replaced by `�`.
    """
    return "".join(c if c.isprintable() else "�" for c in text[:_SHOWN])


def new_id(moment: int) -> str:
    """Return a new random action id; ids of later times (`moment`, ms since 1970) sort after it."""
    return earliest_id(moment) + random_token(77, BASE36)


def is_id(text: str) -> bool:
    """Return whether `text` has the form of an action id, whether or not the action exists."""
    return _ID.fullmatch(text) is not None


def earliest_id(moment: int) -> str:
    """Return a text that separates action ids by time.

    The text sorts before all ids that were made at `moment` (ms since 1970) or later, and after all
    older ids.
    """
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
    """Return an action's result from its stored JSON text; None if `text` is None."""
    if text is None:
        return None
    result: Mapping[str, Any] = json.loads(text)
    return result
