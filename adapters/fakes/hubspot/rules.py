"""The control endpoint of the fake HubSpot that sets which properties an account requires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapters.fakes import control
from adapters.fakes.answers import Answer
from adapters.fakes.hubspot import shapes
from adapters.fakes.hubspot.portal import Rules

if TYPE_CHECKING:
    from adapters.fakes.hubspot.service import Service


def _condition(value: Any, where: str) -> tuple[str, str, list[str]]:
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError(f"{where}: a property, its value and the list of what it then needs")
    name, expected, needed = value
    names: list[str] = shapes.each(shapes.text)(needed, where)
    return shapes.text(name, where), shapes.text(expected, where), names


_RULES = shapes.shape(
    {}, {"required": shapes.each(shapes.text), "conditional": shapes.each(_condition)}
)


def _rules(fake: Service, given: Any) -> Answer:
    """Set which properties the account requires, for each kind of record.

    An example of the body: {"deals": {"required": ["amount"], "conditional": [["dealtype", "other",
    ["amount"]]]}}
    """
    rules_of_kind = {}
    for named, rules in control.as_object(given).items():
        kind = fake.portal.kind(named)
        given_rules = _RULES(rules, named)
        rules_of_kind[kind] = Rules(
            required=tuple(given_rules.get("required", ())),
            conditional=tuple(
                (name, value, tuple(needed))
                for name, value, needed in given_rules.get("conditional", ())
            ),
        )
        names = [
            *rules_of_kind[kind].required,
            *(name for condition in rules_of_kind[kind].conditional for name in condition[2]),
        ]
        for name in [*names, *(condition[0] for condition in rules_of_kind[kind].conditional)]:
            if name not in fake.portal.definitions[kind]:
                raise ValueError(f"{name}: {kind} have no such property")
    fake.portal.rules.update(rules_of_kind)
    return Answer(204)


ORDERS = {("POST", "rules"): _rules}
