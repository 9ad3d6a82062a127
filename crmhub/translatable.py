"""Mark a text that the console shows, where no request is known that has a language."""

from __future__ import annotations

from typing import Any


class Text(str):
    """A text in English with its `values`; `source` has their names instead: `%(kind)s`."""

    source: str
    values: dict[str, Any]

    def __new__(cls, source: str, **values: Any) -> Text:
        text = super().__new__(cls, source % values if values else source)
        text.source, text.values = source, values
        return text


def translatable(text: str, **values: Any) -> str:
    """Return the text with its values: `make translations` finds it by the name of this function.

    A value that is a Text is translated, too.
    """
    return Text(text, **values) if values else text
