"""Partial batches: store the valid inputs of a batch, and return an error for each of the others.

The result is as if the inputs were sent one after the other, with one exception: changes that need
each other, such as two records that swap their emails, are stored together.

A batch is first tried as a whole by the store's usual methods. Only if that fails does the code
here examine each input, in one transaction with the write of the valid ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, param
from crmhub.database.tables import record_count
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import (
    InvalidProperties,
    check,
)
from crmhub.records import upserts, writing
from crmhub.records.batch_choice import (
    Claim,
    Refusal,
    Refusals,
    Room,
    Step,
    choose,
    examine,
    held_claims,
)
from crmhub.records.index import unique_key
from crmhub.records.writing import Change, NewRecord, Record, Upsert

_LIVE = Statement(
    sa.select(sa.cast(sa.func.coalesce(sa.func.sum(record_count.c.n), 0), sa.BigInteger)).where(
        record_count.c.account_id == param("account_id"), record_count.c.kind == param("kind")
    )
)

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Written:
    """An input of a batch that was stored; `is_new` tells whether its record was created."""

    index: int
    record: Record
    is_new: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a partial batch: the stored and the refused inputs, each in input order."""

    written: list[Written]
    refused: list[Refusal] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Checked(Generic[P]):
    """The inputs of a batch after their validation in memory: the valid ones, by index."""

    valid: dict[int, P]
    refused: list[Refusal]


class PartialBatch(ABC, Generic[P]):
    """A batch whose valid inputs are stored; `P` is the form of a validated input.

    `ids` are unused ids, one for each input.
    """

    def __init__(self, account: Account, kind: Kind, ids: Sequence[int] = ()) -> None:
        self.account = account
        self.kind = kind
        self.ids = ids

    @abstractmethod
    def check(self, catalogue: Catalogue) -> Checked[P]:
        """Validate the inputs against the catalogue, in memory."""

    @abstractmethod
    def resolve(
        self, tx: Connection, catalogue: Catalogue, checked: Checked[P], refusals: Refusals
    ) -> dict[int, Change | NewRecord]:
        """Return the writes of the valid inputs by index; refuse those that cannot be written."""

    def write(self, tx: Connection, catalogue: Catalogue, checked: Checked[P]) -> Outcome:
        """Store the inputs that can be stored.

        Raises one of REFUSALS if another transaction took away between examination and write what
        an input needs, such as its unique value. The caller then rolls back and starts again.
        """
        refusals = Refusals(checked.refused)
        writes = self.resolve(tx, catalogue, checked, refusals)
        steps = examine(tx, catalogue, writes, self.ids, refusals)
        held = held_claims(tx, catalogue, steps)
        self.confirm(catalogue, checked, steps, held)
        chosen = choose(steps, held, self._room(tx), refusals, catalogue)
        return Outcome(self._store(tx, catalogue, chosen), refusals.all())

    def confirm(
        self,
        catalogue: Catalogue,
        checked: Checked[P],
        steps: Mapping[int, Step],
        held: Mapping[Claim, int],
    ) -> None:
        """Raise one of REFUSALS if `resolve` would decide otherwise now.

        `held` has the present holders of the unique values that the steps claim.
        """

    def _room(self, tx: Connection) -> Room:
        quota = self.account.plan.quotas.get(self.kind.name)
        if quota is None:
            return Room(self.kind, None, 0)
        of = {"account_id": self.account.id, "kind": self.kind.code}
        return Room(self.kind, quota, max(0, quota - tx.scalar(_LIVE, of)))

    def _store(
        self, tx: Connection, catalogue: Catalogue, chosen: Mapping[int, Step]
    ) -> list[Written]:
        changes = {i: step.write for i, step in chosen.items() if isinstance(step.write, Change)}
        new = {i: step.write for i, step in chosen.items() if isinstance(step.write, NewRecord)}
        now = now_ms()
        written = []
        if changes:
            records = writing.update(tx, catalogue, list(changes.values()), now=now)
            written += [Written(i, r, False) for i, r in zip(changes, records, strict=True)]
        if new:
            ids = [chosen[i].id for i in new]
            quota = self.account.plan.quotas.get(self.kind.name)
            records = writing.create(
                tx, catalogue, list(new.values()), ids=ids, now=now, quota=quota
            )
            written += [Written(i, r, True) for i, r in zip(new, records, strict=True)]
        return sorted(written, key=lambda each: each.index)


