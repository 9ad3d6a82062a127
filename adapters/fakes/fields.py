"""The fields of a fake CRM's records, and the values that they take."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Check = Callable[[Any], str]
"""Returns why a value is refused; "" for an accepted one."""


def text(value: Any) -> str:
    """Accept a string."""
    return "" if isinstance(value, str) else "must be a string"


def number(value: Any) -> str:
    """Accept a number."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return "" if plain else "must be a number"


def integer(value: Any) -> str:
    """Accept an integer."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return "" if whole else "must be an integer"


def boolean(value: Any) -> str:
    """Accept true or false."""
    return "" if isinstance(value, bool) else "must be true or false"


def short(most: int) -> Check:
    """Return a check that accepts strings of at most so many characters."""

    def check(value: Any) -> str:
        long = isinstance(value, str) and len(value) > most
        return f"must have at most {most} characters" if long else text(value)

    return check


def matching(pattern: str) -> Check:
    """Return a check that accepts strings of a pattern."""
    compiled = re.compile(pattern, re.ASCII)

    def check(value: Any) -> str:
        fits = isinstance(value, str) and compiled.fullmatch(value)
        return "" if fits else f"must match {pattern}"

    return check


def each(one: Check) -> Check:
    """Return a check that accepts lists of values that `one` accepts."""

    def check(value: Any) -> str:
        if not isinstance(value, list):
            return "must be an array"
        return next((f"an item {why}" for item in value if (why := one(item))), "")

    return check


@dataclass(slots=True)
class Field:
    """A field of a kind of records.

    `type` is the CRM's name of its type, and `check` says which values it takes. If there are
    `options`, it takes only these. `to` is the kind of records whose ids it takes. A `unique` field
    takes a value in one record only, whatever its case. A `required` field needs a value.
    """

    type: str = "string"
    check: Check = text
    options: tuple[Any, ...] = ()
    to: str = ""
    read_only: bool = False
    unique: bool = False
    required: bool = False
