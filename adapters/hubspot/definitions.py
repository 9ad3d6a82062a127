"""What the account has defined: properties, pipelines, owners, remembered for an hour."""

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
_SETS = 256
_LINKED: tuple[Linked, ...] = ("deals", "tickets")
OWNER = "hubspot_owner_id"
PLACES: Mapping[str, tuple[str, str]] = {
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
# What a string or a number is shown as, and so is meant for.
_HINTS: Mapping[str, PropertyType] = {
    "email": "email",
    "phone_number": "phone",
    "phonenumber": "phone",
    "physical_address": "text",
    "textarea": "text",
    "html": "text",
}


class Definitions:
    """The definitions of one connection's account.

    `newer_than` is how many seconds old they may be; what is younger than `stale_s` is not read
    again because of a value that does not fit.
    """

    stale_s = 30.0

    def __init__(self, api: Api, context: Context) -> None:
        self._api = api
        self._context = context
        self._mark = context.settings["mark_property"]

        def kept(load: Callable[[T], U], kinds: Iterable[T]) -> dict[T, Remembered[U]]:
            return {kind: Remembered(partial(load, kind), context) for kind in kinds}

        levels = [(kind, level) for kind in TYPE_IDS for level in _LEVELS]
        self._lists = kept(self._load_list, levels)
        # Bots send the same few sets of names over and over.
        self._named = lru_cache(maxsize=_SETS)(self._remembered_names)
        self._pipelines = kept(self._load_pipelines, _LINKED)
        self._marks = kept(self._load_mark, TYPE_IDS)
        self._owners = Remembered(self._load_owners, context)

    def properties(
        self, kind: Kind, names: Iterable[str], *, newer_than: float = HOUR
    ) -> dict[str, Described]:
        """Return those of the properties that there are, without options that stand elsewhere."""
        found: dict[str, Described] = {}
        for level in _LEVELS:
            found |= self._at(level, kind, set(names) - found.keys(), newer_than)
        return found

    @contextmanager
    def naming(self, kind: Kind, names: Iterable[str]) -> Iterator[None]:
        """Raise Rejected for those of the names whose sensitive data the call had no right to.

        Everybody may see their definitions, but their values need scopes of their own (HubSpot's
        guide to sensitive data), and a call without these is refused as a whole.
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
        """Return the properties of a kind with all their options; raises Unsupported."""
        found: dict[str, Described] = {}
        for level in _LEVELS:
            known = self._lists[kind, level].get()
            if known is None:
                raise Unsupported(f"HubSpot's list of the properties of {kind} is too large.")
            found |= known
        return [self.with_options(kind, one, HOUR) for one in found.values()]

    def pipelines(self, kind: Linked, *, newer_than: float = HOUR) -> list[Pipeline]:
        """Return the pipelines of a kind."""
        return self._pipelines[kind].get(newer_than=newer_than)

    def owners(self, *, newer_than: float = HOUR) -> list[Owner]:
        """Return the people records can be given to; raises MissingScopes."""
        return self._owners.get(newer_than=newer_than)

    def mark(self, kind: Kind, *, newer_than: float = HOUR) -> Mapping[str, Any] | None:
        """Return HubSpot's definition of the property that holds marks, None without one."""
        return self._marks[kind].get(newer_than=newer_than)

    def with_options(self, kind: Kind, described: Described, newer_than: float) -> Described:
        """Return the definition with the options that HubSpot keeps elsewhere (`externalOptions`).

        Where they may not be read, HubSpot itself decides on the value.
        """
        try:
            if described.name == OWNER:
                return replace(described, options=self._owner_options(newer_than))
            if kind in ("deals", "tickets") and described.name in PLACES[kind]:
                found = self.pipelines(kind, newer_than=newer_than)
                stages = described.name == PLACES[kind][1]
                return replace(described, options=_places(found, stages=stages))
        except MissingScopes:
            pass
        return described

    def owner_id(self, text: str, newer_than: float) -> str:
        """Return the id of the owner with this email; text that is none comes back."""
        if "@" not in text:
            return text
        try:
            found = self.owners(newer_than=newer_than)
        except MissingScopes:
            return text
        wanted = text.strip().casefold()
        return next((one.id for one in found if one.email.casefold() == wanted), text)

    def _owner_options(self, newer_than: float) -> tuple[Choice, ...]:
        found = self.owners(newer_than=newer_than)
        return tuple(Choice(one.id, one.name or one.email or one.id) for one in found)

    def _at(
        self, level: str, kind: Kind, names: Iterable[str], newer_than: float
    ) -> dict[str, Described]:
        wanted = frozenset(names)
        if not wanted:
            return {}
        known = self._lists[kind, level].get()
        # One that is too large is not tried again for a value that does not fit.
        if known is not None:
            known = self._lists[kind, level].get(newer_than=newer_than)
        if known is None:
            known = self._named(kind, level, wanted).get(newer_than=newer_than)
        return {name: known[name] for name in names if name in known}

    def _load_list(self, of: tuple[Kind, str]) -> dict[str, Described] | None:
        """Return the properties of a kind and level, None where they are too many to be read."""
        kind, level = of
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
        found: dict[str, Described] = {}
        for start in range(0, len(names), BATCH):
            inputs = [{"name": name} for name in names[start : start + BATCH]]
            body = {"archived": False, "dataSensitivity": level, "inputs": inputs}
            found |= _by_name(self._api.listed("POST", *path, absent=True, body=body))
        return found

    def _load_pipelines(self, kind: Linked) -> list[Pipeline]:
        answer = self._api.listed("GET", *self._api.area("pipelines", kind))
        return [_pipeline(answer, one) for one in _ordered(answer.items())]

    def _load_mark(self, kind: Kind) -> Mapping[str, Any] | None:
        try:
            path = self._api.area("properties", kind, self._mark)
            definition = self._api.send("GET", *path).object()
        # Without the right to look, or the property, writes go unmarked.
        except (NotFound, MissingScopes):
            return None
        fit = definition.get("type") == "string" and not _described(definition).read_only
        return definition if fit else None

    def _load_owners(self) -> list[Owner]:
        pages = self._api.pages(self._api.area("owners"), self._api.listed)
        return [_owner(answer, one) for answer in pages for one in answer.items()]


def _by_name(answer: Answer) -> dict[str, Described]:
    described = (_described(one) for one in answer.items() if not one.get("archived"))
    return {one.name: one for one in described}


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
            Choice(text_of(one.get("value")), text_of(one.get("label")))
            for one in sorted(objects_in(definition.get("options")), key=_order)
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
        return tuple(stage for one in pipelines for stage in one.stages)
    return tuple(Choice(one.id, one.label) for one in pipelines)


def _pipeline(answer: Answer, found: Mapping[str, Any]) -> Pipeline:
    stages = _ordered(objects_in(found.get("stages")))
    return Pipeline(
        answer.id(found),
        text_of(found.get("label")),
        tuple(Choice(answer.id(one), text_of(one.get("label"))) for one in stages),
    )


def _ordered(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return pipelines or stages as HubSpot shows them: of two in one place by their label."""
    living = (one for one in found if not one.get("archived"))
    return sorted(living, key=lambda one: (*_order(one), text_of(one.get("label")).casefold()))


def _order(one: Mapping[str, Any]) -> tuple[bool, int]:
    # HubSpot shows what has -1 after all others.
    order = one.get("displayOrder") or 0
    return order < 0, order


def _owner(answer: Answer, found: Mapping[str, Any]) -> Owner:
    name = " ".join(filter(None, (text_of(found.get("firstName")), text_of(found.get("lastName")))))
    return Owner(answer.id(found), text_of(found.get("email")), name)
