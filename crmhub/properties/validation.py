"""Validation of property values: returns the values to store, and all problems together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from crmhub.adapter.coercion import Misfit, Unclear, coerced
from crmhub.adapter.places import no_such_pipeline, no_such_stage
from crmhub.adapter.reading import Reading
from crmhub.bounds import MAX_RECORD_LENGTH
from crmhub.errors import Conflict, Semantic, listed
from crmhub.properties import values
from crmhub.properties.addresses import phone_fault
from crmhub.properties.catalogue import FIELDS, Catalogue
from crmhub.properties.definitions import Pipeline, Property
from crmhub.translatable import translatable

NAME = re.compile(r"[a-z][a-z0-9_]{0,99}", re.ASCII)
NAME_RULE = "a property name is a lower-case letter, then at most 99 of a-z, 0-9 and _"

# As in HubSpot: options that begin with it are added to those of the record.
_ADDS = ";"
# Each suggestion compares a name with all names, and only 20 problems are shown in full.
_SUGGESTIONS = 20


@dataclass(frozen=True, slots=True)
class Problem:
    """An invalid value of the property `name`, in the input `index` of a batch.

    `path` is its JSON path in the request, and `reason` a part of the error message.
    """

    index: int
    name: str
    path: str
    reason: str


class InvalidProperties(Semantic):
    """Error for property values that cannot be stored."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(listed([(problem.path, problem.reason) for problem in problems]))
        self.problems = tuple(problems)


class DuplicateValue(Conflict):
    """Error for values of unique properties that other records have: JSON path, name, their id.

    `name` and `existing_id` are those of the first.
    """

    def __init__(self, message: str, taken: Sequence[tuple[str, str, int]]) -> None:
        self.taken = tuple(taken)
        _, self.name, self.existing_id = taken[0]
        super().__init__(f"{message} Existing ID: {self.existing_id}")


def check(
    catalogue: Catalogue,
    sent: Mapping[str, str],
    *,
    region: str,
    index: int = 0,
    path: str = "",
    reading: Reading | None = None,
) -> tuple[dict[str, str], list[Problem]]:
    """Validate the values sent for one record; return the valid ones as stored, and the problems.

    "" clears a value, and one with options to add begins with ";" (`with_added`). `region` is the
    country, such as "DE", of phone numbers without a country code; `path` is the JSON path of the
    input, such as `inputs[3].`. With `reading`, values are read as people write them, not programs.
    """
    clean: dict[str, str] = {}
    problems: list[Problem] = []
    for name, value in sent.items():
        definition = catalogue.get(name)
        if definition is None:
            reason = unknown(catalogue, name, suggest=len(problems) < _SUGGESTIONS)
        elif definition.read_only:
            reason = "this property is read-only; leave it out"
        else:
            adds = value.lstrip().startswith(_ADDS)
            try:
                if reading is not None:
                    value = _as_written(definition, value, reading)
                clean[name] = value and values.canonical(
                    definition.type,
                    value,
                    options=definition.options,
                    region=region or None,
                    any_case=definition.any_case,
                )
                if definition.type == "multi_enumeration" and adds:
                    clean[name] = _ADDS + clean[name]
                continue
            except (values.InvalidValue, Unclear) as exc:
                reason = _unknown_place(catalogue, name, value, sent) or str(exc)
        problems.append(Problem(index, name, property_path(path, name), reason))
    return clean, problems


def _as_written(definition: Property, value: str, reading: Reading) -> str:
    """Return the value that a person means; raise Unclear for one that must not be stored."""
    if definition.type == "phone" and value.strip() and (fault := phone_fault(value)):
        raise Unclear(fault)
    try:
        return coerced(definition, value, reading)
    except Unclear:
        raise
    except Misfit:
        # `values.canonical` explains the fault.
        return value


