"""Values as pages write them: times, numbers, and counted things."""

from __future__ import annotations

from datetime import UTC, datetime

import flask
from markupsafe import Markup

from crmhub.records.filters import iso


def register(app: flask.Flask) -> None:
    """Let templates of `app` use the filters."""
    app.add_template_filter(when)
    app.add_template_filter(number)
    app.add_template_filter(counted)


def when(milliseconds: int | None, never: str = "never") -> Markup:
    """Return a time to the minute, exact for machines."""
    if not milliseconds:
        return Markup.escape(never)
    shown = f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    return Markup('<time datetime="{}">{}</time>').format(iso(milliseconds), shown)


def number(value: int) -> str:
    """Return a number with its thousands apart."""
    return f"{value:,}"


def counted(value: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 action`, `2 actions`."""
    return f"{value:,} {one if value == 1 else many or f'{one}s'}"
