"""The property definitions, pipelines and owners of a HubSpot account, cached for an hour."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from adapters.hubspot.api import BATCH, TYPE_IDS, Api, MissingScopes
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
)
from crmhub.adapter.answers import Answer, objects_in, parse_time, text_of, value_at
from crmhub.adapter.definitions import Definitions
from crmhub.adapter.http import TooLarge
from crmhub.adapter.remembered import Remembered

_LEVELS = ("non_sensitive", "sensitive", "highly_sensitive")
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


class HubSpotDefinitions(Definitions):
    lists = _LEVELS
    hidden = (MissingScopes,)

    def __init__(self, api: Api, context: Context) -> None:
        super().__init__(context, TYPE_IDS)
        self._api = api
        self._mark = context.settings["mark_property"]
        self._required = {
            kind: Remembered(partial(self._load_required, kind), context, name=f"required {kind}")
            for kind in TYPE_IDS
        }

    @contextmanager
    def reject_sensitive(self, kind: Kind, names: Iterable[str]) -> Iterator[None]:
        """Convert MissingScopes to Rejected if a sensitive one of the properties `names` caused it.

        Every token may read their definitions, but values need further scopes (HubSpot's guide to
        sensitive data), and a call without these fails as a whole.
        """
        try:
            yield
        except MissingScopes as lacking:
            problems = [
                Problem(name, _out_of_reach(kind, level))
                for level in _LEVELS[1:]
                for name in self.in_list(level, kind, names)
            ]
            if not problems:
                raise
            raise Rejected(problems) from lacking

    def load_list(self, name: str, kind: Kind) -> dict[str, Described] | None:
        usual = name == _LEVELS[0]
        params = None if usual else {"dataSensitivity": name}
        try:
            return _by_name(self._api.listed("GET", *self._path(kind), params=params))
        except TooLarge:
            return None
        except (LacksRight, Rejected):
            if usual:
                raise
            # Not every plan has sensitive data.
            return {}

    def load_named(self, name: str, kind: Kind, names: Sequence[str]) -> dict[str, Described]:
        path = self._path(kind, "batch", "read")
        definitions: dict[str, Described] = {}
        for start in range(0, len(names), BATCH):
            inputs = [{"name": one} for one in names[start : start + BATCH]]
            body = {"archived": False, "dataSensitivity": name, "inputs": inputs}
            definitions |= _by_name(self._api.listed("POST", *path, absent=True, body=body))
        return definitions

    def required(self, kind: Kind) -> Collection[str]:
        """Return no names if the access token may not read the account's schemas."""
        return self._required[kind].get()

    def _load_required(self, kind: Kind) -> list[str]:
        try:
            schema = self._api.send("GET", *self._api.path("crm-object-schemas", "schemas", kind))
        # The right is optional, and a missing hint is no reason to describe nothing.
        except (MissingScopes, NotFound, Rejected):
            return []
        names = schema.object().get("requiredProperties")
        return [text_of(name) for name in names] if isinstance(names, list) else []

    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        answer = self._api.listed("GET", *self._api.path("pipelines", kind))
        return [_pipeline(answer, pipeline) for pipeline in _ordered(answer.items())]

    def load_mark(self, kind: Kind) -> tuple[bool, float] | None:
        try:
            definition = self._api.send("GET", *self._path(kind, self._mark)).object()
        # Without the right to read the property, or without the property, writes have no mark.
        except (NotFound, MissingScopes):
            return None
        if definition.get("type") != "string" or _described(definition).read_only:
            return None
        changed = definition.get("updatedAt") or definition.get("createdAt")
        return bool(definition.get("hasUniqueValue")), parse_time(changed)

    def load_owners(self) -> list[Owner]:
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
    fixed = value_at(definition, "modificationMetadata", "readOnlyValue") is True
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
    live = (item for item in items if not item.get("archived"))
    return sorted(live, key=lambda item: (*_order(item), text_of(item.get("label")).casefold()))


def _order(item: Mapping[str, Any]) -> tuple[bool, int]:
    # HubSpot shows items with -1 last.
    order = item.get("displayOrder") or 0
    return order < 0, order


def _owner(answer: Answer, owner: Mapping[str, Any]) -> Owner:
    name = " ".join(filter(None, (text_of(owner.get("firstName")), text_of(owner.get("lastName")))))
    return Owner(answer.id(owner), text_of(owner.get("email")), name)