def with_added(
    catalogue: Catalogue, changed: Mapping[str, str], held: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the changed values; ";b", of a property with several options, adds b to the `held`."""
    added = {
        name: ";".join(dict.fromkeys([*filter(None, held.get(name, "").split(";")), *options]))
        for name, value in changed.items()
        if value.startswith(_ADDS)
        and (known := catalogue.get(name)) is not None
        and known.type == "multi_enumeration"
        and (options := value[1:].split(";"))
    }
    return {**changed, **added} if added else changed


def _unknown_place(catalogue: Catalogue, name: str, value: str, sent: Mapping[str, str]) -> str:
    """Return the error for a pipeline or stage that does not exist, with those to choose, or "".

    Also "" for a label or an id in another case: for these, `canonical` names the id to send.
    """
    kind, folded = catalogue.kind, value.strip().casefold()
    if not kind.pipeline or name not in (kind.pipeline, kind.stage):
        return ""
    pipelines = [(one.id, one.label) for one in catalogue.pipelines]
    if name == kind.pipeline:
        meant = any(folded in (text.casefold() for text in pair) for pair in pipelines)
        return "" if meant else no_such_pipeline(value, pipelines)
    among = [one for one in catalogue.pipelines if one.id == sent.get(kind.pipeline)]
    among = among or [*catalogue.pipelines]
    stages = [(stage.id, stage.label) for one in among for stage in one.stages]
    meant = any(folded in (text.casefold() for text in pair) for pair in stages)
    return "" if meant else no_such_stage(value, [(one.id, one.label) for one in among], stages)


def definable(name: str) -> bool:
    return NAME.fullmatch(name) is not None and name not in FIELDS


def unknown(catalogue: Catalogue, name: str, *, suggest: bool = True) -> str:
    """Return the error for a property name that the catalogue does not contain."""
    kind = catalogue.kind.name
    if name in FIELDS:
        return translatable("a field of the record that the hub itself fills in; leave it out")
    near = catalogue.nearest(name.casefold()) if suggest else []
    meant = f"; did you mean {' or '.join(near)}?" if near else "."
    if not NAME.fullmatch(name):
        return f"{NAME_RULE}{meant.rstrip('.')}"
    place = "in the account's CRM" if catalogue.is_copy else f"with POST /properties/{kind}"
    return f"{kind} have no such property{meant} Define it {place}"


def property_path(path: str, name: str) -> str:
    """Return the JSON path of a property in the input at `path`; a long name is cut."""
    return f"{path}properties.{name if len(name) <= 100 else name[:100] + '…'}"


def complete(
    catalogue: Catalogue, record: Mapping[str, str], *, of_its_own: bool = True
) -> list[tuple[str, str]]:
    """Return the required properties that have no value in `record`, with the reasons.

    Unless `of_its_own`, those that the account itself made required may be missing.
    """
    missing = [
        (property_.name, f"a {catalogue.kind.singular} needs this property")
        for property_ in catalogue.required
        if (property_.built_in or of_its_own) and not record.get(property_.name)
    ]
    one_of = catalogue.kind.one_of
    if one_of and not any(record.get(name) for name in one_of):
        words = f"{', '.join(one_of[:-1])} or {one_of[-1]}"
        missing.append((one_of[0], f"a {catalogue.kind.singular} needs at least one of {words}"))
    return missing


def valid(catalogue: Catalogue, stored: Mapping[str, str]) -> dict[str, str]:
    """Return those of a record's former values that the present definitions allow."""
    found = {}
    for name, value in stored.items():
        known = catalogue.get(name)
        if known is None or not value:
            continue
        # The definition may have changed since: another type, fewer options.
        with suppress(values.InvalidValue):
            found[name] = values.canonical(
                known.type, value, options=known.options, any_case=known.any_case
            )
    return found


def too_long(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the properties that make a record too long, with the reason: those that grew most.

    A record that was too long before may keep its length.
    """
    total = sum(map(len, after.values()))
    if total <= MAX_RECORD_LENGTH:
        return []
    reason = (
        f"with it the values of the record have {total} characters together, and"
        f" {MAX_RECORD_LENGTH} are allowed; shorten it, or clear other properties"
    )
    most = max(MAX_RECORD_LENGTH, sum(map(len, before.values())))
    grown = {name: len(value) - len(before.get(name, "")) for name, value in after.items()}
    problems = []
    for name in sorted(grown, key=lambda name: grown[name], reverse=True):
        if total <= most:
            break
        problems.append((name, reason))
        total -= grown[name]
    return problems


def place(
    catalogue: Catalogue, record: dict[str, str], *, changed: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Set a missing pipeline (of the stage) or stage (the first) in a deal or ticket.

    Returns the property, among those `changed` if it can be, and a reason if the stage is not of
    the pipeline.
    """
    if not catalogue.pipelines:
        return []
    pipeline_name, stage_name = catalogue.kind.pipeline, catalogue.kind.stage
    stage = record.get(stage_name, "")
    pipeline = catalogue.pipeline(record.get(pipeline_name, "")) or _home(catalogue, stage)
    if pipeline is None:
        return []
    record[pipeline_name] = pipeline.id
    if not stage and pipeline.stages:
        record[stage_name] = pipeline.stages[0].id
    elif stage and not pipeline.has(stage):
        name = stage_name if stage_name in changed else pipeline_name
        stages = [(each.id, each.label) for each in pipeline.stages]
        reason = no_such_stage(stage, [(pipeline.id, pipeline.label)], stages)
        return [(name, f"{reason}, or send {pipeline_name} and {stage_name} together")]
    return []


def _home(catalogue: Catalogue, stage: str) -> Pipeline | None:
    # Without a pipeline, take the first one that has the stage; the default comes first.
    if not stage:
        return catalogue.pipelines[0]
    return next((pipeline for pipeline in catalogue.pipelines if pipeline.has(stage)), None)
