"""Examples of what a rule of a field map does to a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crmhub.adapter import Described
from crmhub.console.map_rows import Row, pairs, unquote


@dataclass(frozen=True, slots=True)
class Example:
    """A value that a bot sends, and the value that the CRM gets by a rule.

    `given` is "" if the rule sends its constant; both are "" if the rule changes only the name.
    `label`: the CRM's label of its value. `further` counts the other values that the rule changes.
    """

    given: str = ""
    value: str = ""
    label: str = ""
    further: int = 0


def example(row: Row, theirs: Mapping[str, Described]) -> Example | None:
    """Return an example for the rule in a row, None without a usable rule."""
    name = row.name.strip()
    values, faults = pairs(row.values)
    if not name or faults:
        return None
    given, value, further = "", "", 0
    if row.constant.strip():
        try:
            constant = unquote(row.constant)
        except ValueError:
            return None
        value = values.get(constant, constant)
    elif values:
        given, value = next(iter(values.items()))
        further = len(values) - 1
    described = theirs.get(row.to.strip() or name)
    labels = {option.value: option.label for option in described.options} if described else {}
    label = labels.get(value, "")
    return Example(given, value, label if label != value else "", further)
