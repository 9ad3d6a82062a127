"""The field map of a connection, which renames properties and values for the CRM.

All helpers use the same rules, since getProperties must read the values that createLead and
setProperties have written. A rule is stored under its kind of record and the property name of bots:

- `to`: the CRM's name of the property; by default the name that bots use.
- `values`: the CRM's value for some of the bots' values, also inside a list joined by ";".
- `constant`: a value in the bots' form that createLead, createDeal and createTicket send. With
  `set` "always" (the default) it replaces the bot's value; with "empty" it is sent if the bot sends
  no value and the CRM has none yet.

A rule for the property `name` of contacts maps the whole name, which is else split into `firstname`
and `lastname`. `email` and `phone` cannot have rules: contacts are found by them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from crmhub.adapter import Kind, Written
from crmhub.adapter.coercion import Listed
from crmhub.translatable import translatable

When = Literal["always", "empty"]
WHEN: tuple[When, ...] = get_args(When)
KINDS: tuple[Written, ...] = get_args(Written)
IDENTITY = ("email", "phone")
WHOLE_NAME = "name"


@dataclass(frozen=True, slots=True)
class Rule:
    """`to`: the CRM's name. `constant`: "" for none."""

    to: str
    values: Mapping[str, str] = field(default_factory=dict)
    constant: str = ""
    when: When = "always"

    def plain(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"to": self.to}
        if self.values:
            shown["values"] = dict(self.values)
        if self.constant:
            shown |= {"constant": self.constant, "set": self.when}
        return shown


@dataclass(frozen=True)
class KindMap:
    """The rules for one kind of record, by the property names that bots use."""

    rules: Mapping[str, Rule] = field(default_factory=dict)

    @cached_property
    def _hub_names(self) -> Mapping[str, str]:
        return {rule.to: name for name, rule in self.rules.items()}

    @cached_property
    def _hub_values(self) -> Mapping[str, Mapping[str, str]]:
        return {
            name: {theirs: ours for ours, theirs in reversed([*rule.values.items()])}
            for name, rule in self.rules.items()
        }

    def crm_name(self, name: str) -> str | None:
        """None for a name that the CRM uses for another property."""
        if (rule := self.rules.get(name)) is not None:
            return rule.to
        return None if name in self._hub_names else name

    def hub_name(self, name: str) -> str:
        if name in self.rules and name not in self._hub_names:
            # Bots use this name for another property of the CRM.
            return f"{name} (of the CRM)"
        return self._hub_names.get(name, name)

    def crm_value(self, name: str, value: str) -> str:
        rule = self.rules.get(name)
        if rule is None or not rule.values:
            return value
        text = _looked_up(rule.values, value)
        return Listed(text) if isinstance(value, Listed) else text

    def hub_value(self, name: str, value: str) -> str:
        table = self._hub_values.get(name)
        return _looked_up(table, value) if table else value

    def sent(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Convert properties to the CRM's names and values; those without a name are left out."""
        if not self.rules:
            return dict(properties)
        return {
            theirs: self.crm_value(name, value)
            for name, value in properties.items()
            if (theirs := self.crm_name(name))
        }

    def nameless(self, properties: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return (name, reason) for each property that `sent` leaves out."""
        return [
            (
                name,
                translatable(
                    "the field map writes %(name)s to this property of the CRM; send %(name)s",
                    name=self._hub_names[name],
                ),
            )
            for name in properties
            if self.crm_name(name) is None
        ]

    def completed(self, properties: Mapping[str, str]) -> tuple[dict[str, str], frozenset[str]]:
        """Return the properties with the rules' constants, and the names of initial ones.

        An initial constant must not replace a value that the CRM has.
        """
        complete, initial = dict(properties), set()
        for name, rule in self.rules.items():
            if not rule.constant:
                continue
            if rule.when == "always":
                complete[name] = rule.constant
            elif not complete.get(name):
                complete[name] = rule.constant
                initial.add(name)
        return complete, frozenset(initial)


def _looked_up(table: Mapping[str, str], value: str) -> str:
    if value in table or ";" not in value:
        return table.get(value, value)
    parts = (part.strip() for part in value.split(";"))
    return ";".join(table.get(part, part) for part in parts)


_NONE = KindMap()


@dataclass(frozen=True, slots=True)
class FieldMap:
    """The rules by kind of record; kinds without rules are absent."""

    kinds: Mapping[Written, KindMap] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def of(self, kind: Kind) -> KindMap:
        return _NONE if kind == "companies" else self.kinds.get(kind, _NONE)

    @property
    def whole_name(self) -> bool:
        """Whether a contact's name is sent to the CRM as one property, not as two."""
        return WHOLE_NAME in self.of("contacts").rules

    def plain(self) -> dict[str, dict[str, Any]]:
        """A JSON object, with kinds without rules as empty objects."""
        return {
            kind: {name: rule.plain() for name, rule in self.of(kind).rules.items()}
            for kind in KINDS
        }

    def flat(self) -> dict[str, dict[str, Any]]:
        """Return all rules as JSON objects, by their paths, such as `contacts.city`."""
        return {
            f"{kind}.{name}": rule
            for kind, rules in self.plain().items()
            for name, rule in rules.items()
        }

    def to_json(self) -> str:
        return json.dumps({kind: rules for kind, rules in self.plain().items() if rules})

    @classmethod
    def from_json(cls, text: str) -> FieldMap:
        if text == "{}":
            return EMPTY
        stored: dict[Written, dict[str, dict[str, Any]]] = json.loads(text)
        return cls(
            {
                kind: KindMap({name: _rule(name, **rule) for name, rule in rules.items()})
                for kind, rules in stored.items()
            }
        )


EMPTY = FieldMap()


def _rule(name: str, *, set: When = "always", **given: Any) -> Rule:
    return Rule(**{"to": name, **given}, when=set)
