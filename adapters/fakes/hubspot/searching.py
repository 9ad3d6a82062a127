"""The search of the fake HubSpot: filter groups, sorting, paging, and an index that lags.

Limits and matching follow HubSpot's guide to CRM search. Operators and fields that crmhub does not
use are missing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from adapters.fakes.hubspot.answers import Refused, WrongValue
from adapters.fakes.hubspot.definitions import CHANGED_AT, Definition
from adapters.fakes.hubspot.portal import Portal
from adapters.fakes.hubspot.values import moment
from adapters.fakes.records import Record

MAX_BODY = 3_000
_MAX_GROUPS, _MAX_FILTERS, _MAX_FILTERS_IN_ALL = 5, 6, 18
_MAX_PAGE, _MAX_RESULTS = 200, 10_000

_Filter = Mapping[str, Any]
_Seen = Mapping[str, str]
"""The properties of a record in the search index."""


def search(portal: Portal, kind: str, asked: Mapping[str, Any], lag: float) -> dict[str, Any]:
    """Return the response body of a search: a page of the matching records.

    `asked` is the body of the request. Records are compared and shown with their values in the
    search index, which lags behind writes.
    """
    definitions = portal.definitions[kind]
    start = _checked(definitions, asked)
    groups = [
        [_test(definitions[one["propertyName"]], one) for one in group["filters"]]
        for group in asked["filterGroups"]
    ]
    matches: list[tuple[Record, _Seen]] = [
        (record, seen)
        for record in _candidates(portal, kind, asked)
        if (seen := record.searchable(lag)) is not None and _passes(groups, seen)
    ]
    for sort in reversed(asked["sorts"] or ["createdate"]):
        _sort(definitions[sort.removeprefix("-")], matches, reverse=sort.startswith("-"))
    page = matches[start : start + asked["limit"]]
    names = asked["properties"] or None
    results = [portal.shown(record, names=names, properties=seen) for record, seen in page]
    body: dict[str, Any] = {"total": len(matches), "results": results}
    if start + len(page) < len(matches):
        body["paging"] = {"next": {"after": str(start + len(page))}}
    return body


def _candidates(portal: Portal, kind: str, asked: Mapping[str, Any]) -> list[Record]:
    """Return the records that may match, the oldest first: few of a large account."""
    found: dict[str, Record] = {}
    for group in asked["filterGroups"] or [{"filters": []}]:
        few = [some for one in group["filters"] if (some := _few(portal, kind, one)) is not None]
        if not few:
            return [*portal.records[kind].values()]
        found |= {record.id: record for record in min(few, key=len)}
    return [found[id_] for id_ in sorted(found, key=int)]


def _few(portal: Portal, kind: str, item: _Filter) -> list[Record] | None:
    """Return the records that may pass a filter; None if only a look at all records tells."""
    name, operation = item["propertyName"], item["operator"]
    if (name, operation) == (CHANGED_AT[kind], "GTE"):
        return portal.written_since(kind, moment(item["value"]) or 0)
    if portal.definitions[kind][name]["type"] == "string" and operation in ("EQ", "IN"):
        return portal.having(kind, name, item.get("values") or [item.get("value")])
    return None


def _checked(definitions: Mapping[str, Definition], asked: Mapping[str, Any]) -> int:
    """Validate the body `asked` of a search; return the number of matches before its page.

    Raises Refused if the search exceeds a limit or names an unknown property.
    """
    groups = [group["filters"] for group in asked["filterGroups"]]
    filters = [item for group in groups for item in group]
    if len(groups) > _MAX_GROUPS:
        raise _problem(f"there are too many filterGroups: at most {_MAX_GROUPS}")
    if any(len(group) > _MAX_FILTERS for group in groups):
        raise _problem(f"there are too many filters in a group: at most {_MAX_FILTERS}")
    if len(filters) > _MAX_FILTERS_IN_ALL:
        raise _problem(f"there are too many filters in all: at most {_MAX_FILTERS_IN_ALL}")
    names = [item["propertyName"] for item in filters]
    for name in (*names, *(sort.removeprefix("-") for sort in asked["sorts"])):
        if name not in definitions:
            wrong = WrongValue(name, "PROPERTY_DOESNT_EXIST", f"Property '{name}' does not exist")
            raise Refused(400, "There was a problem with the request.", errors=[wrong.error])
    for item in filters:
        needed = {"IN": "values", "HAS_PROPERTY": ""}.get(item["operator"], "value")
        if needed and not item.get(needed):
            message = f"operator {item['operator']} needs {needed}"
            raise _problem(message, propertyName=[item["propertyName"]])
    if not 0 <= asked["limit"] <= _MAX_PAGE:
        raise _problem(f"limit must be between 0 and {_MAX_PAGE}")
    if not re.fullmatch(r"[0-9]{0,9}", asked["after"]):
        raise _problem(f"after must be an offset and not {asked['after']}")
    start = int(asked["after"] or 0)
    if start + asked["limit"] > _MAX_RESULTS:
        raise _problem(f"paging beyond {_MAX_RESULTS} results is not possible")
    return start


def _problem(message: str, **context: list[str]) -> Refused:
    errors = [{"message": message, **({"context": context} if context else {})}]
    return Refused(400, f"There was a problem with the request: {message}", errors=errors)


def _passes(groups: list[list[Callable[[_Seen], bool]]], seen: _Seen) -> bool:
    # Loops are faster than generators, and a search tests every record.
    for group in groups:
        for passes in group:
            if not passes(seen):
                break
        else:
            return True
    return not groups


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq,
    "GT": operator.gt,
    "GTE": operator.ge,
    "LT": operator.lt,
    "LTE": operator.le,
}
OPERATORS = ("HAS_PROPERTY", "IN", *_COMPARISONS)


def _test(definition: Definition, item: _Filter) -> Callable[[_Seen], bool]:
    name = definition["name"]
    if item["operator"] == "HAS_PROPERTY":
        return lambda seen: name in seen
    if definition["type"] == "enumeration" and item["operator"] in ("EQ", "IN"):
        options = set(item.get("values") or [item.get("value")])
        return lambda seen: name in seen and not options.isdisjoint(seen[name].split(";"))
    if item["operator"] == "IN":
        # Texts in the filter's list must be lower-case (HubSpot's guide).
        cased = definition["type"] == "string"
        # Values of a wrong type are refused only where a record has a value to compare.
        values = cache(lambda: [v if cased else _comparable(definition, v) for v in item["values"]])
        return lambda seen: name in seen and _comparable(definition, seen[name]) in values()
    wanted, compare = _comparable(definition, item["value"]), _COMPARISONS[item["operator"]]
    return lambda seen: name in seen and compare(_comparable(definition, seen[name]), wanted)


def _comparable(definition: Definition, value: str) -> Any:
    """Convert a property value to the form in which filters compare values.

    Numbers and times become numbers, values of options stay unchanged, and other texts become
    lower-case. Raises Refused if `value` does not have the property's type.
    """
    if definition["type"] == "number":
        try:
            return float(value)
        except ValueError:
            raise _problem(f"{value} is not a number", propertyName=[definition["name"]]) from None
    if definition["type"] in ("date", "datetime"):
        if (at := moment(value)) is None:
            raise _problem(f"{value} is not a date", propertyName=[definition["name"]])
        return at
    return value if definition["type"] in ("enumeration", "bool") else value.lower()


def _sort(definition: Definition, matches: list[tuple[Record, _Seen]], *, reverse: bool) -> None:
    """Sort matches in place by one property; those without a value come last in both orders."""
    name = definition["name"]
    have = [match for match in matches if name in match[1]]
    rest = [match for match in matches if name not in match[1]]
    have.sort(key=lambda match: _comparable(definition, match[1][name]), reverse=reverse)
    matches[:] = have + rest
