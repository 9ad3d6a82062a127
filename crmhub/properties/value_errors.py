"""The errors of property values, and the words that they have in common."""

from crmhub.translatable import translatable


class InvalidValue(ValueError):
    """Error for a value that does not fit its property type; it says what to send."""


class NotScalar(ValueError):
    """Error for a value that is not a JSON string, number, boolean or null."""


def trimmed(value: str) -> str:
    text = value.strip()
    if not text:
        raise blank_value()
    return text


def blank_value() -> InvalidValue:
    return InvalidValue(translatable("blank; send a value"))


def shown(text: str, room: int = 60) -> str:
    """Return a text in quotes, cut to `room` characters and escaped, for an error message."""
    cut = text[:room] + ("…" if len(text) > room else "")
    if not cut.isprintable():
        cut = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return f'"{cut}"'
