"""Partial writes: a refused property does not lose the lead; the others are stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from crmhub.adapter import Conflict, Problem, Rejected, Saved
from crmhub.errors import listed
from crmhub.helpers.inputs import shortened

# A deal in the wrong place is worse than a clear error, so these are never left out.
PLACES = frozenset({"pipeline", "dealstage", "hs_pipeline", "hs_pipeline_stage"})


S = TypeVar("S", bound=Saved)


@dataclass(frozen=True, slots=True)
class Stored(Generic[S]):
    """The written record, and the problems of the properties left out."""

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
    """Write `properties`, leaving out what the CRM refuses.

    `refused` is what was left out before. With `strict` nothing may be left out, and `places`
    never may. Raises Rejected, naming everything that is wrong, when a value cannot be left out
    or none is left.
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
        left_out += problems
        names = {problem.name for problem in problems}
        if strict or not names or names.intersection(places) or not names <= rest.keys():
            raise refusal(left_out, message)
        rest = {name: value for name, value in rest.items() if name not in names}
    raise refusal(left_out, "" if left_out else "There is nothing to write.")


def refusal(problems: Sequence[Problem], message: str = "") -> Rejected:
    """Return the error that names these problems, with a further message."""
    told = listed([(shortened(one.name), one.reason) for one in problems])
    return Rejected(problems, ". ".join(filter(None, (told, message))))
