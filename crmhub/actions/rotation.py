"""getRandomInt: the number by which a bot picks one of several agents."""

from __future__ import annotations

import secrets

from crmhub.errors import Semantic

# Beyond these a number is not the same in every program that reads JSON.
LARGEST = 2**53 - 1

_random = secrets.SystemRandom()


def random_int(*, smallest: int, largest: int) -> int:
    """Return an integer from `smallest` to `largest`, both included, each as likely.

    Raises Semantic when the range is empty.
    """
    if smallest > largest:
        raise Semantic(f"min: {smallest} is greater than max, {largest}; send the smaller as min")
    return _random.randint(smallest, largest)
