"""Partial writes: if the CRM refuses some properties of a record, the others are stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from crmhub.adapter import Conflict, Problem, Rejected, Saved
from crmhub.errors import listed, shortened

# These are never left out: a deal in the wrong pipeline is worse than an error.
PLACES = frozenset({"pipeline", "dealstage", "hs_pipeline", "hs_pipeline_stage"})


S = TypeVar("S", bound=Saved)


@dataclass(frozen=True, slots=True)
class Stored(Generic[S]):
    saved: S
    refused: tuple[Problem, ...]


def write_accepted_properties(
    write: Callable[[Mapping[str, str]], S],
    properties: Mapping[str, str],
    refused: Sequence[Problem] = (),
    *,
    strict: bool,
    places: Collection[str] = PLACES,
) -> Stored[S]:
    """Call `write`; if the CRM refuses some properties, call it again without them.

    `refused`: left out before. `strict`: every refused property is an error, otherwise only those
    in `places`. Raises Rejected with all reasons.
    """
    rest = dict(properties)
    left_out = list(refused)
    if strict and left_out:
        raise refusal(left_out)
    while rest:
        try:
            saved = write(rest)
        except Rejected as exc:
            problems, message = exc.problems, exc.message if not exc.problems else ""
        except Conflict as exc:
            if not exc.name:
                raise
            problems, message = (Problem(exc.name, exc.message),), ""
        else:
            return Stored(saved, (*left_out, *saved.refused))
        left_out += (one if one.name in properties else _missing(one) for one in problems)
        names = {problem.name for problem in problems}
        if strict or not names or names.intersection(places) or not names <= rest.keys():
            raise refusal(left_out, message)
        rest = {name: value for name, value in rest.items() if name not in names}
    raise refusal(left_out, "" if left_out else "There is nothing to write.")


def _missing(problem: Problem) -> Problem:
    remedy = f"Set a constant for {problem.name} in the field map, or send a value"
    return replace(problem, reason=f"{problem.reason.rstrip('.')}. {remedy}")


def refusal(problems: Sequence[Problem], message: str = "") -> Rejected:
    told = listed([(shortened(one.name), one.reason) for one in problems])
    return Rejected(problems, ". ".join(filter(None, (told, message))))
