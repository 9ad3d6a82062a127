"""Values as HubSpot takes them."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.hubspot.definitions import OWNER, PLACES, Definitions
from crmhub.adapter import Kind, Linked, Problem, Rejected
from crmhub.adapter.coercion import fitted
from crmhub.adapter.places import place
from crmhub.adapter.remembered import HOUR

LIFECYCLE = "lifecyclestage"
# Plain text in every account: writing them needs no look at the definitions, which are large.
PLAIN = frozenset(
    {"email", "firstname", "lastname", "phone", "mobilephone", "company", "jobtitle"}
    | {"address", "city", "state", "zip", "country", "website", "message"}
)


class Values:
    """Brings values into the form that one account's definitions take."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions

    def fitted(
        self, kind: Kind, properties: Mapping[str, str], *, newer_than: float = HOUR
    ) -> dict[str, str]:
        """Return the properties as HubSpot takes them, those of a deal or ticket with its place."""
        if kind == "contacts" and properties.keys() <= PLAIN:
            return dict(properties)
        try:
            return self._fit(kind, properties, newer_than)
        except Rejected:
            # Maybe defined, or given another option, since that was read.
            return self._fit(kind, properties, self._definitions.stale_s)

    def unplaced(
        self, kind: Kind, properties: Mapping[str, str], *, newer_than: float = HOUR
    ) -> dict[str, str]:
        """Return the properties as HubSpot takes them, without pipeline and stage."""
        places = PLACES.get(kind, ())
        given = {name: value for name, value in properties.items() if name not in places}
        known = self._definitions.properties(kind, given, newer_than=newer_than)
        chosen = {
            name: self._definitions.with_options(kind, known[name], newer_than)
            for name in given
            if name in known
        }
        if OWNER in given:
            given[OWNER] = self._definitions.owner_id(given[OWNER], newer_than)
        return fitted(given, chosen, of=kind)

    def goes_back(self, held: str, wanted: str) -> bool:
        """Return whether a lifecycle stage stands before the one that is held."""
        described = self._definitions.properties("contacts", [LIFECYCLE]).get(LIFECYCLE)
        stages = [one.value for one in described.options] if described else []
        return {held, wanted} <= set(stages) and stages.index(wanted) < stages.index(held)

    def _fit(self, kind: Kind, properties: Mapping[str, str], newer_than: float) -> dict[str, str]:
        problems: list[Problem] = []
        fit: dict[str, str] = {}
        try:
            fit = self.unplaced(kind, properties, newer_than=newer_than)
        except Rejected as exc:
            problems += exc.problems
        if kind in ("deals", "tickets"):
            try:
                fit |= self._place(kind, properties, newer_than)
            except Rejected as exc:
                problems += exc.problems
        if problems:
            raise Rejected(problems)
        return fit

    def _place(
        self, kind: Linked, properties: Mapping[str, str], newer_than: float
    ) -> dict[str, str]:
        """Return a pipeline and a stage that exist and agree."""
        pipeline, stage = names = PLACES[kind]
        wanted = (properties.get(pipeline, "").strip(), properties.get(stage, "").strip())
        found = place(self._definitions.pipelines(kind, newer_than=newer_than), wanted, names)
        return dict(zip(names, found, strict=True))
