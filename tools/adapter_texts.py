"""The texts of the bundled adapters, which `make translations` finds here: forms and guides."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any


def texts(*_: Any, **__: Any) -> Iterator[tuple[int, str, str, list[str]]]:
    """Yield each text as Babel wants it; the adapters combine some of them from parts."""
    for point in entry_points(group="crmhub.adapters"):
        if not point.value.startswith("adapters."):
            continue
        adapter = point.load()
        settings = [one for one in adapter.settings if not one.kept]
        steps = [step for guide in adapter.guides for step in guide.steps]
        found = [text for one in settings for text in (one.label, one.help)]
        found += [guide.title for guide in adapter.guides]
        found += [text for step in steps for text in (step.text, step.label)]
        yield from ((1, "gettext", text, []) for text in dict.fromkeys(filter(None, found)))
