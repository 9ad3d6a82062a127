"""Which of a call's values are written: all but those that the CRM refuses, with added options."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, Conflict, Problem, Rejected, Unsupported
from crmhub.errors import listed, shortened
from crmhub.translatable import join_texts, translatable

# These are never left out: a deal in the wrong pipeline is worse than an error.
NOTHING = translatable("There is nothing to write.")
PLACES = frozenset({"pipeline", "dealstage", "hs_pipeline", "hs_pipeline_stage"})


class PartialWrite:
    """The properties of a record that the CRM may refuse in part: write `rest`, then the next one.

    `refused`: what is left out, in the beginning by the hub. `strict`: every refused property is an
    error, otherwise only those in `places`. Raises Rejected with all reasons.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        refused: Sequence[Problem] = (),
        *,
        strict: bool,
        places: Collection[str] = PLACES,
    ) -> None:
        if (strict and refused) or not properties:
            raise refusal(refused, "" if refused else NOTHING)
        self.rest, self.refused = properties, list(refused)
        self._names, self._strict, self._places = properties.keys(), strict, places

    def leave_out(self, exc: Rejected | Conflict) -> None:
        """Leave out what the CRM refused; raises Rejected if the others cannot be written alone."""
        if isinstance(exc, Rejected):
            problems, message = exc.problems, exc.message if not exc.problems else ""
        elif exc.name:
            problems, message = (Problem(exc.name, exc.message),), ""
        else:
            raise exc
        for problem in problems:
            if problem.name not in self._names:
                remedy = translatable(
                    "Set a constant for %(name)s in the field map, or send a value",
                    name=problem.name,
                )
                reason = problem.reason
                if reason.endswith("."):
                    reason = reason.rstrip(".")
                problem = replace(problem, reason=join_texts(". ", (reason, remedy)))
            self.refused.append(problem)
        names = {problem.name for problem in problems}
        rest = {name: value for name, value in self.rest.items() if name not in names}
        is_known = names and names <= self.rest.keys()
        if self._strict or not is_known or names.intersection(self._places) or not rest:
            raise refusal(self.refused, message)
        self.rest = rest


def refusal(problems: Sequence[Problem], message: str = "") -> Rejected:
    told = listed([(shortened(one.name), one.reason) for one in problems])
    return Rejected(problems, join_texts(". ", filter(None, (told, message))))


def without_added(properties: Mapping[str, str]) -> dict[str, str]:
    """Leave out values that add options to those that a contact has, such as ";b"."""
    return {n: value for n, value in properties.items() if not value.lstrip().startswith(";")}


def with_held(
    account: Account, adapter: Adapter, contact_id: str, properties: Mapping[str, str]
) -> dict[str, str]:
    """Put the contact's options before added ones, unless the CRM describes nothing."""
    others = without_added(properties)
    added = [name for name in properties if name not in others]
    if not added or not adapter.remote:
        return dict(properties)
    rules = account.connection.field_map.of("contacts")
    try:
        described = adapter.describe("contacts")
    except Unsupported:
        return dict(properties)
    several = {one.name for one in described if one.type == "multi_enumeration"}
    names = [name for name in added if rules.crm_name(name) in several]
    held = adapter.get_contact(contact_id, names).properties if names else {}
    joined = {name: held.get(name, "") + properties[name].strip() for name in names}
    return {**properties, **joined}
