"""Fit answers into the characters that an agent's context has for them, never half a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

ROOM = 8_000
"""The most characters of an answer."""
FRAME = 400
"""Characters that are kept for an answer's other keys."""
# A value of a list that is longer than this is left out, so that a page shows several records.
_LONG = 500
_RECORD_ROOM = 3_000
_MOST_OMITTED = 40


class Rest(NamedTuple):
    """The part, its name, and the offset in its value."""

    part: str
    name: str
    offset: int


def size(value: Any) -> int:
    return len(orjson.dumps(value).decode())


def shorten(record: Mapping[str, Any]) -> dict[str, Any]:
    """Values that are too long are named in `omitted`."""
    values: dict[str, str] = dict(record["properties"])
    omitted = {name: len(text) for name, text in values.items() if len(text) > _LONG}
    by_length = sorted(values, key=lambda name: len(values[name]), reverse=True)
    total = size(values)
    for name in by_length:
        if name not in omitted and total <= _RECORD_ROOM:
            break
        total -= size({name: values[name]})
        omitted[name] = len(values.pop(name))
    shown = {**record, "properties": values}
    if not omitted:
        return shown
    if len(omitted) > _MOST_OMITTED or size(omitted) > _RECORD_ROOM // 2:
        return shown | {"omittedCount": len(omitted)}
    return shown | {"omitted": omitted}


def count_fitting(items: Iterable[Any], room: int) -> int:
    count = 0
    for item in items:
        room -= size(item) + 1
        if room < 0:
            break
        count += 1
    return count


class Parts:
    def __init__(self, room: int) -> None:
        self._room = room
        self.values: dict[str, str] = {}
        self.links: dict[str, list[str]] = {}
        self.partial: dict[str, dict[str, int]] = {}

    def take(
        self,
        values: Mapping[str, str],
        links: Mapping[str, Sequence[str]],
        after: Rest | None,
    ) -> Rest | None:
        """Return where the next answer continues."""
        parts: list[tuple[str, str, Any]] = [
            *(("v", name, values[name]) for name in sorted(values)),
            *(("l", name, list(links[name])) for name in sorted(links)),
        ]
        order = {"v": 0, "l": 1}
        for part, name, value in parts:
            place = (order[part], name)
            if after is not None and place < (order[after.part], after.name):
                continue
            offset = after.offset if after and place == (order[after.part], after.name) else 0
            if (rest := self._take(part, name, value, offset)) is not None:
                return rest
        return None

    def _take(self, part: str, name: str, value: Any, offset: int) -> Rest | None:
        piece = value[offset:]
        cost = size({name: piece})
        if cost > self._room and cost <= ROOM - 2 * FRAME and (self.values or self.links):
            # It fits into the next answer as a whole.
            return Rest(part, name, offset)
        if cost > self._room:
            piece = self._largest_piece(name, piece)
            if not piece:
                return Rest(part, name, offset)
            cost = size({name: piece})
        self._room -= cost
        (self.values if part == "v" else self.links)[name] = piece
        end = offset + len(piece)
        if offset or end < len(value):
            self.partial[name] = {"from": offset, "to": end, "of": len(value)}
            self._room -= size({name: self.partial[name]})
        return Rest(part, name, end) if end < len(value) else None

    def _largest_piece(self, name: str, value: Any) -> Any:
        low, high = 0, len(value)
        room = self._room - 100
        while low < high:
            middle = (low + high + 1) // 2
            if size({name: value[:middle]}) <= room:
                low = middle
            else:
                high = middle - 1
        return value[:low]
