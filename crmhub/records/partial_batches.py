"""Batches of which the valid inputs are stored, in one transaction with a savepoint for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection
from crmhub.errors import (
    BadRequest,
    Conflict,
    HubError,
    LimitExceeded,
    NotFound,
    Semantic,
    Unavailable,
    listed,
)
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import DuplicateValue, property_path
from crmhub.records import documents, unique_values, writing
from crmhub.records.models import Change, NewRecord, Record, Upsert
from crmhub.records.store import RecordStore

_REFUSALS = (BadRequest, LimitExceeded, NotFound, Conflict, Semantic)
_CRM_REFUSALS = (*_REFUSALS, Unavailable)

P = TypeVar("P", bound=Change | NewRecord | Upsert)
_Done = tuple[Record, bool]


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


def write_valid(
    records: RecordStore | None,
    account: Account,
    kind: Kind,
    inputs: Sequence[P],
    write: Callable[[Sequence[P]], Iterable[_Done]],
) -> Outcome:
    """Write the valid inputs; return their records, and an error for each of the others.

    `write` stores all its inputs, or none; it returns the records, and whether each is new.
    `records` is None for writes without transactions, those of `helpers.crm_records`.
    """
    if records is None:
        return _write_each(
            account, kind, inputs, write, alone=lambda one: one(), refusals=_CRM_REFUSALS
        )
    with suppress(*_REFUSALS):
        stored = enumerate(write(inputs))
        return Outcome([Written(i, record, is_new) for i, (record, is_new) in stored])

    def write_each(_tx: Connection, _known: Catalogue) -> Outcome:
        return _write_each(
            account, kind, inputs, write,
            alone=lambda one: records.database.transact(lambda _: one()),
        )  # fmt: skip

    # Under the account's exclusive lock no other writer can cause a deadlock.
    return records.edit(account, kind, write_each)


def _write_each(
    account: Account,
    kind: Kind,
    inputs: Sequence[P],
    write: Callable[[Sequence[P]], Iterable[_Done]],
    *,
    alone: Callable[[Callable[[], _Done]], _Done],
    refusals: tuple[type[HubError], ...] = _REFUSALS,
) -> Outcome:
    """`alone` undoes the writes of one input if it raises, where that is possible."""
    outcome = Outcome([])
    paths: dict[int, str] = {}
    created: set[int] = set()
    for index, each in enumerate(inputs):

        def write_once(each: P = each) -> _Done:
            [(record, is_new)] = write([each])
            if record.id in created and isinstance(each, Upsert):
                same = (each.path, each.property_name, record.id)
                raise unique_values.duplicate_values(kind, [same])
            if record.id in paths:
                raise BadRequest(f"{each.path}id: {writing.same_as(paths[record.id])}")
            return record, is_new

        try:
            if isinstance(each, Change) and each.id in paths:
                raise BadRequest(f"{each.path}id: {writing.same_as(paths[each.id])}")
            record, is_new = alone(write_once)
        except LimitExceeded:
            full = LimitExceeded(
                f"{each.path.rstrip('.')}: the plan allows {account.plan.quotas.get(kind.name)}"
                f" {kind.name}, and no more can be stored. Archive some, or ask the operator for a"
                " larger plan."
            )
            outcome.refused.append(Refusal(index, full))
        except DuplicateValue as exc:
            error = _named_input(exc, paths)
            outcome.refused.append(Refusal(index, error, exc.existing_id))
        except refusals as exc:
            outcome.refused.append(Refusal(index, exc))
        else:
            outcome.written.append(Written(index, record, is_new))
            paths[record.id] = each.path
            if is_new:
                created.add(record.id)
    return outcome


def _named_input(error: DuplicateValue, paths: dict[int, str]) -> HubError:
    reasons = [
        (property_path(path, name), documents.same_value_as(paths[holder], name))
        for path, name, holder in error.taken
        if holder in paths
    ]
    return Conflict(listed(reasons)) if reasons else error
