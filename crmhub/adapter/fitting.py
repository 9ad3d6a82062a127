"""Convert properties to the values that a CRM accepts, by the definitions that the CRM has.

`coercion` converts single values. This module adds pipelines and stages, and owners, whom bots name
by their emails. If a value does not fit, it is converted once more by newer definitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from crmhub.adapter.coercion import Listed, fitted
from crmhub.adapter.definitions import Definitions
from crmhub.adapter.errors import Problem, Rejected
from crmhub.adapter.fields import Field
from crmhub.adapter.places import PLACES, place
from crmhub.adapter.remembered import HOUR
from crmhub.adapter.values import Choice, Described, Kind, Linked
from crmhub.translatable import translatable

T = TypeVar("T")

_BREAKS = re.compile(r"[\t\n\r\v\f]+")


class Fitting:
    """`theirs`: returns the CRM's own name of a property, which callers may use, too. `owner`: the
    property with an owner's id, or "". `plain`: contact properties that are text in every account
    and need no definitions.
    """

    def __init__(
        self,
        definitions: Definitions,
        *,
        theirs: Callable[[Kind, str], str] = lambda kind, name: name,
        owner: str = "",
        plain: Collection[str] = (),
    ) -> None:
        self._definitions = definitions
        self._theirs = theirs
        self._owner = owner
        self._plain = frozenset(plain)

    def fitted(
        self,
        kind: Kind,
        properties: Mapping[str, str],
        *,
        newer_than: float = HOUR,
        update: bool = False,
    ) -> dict[str, str]:
        """Pipeline and stage become ids, and a create gets missing ones; raises Rejected."""
        if kind == "contacts" and properties.keys() <= self._plain:
            listed = any(isinstance(value, Listed) for value in properties.values())
            if not listed:
                return dict(properties)
        try:
            return self._fit(kind, properties, newer_than, update)
        except Rejected:
            return self._fit(kind, properties, self._definitions.stale_s, update)

    def write(
        self,
        kind: Kind,
        properties: Mapping[str, str],
        send: Callable[[dict[str, str]], T],
        *,
        update: bool = False,
    ) -> tuple[T, dict[str, str]]:
        """Convert the properties and call `send`; return its result and the properties.

        Refused values are converted again with newer definitions, and sent once more if that makes
        a difference. A refusal that names only what was not sent is raised at once.
        """
        sent = self.fitted(kind, properties, update=update)
        try:
            return send(sent), sent
        except Rejected as refused:
            names = {problem.name for problem in refused.problems}
            if names and not names & sent.keys():
                raise
            newer = self._definitions.stale_s
            resent = self.fitted(kind, properties, newer_than=newer, update=update)
            if resent == sent:
                raise
        return send(resent), resent

    def without_place(
        self, kind: Kind, properties: Mapping[str, str], *, newer_than: float = HOUR
    ) -> dict[str, str]:
        places: Collection[str] = self._places(kind, properties) if kind in PLACES else ()
        given = {name: value for name, value in properties.items() if name not in places}
        definitions = self._definitions.properties(kind, given, newer_than=newer_than)
        chosen = {
            name: self.with_options(kind, definitions[name], newer_than=newer_than)
            for name in given
            if name in definitions
        }
        for name, one in chosen.items():
            if name == self._owner or (isinstance(one, Field) and one.is_user):
                given[name] = self._owner_id(given[name], newer_than)
        reading = self._definitions.reading
        return _as_stored(fitted(given, chosen, of=kind, reading=reading), chosen)

    def place(
        self,
        kind: Kind,
        properties: Mapping[str, str],
        *,
        newer_than: float = HOUR,
        update: bool = False,
    ) -> dict[str, str]:
        """An update moves a record only if it names a place, within its pipeline if it can."""
        if kind not in ("deals", "tickets"):
            return {}
        pipeline, stage = names = self._places(kind, properties)
        wanted = (properties.get(pipeline, "").strip(), properties.get(stage, "").strip())
        if update and not any(wanted):
            if sent := [name for name in names if name in properties]:
                raise Rejected([Problem(name, translatable("cannot be cleared")) for name in sent])
            return {}
        pipelines = self._definitions.pipelines(kind, newer_than=newer_than)
        ids = place(pipelines, wanted, names)
        places = dict(zip(PLACES[kind], ids, strict=True))
        sharing = [one for one in pipelines if ids[1] in (stage.value for stage in one.stages)]
        if update and not wanted[0] and len(sharing) > 1:
            del places[PLACES[kind][0]]
        return places

    def _places(self, kind: Kind, sent: Collection[str]) -> tuple[str, str]:
        """Return the names of pipeline and stage as the caller has sent them."""
        named = [(ours, self._theirs(kind, ours)) for ours in PLACES[kind]]
        pipeline, stage = (
            theirs if theirs in sent and ours not in sent else ours for ours, theirs in named
        )
        return pipeline, stage

    def check_place(self, kind: Linked, properties: Mapping[str, str]) -> None:
        """Raise Rejected for an unknown pipeline or stage, by the cache; sends no request."""
        pipeline, stage = names = self._places(kind, properties)
        wanted = (properties.get(pipeline, "").strip(), properties.get(stage, "").strip())
        known = self._definitions.known_pipelines(kind) if any(wanted) else None
        if known is not None:
            place(known, wanted, names)

    def with_options(
        self, kind: Kind, described: Described, *, newer_than: float = HOUR
    ) -> Described:
        """Without the right to read the options, the definition is returned unchanged."""
        try:
            if described.name == self._owner:
                owners = self._definitions.owners(newer_than=newer_than)
                options = [Choice(one.id, one.name or one.email or one.id) for one in owners]
                return replace(described, options=tuple(options))
            if kind in ("deals", "tickets") and described.name in PLACES[kind]:
                pipelines = self._definitions.pipelines(kind, newer_than=newer_than)
                options = [Choice(pipeline.id, pipeline.label) for pipeline in pipelines]
                if described.name == PLACES[kind][1]:
                    options = [stage for pipeline in pipelines for stage in pipeline.stages]
                # Pipelines may share stages.
                return replace(described, options=tuple(dict.fromkeys(options)))
        except self._definitions.hidden:
            pass
        return described

    def _owner_id(self, text: str, newer_than: float) -> str:
        if "@" not in text:
            return text
        try:
            owners = self._definitions.owners(newer_than=newer_than)
        except self._definitions.hidden:
            return text
        email = text.strip().casefold()
        return next((owner.id for owner in owners if owner.email.casefold() == email), text)

    def _fit(
        self, kind: Kind, properties: Mapping[str, str], newer_than: float, update: bool
    ) -> dict[str, str]:
        problems: list[Problem] = []
        fit: dict[str, str] = {}
        for convert in (self.without_place, partial(self.place, update=update)):
            try:
                fit |= convert(kind, properties, newer_than=newer_than)
            except Rejected as exc:
                if not exc.problems:
                    # The CRM refused the request for definitions, and no value.
                    raise
                problems += exc.problems
        if problems:
            raise Rejected(problems)
        return fit


def _as_stored(
    properties: Mapping[str, str], definitions: Mapping[str, Described]
) -> dict[str, str]:
    stored = dict(properties)
    problems = []
    for name, field in definitions.items():
        if not isinstance(field, Field):
            continue
        if field.single_line:
            stored[name] = _BREAKS.sub(" ", stored[name])
        if 0 < field.longest < len(stored[name]):
            problems.append(
                Problem(
                    name,
                    translatable(
                        "is too long; send at most %(most)s characters", most=field.longest
                    ),
                )
            )
        elif field.is_user and "@" in stored[name]:
            reason = translatable(
                "the hub sees no active user with this email in the CRM; send the id"
            )
            problems.append(Problem(name, reason))
    if problems:
        raise Rejected(problems)
    return stored
