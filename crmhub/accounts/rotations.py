"""Parse the account switch `rotation`, such as `round_robin` or `weighted:5,3,1+sticky`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from crmhub.translatable import translatable

RANDOM, ROUND_ROBIN, SHUFFLE_BAG, WEIGHTED = "random", "round_robin", "shuffle_bag", "weighted"
NAMES = (RANDOM, ROUND_ROBIN, SHUFFLE_BAG, WEIGHTED)
MOST_WEIGHTS = LARGEST_WEIGHT = 100

_STICKY = "sticky"
_WEIGHT = re.compile(r"[0-9]{1,3}", re.ASCII)
_RIGHT = translatable(
    "random, round_robin, shuffle_bag or weighted:5,3,1 (a weight for each number),"
    " with +sticky behind it where a contact keeps its number"
)


@dataclass(frozen=True, slots=True)
class Rotation:
    """With `sticky`, once for each contact. The first weight is that of the smallest integer."""

    how: str
    weights: tuple[int, ...] = ()
    sticky: bool = False

    @property
    def strategy(self) -> str:
        """Without `+sticky`, such as `weighted:5,3,1`."""
        return f"{self.how}:{','.join(map(str, self.weights))}" if self.weights else self.how

    def __str__(self) -> str:
        return f"{self.strategy}+{_STICKY}" if self.sticky else self.strategy


@lru_cache(maxsize=1024)
def read_rotation(text: str) -> Rotation:
    """`sticky` alone means `random+sticky`. Raises ValueError, which names the valid forms."""
    normalized = "".join(text.split()).lower()
    strategy, plus, sticky = normalized.partition("+")
    if normalized == _STICKY:
        strategy, sticky = RANDOM, _STICKY
    how, colon, weights = strategy.partition(":")
    if how not in NAMES or (plus and sticky != _STICKY):
        raise ValueError(
            translatable(
                "%(text)s is not a rotation; give %(right)s", text=repr(text), right=_RIGHT
            )
        )
    if how == WEIGHTED:
        return Rotation(how, _weights(text, weights), bool(sticky))
    if colon:
        raise ValueError(
            translatable(
                "%(text)s: only weighted takes weights; give %(right)s",
                text=repr(text),
                right=_RIGHT,
            )
        )
    return Rotation(how, (), bool(sticky))


def _weights(text: str, listed: str) -> tuple[int, ...]:
    parts = listed.split(",")
    weights = tuple(int(part) for part in parts if _WEIGHT.fullmatch(part))
    if len(weights) < len(parts) or len(weights) > MOST_WEIGHTS or max(weights) > LARGEST_WEIGHT:
        raise ValueError(
            translatable(
                "%(text)s: give up to %(most)s weights, each a whole number from 0 to"
                " %(largest)s, such as weighted:5,3,1",
                text=repr(text),
                most=MOST_WEIGHTS,
                largest=LARGEST_WEIGHT,
            )
        )
    if not any(weights):
        raise ValueError(
            translatable(
                "%(text)s: at least one weight must be above 0, or nobody is chosen",
                text=repr(text),
            )
        )
    return weights
