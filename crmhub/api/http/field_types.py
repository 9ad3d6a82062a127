"""The marshmallow fields of JSON bodies and query strings, all strictly typed.

The text "1" is no number, and `true` is no integer.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from crmhub.bounds import MAX_PROPERTIES, MAX_TEXT_LENGTH
from crmhub.properties.values import NotScalar, from_json

# The type that marshmallow declares for error messages.
Messages = dict[str, str | list[Any] | dict[Any, Any]]


class Strict(ma.Schema):
    error_messages: dict[str, str] = {"type": "must be a JSON object"}

    class Meta:
        unknown = ma.RAISE

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        names = ", ".join(field.data_key or name for name, field in self.load_fields.items())
        self.error_messages["unknown"] = f"is not known here; known are {names}"


def _messages(noun: str, send: str = "") -> Messages:
    must_be = f"must be {noun}"
    return {
        "invalid": must_be,
        "type": must_be,
        "null": f"{must_be}, not null",
        "required": f"is missing{send}",
    }


class Text(fields.String):
    default_error_messages = _messages("a string")

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        if not isinstance(value, str):
            raise self.make_error("invalid")
        return value


class Number(fields.Integer):
    """Field for a JSON integer; `1.0`, `"1"` and `true` are refused."""

    default_error_messages = _messages("an integer")

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.make_error("invalid")
        return value


class Flag(fields.Boolean):
    """Field for a JSON boolean, or with `in_query` for the texts `true` and `false`."""

    default_error_messages = _messages("true or false")

    def __init__(self, *, in_query: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._in_query = in_query

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> bool:
        if self._in_query and value in ("true", "false"):
            return bool(value == "true")
        if not isinstance(value, bool):
            raise self.make_error("invalid")
        return value


# More faults than a message names: checking all items of a huge array would take long.
_MAX_FAULTS = 25


class Items(fields.List[Any]):
    """Field for a JSON array of at most `maxItems` (metadata); loading stops after 25 faults."""

    default_error_messages = _messages("an array", "; send an array")

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.make_error("invalid")
        least, most = self.metadata.get("minItems"), self.metadata.get("maxItems")
        if most is not None and len(value) > most:
            bounds = f"{least} to {most}" if least else f"at most {most}"
            raise ma.ValidationError(f"{len(value)} {attr}; send {bounds}")
        items = []
        faults: dict[int, Any] = {}
        for i, each in enumerate(value):
            try:
                items.append(self.inner.deserialize(each, **kwargs))
            except ma.ValidationError as exc:
                faults[i] = exc.messages
                if len(faults) == _MAX_FAULTS:
                    break
        if faults:
            raise ma.ValidationError(faults)
        return items


class Inner(fields.Nested):
    default_error_messages = _messages("an object")


class Scalar(fields.Field[str]):
    """Field for a JSON string, number, boolean or null, loaded as text; null becomes "".

    Booleans and null are refused if the metadata's `type` names numbers.
    """

    default_error_messages: Messages = {
        "required": "is missing",
        "boolean": "must be a string or a number",
        "null": "must be a string or a number",
    }

    def __init__(self, **kwargs: Any) -> None:
        metadata = {"type": "string", **kwargs.pop("metadata", {})}
        super().__init__(metadata=metadata, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        if isinstance(value, bool) and "number" in self.metadata["type"]:
            raise self.make_error("boolean")
        return scalar(value)

    def deserialize(self, value: Any, attr: Any = None, data: Any = None, **kwargs: Any) -> Any:
        if value is None and (self.allow_none or "number" not in self.metadata["type"]):
            return ""
        return super().deserialize(value, attr, data, **kwargs)


def scalar(value: Any) -> str:
    try:
        return from_json(value)
    except NotScalar as exc:
        raise ma.ValidationError(f"is {exc}") from None


class Properties(fields.Field[dict[str, str]]):
    def __init__(self, **kwargs: Any) -> None:
        shape = {
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": MAX_TEXT_LENGTH},
            "maxProperties": MAX_PROPERTIES,
            "description": "Property name to value.",
        }
        super().__init__(metadata={**shape, **kwargs.pop("metadata", {})}, **kwargs)

    default_error_messages = _messages(
        "an object of property names and values", "; send an object of property names and values"
    )

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> dict[str, str]:
        if not isinstance(value, dict):
            raise self.make_error("invalid")
        if len(value) > MAX_PROPERTIES:
            raise ma.ValidationError(f"has {len(value)} properties; send at most {MAX_PROPERTIES}")
        problems: dict[str, Any] = {}
        texts = {}
        for name, each in value.items():
            try:
                texts[name] = each if type(each) is str else scalar(each)
            except ma.ValidationError as exc:
                problems[name] = exc.messages
        if problems:
            raise ma.ValidationError(problems)
        return texts


class Between(Number):
    """Field for an integer from `lowest` to `highest`; with `in_query`, a text of ASCII digits."""

    def __init__(self, lowest: int, highest: int, *, in_query: bool = False, **kwargs: Any) -> None:
        super().__init__(validate=validate.Range(lowest, highest), **kwargs)
        self._bounds = (lowest, highest)
        self._in_query = in_query

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> int:
        if self._in_query and value.isascii() and value.isdigit() and len(value) <= 16:
            value = int(value)
        lowest, highest = self._bounds
        if type(value) is int and lowest <= value <= highest:
            return value
        raise ma.ValidationError(f"must be a whole number from {lowest} to {highest}")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZONED = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})"
)


class ZonedTime(Text):
    """Field for a time in ISO 8601 with its time zone; loaded as ms since 1970, rounded down."""

    def __init__(self, **kwargs: Any) -> None:
        metadata = {"format": "date-time", **kwargs.pop("metadata", {})}
        super().__init__(metadata=metadata, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        try:
            if _ZONED.fullmatch(text):
                return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)
        except ValueError:
            pass
        raise ma.ValidationError(
            "must be a time with its time zone, such as 2026-11-26T08:00:00.000Z or"
            " 2026-11-26T09:00:00+01:00, where a query string has %2B for +"
        )


class Choice(Text):
    def __init__(self, words: Collection[str], **kwargs: Any) -> None:
        super().__init__(validate=validate.OneOf(list(words)), **kwargs)
        self._words = words

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, str) or value not in self._words:
            raise ma.ValidationError(f"must be one of {', '.join(self._words)}")
        return value


class Words(fields.List[Any]):
    """Field for a JSON array of strings, of `words` if given; loaded as a tuple, each once."""

    _SHAPE = "must be an array of strings"
    default_error_messages = _messages("an array of strings", "; send an array of strings")

    def __init__(self, words: tuple[str, ...] = (), **kwargs: Any) -> None:
        inner = fields.String(validate=validate.OneOf(words)) if words else fields.String()
        super().__init__(inner, **kwargs)
        self._words = words

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ma.ValidationError(self._SHAPE)
        wrong = [each for each in value if self._words and each not in self._words]
        if wrong:
            raise ma.ValidationError(
                f"does not know {wrong[0][:60]!r}; known are {', '.join(self._words)}"
            )
        return tuple(dict.fromkeys(value))


class Joined(Words):
    """Field for names joined by commas in a query string, loaded as a tuple, each once."""

    _SHAPE = "must be names joined by commas"

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        words = value.split(",") if value.strip() else []
        return super()._deserialize([each.strip() for each in words], attr, data, **kwargs)
