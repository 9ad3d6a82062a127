"""The filter language of searches.

NEQ, NOT_IN, NOT_CONTAINS_TOKEN and NOT_HAS_PROPERTY also select records without a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from crmhub.adapter.phones import second_form
from crmhub.bounds import MAX_FILTER_VALUE_LENGTH, MAX_FILTER_VALUES, MAX_FILTERS, MAX_PART_LENGTH
from crmhub.durations import iso
from crmhub.errors import BadRequest, Semantic, listed
from crmhub.properties import values
from crmhub.properties.catalogue import FIELDS, Catalogue
from crmhub.properties.definitions import Property
from crmhub.properties.numbers_and_dates import search_day, search_number
from crmhub.properties.validation import unknown
from crmhub.records.search.conditions import (
    Condition,
    OnDocument,
    OnKey,
    OnOptions,
    OnText,
)
from crmhub.records.search.record_conditions import OnId, OnMoment
from crmhub.records.search.same_rows import combine

__all__ = ["OPERATORS", "Condition", "Filter", "iso", "parse"]

# Operator -> (positive operator, is it the complement of that one).
OPERATORS: dict[str, tuple[str, bool]] = {
    "EQ": ("IN", False),
    "NEQ": ("IN", True),
    "GT": ("GT", False),
    "GTE": ("GTE", False),
    "LT": ("LT", False),
    "LTE": ("LTE", False),
    "IN": ("IN", False),
    "NOT_IN": ("IN", True),
    "HAS_PROPERTY": ("HAS_PROPERTY", False),
    "NOT_HAS_PROPERTY": ("HAS_PROPERTY", True),
    "CONTAINS_TOKEN": ("CONTAINS_TOKEN", False),
    "NOT_CONTAINS_TOKEN": ("CONTAINS_TOKEN", True),
}
_LISTS = {"IN", "NOT_IN"}
_MOST_REASONS = 20
_BARE = {"HAS_PROPERTY", "NOT_HAS_PROPERTY"}


@dataclass(frozen=True, slots=True)
class Filter:
    property_name: str
    operator: str
    value: str | None = None
    values: tuple[str, ...] | None = None


def parse(
    filters: Sequence[Filter],
    catalogue: Catalogue,
    *,
    region: str,
    more: Sequence[Condition] = (),
) -> list[Condition]:
    """Return the conditions of the filters and `more`.

    Raises BadRequest for too many or malformed filters, Semantic for an unknown property or a wrong
    value; both name all invalid filters."""
    if len(filters) > MAX_FILTERS:
        raise BadRequest(f"filters: {len(filters)} filters; send at most {MAX_FILTERS}")
    malformed = [
        (f"filters[{i}].{place}", why)
        for i, search_filter in enumerate(filters)
        for place, why in _shape(search_filter)
    ]
    if malformed:
        raise BadRequest(listed(malformed), fields=malformed)
    conditions = [*more]
    problems = []
    for i, search_filter in enumerate(filters):
        try:
            conditions.append(_condition(search_filter, catalogue, region=region))
        except _UnknownName as exc:
            problems.append((f"filters[{i}].propertyName", str(exc)))
        except values.InvalidValue as exc:
            if search_filter.operator not in _LISTS:
                reason = exc.reason(0) if isinstance(exc, values.InvalidOptions) else str(exc)
                problems.append((f"filters[{i}].value", reason))
                continue
            if isinstance(exc, values.InvalidOptions):
                for j in exc.wrong:
                    # The message shows few reasons, and each one compares all options.
                    reason = exc.reason(j) if len(problems) < _MOST_REASONS else ""
                    problems.append((f"filters[{i}].values[{j}]", reason))
                continue
            for j, value in enumerate(search_filter.values or ()):
                try:
                    _condition(replace(search_filter, values=(value,)), catalogue, region=region)
                except values.InvalidValue as invalid:
                    problems.append((f"filters[{i}].values[{j}]", str(invalid)))
    if problems:
        raise Semantic(listed(problems), fields=problems)
    return combine(conditions) if len(conditions) > 1 else conditions


class _UnknownName(Exception):
    pass


def _shape(search_filter: Filter) -> list[tuple[str, str]]:
    operator = search_filter.operator
    if operator not in OPERATORS:
        return [("operator", f"unknown operator; send one of {', '.join(OPERATORS)}")]
    if operator in _BARE:
        return [
            (place, f"{operator} takes no {place}; leave it out")
            for place, given in (("value", search_filter.value), ("values", search_filter.values))
            if given is not None
        ]
    if operator in _LISTS:
        if search_filter.value is not None:
            return [("value", f"{operator} takes values, an array of strings, not value")]
        if not search_filter.values:
            return [("values", f"{operator} needs values, an array of at least one string")]
        if len(search_filter.values) > MAX_FILTER_VALUES:
            return [
                ("values", f"{len(search_filter.values)} values; send at most {MAX_FILTER_VALUES}")
            ]
        return [p for i, v in enumerate(search_filter.values) for p in _length(f"values[{i}]", v)]
    if search_filter.values is not None:
        return [("values", f"{operator} takes one value, not values")]
    if search_filter.value is None:
        return [("value", f"{operator} needs a value; to find empty ones use NOT_HAS_PROPERTY")]
    is_part = OPERATORS[operator][0] == "CONTAINS_TOKEN"
    return _length(
        "value", search_filter.value, MAX_PART_LENGTH if is_part else MAX_FILTER_VALUE_LENGTH
    )


def _length(place: str, value: str, most: int = MAX_FILTER_VALUE_LENGTH) -> list[tuple[str, str]]:
    if not value:
        return [(place, "is empty; to find records without a value use NOT_HAS_PROPERTY")]
    if len(value) > most:
        return [(place, f"{len(value)} characters long; send at most {most}")]
    return []


def _condition(search_filter: Filter, catalogue: Catalogue, *, region: str) -> Condition:
    operator, negated = OPERATORS[search_filter.operator]
    given = (
        search_filter.values if search_filter.values is not None else (search_filter.value or "",)
    )
    column = FIELDS.get(search_filter.property_name)
    if column == "id":
        return OnId(negated, operator, given)
    if column:
        return OnMoment(negated, column, operator, given)
    known = catalogue.get(search_filter.property_name)
    if known is None:
        raise _UnknownName(unknown(catalogue, search_filter.property_name))
    if operator == "IN" and known.type in values.CHOICE_TYPES:
        chosen = values.options_for_search(
            known.type, given, known.options, any_case=known.any_case
        )
        if known.type == "multi_enumeration":
            return OnOptions(negated, known, chosen)
        return OnText(negated, known, operator, chosen)
    if known.index == "ix_text":
        return OnText(negated, known, operator, _texts(known, operator, given, region=region))
    if operator == "CONTAINS_TOKEN":
        return OnDocument(negated, known, given[0])
    read = search_number if known.index == "ix_num" else search_day
    operands = [] if operator == "HAS_PROPERTY" else [read(value) for value in given]
    return OnKey(negated, known, operator, operands)


def _texts(known: Property, operator: str, given: Sequence[str], *, region: str) -> list[str]:
    if operator == "CONTAINS_TOKEN":
        return [values.fold(given[0])]
    if operator == "IN" and known.type == "phone":
        numbers = [values.for_search("phone", value, region=region or None) for value in given]
        return list(dict.fromkeys([*numbers, *filter(None, map(second_form, numbers))]))
    if operator == "IN":
        return [values.for_search(known.type, value, region=region or None) for value in given]
    return [value.lower() if known.type == "email" else value for value in given]
