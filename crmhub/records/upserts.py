"""Upserts: change the record that has a unique value, or create it if there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import BadRequest, listed
from crmhub.properties import values
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.definitions import Property
from crmhub.properties.validation import InvalidProperties, Problem, check, property_path
from crmhub.records import documents, unique_values, writing
from crmhub.records.index import unique_key
from crmhub.records.models import Change, NewRecord, Record, Upsert


@dataclass(frozen=True, slots=True)
class Prepared:
    """`value` is the stored form."""

    by: Property
    value: str
    new: NewRecord

    def change_of(self, id: int) -> Change:
        new = self.new
        return Change(
            id,
            new.properties,
            new.path,
            found_by=self.by.name,
            sent=new.sent,
            associations=new.associations,
        )


def prepare(account: Account, catalogue: Catalogue, inputs: Sequence[Upsert]) -> list[Prepared]:
    """Raises BadRequest for a property that is not unique, InvalidProperties, and Conflict for two
    inputs with the same unique value."""
    unique = _unique(catalogue, inputs)
    prepared = []
    problems: list[Problem] = []
    for index, each in enumerate(inputs):
        sent = {each.property_name: each.value, **each.properties}
        clean, bad = check(
            catalogue, sent, region=account.switches.region, index=index, path=each.path
        )
        problems += [_where_it_stands(one, each) for one in bad]
        by = unique[each.property_name]
        value = search_form(account, by, each.value)
        if not value:
            reason = "is blank; send a value of the property"
            problems.append(Problem(index, each.property_name, f"{each.path}id", reason))
        elif each.property_name in clean and clean[each.property_name] != value:
            path = property_path(each.path, each.property_name)
            reason = f"differs from {each.path}id; send the same value or leave it out"
            problems.append(Problem(index, each.property_name, path, reason))
        else:
            new = NewRecord(clean, each.associations, each.path, sent)
            prepared.append(Prepared(by, value, new))
    if problems:
        raise InvalidProperties(problems)
    documents.refuse_twins(catalogue, [(each.new.path, each.new.properties) for each in prepared])
    return prepared


def _unique(catalogue: Catalogue, inputs: Sequence[Upsert]) -> dict[str, Property]:
    unique = {known.name: known for known in catalogue.unique}
    faulty = [each for each in inputs if each.property_name not in unique]
    if faulty:
        reason = not_unique(catalogue)
        raise BadRequest(listed([(f"{each.path}idProperty", reason) for each in faulty]))
    return unique


def not_unique(catalogue: Catalogue) -> str:
    names = ", ".join(known.name for known in catalogue.unique)
    right = f"send one of {names}" if names else "no property is unique here"
    return f"not a unique property of {catalogue.kind.name}; {right}"


def _where_it_stands(problem: Problem, sent: Upsert) -> Problem:
    if problem.name != sent.property_name or problem.name in sent.properties:
        return problem
    return replace(problem, path=f"{sent.path}id")


def write(
    tx: Connection,
    catalogue: Catalogue,
    prepared: Sequence[Prepared],
    *,
    ids: Sequence[int],
    quota: int | None,
) -> list[tuple[Record, bool]]:
    """`ids` are unused ids. Return each record, and whether it is new.

    DuplicateValue may also mean that another caller has just created a record with the value.
    """
    keys = [(each.by.prop_id, unique_key(each.value)) for each in prepared]
    held = unique_values.holders(tx, catalogue.account_id, keys)
    existing = [held.get(key) for key in keys]
    changes = [
        each.change_of(id) for id, each in zip(existing, prepared, strict=True) if id is not None
    ]
    fresh = [each.new for id, each in zip(existing, prepared, strict=True) if id is None]
    writing.same_record_twice([(each.id, each.path) for each in changes])
    now = now_ms()
    problems: list[Problem] = []
    updated: list[Record] = []
    with _among(problems, [i for i, id in enumerate(existing) if id is not None]):
        updated = writing.update(tx, catalogue, changes, now=now) if changes else []
    with _among(problems, [i for i, id in enumerate(existing) if id is None]):
        fresh = documents.finish(catalogue, fresh)
    if problems:
        raise InvalidProperties(sorted(problems, key=lambda problem: problem.index))
    created: list[Record] = []
    if fresh:
        created = writing.create(tx, catalogue, fresh, ids=ids[: len(fresh)], now=now, quota=quota)
    changed, made = iter(updated), iter(created)
    return [(next(made), True) if id is None else (next(changed), False) for id in existing]


@contextmanager
def _among(problems: list[Problem], places: Sequence[int]) -> Iterator[None]:
    try:
        yield
    except InvalidProperties as exc:
        problems += [replace(each, index=places[each.index]) for each in exc.problems]


def search_form(account: Account, known: Property, value: str) -> str:
    """An invalid value is unchanged, an email lowered."""
    return value and values.for_search(
        known.type,
        value,
        options=known.options,
        region=account.switches.region or None,
        any_case=known.any_case,
    )
