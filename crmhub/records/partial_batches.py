from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from crmhub.errors import BadRequest, Conflict, HubError, LimitExceeded, NotFound, Semantic, listed
from crmhub.properties.validation import DuplicateValue, property_path
from crmhub.records import writing
from crmhub.records.writing import Change, NewRecord, Record, Upsert

REFUSALS = (BadRequest, LimitExceeded, NotFound, Conflict, Semantic)
"""The errors that inputs of a batch can cause."""

P = TypeVar("P", bound=Change | NewRecord | Upsert)


@dataclass(frozen=True, slots=True)
class Written:
    index: int
    record: Record
    is_new: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """`index` counts from 0; `existing_id` is the record with the unique value."""

    index: int
    error: HubError
    existing_id: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    written: list[Written]
    refused: list[Refusal] = field(default_factory=list)


def write_each(
    inputs: Sequence[P], write: Callable[[P, dict[int, str]], tuple[Record, bool]]
) -> Outcome:
    """`write` gets an input and the earlier paths by record id; it undoes its changes on errors."""
    outcome = Outcome([])
    paths: dict[int, str] = {}
    for index, each in enumerate(inputs):
        try:
            if isinstance(each, Change) and each.id in paths:
                raise BadRequest(f"{each.path}id: {writing.same_as(paths[each.id])}")
            record, is_new = write(each, paths)
        except DuplicateValue as exc:
            error = _named_input(exc, paths)
            outcome.refused.append(Refusal(index, error, exc.existing_id))
        except REFUSALS as exc:
            outcome.refused.append(Refusal(index, exc))
        else:
            outcome.written.append(Written(index, record, is_new))
            paths[record.id] = each.path
    return outcome


def _named_input(error: DuplicateValue, paths: dict[int, str]) -> HubError:
    reasons = [
        (property_path(path, name), writing.same_value_as(paths[holder], name))
        for path, name, holder in error.taken
        if holder in paths
    ]
    return Conflict(listed(reasons)) if reasons else error