class Creation(PartialBatch[NewRecord]):
    """A partial batch of records to create."""

    def __init__(
        self, account: Account, kind: Kind, ids: Sequence[int], inputs: Sequence[NewRecord]
    ) -> None:
        super().__init__(account, kind, ids)
        self._inputs = inputs

    def check(self, catalogue: Catalogue) -> Checked[NewRecord]:
        valid, refusals = {}, Refusals()
        for index, new in enumerate(self._inputs):
            with refusals.of(index):
                clean = _clean(self.account, catalogue, new.path, new.properties)
                finished = NewRecord(clean, new.associations, new.path)
                [valid[index]] = writing.finish(catalogue, [finished])
        return Checked(valid, refusals.all())

    def resolve(
        self, tx: Connection, catalogue: Catalogue, checked: Checked[NewRecord], refusals: Refusals
    ) -> dict[int, Change | NewRecord]:
        return dict(checked.valid)


class Update(PartialBatch[Change]):
    """A partial batch of changes of existing records."""

    def __init__(self, account: Account, kind: Kind, changes: Sequence[Change]) -> None:
        super().__init__(account, kind)
        self._changes = changes

    def check(self, catalogue: Catalogue) -> Checked[Change]:
        valid, refusals = {}, Refusals()
        for index, each in enumerate(self._changes):
            with refusals.of(index):
                clean = _clean(self.account, catalogue, each.path, each.properties)
                valid[index] = Change(each.id, clean, each.path, sent=each.properties)
        return Checked(valid, refusals.all())

    def resolve(
        self, tx: Connection, catalogue: Catalogue, checked: Checked[Change], refusals: Refusals
    ) -> dict[int, Change | NewRecord]:
        return dict(checked.valid)


class Upserting(PartialBatch[upserts.Prepared]):
    """A partial batch of upserts."""

    def __init__(
        self, account: Account, kind: Kind, ids: Sequence[int], inputs: Sequence[Upsert]
    ) -> None:
        super().__init__(account, kind, ids)
        self._inputs = inputs

    def check(self, catalogue: Catalogue) -> Checked[upserts.Prepared]:
        valid, refusals = {}, Refusals()
        for index, each in enumerate(self._inputs):
            with refusals.of(index):
                [valid[index]] = upserts.prepare(self.account, catalogue, [each])
        return Checked(valid, refusals.all())

    def resolve(
        self,
        tx: Connection,
        catalogue: Catalogue,
        checked: Checked[upserts.Prepared],
        refusals: Refusals,
    ) -> dict[int, Change | NewRecord]:
        keys = {i: (each.by.prop_id, unique_key(each.value)) for i, each in checked.valid.items()}
        held = writing.holders(tx, catalogue.account_id, set(keys.values()))
        writes: dict[int, Change | NewRecord] = {}
        for index, each in checked.valid.items():
            if (id := held.get(keys[index])) is not None:
                writes[index] = each.change_of(id)
                continue
            with refusals.of(index):
                [writes[index]] = writing.finish(catalogue, [each.new])
        return writes

    def confirm(
        self,
        catalogue: Catalogue,
        checked: Checked[upserts.Prepared],
        steps: Mapping[int, Step],
        held: Mapping[Claim, int],
    ) -> None:
        for index, step in steps.items():
            name = checked.valid[index].by.name
            if isinstance(step.write, NewRecord) and step.claims[name] in held:
                # Another caller has just created the record: it must be changed instead.
                holder = held[step.claims[name]]
                raise writing.duplicate_values(catalogue.kind, [(step.write.path, name, holder)])


def _clean(
    account: Account, catalogue: Catalogue, path: str, sent: Mapping[str, str]
) -> dict[str, str]:
    """Return the property values of one input in the form in which they are stored.

    Raises InvalidProperties for invalid values.
    """
    clean, problems = check(catalogue, sent, region=account.switches.region, path=path)
    if problems:
        raise InvalidProperties(problems)
    return clean
