"""Domains: the filters of Odoo's searches, in prefix notation."""

from __future__ import annotations

import operator as operators
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from adapters.fakes.odoo.errors import OdooError, own_error
from adapters.fakes.odoo.models import Model

_PUNCTUATION = re.compile(r"[\s\\./()\-]")
_SHORTEST_PHONE = 3
Leaf = list[Any]
"""A condition of a domain: field, operator and value."""
Test = Callable[[Mapping[str, Any]], bool]
_INEQUALITIES = {"<": operators.lt, "<=": operators.le, ">": operators.gt, ">=": operators.ge}


def parse(model: Model, name: str, domain: Any) -> tuple[Test, list[Leaf]]:
    """Return the test of a domain, and the conditions that each record in it meets.

    `name` is the technical name of the model. Raises OdooError for an invalid domain.
    """
    if not isinstance(domain, list):
        raise OdooError("builtins.ValueError", f"Domain() invalid item in domain: {domain!r}")
    terms, tests, needed = list(domain), list[Test](), list[Leaf]()
    while terms:
        if isinstance(terms[0], list):
            needed.append(terms[0])
        tests.append(_term(model, name, terms))
    return lambda values: all(test(values) for test in tests), needed


def _term(model: Model, name: str, terms: list[Any]) -> Test:
    if not terms:
        raise OdooError("builtins.ValueError", "Domain is syntactically not correct")
    term = terms.pop(0)
    if term in ("|", "&"):
        first, second = _term(model, name, terms), _term(model, name, terms)
        if term == "|":
            return lambda values: first(values) or second(values)
        return lambda values: first(values) and second(values)
    if term == "!":
        negated = _term(model, name, terms)
        return lambda values: not negated(values)
    if not isinstance(term, list) or len(term) != 3:
        raise OdooError("builtins.ValueError", f"Invalid leaf {term!r}")
    field, operator, wanted = term
    if field not in model.fields:
        raise OdooError("builtins.ValueError", f"Invalid field {name}.{field} in leaf {term!r}")
    if field == "phone_mobile_search":
        return _phone(operator, wanted)
    compare = _comparison(operator, wanted)
    return lambda values: compare(values.get(field, False))


def _comparison(operator: str, wanted: Any) -> Callable[[Any], bool]:
    match operator:
        case "=" | "in":
            if operator == "in" and not isinstance(wanted, list):
                raise OdooError("builtins.ValueError", "The operator in needs a list")
            try:
                values = frozenset(wanted if operator == "in" else [wanted])
            except TypeError as exc:
                raise OdooError("builtins.TypeError", str(exc)) from exc
            empty = any(one is False for one in values)
            return lambda held: (empty and not held) or not values.isdisjoint(_several(held))
        case "!=":
            equals = _comparison("=", wanted)
            return lambda held: not equals(held)
        case "<" | "<=" | ">" | ">=":
            compare = _INEQUALITIES[operator]
            return lambda held: type(held) is type(wanted) and bool(compare(held, wanted))
        case "=like":
            like = _pattern(wanted)
            return lambda held: isinstance(held, str) and like.fullmatch(held) is not None
        case "ilike":
            part = _pattern(f"%{wanted}%".lower())
            return lambda held: isinstance(held, str) and part.fullmatch(held.lower()) is not None
    raise OdooError("builtins.ValueError", f"Invalid operator {operator!r}")


def _several(held: Any) -> Iterable[Any]:
    """Return the values in a field: the records of a link, or the translations of a text."""
    if isinstance(held, dict):
        return held.values()
    return held if isinstance(held, list) else [held]


def _pattern(like: str) -> re.Pattern[str]:
    """Return a pattern of SQL's LIKE, in which % stands for any text and _ for a character."""
    parts = {"%": ".*", "_": "."}
    return re.compile("".join(parts.get(one, re.escape(one)) for one in like), re.DOTALL)


def _phone(operator: str, wanted: Any) -> Test:
    """Return the test whether one of the numbers is the wanted one; + and 00 count as equal."""
    if operator != "=" or not isinstance(wanted, str) or len(wanted) < _SHORTEST_PHONE:
        message = "Please enter at least 3 characters when searching a Phone/Mobile number."
        raise own_error("UserError", message)
    plain = _PUNCTUATION.sub("", wanted)
    forms = {plain}
    if plain.startswith(("+", "00")):
        digits = plain[1:] if plain.startswith("+") else plain[2:]
        forms = {f"+{digits}", f"00{digits}"}
    return lambda values: any(
        _PUNCTUATION.sub("", values.get(name) or "") in forms for name in ("phone", "mobile")
    )
