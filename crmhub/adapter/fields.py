"""The properties of one kind of record in a CRM that describes its fields itself.

An adapter reads the CRM's description and makes a `Field` of each. `Fields` then tells which of
them a call means, and what to send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from crmhub.adapter.coercion import Misfit, fitted
from crmhub.adapter.errors import Problem, Rejected
from crmhub.adapter.values import Described

_BREAKS = re.compile(r"[\t\n\r\v\f]+")


@dataclass(frozen=True, slots=True)
class Field:
    """A property: its definition under the hub's name, the CRM's own name, and the CRM's type.

    `single_line`: whether the CRM refuses tabs and line breaks in the property's text.
    """

    described: Described
    name: str
    type: str
    single_line: bool = False


class Fields:
    """The properties of one kind of record; `of` names the kind in messages, such as "contacts"."""

    def __init__(self, of: str, fields: Iterable[Field]) -> None:
        self._of = of
        self._fields = {field.described.name: field for field in fields}

    def described(self) -> list[Described]:
        """Return the definitions of all properties."""
        return [field.described for field in self._fields.values()]

    def known(self, names: Iterable[str]) -> list[tuple[str, Field]]:
        """Return those of the hub's `names` that the CRM has, each with its field."""
        return [(name, self._fields[name]) for name in names if name in self._fields]

    def fitted(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties with their values in the form in which the CRM stores them.

        Tabs and line breaks of a `single_line` property become blanks. Raises Rejected for unknown
        and read-only properties, and for values that do not fit the type.
        """
        definitions = {name: field.described for name, field in self._fields.items()}
        values = fitted(properties, definitions, of=self._of)
        return {
            name: _BREAKS.sub(" ", value) if self._fields[name].single_line else value
            for name, value in values.items()
        }

    def values(
        self, properties: Mapping[str, str], convert: Callable[[str, str], Any]
    ) -> dict[str, Any]:
        """Return fitted properties under the CRM's names, with the values that it takes.

        `convert` gets the CRM's type and a text, and returns the value; it raises Misfit for a text
        that the CRM cannot store. Raises Rejected with all of these.
        """
        values: dict[str, Any] = {}
        problems = []
        for name, text in properties.items():
            field = self._fields[name]
            try:
                values[field.name] = convert(field.type, text)
            except Misfit as exc:
                problems.append(Problem(name, str(exc), exc.options))
        if problems:
            raise Rejected(problems)
        return values

    def labelled(self, label: str) -> str:
        """Return the name of the property that people know by this label; "" if there is none."""
        return next((n for n, f in self._fields.items() if f.described.label == label), "")
