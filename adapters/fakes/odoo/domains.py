"""Domains: the filters of Odoo's searches, in prefix notation."""

from __future__ import annotations

import operator as operators
import re
from collections.abc import Mapping
from typing import Any

from adapters.fakes.odoo.errors import OdooError, own_error
from adapters.fakes.odoo.models import Model

_PUNCTUATION = re.compile(r"[\s\\./()\-]")
_SHORTEST_PHONE = 3
_INEQUALITIES = {"<": operators.lt, "<=": operators.le, ">": operators.gt, ">=": operators.ge}


def matches(model: Model, name: str, values: Mapping[str, Any], domain: Any) -> bool:
    """Return whether a record with these values is in the domain.

    `name` is the technical name of the model. Raises OdooError for an invalid domain.
    """
    if not isinstance(domain, list):
        raise OdooError("builtins.ValueError", f"Domain() invalid item in domain: {domain!r}")
    terms, results = list(domain), []
    while terms:
        results.append(_term(model, name, values, terms))
    return all(results)


def _term(model: Model, name: str, values: Mapping[str, Any], terms: list[Any]) -> bool:
    if not terms:
        raise OdooError("builtins.ValueError", "Domain is syntactically not correct")
    term = terms.pop(0)
    if term in ("|", "&"):
        first = _term(model, name, values, terms)
        second = _term(model, name, values, terms)
        return (first or second) if term == "|" else (first and second)
    if term == "!":
        return not _term(model, name, values, terms)
    if not isinstance(term, list) or len(term) != 3:
        raise OdooError("builtins.ValueError", f"Invalid leaf {term!r}")
    field, operator, wanted = term
    if field not in model.fields:
        raise OdooError("builtins.ValueError", f"Invalid field {name}.{field} in leaf {term!r}")
    if field == "phone_mobile_search":
        return _has_phone(values, operator, wanted)
    return _compare(values.get(field, False), operator, wanted)


def _compare(held: Any, operator: str, wanted: Any) -> bool:
    several = held if isinstance(held, list) else [held]
    match operator:
        case "=":
            return wanted in several or (wanted is False and not held)
        case "!=":
            return not _compare(held, "=", wanted)
        case "in":
            if not isinstance(wanted, list):
                raise OdooError("builtins.ValueError", "The operator in needs a list")
            return any(_compare(held, "=", one) for one in wanted)
        case "<" | "<=" | ">" | ">=":
            if type(held) is not type(wanted):
                return False
            return bool(_INEQUALITIES[operator](held, wanted))
        case "=like":
            return isinstance(held, str) and _pattern(wanted).fullmatch(held) is not None
        case "ilike":
            return (
                isinstance(held, str)
                and _pattern(f"%{wanted}%".lower()).fullmatch(held.lower()) is not None
            )
    raise OdooError("builtins.ValueError", f"Invalid operator {operator!r}")


def _pattern(like: str) -> re.Pattern[str]:
    """Return a pattern of SQL's LIKE, in which % stands for any text and _ for a character."""
    parts = {"%": ".*", "_": "."}
    return re.compile("".join(parts.get(one, re.escape(one)) for one in like), re.DOTALL)


def _has_phone(values: Mapping[str, Any], operator: str, wanted: Any) -> bool:
    """Return whether one of the numbers is the wanted one; + and 00 count as equal."""
    if operator != "=" or not isinstance(wanted, str) or len(wanted) < _SHORTEST_PHONE:
        message = "Please enter at least 3 characters when searching a Phone/Mobile number."
        raise own_error("UserError", message)
    plain = _PUNCTUATION.sub("", wanted)
    forms = {plain}
    if plain.startswith(("+", "00")):
        digits = plain[1:] if plain.startswith("+") else plain[2:]
        forms = {f"+{digits}", f"00{digits}"}
    held = [values.get(name) or "" for name in ("phone", "mobile")]
    return any(_PUNCTUATION.sub("", number) in forms for number in held)
