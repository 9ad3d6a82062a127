"""The property definitions, pipelines and owners of a HubSpot account, cached for an hour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, TypeVar

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
from crmhub.adapter.answers import Answer, objects_in, text_of
from crmhub.adapter.http import TooLarge
from crmhub.adapter.remembered import HOUR, Remembered

T = TypeVar("T")

_LEVELS = ("non_sensitive", "sensitive", "highly_sensitive")
# An unknown name reads the usual list again, and these rarely: few accounts have sensitive data.
_SENSITIVE_S = 600.0
_SETS = 256
_LINKED: tuple[Linked, ...] = ("deals", "tickets")
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
    """The definitions of one HubSpot account, as `crmhub.adapter.fitting.Source` describes them.

    Options that HubSpot stores elsewhere (owners, pipelines, stages) are not included.
    """

    stale_s = 30.0

    def __init__(self, api: Api, context: Context) -> None:
        self._api = api
        self._context = context
        self._mark = context.settings["mark_property"]
        levels = {
            level: self._shared(level, partial(self._load_list, level), TYPE_IDS)
            for level in _LEVELS
        }
        self._lists: Mapping[str, Mapping[Kind, Remembered[dict[str, Described] | None]]] = levels
        # Chatbots send the same few sets of property names again and again.
        self._named = lru_cache(maxsize=_SETS)(self._remembered_names)
        self._pipelines = self._shared("pipelines", self._load_pipelines, _LINKED)
        self._marks = self._shared("mark", self._load_mark, TYPE_IDS)
        self._owners = Remembered(self._load_owners, context)

    def _shared(
        self, what: str, load: Callable[[Any], T], kinds: Iterable[Kind]
    ) -> dict[Kind, Remembered[T]]:
        return {
            kind: Remembered(partial(load, kind), self._context, name=f"{what} {kind}")
            for kind in kinds
        }

    def properties(
        self, kind: Kind, names: Iterable[str], *, newer_than: float = HOUR
    ) -> dict[str, Described]:
        definitions = self._at(_LEVELS[0], kind, names, newer_than)
        for level in _LEVELS[1:]:
            missing = set(names) - definitions.keys()
            definitions |= self._at(level, kind, missing, max(newer_than, _SENSITIVE_S))
        return definitions

    def pipelines(self, kind: Linked, *, newer_than: float = HOUR) -> list[Pipeline]:
        return self._pipelines[kind].get(newer_than=newer_than)

    def owners(self, *, newer_than: float = HOUR) -> list[Owner]:
        return self._owners.get(newer_than=newer_than)

    def mark(self, kind: Kind, *, newer_than: float = HOUR) -> Mapping[str, Any] | None:
        """Return the definition of the property that stores marks, as HubSpot's JSON.

        Returns None if the account has no such property, or if the hub cannot write text into it.
        """
        return self._marks[kind].get(newer_than=newer_than)

    def described(self, kind: Kind) -> list[Described]:
        """Return the definitions of all properties of a kind of record.

        Raises Unsupported if HubSpot's list of definitions is too large.
        """
        definitions: dict[str, Described] = {}
        for level in _LEVELS:
            listed = self._lists[level][kind].get()
            if listed is None:
                raise Unsupported(f"HubSpot's list of the properties of {kind} is too large.")
            definitions |= listed
        return list(definitions.values())

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

    # Reading.

    def _load_list(self, level: str, kind: Kind) -> dict[str, Described] | None:
        """Load the definitions of one sensitivity level, by name; None if they are too many."""
        usual = level == _LEVELS[0]
        params = None if usual else {"dataSensitivity": level}
        try:
            return _by_name(self._api.listed("GET", *self._path(kind), params=params))
        except TooLarge:
            return None
        except (LacksRight, Rejected):
            if usual:
                raise
            # Not every plan has sensitive data.
            return {}

    def _remembered_names(
        self, kind: Kind, level: str, names: frozenset[str]
    ) -> Remembered[dict[str, Described]]:
        return Remembered(partial(self._load_named, kind, level, sorted(names)), self._context)

    def _load_named(self, kind: Kind, level: str, names: list[str]) -> dict[str, Described]:
        path = self._path(kind, "batch", "read")
        definitions: dict[str, Described] = {}
        for start in range(0, len(names), BATCH):
            inputs = [{"name": name} for name in names[start : start + BATCH]]
            body = {"archived": False, "dataSensitivity": level, "inputs": inputs}
            definitions |= _by_name(self._api.listed("POST", *path, absent=True, body=body))
        return definitions

    def _load_pipelines(self, kind: Linked) -> list[Pipeline]:
        answer = self._api.listed("GET", *self._api.path("pipelines", kind))
        return [_pipeline(answer, pipeline) for pipeline in _ordered(answer.items())]

    def _load_mark(self, kind: Kind) -> Mapping[str, Any] | None:
        try:
            definition = self._api.send("GET", *self._path(kind, self._mark)).object()
        # Without the right to read the property, or without the property, writes have no mark.
        except (NotFound, MissingScopes):
            return None
        fit = definition.get("type") == "string" and not _described(definition).read_only
        return definition if fit else None

    def _load_owners(self) -> list[Owner]:
        pages = self._api.pages(self._api.path("owners"), self._api.listed)
        return [_owner(answer, owner) for answer in pages for owner in answer.items()]

    def _path(self, kind: Kind, *rest: str) -> tuple[str, ...]:
        return self._api.path("properties", kind, *rest)


def _out_of_reach(kind: Kind, level: str) -> str:
    scope = f"crm.objects.{kind}.{level}"
    needed = f"{scope}.read.v2 and {scope}.write.v2"
    if kind == "tickets":
        needed = f"tickets.{level}.v2"
    return f"HubSpot keeps this as sensitive data; the access token needs {needed}, or leave it out"


def _by_name(answer: Answer) -> dict[str, Described]:
    live = (_described(found) for found in answer.items() if not found.get("archived"))
    return {described.name: described for described in live}


def _described(definition: Mapping[str, Any]) -> Described:
    limits = definition.get("modificationMetadata")
    fixed = isinstance(limits, dict) and limits.get("readOnlyValue") is True
    options = sorted(objects_in(definition.get("options")), key=_order)
    return Described(
        name=text_of(definition.get("name")),
        label=text_of(definition.get("label")),
        type=_type(definition),
        options=tuple(
            Choice(text_of(one.get("value")), text_of(one.get("label"))) for one in options
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
