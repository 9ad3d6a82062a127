"""The search of the fake HubSpot: filter groups, sorting, paging, and an index that lags.

Limits and matching follow HubSpot's guide to CRM search.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from adapters.fakes.hubspot.answers import Refused
from adapters.fakes.hubspot.definitions import KINDS, SINGULAR
from adapters.fakes.hubspot.linking import linked
from adapters.fakes.hubspot.portal import Portal, Record, shown
from adapters.fakes.hubspot.values import moment

MAX_BODY = 3_000
_MAX_GROUPS = 5
_MAX_FILTERS = 6
_MAX_FILTERS_IN_ALL = 18
_MAX_PAGE = 200
_MAX_RESULTS = 10_000
_ORDERED = ("number", "date", "datetime")
_QUERIED = {
    "contacts": ("firstname", "lastname", "email", "phone", "mobilephone", "company"),
    "deals": ("dealname", "description"),
    "tickets": ("subject", "content"),
    "companies": ("name", "domain", "phone", "website"),
}

_Filter = dict[str, Any]
_Test = Callable[[Record, dict[str, str]], bool]


def search(portal: Portal, kind: str, asked: dict[str, Any], lag: float) -> dict[str, Any]:
    """Return the response body of a search: a page of the matching records.

    `asked` is the body of the request. Records are compared and shown with their values in the
    search index, which lags behind writes.
    """
    start = _checked(portal, kind, asked)
    tests = [_group_test(portal, kind, asked)]
    if query := asked.get("query"):
        tests.append(_query_test(kind, query))
    matches = [
        (record, indexed)
        for record in portal.records[kind].values()
        if (indexed := record.searchable(lag)) is not None
        and all(test(record, indexed) for test in tests)
    ]
    for sort in reversed(asked["sorts"] or ["createdate"]):
        _sort(portal, kind, matches, sort)
    page = matches[start : start + asked["limit"]]
    body: dict[str, Any] = {
        "total": len(matches),
        "results": [
            shown(portal, record, names=asked["properties"] or None, properties=indexed)
            for record, indexed in page
        ],
    }
    if start + len(page) < len(matches):
        body["paging"] = {"next": {"after": str(start + len(page))}}
    return body


def _checked(portal: Portal, kind: str, asked: dict[str, Any]) -> int:
    """Validate the body `asked` of a search; return the number of matches before its page.

    Raises Refused if the search exceeds a limit or names an unknown property.
    """
    groups = asked["filterGroups"]
    filters = [item for group in groups for item in group["filters"]]
    if len(groups) > _MAX_GROUPS:
        raise _problem(f"there are too many filterGroups: at most {_MAX_GROUPS}")
    if any(len(group["filters"]) > _MAX_FILTERS for group in groups):
        raise _problem(f"there are too many filters in a group: at most {_MAX_FILTERS}")
    if len(filters) > _MAX_FILTERS_IN_ALL:
        raise _problem(f"there are too many filters in all: at most {_MAX_FILTERS_IN_ALL}")
    for item in filters:
        _check_filter(portal, kind, item)
    for sort in asked["sorts"]:
        _check_property(portal, kind, sort.removeprefix("-"))
    if not 0 <= asked["limit"] <= _MAX_PAGE:
        raise _problem(f"limit must be between 0 and {_MAX_PAGE}")
    if not re.fullmatch(r"[0-9]{0,9}", asked["after"]):
        raise _problem(f"after must be an offset and not {asked['after']}")
    start = int(asked["after"] or 0)
    if start + asked["limit"] > _MAX_RESULTS:
        raise _problem(f"paging beyond {_MAX_RESULTS} results is not possible")
    return start


def _problem(message: str, **context: list[str]) -> Refused:
    return Refused(
        400,
        f"There was a problem with the request: {message}",
        errors=[{"message": message, **({"context": context} if context else {})}],
    )


def _check_property(portal: Portal, kind: str, name: str) -> None:
    if name not in portal.definitions[kind]:
        raise Refused(
            400,
            "There was a problem with the request.",
            errors=[
                {
                    "message": f"Property '{name}' does not exist",
                    "code": "PROPERTY_DOESNT_EXIST",
                    "context": {"propertyName": [name]},
                }
            ],
        )


def _check_filter(portal: Portal, kind: str, condition: _Filter) -> None:
    if _associated(condition["propertyName"]) is None:
        _check_property(portal, kind, condition["propertyName"])
    operator = condition["operator"]
    if operator in ("HAS_PROPERTY", "NOT_HAS_PROPERTY"):
        return
    if operator in ("IN", "NOT_IN"):
        if not condition.get("values"):
            raise _problem(
                f"operator {operator} needs values", propertyName=[condition["propertyName"]]
            )
        return
    if "value" not in condition or (operator == "BETWEEN" and "highValue" not in condition):
        needed = "value and highValue" if operator == "BETWEEN" else "a value"
        raise _problem(
            f"operator {operator} needs {needed}", propertyName=[condition["propertyName"]]
        )


def _associated(name: str) -> str | None:
    """Return the kind of record in a filter name such as `associations.contact`.

    Returns None if `name` is the name of a property.
    """
    of = name.removeprefix("associations.")
    if of == name:
        return None
    return next((kind for kind in KINDS if of in (kind, SINGULAR[kind])), None)


def _query_test(kind: str, query: str) -> _Test:
    words = _tokens(query)

    def test(record: Record, indexed: dict[str, str]) -> bool:
        tokens = [token for name in _QUERIED[kind] for token in _tokens(indexed.get(name, ""))]
        return all(any(token.startswith(word) for token in tokens) for word in words)

    return test


def _group_test(portal: Portal, kind: str, asked: dict[str, Any]) -> _Test:
    groups = [
        [_filter_test(portal, kind, condition) for condition in group["filters"]]
        for group in asked["filterGroups"]
    ]

    # Loops are faster than generators, and a search tests every record.
    def test(record: Record, indexed: dict[str, str]) -> bool:
        for group in groups:
            for passes in group:
                if not passes(record, indexed):
                    break
            else:
                return True
        return not groups

    return test


def _filter_test(portal: Portal, kind: str, condition: _Filter) -> _Test:
    name, operator = condition["propertyName"], condition["operator"]
    if to := _associated(name):
        return lambda record, indexed: _linked_passes(linked(portal, record, to), condition)
    if operator == "NOT_HAS_PROPERTY":
        return lambda record, indexed: name not in indexed
    definition, compare = portal.definitions[kind][name], _OPERATORS[operator]
    # HubSpot's guide does not say that negative operators such as NEQ match a missing value.
    return lambda record, indexed: name in indexed and compare(definition, indexed[name], condition)


def _linked_passes(ids: dict[str, set[int]], condition: _Filter) -> bool:
    ids_wanted = set(condition.get("values", [condition.get("value", "")]))
    match condition["operator"]:
        case "EQ" | "IN":
            return bool(ids_wanted & ids.keys())
        case "NEQ" | "NOT_IN":
            return not ids_wanted & ids.keys()
        case "HAS_PROPERTY":
            return bool(ids)
        case "NOT_HAS_PROPERTY":
            return not ids
    raise _problem(f"operator {condition['operator']} is not for associations")


def _comparable(definition: dict[str, Any], value: str) -> Any:
    """Convert a property value to the form in which filters compare values.

    `definition` is the property's definition. Numbers and times become numbers, values of options
    stay unchanged, and other texts become lower-case. Raises Refused if `value` does not have the
    property's type.
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


