"""Definitions of properties, and pipelines with their stages: both are read and changed alike."""

from __future__ import annotations

import builtins
from typing import Any, Generic, Literal, TypeVar

from crmhub_client.operations import (
    AsyncGroup,
    Driver,
    Group,
    Steps,
    SyncGroup,
    in_path,
    new_key,
    operation,
)
from crmhub_client.results import Kind, Pipeline, PropertyDefinition

K = TypeVar("K", bound=str)
D = TypeVar("D")
PipelineKind = Literal["deals", "tickets"]


class DefinitionOperations(Group, Generic[K, D]):
    """The definitions of properties, or the pipelines, of each kind of record.

    A property is named by its `name`, a pipeline by its `id`.
    """

    def __init__(self, driver: Driver, path: str) -> None:
        super().__init__(driver)
        self._path = path

    @operation
    def list(self, kind: K) -> Steps[builtins.list[D]]:
        """Return all definitions of a kind of record."""
        return (yield from self._api("GET", self._at(kind), parse=_results))

    @operation
    def get(self, kind: K, name: str) -> Steps[D]:
        """Return a definition."""
        found: D = yield from self._api("GET", self._at(kind, name))
        return found

    @operation
    def create(self, kind: K, definition: D, *, idempotency_key: str | None = None) -> Steps[D]:
        """Add a definition and return it; a pipeline has then an id, and so has each stage."""
        key = new_key(idempotency_key)
        created: D = yield from self._api("POST", self._at(kind), definition, key=key)
        return created

    @operation
    def update(self, kind: K, name: str, changes: D) -> Steps[D]:
        """Change what `changes` has, and return the definition; a list is replaced as a whole."""
        changed: D = yield from self._api("PATCH", self._at(kind, name), changes)
        return changed

    @operation
    def delete(self, kind: K, name: str, *, force: bool = False) -> Steps[None]:
        """Delete a definition. Raises ConflictError while records use it.

        `force`: delete the values that records have of a property, too.
        """
        params = {"force": "true"} if force else {}
        yield from self._api("DELETE", self._at(kind, name), params=params)

    def _at(self, *segments: str) -> str:
        return "/".join((self._path, *map(in_path, segments)))


class Properties(DefinitionOperations[Kind, PropertyDefinition], SyncGroup):
    """The definitions of properties, for Hub."""


class AsyncProperties(DefinitionOperations[Kind, PropertyDefinition], AsyncGroup):
    """The definitions of properties, for AsyncHub."""


class Pipelines(DefinitionOperations[PipelineKind, Pipeline], SyncGroup):
    """The pipelines, for Hub."""


class AsyncPipelines(DefinitionOperations[PipelineKind, Pipeline], AsyncGroup):
    """The pipelines, for AsyncHub."""


def _results(raw: Any) -> list[Any]:
    found: list[Any] = raw["results"]
    return found
