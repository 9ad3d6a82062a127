"""The properties that a record has after a write, and what forbids them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import orjson

from crmhub.adapter.phones import is_no_change
from crmhub.errors import Conflict, listed
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.validation import (
    InvalidProperties,
    Problem,
    complete,
    place,
    property_path,
    too_long,
    with_added,
)
from crmhub.records.models import Change, NewRecord, Record


def check_new(
    catalogue: Catalogue,
    inputs: Sequence[NewRecord],
    validate: Callable[..., tuple[dict[str, str], list[Problem]]],
    *,
    may_lack: bool,
) -> list[NewRecord]:
    """`validate` is `properties.validation.check` with its options. Raises as `finish`."""
    clean, problems = list[NewRecord](), list[Problem]()
    for i, new in enumerate(inputs):
        good, bad = validate(catalogue, new.properties, index=i, path=new.path)
        clean.append(NewRecord(good, new.associations, new.path))
        problems += bad
    return finish(catalogue, clean, problems, may_lack=may_lack)


def check_changes(
    catalogue: Catalogue,
    changes: Sequence[Change],
    validate: Callable[..., tuple[dict[str, str], list[Problem]]],
) -> list[Change]:
    """Raises InvalidProperties, and Conflict for two changes with the same unique value."""
    clean, problems = list[Change](), list[Problem]()
    for i, each in enumerate(changes):
        good, bad = validate(catalogue, each.properties, index=i, path=each.path)
        clean.append(replace(each, properties=good, sent=each.properties))
        problems += bad
    if problems:
        raise InvalidProperties(problems)
    refuse_twins(catalogue, [(each.path, each.properties) for each in clean])
    return clean


def finish(
    catalogue: Catalogue,
    inputs: Sequence[NewRecord],
    found: Sequence[Problem] = (),
    *,
    may_lack: bool = False,
) -> list[NewRecord]:
    """Set missing pipelines and stages, remove empty values.

    Raises InvalidProperties with the problems `found` and all new ones, and Conflict for two
    records with the same unique value. `may_lack`: properties that the account made required may be
    missing.
    """
    finished = []
    problems = list(found)
    # What such an input lacks may be what was wrong with it.
    faulty = {problem.index for problem in found}
    for index, new in enumerate(inputs):
        if index in faulty:
            continue
        sent = with_added(catalogue, new.properties, {})
        properties = {name: value for name, value in sent.items() if value}
        wrong = []
        if catalogue.kind.pipeline:
            wrong += place(catalogue, properties, changed=new.properties)
        wrong += complete(catalogue, properties, of_its_own=not may_lack)
        wrong += too_long({}, properties)
        for name, reason in wrong:
            problems.append(Problem(index, name, property_path(new.path, name), reason))
        finished.append(NewRecord(properties, new.associations, new.path))
    if problems:
        raise InvalidProperties(sorted(problems, key=lambda problem: problem.index))
    if len(finished) > 1:
        refuse_twins(catalogue, [(new.path, new.properties) for new in finished])
    return finished


def refuse_twins(catalogue: Catalogue, inputs: Sequence[tuple[str, Mapping[str, str]]]) -> None:
    """Raises Conflict; inputs are (JSON path, stored properties)."""
    problems = []
    for known in catalogue.unique:
        seen: dict[str, str] = {}
        for path, properties in inputs:
            value = properties.get(known.name)
            if not value:
                continue
            if value in seen:
                reason = same_value_as(seen[value], known.name)
                problems.append((property_path(path, known.name), reason))
            seen.setdefault(value, path)
    if problems:
        raise Conflict(listed(problems))


def same_value_as(path: str, name: str) -> str:
    return f"the same value as {property_path(path, name)}, but it must be unique"


def merged(
    catalogue: Catalogue, old: Record, change: Change, index: int, problems: list[Problem]
) -> dict[str, str]:
    """Append what forbids the change to `problems`."""
    both = {
        **old.properties,
        **with_added(catalogue, change.properties, old.properties),
        **_same_phones(catalogue, old, change),
    }
    new = {name: value for name, value in both.items() if value}
    if new == old.properties:
        return new
    # What the record lacked before, it may go on lacking: a property can become required later.
    lacked = complete(catalogue, old.properties)
    wrong = place(catalogue, new, changed=change.properties) if catalogue.kind.pipeline else []
    wrong += [each for each in complete(catalogue, new) if each not in lacked]
    wrong += too_long(old.properties, new)
    problems += [
        Problem(index, name, property_path(change.path, name), reason) for name, reason in wrong
    ]
    return new


def _same_phones(catalogue: Catalogue, old: Record, change: Change) -> dict[str, str]:
    return {
        name: stored
        for name, value in change.properties.items()
        if value
        and (stored := old.properties.get(name, ""))
        and (known := catalogue.get(name)) is not None
        and known.type == "phone"
        and (is_no_change(stored, value) or is_no_change(stored, change.sent.get(name, "")))
    }


def dump(properties: Mapping[str, str]) -> str:
    """The keys are in the order of PostgreSQL's jsonb."""
    ordered = sorted(sorted(properties), key=len)
    return orjson.dumps({name: properties[name] for name in ordered}).decode()