def _equal(definition: dict[str, Any], value: str, condition: _Filter) -> bool:
    expected = _comparable(definition, condition["value"])
    if definition["fieldType"] == "checkbox":
        return expected in value.split(";")
    return bool(_comparable(definition, value) == expected)


def _among(definition: dict[str, Any], value: str, condition: _Filter) -> bool:
    """Return whether the filter `condition` lists the value of a record's property.

    Texts in the filter's list must be lower-case (HubSpot's guide).
    """
    if definition["type"] in _ORDERED:
        own = _comparable(definition, value)
        return any(own == _comparable(definition, option) for option in condition["values"])
    if definition["type"] == "enumeration":
        return bool(set(value.split(";")) & set(condition["values"]))
    return value.lower() in condition["values"]


def _between(definition: dict[str, Any], value: str, condition: _Filter) -> bool:
    low, high = (_comparable(definition, condition[name]) for name in ("value", "highValue"))
    return bool(low <= _comparable(definition, value) <= high)


def _ordered(
    compare: Callable[[Any, Any], bool], definition: dict[str, Any], value: str, condition: _Filter
) -> bool:
    return compare(_comparable(definition, value), _comparable(definition, condition["value"]))


def _tokens(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _contains(definition: dict[str, Any], value: str, condition: _Filter) -> bool:
    """Return whether a record's property value contains all words of the filter `condition`.

    In these words, `*` stands for any characters.
    """
    tokens, whole = _tokens(value), value.lower()
    return all(_holds(tokens, whole, term) for term in condition["value"].lower().split())


def _holds(tokens: list[str], whole: str, term: str) -> bool:
    if "*" not in term:
        return set(_tokens(term)) <= set(tokens)
    pattern = re.sub(r"([\[\]?])", r"[\1]", term)
    return any(fnmatchcase(text, pattern) for text in (whole, *whole.split(), *tokens))


def _not(
    operator: Callable[[dict[str, Any], str, _Filter], bool],
    definition: dict[str, Any],
    value: str,
    condition: _Filter,
) -> bool:
    return not operator(definition, value, condition)


_OPERATORS: dict[str, Callable[[dict[str, Any], str, _Filter], bool]] = {
    "EQ": _equal,
    "NEQ": partial(_not, _equal),
    "IN": _among,
    "NOT_IN": partial(_not, _among),
    "BETWEEN": _between,
    "LT": partial(_ordered, lambda own, wanted: own < wanted),
    "LTE": partial(_ordered, lambda own, wanted: own <= wanted),
    "GT": partial(_ordered, lambda own, wanted: own > wanted),
    "GTE": partial(_ordered, lambda own, wanted: own >= wanted),
    "CONTAINS_TOKEN": _contains,
    "NOT_CONTAINS_TOKEN": partial(_not, _contains),
    "HAS_PROPERTY": lambda definition, value, one: True,
}


def _sort(
    portal: Portal, kind: str, matches: list[tuple[Record, dict[str, str]]], sort: str
) -> None:
    """Sort `matches` in place by one property.

    `matches` lists pairs of a record and its properties in the search index. `sort` is the
    property's name; `-` before it reverses the order. Records without a value come last in both
    orders.
    """
    name = sort.removeprefix("-")
    definition = portal.definitions[kind][name]
    have = [match for match in matches if name in match[1]]
    rest = [match for match in matches if name not in match[1]]
    have.sort(
        key=lambda match: _comparable(definition, match[1][name]), reverse=sort.startswith("-")
    )
    matches[:] = have + rest
