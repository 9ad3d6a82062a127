"""Examples of what a rule of a field map does to a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crmhub.adapter import Described
from crmhub.console.map_rows import Row, pairs, unquote

_SAMPLES = {
    "number": "42",
    "currency": "480",
    "date": "2026-11-30",
    "datetime": "2026-11-30T09:00:00.000Z",
    "bool": "true",
    "email": "ann@example.com",
    "phone": "+12025550188",
    "url": "https://example.com",
}
_TEXT = "abc"


@dataclass(frozen=True, slots=True)
class Example:
    """What a bot sends and what the CRM gets by a rule, as name and value.

    `given` is "" if the rule adds its constant without a value of the bot. `label` is the CRM's
    label of the value, "" if it has none.
    """

    name: str
    given: str
    crm_name: str
    value: str
    label: str = ""


def example(row: Row, theirs: Mapping[str, Described]) -> Example | None:
    """Return an example for the rule in a row, None for a row without a usable rule.

    `theirs`: the CRM's definitions of properties by name; those that are unknown may be absent.
    """
    name = row.name.strip()
    if not name or any(row.wrong.values()):
        return None
    crm_name = row.to.strip() or name
    described = theirs.get(crm_name)
    labels = {option.value: option.label for option in described.options} if described else {}
    values, _ = pairs(row.values)
    given, value = "", ""
    if row.constant.strip():
        try:
            constant = unquote(row.constant)
        except ValueError:
            return None
        value = values.get(constant, constant)
    elif values:
        given, value = next(iter(values.items()))
    else:
        given = value = next(iter(labels), "") or _sample(described)
    label = labels.get(value, "")
    return Example(name, given, crm_name, value, label if label != value else "")


def _sample(described: Described | None) -> str:
    return _SAMPLES.get(described.type, _TEXT) if described else _TEXT
