"""Read the bodies that chatbot builders post to the helpers: JSON or a form.

Builders send all their variables, under any Content-Type, and numbers as texts. So unknown keys are
ignored, and the content decides. A missing key or a wrong type raises BadRequest; a blank value or
an unreplaced template variable raises Semantic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import flask
import marshmallow as ma
from marshmallow import fields

from crmhub.accounts.accounts import Account
from crmhub.adapter import Problem
from crmhub.api.http.field_types import Messages, scalar
from crmhub.api.http.reading import problems_of, read_json, whole_characters
from crmhub.errors import BadRequest, HubError, listed
from crmhub.helpers.inputs import MAY_HAVE_THOUSANDS, Sent, filled, short_name, text_fault
from crmhub.helpers.notes import AddNote, name_of, read_note
from crmhub.helpers.random_int import LARGEST
from crmhub.identity.bindings import LONGEST
from crmhub.identity.placeholders import is_unfilled
from crmhub.translatable import Text, named, translatable

T = TypeVar("T")

_MOST_FIELDS = 1000
_A_NUMBER = translatable("a number")
_FORM_TYPE = "application/x-www-form-urlencoded"
_PARTS_TYPE = "multipart/form-data"
# PHP and jQuery write several values of a property as props[x][].
_NESTED = re.compile(r"(props|properties)\[([^\[\]]*)\](?:\[\])?", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?", re.ASCII)


def read_body() -> dict[str, Any]:
    """Return the request's body as a dict, from JSON or a form; raises BadRequest."""
    raw = flask.request.get_data().removeprefix(b"\xef\xbb\xbf").strip()
    if flask.request.mimetype == _PARTS_TYPE and raw.startswith(b"--"):
        raise BadRequest(
            "body: %(type)s is not taken; send JSON, or a form as %(form)s.",
            type=_PARTS_TYPE,
            form=_FORM_TYPE,
        )
    # The content decides first, since builders send JSON with the Content-Type of a form.
    is_form = raw[:1] not in (b"{", b"[") and (
        flask.request.mimetype == _FORM_TYPE or (b"=" in raw and raw[:1] not in (b'"', b""))
    )
    if is_form:
        return _form(raw)
    value = read_json(raw, strict=False)
    if not isinstance(value, dict):
        raise BadRequest("body: send a JSON object.")
    return value


def load(schema: ma.Schema, posted: dict[str, Any]) -> dict[str, Any]:
    """Return `posted` as the schema loads it; raises BadRequest with all faults, or Semantic."""
    try:
        taken: dict[str, Any] = schema.load(posted)
    except ma.ValidationError as exc:
        raise BadRequest(listed(problems_of(exc.messages))) from None
    return taken


def _form(raw: bytes) -> dict[str, Any]:
    """Return the JSON object that a form stands for.

    `props=a,b` and `props[]=a&props[]=b` become lists, `props[x]=1` becomes an object; JSON in
    `props` stays a text. A repeated key with different values (tick boxes) becomes a list; a field
    for a single value refuses it later. Keys and values lose U+0000 and half surrogate pairs.
    Raises BadRequest for invalid UTF-8 and for too many fields.
    """
    try:
        pairs = parse_qsl(
            raw.decode(errors="surrogatepass"),
            keep_blank_values=True,
            errors="surrogatepass",
            max_num_fields=_MOST_FIELDS,
        )
    except UnicodeDecodeError:
        raise BadRequest("body: the form is not UTF-8.") from None
    except ValueError:
        raise BadRequest(
            "body: the form has more than %(most)s fields.", most=_MOST_FIELDS
        ) from None
    form: dict[str, Any] = {}
    for key, value in pairs:
        key, value = whole_characters(key), whole_characters(value)
        match = _NESTED.fullmatch(key)
        if key == "props" and not value.lstrip().startswith(("{", "[")):
            _inside(form, key, list).extend(_words(value))
        elif match is None:
            _put(form, key, value)
        elif match[2] == "" or match[2].isdigit():
            _inside(form, match[1], list).append(value)
        else:
            _put(_inside(form, match[1], dict), match[2], value)
    return form


def _words(text: str) -> list[str]:
    return [word for each in text.split(",") if (word := each.strip())]


def _put(into: dict[str, Any], key: str, value: Any) -> None:
    if key not in into:
        into[key] = value
    elif isinstance(into[key], list):
        into[key].append(value)
    elif into[key] != value:
        into[key] = [into[key], value]


