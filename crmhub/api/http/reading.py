"""Read JSON bodies strictly; error messages name the place of every fault.

The standard library's json module is used, since orjson does not report duplicate keys or huge
integers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import flask

from crmhub.bounds import MAX_JSON_DEPTH
from crmhub.errors import BadRequest, HubError
from crmhub.identity.placeholders import UNREADABLE

# Decimal's exponent limit (Emax); beyond it even abs() fails.
LARGEST_POWER = 999_999
# A WSGI environ key that our server sets: when the request was complete, by `time.monotonic`.
# The request may have waited in a queue since then.
ARRIVED = "crmhub.arrived"
# A WSGI environ key that our server sets: the body, if the server has read all of it.
BODY = "crmhub.body"

_HALF_OR_NUL = re.compile(r"[\0\ud800-\udfff]")
# A text without these has no such character: JSON may escape it.
_BROKEN = re.compile(r"\\u|[\0\ud800-\udfff]")
# Of the values of one key: comparing each with all others would take long.
_MOST_KEPT = 10
_TOO_DEEP = f"body: nested more than {MAX_JSON_DEPTH} levels deep."
# Python refuses to convert integers of more than 4,300 digits.
_MOST_DIGITS = 4000


class UnsupportedMediaType(HubError):
    status = 415
    category = "BadRequestError"


def read_json(raw: bytes, *, strict: bool = True) -> Any:
    """Return the parsed JSON text; numbers with a fraction or exponent become Decimal.

    Raises BadRequest for invalid JSON or UTF-8, an empty text, duplicate keys, NaN and Infinity,
    numbers that are too large, too many levels, U+0000, and half surrogate pairs.

    Unless `strict`, only a text that is no JSON is refused, since a caller may post values that
    nobody reads. Strings may contain unescaped control characters such as line breaks, and lose
    U+0000 and half surrogate pairs. A key that stands twice with different values gets a list of
    them. NaN, Infinity and a number that is too large become text.
    """
    try:
        text = raw.decode(errors="strict" if strict else "surrogatepass")
    except UnicodeDecodeError as exc:
        right = "send JSON in UTF-8, uncompressed"
        raise BadRequest(f"body: byte {exc.start} is not UTF-8; {right}.") from None
    if not text or text.isspace():
        raise BadRequest("body: is empty; send a JSON object.")
    try:
        value = (_STRICT if strict else _LENIENT).decode(text)
    except json.JSONDecodeError as exc:
        where = f"line {exc.lineno} column {exc.colno}"
        raise BadRequest(f"body: not valid JSON at {where}: {exc.msg}.") from None
    except RecursionError:
        raise BadRequest(_TOO_DEEP) from None
    except ValueError:
        # Python limits the digits of an integer.
        raise BadRequest("body: holds a number of too many digits.") from None
    if not strict:
        return whole_characters(value) if _BROKEN.search(text) else value
    # Only a text with this many brackets can be too deep, only an escape can hide a bad character.
    if text.count("[") + text.count("{") > MAX_JSON_DEPTH:
        _check_depth(value)
    if "\\u" in text or "\0" in text:
        _check_characters(value, "body")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                shown = json.dumps(key[:100])
                raise BadRequest(f"body: the key {shown} stands twice in an object.")
            seen.add(key)
    return result


def _object_with_lists(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        several: dict[str, list[Any]] = {}
        for key, value in pairs:
            values = several.setdefault(key, [])
            if len(values) < _MOST_KEPT and value not in values:
                values.append(value)
        result = {key: each[0] if len(each) == 1 else each for key, each in several.items()}
    return result


def _decimal_or_text(text: str) -> Decimal | str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return text if abs(number.adjusted()) > LARGEST_POWER else number


def _decimal(text: str) -> Decimal:
    number = _decimal_or_text(text)
    if isinstance(number, str):
        raise BadRequest(f"body: {text[:40]} is beyond the numbers that can be read.")
    return number


def _no_number(name: str) -> NoReturn:
    raise BadRequest(f"body: {name} is not JSON; send a number or null.")


_STRICT = json.JSONDecoder(
    parse_float=_decimal, parse_constant=_no_number, object_pairs_hook=_object
)
_LENIENT = json.JSONDecoder(
    strict=False,
    parse_float=_decimal_or_text,
    parse_int=lambda text: int(text) if len(text) <= _MOST_DIGITS else text,
    parse_constant=str,
    object_pairs_hook=_object_with_lists,
)


def whole_characters(value: Any, levels: int = MAX_JSON_DEPTH) -> Any:
    """Return a JSON value without U+0000 and half surrogate pairs, whose halves are joined.

    A text of nothing else becomes `UNREADABLE`.

    Values deeper than `levels` stay as they are, because no helper reads them.
    """
    if isinstance(value, str) and _HALF_OR_NUL.search(value):
        # UTF-16 joins the halves of a pair.
        units = value.replace("\0", "").encode("utf-16-le", "surrogatepass")
        text = units.decode("utf-16-le", "ignore")
        # A blank text would clear a property, which the caller did not ask for.
        return text if text.strip() else UNREADABLE
    if isinstance(value, dict) and levels:
        return {
            whole_characters(key): whole_characters(child, levels - 1)
            for key, child in value.items()
        }
    if isinstance(value, list) and levels:
        return [whole_characters(child, levels - 1) for child in value]
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        inside = [each.values() if isinstance(each, dict) else each for each in level]
        level = [child for each in inside for child in each if isinstance(child, dict | list)]
        if not level:
            return
    raise BadRequest(_TOO_DEEP)


def _check_characters(value: Any, path: str) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise BadRequest(f"{path}: holds the character U+0000; leave it out.")
        try:
            value.encode()
        except UnicodeEncodeError:
            message = f"{path}: holds half a surrogate pair; send whole characters."
            raise BadRequest(message) from None
    elif isinstance(value, dict):
        for key, child in value.items():
            _check_characters(key, f"{path}, a key")
            _check_characters(child, f"{path}.{key[:100]}")
    elif isinstance(value, list):
        for i, child in enumerate(value):
            _check_characters(child, f"{path}[{i}]")


def json_body(req: flask.Request) -> Any:
    """Raises UnsupportedMediaType and BadRequest."""
    environ = req.environ
    if environ.get("CONTENT_TYPE") != "application/json" and not req.is_json:
        raise UnsupportedMediaType(
            "Content-Type: send the body as JSON, with the header Content-Type: application/json."
        )
    raw = environ.get(BODY)
    return read_json(req.get_data(cache=True) if raw is None else raw)


def problems_of(messages: Any, path: str = "") -> list[tuple[str, str]]:
    """Return marshmallow's nested messages as (path, message), such as `inputs[3].id`."""
    if isinstance(messages, Mapping):
        return [
            problem
            for key, child in messages.items()
            for problem in problems_of(child, _inside(path, key))
        ]
    if isinstance(messages, list):
        return [problem for child in messages for problem in problems_of(child, path)]
    return [(path or "body", str(messages))]


def _inside(path: str, key: Any) -> str:
    if key == "_schema":
        return path
    if isinstance(key, int):
        return f"{path}[{key}]"
    # An empty name would look like the body itself.
    name = str(key)[:100] or '""'
    return f"{path}.{name}" if path else name
