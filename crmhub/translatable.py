"""Texts that can be said in other languages than English, where nothing of a request is known.

`make translations` finds them by the name `translatable`, and by the names of the hub's errors. The
API, the logs and the database have them in English; the console translates them for its reader, and
the webhook helpers for the people of their account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from gettext import translation
from pathlib import Path
from typing import Any

CATALOGUES = Path(__file__).with_name("translations")


class Text(str):
    """A text in English that can tell its template and the values in it.

    A value that is a Text itself is translated, too; others are names and data.
    """

    template: str
    values: Mapping[str, Any]

    def __new__(cls, template: str, values: Mapping[str, Any] | None = None) -> Text:
        text = super().__new__(cls, template % values if values else template)
        text.template, text.values = template, values or {}
        return text

    # An exception's text stays translatable: str.__str__ would return a plain copy.
    def __str__(self) -> Text:
        return self


def translatable(template: str, **values: Any) -> Text:
    """Return the text; a template with values has their names, such as `%(email)s`."""
    return Text(template, values)


def as_text(text: str) -> Text:
    return text if isinstance(text, Text) else Text(text)


def join_texts(separator: str, texts: Iterable[str]) -> Text:
    """Return texts that are translated one by one, joined by `separator`."""
    values = {str(place): as_text(text) for place, text in enumerate(texts)}
    return Text(separator.join(f"%({name})s" for name in values), values)


def named(name: str, text: str) -> Text:
    """Return `name: text`, of which the name stays as it is."""
    return Text("%(name)s: %(text)s", {"name": name, "text": as_text(text)})


def translated(text: str, translate: Callable[[str], str]) -> str:
    """Return the text in another language; `translate` looks a template up in its catalogue."""
    if not text:
        return text
    one = as_text(text)
    said = translate(one.template)
    if not one.values:
        return said
    return said % {
        name: translated(value, translate) if isinstance(value, Text) else value
        for name, value in one.values.items()
    }


def in_language(text: str, language: str) -> str:
    """Return the text in a language by its ISO 639-1 code; in English without a catalogue of it."""
    return translated(text, _catalogue(language)) if language else text


@cache
def _catalogue(language: str) -> Callable[[str], str]:
    return translation("messages", CATALOGUES, [language], fallback=True).gettext


def to_stored(text: Any) -> Any:
    """Return the template and the values as JSON, from which `from_stored` makes the text again."""
    if not isinstance(text, Text):
        # Whatever JSON has no form for: templates show values as texts.
        return str(text)
    return [text.template, {name: to_stored(value) for name, value in text.values.items()}]


def from_stored(stored: Any, english: str) -> str:
    """Return the text of `to_stored`; plain `english` if that is not what it says.

    Another version of the hub, or a hand in the database, may have stored it.
    """
    try:
        text = _read(stored)
    except (AttributeError, KeyError, TypeError, ValueError):
        return english
    return text if text == english else english


def _read(stored: Any) -> Any:
    if not isinstance(stored, list):
        return stored
    template, values = stored
    return Text(template, {name: _read(value) for name, value in values.items()})
