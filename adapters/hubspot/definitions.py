"""The property definitions, pipelines and owners of a HubSpot account, cached for an hour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeVar

from adapters.hubspot.answers import objects_in, text_of
from adapters.hubspot.api import BATCH, TYPE_IDS, Api
from adapters.hubspot.failures import MissingScopes
from crmhub.adapter import (
    Choice,
    Context,
    Described,
    Kind,
    LacksRight,
    Linked,
    NotFound,
    Owner,
    Pipeline,
    Problem,
    PropertyType,
    Rejected,
    Unsupported,
)
from crmhub.adapter.http import Answer, TooLarge
from crmhub.adapter.remembered import HOUR, Remembered

T = TypeVar("T")
U = TypeVar("U")

_LEVELS = ("non_sensitive", "sensitive", "highly_sensitive")
# An unknown name reads the usual list again, and these rarely: few accounts have sensitive data.
_SENSITIVE_S = 600.0
_SETS = 256
_LINKED: tuple[Linked, ...] = ("deals", "tickets")
OWNER = "hubspot_owner_id"
STAGE_PROPERTIES: Mapping[str, tuple[str, str]] = {
    "deals": ("pipeline", "dealstage"),
    "tickets": ("hs_pipeline", "hs_pipeline_stage"),
}
_TYPES: Mapping[str, PropertyType] = {
    "bool": "bool",
    "date": "date",
    "datetime": "datetime",
    "enumeration": "enumeration",
    "number": "number",
    "phone_number": "phone",
}
# Display hints that refine HubSpot's type string.
_HINTS: Mapping[str, PropertyType] = {
    "email": "email",
    "phone_number": "phone",
    "phonenumber": "phone",
    "physical_address": "text",
    "textarea": "text",
    "html": "text",
}


class Definitions:
    """The property definitions, pipelines and owners of the HubSpot account of one connection.

    The definitions are cached, and loaded again when they are too old. For a value that does not
    fit its property's definition, callers request a definition that is at most `stale_s` seconds
    old.
    """

    stale_s = 30.0

    def __init__(self, api: Api, context: Context) -> None:
        self._api = api
        self._context = context
        self._mark = context.settings["mark_property"]

        def kept(what: str, load: Callable[[T], U], kinds: Iterable[T]) -> dict[T, Remembered[U]]:
            return {
                kind: Remembered(partial(load, kind), context, name=f"{what} {kind}")
                for kind in kinds
            }

        self._lists = {
            level: kept(level, partial(self._load_list, level), TYPE_IDS) for level in _LEVELS
        }
        # Chatbots send the same few sets of property names again and again.
        self._named = lru_cache(maxsize=_SETS)(self._remembered_names)
        self._pipelines = kept("pipelines", self._load_pipelines, _LINKED)
        self._marks = kept("mark", self._load_mark, TYPE_IDS)
        self._owners = Remembered(self._load_owners, context)

    def properties(
        self, kind: Kind, names: Iterable[str], *, newer_than: float = HOUR
    ) -> dict[str, Described]:
        """Return the definitions of the properties `names` of a kind of record, by name.

        Cached definitions are used if they were loaded within the last `newer_than` seconds.
        Unknown names are left out. Options that HubSpot stores elsewhere (owners, pipelines,
        stages) are not included; `with_options` adds them.
        """
        definitions = self._at(_LEVELS[0], kind, names, newer_than)
        for level in _LEVELS[1:]:
            missing = set(names) - definitions.keys()
            definitions |= self._at(level, kind, missing, max(newer_than, _SENSITIVE_S))
        return definitions

    @contextmanager
    def reject_sensitive(self, kind: Kind, names: Iterable[str]) -> Iterator[None]:
        """Convert MissingScopes in the `with` block to Rejected if a sensitive property caused it.

        Every access token may read the definitions of sensitive properties, but their values need
        additional scopes (HubSpot's guide to sensitive data). A call without these scopes fails as
        a whole with MissingScopes. `names` are the properties of the call, and Rejected lists the
        sensitive ones. If none of them is sensitive, MissingScopes is raised unchanged.
        """
        try:
            yield
        except MissingScopes as lacking:
            problems = [
                Problem(name, _out_of_reach(kind, level))
                for level in _LEVELS[1:]
                for name in self._at(level, kind, names, HOUR)
            ]
            if not problems:
                raise
            raise Rejected(problems) from lacking

    def described(self, kind: Kind) -> list[Described]:
        """Return the definitions of all properties of a kind of record, with all options.

        Raises Unsupported if HubSpot's list of definitions is too large.
        """
        definitions: dict[str, Described] = {}
        for level in _LEVELS:
            listed = self._lists[level][kind].get()
            if listed is None:
                raise Unsupported(f"HubSpot's list of the properties of {kind} is too large.")
            definitions |= listed
        return [self.with_options(kind, described, HOUR) for described in definitions.values()]

    def pipelines(self, kind: Linked, *, newer_than: float = HOUR) -> list[Pipeline]:
        """Return the pipelines of deals or tickets, with their stages.

        Cached pipelines are used if they were loaded within the last `newer_than` seconds.
        """
        return self._pipelines[kind].get(newer_than=newer_than)

    def owners(self, *, newer_than: float = HOUR) -> list[Owner]:
        """Return the users to whom records can be assigned.

        Cached owners are used if they were loaded within the last `newer_than` seconds. Raises
        MissingScopes if the access token may not read owners.
        """
        return self._owners.get(newer_than=newer_than)

    def mark(self, kind: Kind, *, newer_than: float = HOUR) -> Mapping[str, Any] | None:
        """Return the definition of the property that stores marks, as HubSpot's JSON.

        A mark is a text that the hub writes into a record to recognize it later. A cached
        definition is used if it was loaded within the last `newer_than` seconds. Returns None if
        the account has no such property, or if the hub cannot write text into it.
        """
        return self._marks[kind].get(newer_than=newer_than)

    def with_options(self, kind: Kind, described: Described, newer_than: float) -> Described:
        """Return a property definition, completed with options that HubSpot stores elsewhere.

        Such options are owners, pipelines and stages; cached ones are used if they were loaded
        within the last `newer_than` seconds. All other definitions are returned unchanged. So is a
        definition whose options the access token may not read.
        """
        try:
            if described.name == OWNER:
                return replace(described, options=self._owner_options(newer_than))
            if kind in ("deals", "tickets") and described.name in STAGE_PROPERTIES[kind]:
                pipelines = self.pipelines(kind, newer_than=newer_than)
                stages = described.name == STAGE_PROPERTIES[kind][1]
                return replace(described, options=_places(pipelines, stages=stages))
        except MissingScopes:
            pass
        return described

    def owner_id(self, text: str, newer_than: float) -> str:
        """Return the id of the owner (HubSpot user) with the email `text`.

        Returns `text` itself if there is no such owner, or if the access token may not read owners.
        Cached owners are used if they were loaded within the last `newer_than` seconds.
        """
        if "@" not in text:
            return text
        try:
            owners = self.owners(newer_than=newer_than)
        except MissingScopes:
            return text
        email = text.strip().casefold()
        return next((owner.id for owner in owners if owner.email.casefold() == email), text)

    def _owner_options(self, newer_than: float) -> tuple[Choice, ...]:
        owners = self.owners(newer_than=newer_than)
        return tuple(Choice(owner.id, owner.name or owner.email or owner.id) for owner in owners)

    def _at(
        self, level: str, kind: Kind, names: Iterable[str], newer_than: float
    ) -> dict[str, Described]:
        wanted_names = frozenset(names)
        if not wanted_names:
            return {}
        definitions = self._lists[level][kind].get()
        # A list that is too large is not reloaded because of an unsuitable value.
        if definitions is not None:
            definitions = self._lists[level][kind].get(newer_than=newer_than)
        if definitions is None:
            definitions = self._named(kind, level, wanted_names).get(newer_than=newer_than)
        return {name: definitions[name] for name in names if name in definitions}

    def _load_list(self, level: str, kind: Kind) -> dict[str, Described] | None:
        """Load the property definitions of a kind of record and a sensitivity level, by name.

        Returns None if HubSpot's response is too large.
        """
        usual = level == _LEVELS[0]
        params = None if usual else {"dataSensitivity": level}
        try:
            answer = self._api.listed("GET", *self._api.area("properties", kind), params=params)
        except TooLarge:
            return None
        except (LacksRight, Rejected):
            if usual:
                raise
            # Not every plan has sensitive data.
            return {}
        return _by_name(answer)

    def _remembered_names(
        self, kind: Kind, level: str, names: frozenset[str]
    ) -> Remembered[dict[str, Described]]:
        return Remembered(partial(self._load_named, kind, level, sorted(names)), self._context)

    def _load_named(self, kind: Kind, level: str, names: list[str]) -> dict[str, Described]:
        path = self._api.area("properties", kind, "batch", "read")
        definitions: dict[str, Described] = {}
        for start in range(0, len(names), BATCH):
            inputs = [{"name": name} for name in names[start : start + BATCH]]
            body = {"archived": False, "dataSensitivity": level, "inputs": inputs}
            definitions |= _by_name(self._api.listed("POST", *path, absent=True, body=body))
        return definitions

    def _load_pipelines(self, kind: Linked) -> list[Pipeline]:
        answer = self._api.listed("GET", *self._api.area("pipelines", kind))
        return [_pipeline(answer, pipeline) for pipeline in _ordered(answer.items())]

    def _load_mark(self, kind: Kind) -> Mapping[str, Any] | None:
        try:
            path = self._api.area("properties", kind, self._mark)
            definition = self._api.send("GET", *path).object()
        # Without the right to read the property, or without the property, writes have no mark.
        except (NotFound, MissingScopes):
            return None
        fit = definition.get("type") == "string" and not _described(definition).read_only
        return definition if fit else None

    def _load_owners(self) -> list[Owner]:
        pages = self._api.pages(self._api.area("owners"), self._api.listed)
        return [_owner(answer, owner) for answer in pages for owner in answer.items()]


def _by_name(answer: Answer) -> dict[str, Described]:
    described = (
        _described(definition) for definition in answer.items() if not definition.get("archived")
    )
    return {definition.name: definition for definition in described}


def _out_of_reach(kind: Kind, level: str) -> str:
    scope = f"crm.objects.{kind}.{level}"
    needed = f"{scope}.read.v2 and {scope}.write.v2"
    if kind == "tickets":
        needed = f"tickets.{level}.v2"
    return f"HubSpot keeps this as sensitive data; the access token needs {needed}, or leave it out"


def _described(definition: Mapping[str, Any]) -> Described:
    limits = definition.get("modificationMetadata")
    fixed = isinstance(limits, dict) and limits.get("readOnlyValue") is True
    return Described(
        name=text_of(definition.get("name")),
        label=text_of(definition.get("label")),
        type=_type(definition),
        options=tuple(
            Choice(text_of(option.get("value")), text_of(option.get("label")))
            for option in sorted(objects_in(definition.get("options")), key=_order)
        ),
        read_only=fixed or definition.get("calculated") is True,
    )


def _type(definition: Mapping[str, Any]) -> PropertyType:
    kind = _TYPES.get(text_of(definition.get("type")), "string")
    if kind == "enumeration" and definition.get("fieldType") == "checkbox":
        return "multi_enumeration"
    if kind == "number" and definition.get("numberDisplayHint") == "currency":
        return "currency"
    if kind != "string":
        return kind
    hints = (text_of(definition.get(name)) for name in ("textDisplayHint", "fieldType"))
    return next((_HINTS[hint] for hint in hints if hint in _HINTS), "string")


def _places(pipelines: Iterable[Pipeline], *, stages: bool) -> tuple[Choice, ...]:
    if stages:
        return tuple(stage for pipeline in pipelines for stage in pipeline.stages)
    return tuple(Choice(pipeline.id, pipeline.label) for pipeline in pipelines)


def _pipeline(answer: Answer, pipeline: Mapping[str, Any]) -> Pipeline:
    stages = _ordered(objects_in(pipeline.get("stages")))
    return Pipeline(
        answer.id(pipeline),
        text_of(pipeline.get("label")),
        tuple(Choice(answer.id(stage), text_of(stage.get("label"))) for stage in stages),
    )


def _ordered(items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the pipelines or stages that are not archived, in HubSpot's display order."""
    live = (item for item in items if not item.get("archived"))
    return sorted(live, key=lambda item: (*_order(item), text_of(item.get("label")).casefold()))


def _order(item: Mapping[str, Any]) -> tuple[bool, int]:
    # HubSpot shows items with -1 last.
    order = item.get("displayOrder") or 0
    return order < 0, order


def _owner(answer: Answer, owner: Mapping[str, Any]) -> Owner:
    name = " ".join(filter(None, (text_of(owner.get("firstName")), text_of(owner.get("lastName")))))
    return Owner(answer.id(owner), text_of(owner.get("email")), name)
