"""Whose turn it is in a team, so that each member's count stays within one of the exact share.

In each round everybody who can be chosen earns a share of one assignment, and the chosen one pays
a whole one. Those who are off duty or have no room neither earn nor pay, so nobody catches up on
hours off. The rule is that of R. Tijdeman, "The chairman assignment problem" (1980): among those
with enough credit, the one whose credit would be the first to exceed the bound. With the same
people, no count is ever a whole assignment from its share; where they change, the largest credit
comes first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from crmhub.accounts.rotations import ROUND_ROBIN, SHUFFLE_BAG, WEIGHTED
from crmhub.translatable import translatable

ROTATIONS = (ROUND_ROBIN, SHUFFLE_BAG, WEIGHTED)
WORDS = {
    ROUND_ROBIN: translatable("round robin"),
    SHUFFLE_BAG: translatable("shuffled order"),
    WEIGHTED: translatable("weight"),
}
WHOLE = 10**12
"""The credit of one assignment."""


class Candidate(Protocol):
    @property
    def owner_id(self) -> str: ...
    @property
    def weight(self) -> int: ...
    @property
    def credit(self) -> int: ...
    @property
    def drawn(self) -> int: ...


def draw(
    rotation: str, seed: str, candidates: Sequence[Candidate], last_owner_id: str | None
) -> tuple[str, Mapping[str, int]]:
    """Return the id of the chosen one, and by which amounts the credits change.

    `candidates`, in the order of the team, have weights above 0. `seed`: of a shuffled order.
    """
    weights = [one.weight if rotation == WEIGHTED else 1 for one in candidates]
    total = sum(weights)
    shares = {
        one.owner_id: weight * WHOLE // total
        for one, weight in zip(candidates, weights, strict=True)
    }
    paid = sum(shares.values())
    credits = {one.owner_id: one.credit + shares[one.owner_id] for one in candidates}
    slack = WHOLE // (2 * len(candidates) - 2) if len(candidates) > 1 else 0
    late = [one for one in candidates if credits[one.owner_id] >= WHOLE - slack]
    ready = [] if late else [one for one in candidates if credits[one.owner_id] >= slack]

    def rank(one: Candidate) -> tuple[int | str, ...]:
        credit = credits[one.owner_id]
        # The rounds until the credit exceeds the bound.
        rounds = -((credit - (WHOLE - slack)) // shares[one.owner_id]) if ready else 0
        if rotation != SHUFFLE_BAG:
            return rounds, -credit
        mixed = hashlib.blake2b(f"{seed}/{one.drawn}/{one.owner_id}".encode()).hexdigest()
        # Nobody twice in a row, unless it is their turn.
        return rounds, -credit, one.owner_id == last_owner_id, mixed

    # Of equals the first in the team.
    chosen = min(late or ready or candidates, key=rank).owner_id
    return chosen, {**shares, chosen: shares[chosen] - paid}
