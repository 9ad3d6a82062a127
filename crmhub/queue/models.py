"""The journal's models: new actions, actions under a lease, and outcomes of attempts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from crmhub.adapter.calls import Call
from crmhub.errors import HubError
from crmhub.secrets import BASE36, time_digits
from crmhub.secrets import token as random_token
from crmhub.translatable import Text, from_stored, to_stored

State = Literal["running", "queued", "done", "refused", "dead", "parked", "discarded"]
UNFINISHED = ("running", "queued")
_SHOWN = 500
_ID = re.compile(r"act-[0-9a-z]{24}", re.ASCII)


@dataclass(frozen=True, slots=True)
class New:
    """An action that the journal is to store.

    `kind`: the helper, such as `createLead`. `hub_id`: the contact's id in the hub or in the CRM.
    `identity`: a hash that is equal for equal actions of a contact, "" to store repeated ones.
    `stands`: whether the result of an earlier equal action, by its id, still holds; None if always.
    `first`: the person is new, so the journal has no other action of the person.
    """

    kind: str
    person: str
    hub_id: str
    request: Mapping[str, Any]
    identity: str = ""
    first: bool = False
    stands: Callable[[str], bool] | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """An action on which this process holds a lease; missing times are 0.

    `tries`: the attempts so far that count for the retry schedule. `doubt_since`: the start of the
    first attempt that may have written to the CRM; `written_at`: the latest time at which one may
    have written. `probing`: this attempt probes whether an unavailable CRM answers again.
    `corrected`: when an operator last corrected each value, by property name or by key of the
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

    @property
    def held(self) -> dict[str, Any]:
        """The action's key and its lease."""
        return {"account_id": self.account_id, "id": self.id, "lease": self.lease}

    def accepted_at(self, name: str) -> int:
        """Return when the action's value of the property was accepted or last corrected."""
        # Both parts of a name are sent together.
        keys = (name, "name") if name in ("firstname", "lastname") else (name,)
        return max(self.created_at, *(self.corrected.get(key, 0) for key in keys))


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of accepting an action.

    `hub_id`: the contact id that the caller gets, the hub's own (`hub-…`) or the CRM's. `entry`:
    the action under a lease; None if it must not be attempted now. `earlier`: the result of an
    equal action that was accepted earlier, or None; with `refused`, it is an error. `replayed`:
    both had the same Idempotency-Key.
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
    then: tuple[Accepted | HubError, ...] = ()
    """The actions that run behind it, or why one could not be accepted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one attempt of an action.

    `state`: the action's new state. `word`: a status of success, or the name of the error's class.
    `mapped`: the properties that were sent, by the CRM's names. `behind`: the id of the failed lead
    that blocks a `parked` action. `counts`: whether the attempt counts for the retry schedule,
    which applies if `wait_s` is 0.

    `away`: the reason to open the circuit breaker, or "". `throttled`: the whole connection waits
    `wait_s` seconds without that. `trouble`: the message of an error for which the CRM is to blame.
    `doubt`: the attempt may have written to the CRM. `is_local`: the hub refused it without a call
    of the CRM. `ended`: its end by `time.monotonic`, 0 for now.
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
    is_local: bool = False
    correlation_id: str = ""
    calls: Sequence[Call] = ()
    ms: int = 0
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class Due:
    """The (account id, connection id) with due actions; `later`: in how many ms others are due."""

    now: list[tuple[int, int]]
    later: int | None


def shown(text: str) -> str:
    """Return a CRM's error message as stored: 500 characters, unprintable ones replaced by `�`."""
    return "".join(c if c.isprintable() else "�" for c in text[:_SHOWN])


def new_id(moment: int) -> str:
    """Return a new random action id; ids of later times sort after it."""
    return earliest_id(moment) + random_token(77, BASE36)


def is_id(text: str) -> bool:
    """Return whether `text` has the form of an action id, whether or not the action exists."""
    return _ID.fullmatch(text) is not None


def earliest_id(moment: int) -> str:
    """Return a text that sorts before all action ids from `moment` on, and after all older ids."""
    return f"act-{time_digits(moment)}"


def as_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def dump_result(result: Mapping[str, Any]) -> str:
    """Return the result as JSON: in English, with the templates of texts beside it.

    So a repeated call gets the answer in its account's language, as the first one did, and those
    who read actions get it in English.
    """
    said = [result.get("message", ""), *(one["reason"] for one in result.get("refused", ()))]
    texts = {text: to_stored(text) for text in said if isinstance(text, Text) and text.values}
    return json.dumps({**result, "texts": texts} if texts else result)


def as_result(text: str | None) -> Mapping[str, Any] | None:
    """Return a stored result, whose texts can be translated."""
    if text is None:
        return None
    result: dict[str, Any] = json.loads(text)
    texts = {en: from_stored(one, en) for en, one in result.pop("texts", {}).items()}
    for place, name in [
        (result, "message"),
        *((one, "reason") for one in result.get("refused", ())),
    ]:
        if name in place:
            place[name] = texts.get(place[name], place[name])
    return result
