"""Hide personal data in messages: everything that is or looks like a value that a bot has sent.

Hidden are the values of the call and their words, quoted texts, emails, and long numbers such as
phones. This takes time in proportion to the length of a message and of a call, whatever a caller
has sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

HIDDEN = "•••"

# Longer values are texts whose words occur in any message.
_MOST_WORDS = 8
_SHORTEST_WORD = 3
_SHORTEST_VALUE = 2
# A longer value is no part of another word.
_LONGEST_WORD = 100
# A text before an @ is read once, whether an @ follows or not.
_EMAIL = re.compile(r"""([^\s@<>"'(]++)(?:@[^\s@<>"'),;]++)?""")
# A curly quote that is not closed, as in a shortened message, reaches to the end.
_LOOKS_PERSONAL = re.compile(
    r"""(?<!\w)'[^']*'(?!\w)|"[^"]*"|“[^”]*+(?:”|\Z)|‘[^’]*+(?:’|\Z)|«[^»]*+(?:»|\Z)"""
    r"""|\+?[0-9][0-9 ()./-]{5,}[0-9]"""
)


def hide_in_text(text: str, request: Mapping[str, Any] | None = None) -> str:
    """Hide everything in a message that is or looks like a value (of `request`, if any)."""
    text = _EMAIL.sub(lambda found: found[0] if found[0] == found[1] else HIDDEN, text)
    return hide_values(_LOOKS_PERSONAL.sub(HIDDEN, text), _sought(request or {}))


def hide_values(text: str, values: Iterable[str]) -> str:
    """Return a text in which these values are hidden in any case, but not inside of other words."""
    lowered = _lower(text)
    hidden = bytearray(len(text))
    for value in values:
        sought = _lower(value)
        at = lowered.find(sought)
        while at >= 0:
            end = at + len(sought)
            if len(sought) > _LONGEST_WORD or _is_word(text, at, end):
                hidden[at:end] = b"\1" * len(sought)
                at = lowered.find(sought, end)
            else:
                at = lowered.find(sought, at + 1)
    if not any(hidden):
        return text
    shown: list[str] = []
    for at, character in enumerate(text):
        if not hidden[at]:
            shown.append(character)
        elif at == 0 or not hidden[at - 1]:
            shown.append(HIDDEN)
    return "".join(shown)


def _is_word(text: str, start: int, end: int) -> bool:
    beside = text[start - 1 : start] + text[end : end + 1]
    return not any(character.isalnum() or character == "_" for character in beside)


def _lower(text: str) -> str:
    """Return a text in lower case, in which each character keeps its place."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(each.lower() if len(each.lower()) == 1 else each for each in text)


def _sought(request: Mapping[str, Any]) -> set[str]:
    sought = set[str]()
    for value in _texts(request):
        words = value.split()
        sought.add(value.strip())
        if len(words) <= _MOST_WORDS:
            sought.update(word for word in words if len(word) >= _SHORTEST_WORD)
    return {value for value in sought if len(value) >= _SHORTEST_VALUE}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _texts(member)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
