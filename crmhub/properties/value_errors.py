"""The errors of property values, and the words that they have in common."""

from typing import Any

from crmhub.translatable import as_text, translatable


class InvalidValue(ValueError):
    """Error for a value that does not fit its property type; it says what to send.

    A message with `values` has their names, such as `%(email)s`.
    """

    def __init__(self, message: str, **values: Any) -> None:
        super().__init__(translatable(message, **values) if values else as_text(message))


class NotScalar(ValueError):
    """Error for a value that is not a JSON string, number, boolean or null."""


def trimmed(value: str) -> str:
    text = value.strip()
    if not text:
        raise blank_value()
    return text


def blank_value() -> InvalidValue:
    return InvalidValue("blank; send a value")


def shown(text: str, room: int = 60) -> str:
    """Return a text in quotes, cut to `room` characters and escaped, for an error message."""
    cut = text[:room] + ("…" if len(text) > room else "")
    if not cut.isprintable():
        cut = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return f'"{cut}"'
