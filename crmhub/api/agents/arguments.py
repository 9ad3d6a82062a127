"""Checks a tool's arguments against its JSON Schema; only keywords that the tools use are known."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from crmhub.errors import BadRequest, listed

Schema = Mapping[str, Any]
Problem = tuple[str, str]

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: (
        isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    ),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_NOUNS = {
    "string": "a string",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "null": "null",
    "array": "an array",
    "object": "an object",
}
KEYWORDS = frozenset(
    {
        "type", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "properties",
        "required", "additionalProperties", "maxProperties", "items", "minItems", "maxItems",
        "description", "examples", "default",
    }
)  # fmt: skip
"""The keywords that this module checks, and those that only describe."""
_SHOWN = 60


def check(schema: Schema, arguments: Any) -> None:
    """Raise a BadRequest that says for each wrong argument what to send."""
    if problems := list(_problems(schema, arguments, "")):
        raise BadRequest(listed(problems))


def _problems(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    types = schema.get("type", ())
    types = [types] if isinstance(types, str) else list(types)
    if types and not any(_TYPES[name](value) for name in types):
        nouns = " or ".join(_NOUNS[name] for name in types)
        yield path or "arguments", f"must be {nouns}, not {_noun_of(value)}{_such_as(schema)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(map(str, schema["enum"]))
        yield path, f"is {_shown(value)}; send one of {allowed}"
        return
    if isinstance(value, str):
        yield from _text_problems(schema, value, path)
    elif isinstance(value, dict):
        yield from _object_problems(schema, value, path)
    elif isinstance(value, list):
        yield from _array_problems(schema, value, path)
    elif value is not None and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if (low is not None and value < low) or (high is not None and value > high):
            yield path, f"is {_shown(value)}; send a number from {low} to {high}"


def _text_problems(schema: Schema, value: str, path: str) -> Iterator[Problem]:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if len(value) < least:
        yield path, f"is blank; send a value{_such_as(schema)}"
    elif most is not None and len(value) > most:
        yield path, f"has {len(value)} characters; send at most {most}"
    elif "pattern" in schema and not re.search(schema["pattern"], value):
        yield path, f"{_shown(value)} does not have the right form{_such_as(schema)}"


def _object_problems(schema: Schema, value: dict[str, Any], path: str) -> Iterator[Problem]:
    known: Mapping[str, Schema] = schema.get("properties", {})
    most = schema.get("maxProperties")
    if most is not None and len(value) > most:
        yield path, f"has {len(value)} properties; send at most {most}"
        return
    for name in schema.get("required", ()):
        if name not in value:
            yield _inside(path, name), f"is missing{_such_as(known.get(name, {}), 'send')}"
    more = schema.get("additionalProperties", True)
    for name, child in value.items():
        if name in known:
            yield from _problems(known[name], child, _inside(path, name))
        elif more is False:
            yield _inside(path, name), f"is not known here{_meant(name, known)}"
        elif isinstance(more, Mapping):
            yield from _problems(more, child, _inside(path, name))


def _array_problems(schema: Schema, value: list[Any], path: str) -> Iterator[Problem]:
    least, most = schema.get("minItems", 0), schema.get("maxItems")
    if len(value) < least or (most is not None and len(value) > most):
        yield path, f"has {len(value)} items; send {least} to {most}"
        return
    for i, child in enumerate(value):
        yield from _problems(schema.get("items", {}), child, f"{path}[{i}]")


def _inside(path: str, name: str) -> str:
    shown = name[:100] or '""'
    return f"{path}.{shown}" if path else shown


def _meant(name: str, known: Mapping[str, Schema]) -> str:
    near = difflib.get_close_matches(name[:100], known, n=1, cutoff=0.6)
    meant = f"; did you mean {near[0]}?" if near else ";"
    return f"{meant} known are {', '.join(known)}"


def _such_as(schema: Schema, verb: str = "send") -> str:
    examples = schema.get("examples")
    if not examples:
        return ""
    return f"; {verb} for example {_shown(examples[0])}"


def _shown(value: Any) -> str:
    text = str(value) if not isinstance(value, str) else f'"{value}"'
    text = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return "".join(c if c.isprintable() else "�" for c in text)


def _noun_of(value: Any) -> str:
    for name, matches in _TYPES.items():
        if matches(value):
            return _NOUNS[name] if name != "boolean" else f"the boolean {str(value).lower()}"
    return "this"
