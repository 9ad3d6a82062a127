"""The schemas of the tools: valid, described for a model, and checked by the hub as they say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import jsonschema
import pytest

from crmhub.api.agents.arguments import KEYWORDS, check
from crmhub.api.agents.schemas import ERROR, takes, text
from crmhub.api.agents.tool import Tool
from crmhub.api.agents.toolbox import TOOLS
from crmhub.errors import BadRequest, error_body

pytestmark = pytest.mark.databases("sqlite")
ALL = pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())


def parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas inside of it."""
    yield schema
    for child in schema.get("properties", {}).values():
        yield from parts(child)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from parts(schema[name])


@ALL
def test_the_schemas_are_json_schema(tool: Tool) -> None:
    jsonschema.Draft202012Validator.check_schema(tool.takes)
    jsonschema.Draft202012Validator.check_schema(tool.answers)
    # Some hosts of models take no other keywords at the root.
    assert tool.takes["type"] == "object"
    assert tool.takes["additionalProperties"] is False
    assert not {"oneOf", "anyOf", "allOf", "not"} & set(tool.takes)


@ALL
def test_the_hub_checks_each_keyword_of_the_arguments(tool: Tool) -> None:
    for part in parts(tool.takes):
        assert set(part) <= KEYWORDS, part


@ALL
def test_each_argument_is_described_with_an_example_that_is_right(tool: Tool) -> None:
    for name, argument in tool.takes["properties"].items():
        assert argument.get("description"), name
        told = {"examples", "enum", "default"} & set(argument)
        assert told or name == "cursor", name
        for example in argument.get("examples", ()):
            jsonschema.Draft202012Validator(argument).validate(example)


@ALL
def test_each_description_says_when_to_use_the_tool_and_what_comes_back(tool: Tool) -> None:
    words = tool.description
    assert 200 < len(words) < 1000
    assert "Use it" in words
    assert "not" in words
    assert "nswers" in words


@ALL
def test_the_hints_tell_what_a_tool_does(tool: Tool) -> None:
    writes = "dryRun" in tool.takes["properties"]
    assert tool.reads_only is not writes
    assert not (tool.reads_only and tool.destructive)


@ALL
def test_an_error_is_an_answer_that_the_schema_has(tool: Tool) -> None:
    body = error_body("SemanticError", "x")
    jsonschema.Draft202012Validator(tool.answers).validate(body)
    jsonschema.Draft202012Validator(ERROR).validate(body)


_SCHEMA = takes(
    ("a",),
    a=text("A", "x", minLength=1, maxLength=3, pattern="^x"),
    b={"type": ["integer", "string"], "minimum": 1, "maximum": 5},
    c={"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 2},
    d={"type": "object", "additionalProperties": {"type": ["null", "boolean"]}, "maxProperties": 1},
    e={"type": "string", "enum": ["x", "y"]},
)
_CASES: dict[str, Any] = {
    "right": {"a": "x", "b": 5, "c": [1, 2.5], "d": {"x": None}, "e": "x"},
    "only the required": {"a": "xyz"},
    "nothing": {},
    "blank": {"a": ""},
    "long": {"a": "xxxx"},
    "no pattern": {"a": "ax"},
    "a number for a text": {"a": 1},
    "null for a text": {"a": None},
    "too small": {"a": "x", "b": 0},
    "too great": {"a": "x", "b": 6},
    "true for an integer": {"a": "x", "b": True},
    "a fraction for an integer": {"a": "x", "b": 1.5},
    "a text of two types": {"a": "x", "b": "y"},
    "an empty array": {"a": "x", "c": []},
    "a long array": {"a": "x", "c": [1, 2, 3]},
    "true for a number": {"a": "x", "c": [True]},
    "a text in an array": {"a": "x", "c": ["1"]},
    "an object for an array": {"a": "x", "c": {}},
    "two properties": {"a": "x", "d": {"x": None, "y": None}},
    "a text for null": {"a": "x", "d": {"x": "y"}},
    "no option": {"a": "x", "e": "z"},
    "an option of another type": {"a": "x", "e": 1},
    "unknown": {"a": "x", "z": 1},
    "a list": [],
    "a text": "x",
}


@pytest.mark.parametrize("arguments", _CASES.values(), ids=_CASES.keys())
def test_the_hub_and_json_schema_agree(arguments: Any) -> None:
    right = jsonschema.Draft202012Validator(_SCHEMA).is_valid(arguments)
    with nullcontext() if right else pytest.raises(BadRequest):
        check(_SCHEMA, arguments)


def test_a_message_names_each_wrong_argument_and_what_to_send() -> None:
    with pytest.raises(BadRequest) as caught:
        check(_SCHEMA, {"a": "ax", "b": 9, "e": "z", "other": 1})
    assert caught.value.message == (
        'a: "ax" does not have the right form; send for example "x";'
        " b: is 9; send a number from 1 to 5;"
        ' e: is "z"; send one of x, y;'
        " other: is not known here; known are a, b, c, d, e"
    )


def test_a_message_shows_no_control_characters_and_not_all_of_a_long_text() -> None:
    with pytest.raises(BadRequest) as caught:
        check(takes((), e={"type": "string", "enum": ["x"]}), {"e": "\x1b[31m" + "y" * 5000})
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 200
