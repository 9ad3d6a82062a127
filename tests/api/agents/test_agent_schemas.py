"""The schemas of the tools: valid, described for a model, and checked by the hub as they say."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Literal

import jsonschema
import pytest
from pydantic import Field

from crmhub.api.agents.protocol import TOOLS
from crmhub.api.agents.tool import (
    Arguments,
    Names,
    Paged,
    PropertyValues,
    RecordId,
    Scalar,
    Tool,
    answers_of,
    parse,
    schema_of,
)
from crmhub.errors import BadRequest, error_body

pytestmark = pytest.mark.databases("sqlite")
ALL = pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())


@ALL
def test_the_schemas_are_json_schema(tool: Tool) -> None:
    takes = schema_of(tool.takes)
    jsonschema.Draft202012Validator.check_schema(takes)
    jsonschema.Draft202012Validator.check_schema(answers_of(tool))
    jsonschema.Draft202012Validator.check_schema(schema_of(tool.answers))
    # Some hosts of models take no other keywords at the root, and no references.
    assert takes["type"] == "object"
    assert takes["additionalProperties"] is False
    assert not {"oneOf", "anyOf", "allOf", "not", "$defs"} & set(takes)


@ALL
def test_each_argument_is_described_with_an_example_that_is_right(tool: Tool) -> None:
    for name, argument in schema_of(tool.takes)["properties"].items():
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
    writes = "dryRun" in schema_of(tool.takes)["properties"]
    assert tool.reads_only is not writes
    assert not (tool.reads_only and tool.destructive)


@ALL
def test_an_error_is_an_answer_that_the_schema_has(tool: Tool) -> None:
    body = error_body("SemanticError", "x")
    jsonschema.Draft202012Validator(answers_of(tool)).validate(body)


class _Part(Arguments):
    name: str
    value: Scalar = ""


class _Arguments(Paged):
    id: RecordId = Field("", examples=["5"])
    code: str = Field(min_length=1, max_length=3, pattern="^x", examples=["x"])
    count: int = Field(1, ge=1, le=5)
    names: Names = Field(default_factory=list)
    properties: PropertyValues = Field(default_factory=dict)
    order: Literal["asc", "desc"] = "asc"
    parts: list[_Part] = Field([], max_length=1)
    dry_run: bool = False


_CASES: dict[str, Any] = {
    "right": {"code": "x", "id": 5, "count": 5, "names": ["a"], "order": "asc", "dryRun": True},
    "only the required": {"code": "xyz"},
    "nothing": {},
    "blank": {"code": ""},
    "long": {"code": "xxxx"},
    "no pattern": {"code": "ax"},
    "a number for a text": {"code": 1},
    "null for a text": {"code": None},
    "null for an optional text": {"code": "x", "cursor": None},
    "too small": {"code": "x", "count": 0},
    "too great": {"code": "x", "count": 6},
    "true for an integer": {"code": "x", "count": True},
    "a fraction for an integer": {"code": "x", "count": 1.5},
    "a text for an integer": {"code": "x", "count": "1"},
    "a text for true": {"code": "x", "dryRun": "true"},
    "true for an id": {"code": "x", "id": True},
    "a text for an id": {"code": "x", "id": "5"},
    "an empty array": {"code": "x", "names": []},
    "a long array": {"code": "x", "names": ["a"] * 51},
    "a number in an array": {"code": "x", "names": [1]},
    "an object for an array": {"code": "x", "names": {}},
    "all values": {"code": "x", "properties": {"a": None, "b": 1.5, "c": True, "d": "x"}},
    "many properties": {"code": "x", "properties": {str(n): "x" for n in range(51)}},
    "an array as a value": {"code": "x", "properties": {"a": []}},
    "an array for an object": {"code": "x", "properties": []},
    "no option": {"code": "x", "order": "z"},
    "an option of another type": {"code": "x", "order": 1},
    "a part": {"code": "x", "parts": [{"name": "a", "value": 1}]},
    "a part that lacks its name": {"code": "x", "parts": [{"value": 1}]},
    "two parts": {"code": "x", "parts": [{"name": "a"}, {"name": "b"}]},
    "a text for a part": {"code": "x", "parts": ["a"]},
    "unknown": {"code": "x", "z": 1},
    "the name of the attribute": {"code": "x", "dry_run": True},
}


@pytest.mark.parametrize("arguments", _CASES.values(), ids=_CASES.keys())
def test_the_hub_and_json_schema_agree(arguments: Any) -> None:
    right = jsonschema.Draft202012Validator(schema_of(_Arguments)).is_valid(arguments)
    with nullcontext() if right else pytest.raises(BadRequest):
        parse(_Arguments, arguments)


def test_a_message_names_each_wrong_argument_and_what_to_send() -> None:
    sent = {"code": "ax", "count": 9, "order": "z", "propertis": 1, "parts": [{"value": []}]}
    with pytest.raises(BadRequest) as caught:
        parse(_Arguments, sent)
    assert caught.value.message == (
        "code: String should match pattern '^x'; send for example \"x\";"
        " count: must be less than or equal to 5;"
        " order: must be 'asc' or 'desc';"
        " parts[0].name: is missing;"
        " parts[0].value: an array; send a string, a number, a boolean or null;"
        " propertis: is not known here; did you mean properties? known are id, code, count, names,"
        " properties, order, parts, cursor, dryRun"
    )


def test_a_message_shows_no_control_characters_and_not_all_of_a_long_text() -> None:
    with pytest.raises(BadRequest) as caught:
        parse(_Arguments, {"code": "x", "\x1b[31m" + "y" * 5000: 1})
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 250