def _inside(form: dict[str, Any], key: str, kind: type[T]) -> T:
    """Return the list or dict under a key of `form`, a new one if absent; raises BadRequest."""
    inside = form.setdefault(key, kind())
    if not isinstance(inside, kind):
        fault = translatable("is sent both as a list and as an object; send one of them.")
        raise BadRequest(named(key, fault))
    return inside


# The fields of the helpers' bodies.


class HelperBody(ma.Schema):
    """Base schema of the helpers' bodies; it ignores unknown keys."""

    class Meta:
        unknown = ma.EXCLUDE

    @classmethod
    def of_account(cls, account: Account | None) -> HelperBody:
        """Return the schema for the bodies that this account accepts."""
        return cls()


class _Field(fields.Field[T]):
    """Base class of the fields of helper bodies; null is read as "", unless `refuses_null`.

    `right` describes a valid value in error messages. `shown`: the OpenAPI description.
    """

    refuses_null = False

    def __init__(self, right: Text, shown: Mapping[str, Any], **kwargs: Any) -> None:
        messages: Messages = {
            "required": translatable("is missing; send %(right)s", right=right),
            "invalid": translatable("must be %(right)s", right=right),
            "null": translatable("must be %(right)s, not null", right=right),
        }
        super().__init__(error_messages=messages, metadata=dict(shown), **kwargs)

    def make_error(self, key: str, **kwargs: Any) -> ma.ValidationError:
        """The messages stay translatable: marshmallow's own method would format them once more."""
        return ma.ValidationError(self.error_messages[key])

    def deserialize(self, value: Any, attr: Any = None, data: Any = None, **kwargs: Any) -> Any:
        if value is None and not self.refuses_null:
            value = ""
        return super().deserialize(value, attr, data, **kwargs)


class Said(_Field[str]):
    """Field for a text, with `numbers` also an integer; with `short`, an id of limited length."""

    def __init__(self, *, numbers: bool = False, short: bool = False, **kwargs: Any) -> None:
        super().__init__(translatable("a string"), {"type": "string"}, **kwargs)
        self._numbers = numbers
        self._short = short

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        text = str(value) if self._numbers and type(value) is int else value
        if isinstance(text, list):
            raise ma.ValidationError(translatable("must be a single string, not a list"))
        if not isinstance(text, str):
            raise ma.ValidationError(translatable("must be a string"))
        if self._short and len(text.strip()) > LONGEST:
            raise ma.ValidationError(
                translatable("is longer than %(most)s characters", most=LONGEST)
            )
        return text


class YesOrNo(_Field[bool]):
    """Field for true or false, also as a text or number; blank or unfilled is the default."""

    def __init__(self, *, default: bool, **kwargs: Any) -> None:
        shown = {"type": "boolean", "default": default}
        super().__init__(translatable("true or false"), shown, load_default=default, **kwargs)
        self._default = default

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> bool:
        text = scalar(value).strip()
        if not text or is_unfilled(text):
            return self._default
        if text.lower() in ("true", "yes", "1", "false", "no", "0"):
            return text.lower() in ("true", "yes", "1")
        raise self.make_error("invalid")


