"""The descriptions of the operations in the OpenAPI document.

`descriptions.toml` holds them by operation id; those of the records are written once for all kinds.
A view may have its description in its docstring instead: what follows the first paragraph.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from crmhub.properties.kinds import KINDS

FILE = Path(__file__).with_name("descriptions.toml")


def description_of(view: Callable[..., Any], operation_id: str, scope: str) -> str:
    """Return the description of a view's operation, with the scope, if any; "" for none."""
    own = (inspect.getdoc(view) or "").partition("\n\n")[2]
    words = own or written().get(operation_id, "")
    if words and scope:
        resource, _, right = scope.partition(":")
        shown = f"contacts:{right}` for contacts" if resource == "{resource}" else f"{scope}`"
        words = f"{words}\n\nScope: `{shown}."
    return words


@cache
def written() -> dict[str, str]:
    found: dict[str, dict[str, str]] = tomllib.loads(FILE.read_text("utf-8"))
    known = {id: words.strip() for id, words in found["operations"].items()}
    for kind in KINDS.values():
        names = {
            "<one>": kind.singular,
            "<several>": kind.name,
            "<One>": kind.singular.capitalize(),
            "<Several>": kind.name.capitalize(),
        }
        for id, words in found["records"].items():
            known[_filled(id, names)] = _filled(words.strip(), names)
    return known


def _filled(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text
