"""Choose which inputs of a partial batch can be stored together (see `partial_batches`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection
from crmhub.errors import BadRequest, Conflict, HubError, LimitExceeded, NotFound, Semantic, listed
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import InvalidProperties, Problem, property_path
from crmhub.records import associations, writing
from crmhub.records.index import IndexChange
from crmhub.records.writing import Change, NewRecord, Record

REFUSALS = (BadRequest, LimitExceeded, NotFound, Conflict, Semantic)
"""The errors that inputs of a batch can cause."""

Claim = tuple[int, str]
"""A unique value: the property's `prop_id`, and the `unique_key` of the value."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An input of a batch that was not stored; `index` is its position, from 0.

    `existing_id` is the record that has the input's unique value, None for other errors.
    """

    index: int
    error: HubError
    existing_id: int | None = None


class Refusals:
    """Collects the refused inputs of a batch; an input keeps its first error."""

    def __init__(self, refused: Sequence[Refusal] = ()) -> None:
        self._by_index = {each.index: each for each in refused}

    def __contains__(self, index: int) -> bool:
        return index in self._by_index

    def add(self, index: int, error: HubError, existing_id: int | None = None) -> None:
        """Refuse the input with this index, unless it is refused already."""
        self._by_index.setdefault(index, Refusal(index, error, existing_id))

    @contextmanager
    def of(self, index: int) -> Iterator[None]:
        """Refuse the input with this index if the block raises one of REFUSALS."""
        try:
            yield
        except REFUSALS as exc:
            self.add(index, exc)

    def all(self) -> list[Refusal]:
        """Return the refused inputs in input order."""
        return [each for _, each in sorted(self._by_index.items())]


@dataclass(slots=True)
class Step:
    """A valid input as it would be written to the record `id`.

    `claims` are the unique values that the record would get, by the name of their property, and
    `releases` those that it would give up.
    """

    write: Change | NewRecord
    id: int
    claims: dict[str, Claim]
    releases: set[Claim]


@dataclass(slots=True)
class Room:
    """The number of records that the plan still allows; without a `quota` there is no limit."""

    kind: Kind
    quota: int | None
    left: int

    def take(self, path: str) -> None:
        """Take the room of one record; raise LimitExceeded if there is none."""
        if self.quota is None:
            return
        if not self.left:
            raise LimitExceeded(
                f"{path.rstrip('.')}: the plan allows {self.quota} {self.kind.name}, and no more"
                " can be stored. Archive some, or ask the operator for a larger plan."
            )
        self.left -= 1


def examine(
    tx: Connection,
    catalogue: Catalogue,
    writes: Mapping[int, Change | NewRecord],
    ids: Sequence[int],
    refusals: Refusals,
) -> dict[int, Step]:
    """Return the steps of the writes, by index; refuse those that miss a record or a value.

    Locks the records to change, and those to link to, until the transaction ends. Raises NotFound
    if a record that an upsert has found is gone.
    """
    changes = [each for each in writes.values() if isinstance(each, Change)]
    current = {each.id: each for each in writing.locked(tx, catalogue, [c.id for c in changes])}
    links = {
        i: associations.wanted(each.associations, each.path)
        for i, each in writes.items()
        if isinstance(each, NewRecord)
    }
    wanted = [link for each in links.values() for link in each]
    lacking = dict(associations.missing(tx, catalogue.account_id, wanted)) if wanted else {}
    steps = {}
    for index, each in writes.items():
        with refusals.of(index):
            if isinstance(each, NewRecord):
                if gone := [(p, lacking[p]) for p, _, _ in links[index] if p in lacking]:
                    raise Semantic(listed(gone))
                steps[index] = _step(catalogue, each, ids[index], {}, each.properties)
            elif each.id in current:
                old = current[each.id]
                steps[index] = _step(
                    catalogue, each, each.id, old.properties, _merged(catalogue, old, each)
                )
            elif not each.found_by:
                raise NotFound(writing.missing_at(catalogue.kind, each.id, each.path))
    for each in changes:
        if each.found_by and each.id in current:
            writing.check_found(catalogue.kind, current[each.id], each)
        elif each.found_by:
            raise NotFound(writing.missing(catalogue.kind, each.id))
    return steps


def _merged(catalogue: Catalogue, old: Record, change: Change) -> dict[str, str]:
    """Return a record's properties after a change; raise InvalidProperties if it is impossible."""
    problems: list[Problem] = []
    new = writing.merged(catalogue, old, change, 0, problems)
    if problems:
        raise InvalidProperties(problems)
    return new


