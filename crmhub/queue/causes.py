"""Why an action failed, without values: actions with an equal cause form a group.

A cause names the adapter, the operation, the class of the error, and the property that it is about.
Of its message only what is equal for all values and accounts is kept, so that a hundred calls with
a hundred invalid values of one property have one cause, and none contains personal data.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from crmhub.adapter.places import PLACES
from crmhub.queue.hidden_values import HIDDEN, hide_in_text

_PLACES = frozenset(name for names in PLACES.values() for name in names)
# Outcomes that are no failures: the action only waits for its turn or for the CRM's limit.
_WAITS = ("Behind", "NotYet", "Throttled", "TooManyRequests")
# The classes of errors that are about values.
_OF_VALUES = ("Rejected", "Conflict", "Semantic", "NotFound")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}", re.ASCII)
_NO_NAME = re.compile(r"@|\d{6}")
# Faults of values, by what messages of the hub and of CRMs say; the first that matches counts.
_FAULTS = (
    ("unknown", r"no such (?:property|field)|does not exist|doesn't exist|DOESNT_EXIST"
                r"|(?:unknown|invalid) (?:property|field)"),
    ("read_only", r"read.?only|sets this property itself|cannot be (?:set|changed|written)"),
    ("option", r"no (?:pipeline|stage)\b|not (?:among|one of) the|allowed (?:options|values)"
               r"|no active user|INVALID_OPTION|wrong value|no such (?:pipeline|stage|option)"),
    ("missing", r"\bblank\b|\bmissing\b|\brequired\b|\bmandatory\b|\bneeds? an?\b"),
    ("long", r"too long"),
    ("format", r"not an? (?:number|date|valid|email)|neither|may mean|invalid|not valid"),
)  # fmt: skip
_FAULT_PATTERNS = tuple((fault, re.compile(text, re.IGNORECASE)) for fault, text in _FAULTS)
# What may differ between calls and accounts of one cause: words with digits, which may be ids (but
# for states of HTTP), what a message offers to send instead, and labels in parentheses (but for
# codes in capitals).
_WORD = re.compile(r"[\w-]++")
_HTTP_STATE = re.compile(r"[45][0-9][0-9]")
_SEVERAL_HIDDEN = re.compile(f"{HIDDEN}(?:[\\s,]*+{HIDDEN})+")
_ADVICE = re.compile(r"; (?:send|leave|add|call) .*", re.DOTALL)
_LABEL = re.compile(r"\((?![A-Z_ ]{2,}\)|[45][0-9][0-9]\))[^()]*+\)")
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Cause:
    """`word`: the class of the error. `name`: the property as bots call it, or "".

    `fault`: what is wrong with its value: one of the first words of `_FAULTS`, `taken`, or "".
    `pattern`: the message without values; "" if the fault says it.
    """

    adapter: str
    kind: str
    word: str
    name: str
    fault: str
    pattern: str

    @property
    def key(self) -> str:
        """Equal for the actions of one group."""
        return hashlib.sha256("\n".join(astuple(self)).encode()).hexdigest()[:12]

    def to_text(self) -> str:
        return json.dumps(astuple(self), ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str) -> Cause:
        return cls(*json.loads(text))


def cause_of(
    adapter: str, kind: str, word: str, message: str, request: Mapping[str, Any]
) -> Cause | None:
    """Return the cause of an attempt's outcome; None if the action only waits."""
    if not message or word in _WAITS:
        return None
    problems: dict[str, str] = {}
    for name, reason in problems_in(message, request) if word in _OF_VALUES else ():
        if name.lower() != adapter:
            problems.setdefault(name, reason)
    name = next((one for one in problems if one in _PLACES), next(iter(problems), ""))
    reason = problems.get(name, message)
    fault = "taken" if name and word == "Conflict" else ""
    if name and not fault:
        fault = next((one for one, found in _FAULT_PATTERNS if found.search(reason)), "")
    if _NO_NAME.search(name):
        name = HIDDEN
    pattern = "" if fault else _without_values(reason, request)
    return Cause(adapter, kind, word, name, fault, pattern)


def problems_in(message: str, request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each property that a message is about, and what is wrong with it.

    Errors join their problems as "name: reason; name: reason".
    """
    sent = {*(request.get("properties") or {}), *request}
    name, reason = "", ""
    for part in message.split("; "):
        first, colon, rest = part.partition(": ")
        first = first.removeprefix("properties.")
        if colon and (first in sent or _NAME.fullmatch(first)):
            if name:
                yield name, reason
            name, reason = first, rest
        elif name:
            reason = f"{reason}; {part}"
    if name:
        yield name, reason


def _without_values(reason: str, request: Mapping[str, Any]) -> str:
    text = _LABEL.sub("", _ADVICE.sub("", hide_in_text(reason, request)))
    text = _SEVERAL_HIDDEN.sub(HIDDEN, _WORD.sub(_without_id, text))
    return " ".join(text.split())[:_LONGEST]


def _without_id(word: re.Match[str]) -> str:
    is_kept = _HTTP_STATE.fullmatch(word[0]) or not any(map(str.isdigit, word[0]))
    return word[0] if is_kept else HIDDEN
