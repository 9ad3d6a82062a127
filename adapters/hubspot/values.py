"""Convert property values to the formats that HubSpot accepts."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.hubspot.definitions import OWNER, STAGE_PROPERTIES, Definitions
from crmhub.adapter import Kind, Linked, Problem, Rejected
from crmhub.adapter.coercion import fitted
from crmhub.adapter.places import place
from crmhub.adapter.remembered import HOUR

LIFECYCLE = "lifecyclestage"
# These are text in every account, so writing them does not need the large definitions.
PLAIN = frozenset(
    {"email", "firstname", "lastname", "phone", "mobilephone", "company", "jobtitle"}
    | {"address", "city", "state", "zip", "country", "website", "message"}
)


class Values:
    """Converts property values by the property definitions of one HubSpot account."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions

    def fitted(
        self, kind: Kind, properties: Mapping[str, str], *, newer_than: float = HOUR
    ) -> dict[str, str]:
        """Return the properties with their values converted to HubSpot's format.

        For deals and tickets, pipeline and stage are converted to ids, and added if missing. Cached
        definitions are used if they were loaded within the last `newer_than` seconds. Raises
        Rejected with all values that do not fit their property's definition.
        """
        if kind == "contacts" and properties.keys() <= PLAIN:
            return dict(properties)
        try:
            return self._fit(kind, properties, newer_than)
        except Rejected:
            # The cached definitions may be outdated, so try once with fresh ones.
            return self._fit(kind, properties, self._definitions.stale_s)

    def without_stage(
        self, kind: Kind, properties: Mapping[str, str], *, newer_than: float = HOUR
    ) -> dict[str, str]:
        """Return the properties in HubSpot's format, but without pipeline and stage.

        Cached definitions are used if they were loaded within the last `newer_than` seconds. Raises
        Rejected with all values that do not fit their property's definition.
        """
        places = STAGE_PROPERTIES.get(kind, ())
        given = {name: value for name, value in properties.items() if name not in places}
        definitions = self._definitions.properties(kind, given, newer_than=newer_than)
        chosen = {
            name: self._definitions.with_options(kind, definitions[name], newer_than)
            for name in given
            if name in definitions
        }
        if OWNER in given:
            given[OWNER] = self._definitions.owner_id(given[OWNER], newer_than)
        return fitted(given, chosen, of=kind)

    def is_backward(self, present: str, wanted: str) -> bool:
        """Return whether the lifecycle stage `wanted` comes before the stage `present`.

        `present` is the contact's stage in HubSpot, and `wanted` the stage to write.
        """
        described = self._definitions.properties("contacts", [LIFECYCLE]).get(LIFECYCLE)
        stages = [option.value for option in described.options] if described else []
        return {present, wanted} <= set(stages) and stages.index(wanted) < stages.index(present)

    def _fit(self, kind: Kind, properties: Mapping[str, str], newer_than: float) -> dict[str, str]:
        problems: list[Problem] = []
        fit: dict[str, str] = {}
        try:
            fit = self.without_stage(kind, properties, newer_than=newer_than)
        except Rejected as exc:
            if not exc.problems:
                # HubSpot refused the request for definitions, and no value.
                raise
            problems += exc.problems
        if kind in ("deals", "tickets"):
            try:
                fit |= self._place(kind, properties, newer_than)
            except Rejected as exc:
                if not exc.problems:
                    raise
                problems += exc.problems
        if problems:
            raise Rejected(problems)
        return fit

    def _place(
        self, kind: Linked, properties: Mapping[str, str], newer_than: float
    ) -> dict[str, str]:
        """Return the pipeline and the stage of a record as properties, with ids as values.

        Cached pipelines are used if they were loaded within the last `newer_than` seconds. Raises
        Rejected if the account does not have the pipeline or stage that `properties` name.
        """
        pipeline, stage = names = STAGE_PROPERTIES[kind]
        named = (properties.get(pipeline, "").strip(), properties.get(stage, "").strip())
        ids = place(self._definitions.pipelines(kind, newer_than=newer_than), named, names)
        return dict(zip(names, ids, strict=True))