def _step(
    catalogue: Catalogue,
    write: Change | NewRecord,
    id: int,
    old: Mapping[str, str],
    new: Mapping[str, str],
) -> Step:
    change = IndexChange(catalogue)
    change.add(id, old, new)
    names = {known.prop_id: known.name for known in catalogue.unique}
    claims = {names[row[1]]: _claim(row) for row in change.unique_come}
    return Step(write, id, claims, {_claim(row) for row in change.unique_gone})


def _claim(row: Row) -> Claim:
    _, prop_id, key, _ = row
    return prop_id, key


def held_claims(
    tx: Connection, catalogue: Catalogue, steps: Mapping[int, Step]
) -> dict[Claim, int]:
    """Return the ids of the records that have the unique values that the steps claim."""
    claims = {claim for step in steps.values() for claim in step.claims.values()}
    return writing.holders(tx, catalogue.account_id, claims)


def choose(
    steps: Mapping[int, Step],
    held: Mapping[Claim, int],
    room: Room,
    refusals: Refusals,
    catalogue: Catalogue,
) -> dict[int, Step]:
    """Return the steps to write, by index, so that all can be written together; refuse the others.

    `held` has the holders of the claimed unique values. If a refused change keeps a value that
    another step claims, that one is refused too, and the choice begins again.
    """
    rest = dict(steps)
    while True:
        later = Refusals()
        chosen = _in_order(rest, Room(room.kind, room.quota, room.left), later)
        released = {(claim, step.id) for step in chosen.values() for claim in step.releases}
        taken = {index: _taken(step, held, released) for index, step in rest.items()}
        stuck = {index: each for index, each in taken.items() if each}
        for index, each in stuck.items():
            found = [(rest[index].write.path, name, holder) for name, holder in each]
            error = writing.duplicate_values(catalogue.kind, found)
            refusals.add(index, error, error.existing_id)
        if not stuck:
            break
        rest = {index: step for index, step in rest.items() if index not in stuck}
    for refused in later.all():
        refusals.add(refused.index, refused.error, refused.existing_id)
    return chosen


def _taken(
    step: Step, held: Mapping[Claim, int], released: set[tuple[Claim, int]]
) -> list[tuple[str, int]]:
    """Return the claims of a step that other records hold and no chosen step releases.

    Each is a pair: the name of the property, and the id of the other record.
    """
    return [
        (name, held[claim])
        for name, claim in step.claims.items()
        if claim in held and held[claim] != step.id and (claim, held[claim]) not in released
    ]


def _in_order(steps: Mapping[int, Step], room: Room, refusals: Refusals) -> dict[int, Step]:
    """Return the steps that are possible after those before them; refuse the others.

    Refused are a second change of a record, a unique value that an earlier step claims, and new
    records for which the plan has no room.
    """
    chosen: dict[int, Step] = {}
    changed: dict[int, str] = {}
    claimed: dict[Claim, Step] = {}
    for index, step in steps.items():
        path = step.write.path
        if (first := changed.get(step.id)) is not None:
            refusals.add(index, BadRequest(f"{path}id: {writing.same_as(first)}"))
            continue
        if twins := [name for name, claim in step.claims.items() if claim in claimed]:
            other = claimed[step.claims[twins[0]]]
            reasons = [
                (property_path(path, name), writing.same_value_as(other.write.path, name))
                for name in twins
            ]
            refusals.add(index, Conflict(listed(reasons)), other.id)
            continue
        with refusals.of(index):
            if isinstance(step.write, NewRecord):
                room.take(path)
            chosen[index] = step
            changed[step.id] = path
            claimed.update(dict.fromkeys(step.claims.values(), step))
    return chosen
