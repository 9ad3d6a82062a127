"""How the values of each property type are written, as text and as JSON."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from crmhub.adapter.values import PropertyType

_LINE_END = re.compile(r"<br\s*/?>|</(?:p|div|li)>(?=\s*\S)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")


@dataclass(frozen=True, slots=True)
class Form:
    words: str
    example: str


FORMS: Mapping[PropertyType, Form] = {
    "string": Form("the text, on one line", "Ada Lovelace"),
    "text": Form("the text, with line breaks as `\\n`", "It is broken.\nPlease call."),
    "number": Form("digits, a point before decimals, no separators, no exponent", "-1250.5"),
    "currency": Form("a number, without the currency", "1250"),
    "date": Form("`YYYY-MM-DD`", "2026-11-25"),
    "datetime": Form("ISO 8601 in UTC with milliseconds", "2026-11-25T09:30:00.000Z"),
    "bool": Form("`true` or `false`", "true"),
    "enumeration": Form("the option's value, never its label", "customer"),
    "multi_enumeration": Form("the options' values, joined by `;`", "news;offers"),
    "email": Form("the address", "ada@example.com"),
    "phone": Form("the number, in the CRM's notation", "+12025550188"),
    "url": Form("the address with its scheme", "https://example.com/"),
}
"""The text form of each property type; `""` is no value, whatever the type."""


def to_text(value: Any) -> str:
    """None becomes `""`, a list its values joined by `;`; dates are texts in JSON already."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case list():
            return ";".join(map(to_text, value))
        case float():
            # Not `str`, which writes large numbers with an exponent.
            text = f"{Decimal(str(value)):f}"
            return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)


def to_json(property_type: PropertyType, text: str) -> Any:
    """For a CRM that takes no texts for numbers: `""` becomes None, `text` fits its type."""
    if not text:
        return None
    match property_type:
        case "number" | "currency":
            return to_number(text)
        case "bool":
            return text == "true"
        case "multi_enumeration":
            return text.split(";")
    return text


def to_number(text: str) -> float | int:
    return float(text) if "." in text else int(text)


def to_html(text: str) -> str:
    """For a CRM that keeps long texts as HTML; `""` stays `""`."""
    escaped = html.escape(text, quote=False).replace("\n", "<br>")
    return f"<p>{escaped}</p>" if text else ""


def from_html(markup: str) -> str:
    """Return the text of HTML, with a line for each paragraph; the reverse of `to_html`."""
    return html.unescape(_TAG.sub("", _LINE_END.sub("\n", markup)))