class Phone(_Field[str | None]):
    """Field for a phone number, as text or number; an array or an object gives None.

    An unusable phone is reported in `refused`; the call does not fail.
    """

    def __init__(self, **kwargs: Any) -> None:
        shown = {
            "type": "string",
            "description": "In any common notation. Anything else is named in `refused`.",
        }
        super().__init__(translatable("a phone"), shown, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str | None:
        if isinstance(value, list | dict):
            return None
        return scalar(value)


class Optional(_Field[str | None]):
    """Field for a text or number; an object gives its `name`, another one or an array None.

    An unusable value is reported in `refused`; the call does not fail.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(translatable("a string"), {"type": "string"}, load_default="", **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str | None:
        value = name_of(value)
        return None if isinstance(value, list | dict) else scalar(value)


def _parsed(value: Any) -> Any:
    """Return the JSON array or object that a text contains; any other value unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return read_json(value.strip().encode(errors="surrogatepass"), strict=False)
    except BadRequest:
        return value


def _property_value(value: Any) -> str | list[str] | None:
    """Return a property's JSON value as text, or a list of texts; None if it holds an object."""
    if not isinstance(value, list | dict):
        text = scalar(value)
        # As a text, 1.234 may mean 1234; a JSON number means one number, and so does 1.2340.
        is_exact = isinstance(value, Decimal) and MAY_HAVE_THOUSANDS.fullmatch(text)
        return f"{text}0" if is_exact else text
    if isinstance(value, dict) or any(isinstance(each, list | dict) for each in value):
        return None
    return [text for each in value if (text := scalar(each)).strip()]


class Names(_Field[list[str]]):
    """Field for property names: a JSON array, or a text in which commas separate the names."""

    refuses_null = True

    def __init__(self, **kwargs: Any) -> None:
        right = translatable('property names, such as ["email", "phone"] or "email, phone"')
        super().__init__(right, {"type": "array", "items": {"type": "string"}}, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> list[str]:
        value = _parsed(value)
        if isinstance(value, str):
            value = _words(value)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.make_error("invalid")
        return [short_name(each.strip()) for each in value]


class PropertyValues(_Field[Sent]):
    """Field for a JSON object of property names and values, also as JSON in a text.

    An unusable value becomes None; the other properties stay usable.
    """

    refuses_null = True

    def __init__(self, **kwargs: Any) -> None:
        shown = {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Property name to value.",
        }
        super().__init__(translatable("an object of property names and values"), shown, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Sent:
        value = _parsed(value)
        if not isinstance(value, dict):
            raise self.make_error("invalid")
        return {short_name(name): _property_value(each) for name, each in value.items()}


class NoteText(_Field[str | list[Any]]):
    """Field for a note: a text, or a list of messages, also as JSON in a text."""

    refuses_null = True

    def __init__(self, **kwargs: Any) -> None:
        message = {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("from", "text", "at")},
        }
        shown = {
            "oneOf": [{"type": "string"}, {"type": "array", "items": message}],
            "description": "A text, or the messages of a conversation.",
        }
        right = translatable("a text, or a list of messages with from and text")
        super().__init__(right, shown, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str | list[Any]:
        parsed = _parsed(value) if isinstance(value, str) else value
        if isinstance(parsed, list) and all(isinstance(each, dict | str) for each in parsed):
            return parsed
        if isinstance(value, list | dict):
            raise self.make_error("invalid")
        return scalar(value)


class Hours(_Field[Decimal]):
    """Field for a number of hours, loaded as Decimal; raises Semantic for a blank text."""

    def __init__(
        self,
        right: Text = _A_NUMBER,
        type: str = "number",
        *,
        shown: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(right, {"type": type, **(shown or {})}, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if isinstance(value, str):
            text = filled(value, self.data_key or str(attr))
            value = Decimal(text) if _NUMBER.fullmatch(text) else None
        if type(value) is not int and not isinstance(value, Decimal):
            raise self.make_error("invalid")
        return Decimal(value)


class Whole(Hours):
    """Field for an integer between -(2^53 - 1) and 2^53 - 1, which JSON readers read exactly."""

    def __init__(self, **kwargs: Any) -> None:
        bounds = {"minimum": -LARGEST, "maximum": LARGEST}
        super().__init__(translatable("an integer"), "integer", shown=bounds, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        number = super()._deserialize(value, attr, data, **kwargs)
        # Checked before any calculation: 1e999999 is short as a text, but huge as an integer.
        if abs(number) > LARGEST:
            raise ma.ValidationError(
                translatable(
                    "must lie between %(smallest)s and %(largest)s",
                    smallest=-LARGEST,
                    largest=LARGEST,
                )
            )
        if number != number.to_integral_value():
            raise ma.ValidationError(translatable("must be an integer, without a fraction"))
        return int(number)


class LeadNote(NoteText):
    """Field for a lead's note; loads None, the note, or why it cannot be stored."""

    refuses_null = False

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if value in ("", []):
            return None
        try:
            text, type = read_note(super()._deserialize(value, attr, data, **kwargs), "")
        # A bad note must not lose the lead.
        except ma.ValidationError as exc:
            return Problem("note", str(exc.messages[0]))
        except HubError as exc:
            return Problem("note", exc.message)
        return AddNote(text, type=type)


class LeadTeam(Said):
    """Field for the team of a lead's owner; loads None, its name, or a Problem."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        try:
            name = super()._deserialize(value, attr, data, **kwargs).strip()
        # A bad team must not lose the lead.
        except ma.ValidationError as exc:
            return Problem("team", str(exc.messages[0]))
        fault = text_fault(name)
        return Problem("team", fault) if fault else name or None


class NoteBody(HelperBody):
    """Schema of what addNote's bodies have in common."""

    text = NoteText(required=True)
    type = Said(data_key="kind", load_default="")
    at = Optional()
    author = Optional()


def note_of(sent: Mapping[str, Any]) -> AddNote:
    """Return the note of a body as `NoteBody` loads it."""
    kind = sent["type"].strip().lower()
    text, type = read_note(sent["text"], "" if is_unfilled(kind) else kind)
    return AddNote(
        text,
        contact_token=sent.get("contact_token", ""),
        type=type,
        at=sent["at"],
        author=sent["author"],
    )
