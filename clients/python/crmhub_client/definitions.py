"""Definitions of properties, and pipelines with their stages."""

from __future__ import annotations

from typing import Any, Literal

from crmhub_client.operations import (
    AsyncGroup,
    Group,
    Steps,
    SyncGroup,
    in_path,
    new_key,
    operation,
)
from crmhub_client.results import Kind, Pipeline, PropertyDefinition

PipelineKind = Literal["deals", "tickets"]


class PropertyOperations(Group):
    """The definitions of properties, of each kind of record."""

    @operation
    def list(self, kind: Kind) -> Steps[list[PropertyDefinition]]:
        """Return all properties of a kind of record."""
        answer = yield from self._api("GET", f"properties/{in_path(kind)}")
        return answer["results"]  # type: ignore[no-any-return]

    @operation
    def get(self, kind: Kind, name: str) -> Steps[PropertyDefinition]:
        """Return the definition of a property."""
        answer = yield from self._api("GET", _property(kind, name))
        return answer  # type: ignore[no-any-return]

    @operation
    def create(
        self, kind: Kind, definition: PropertyDefinition, *, idempotency_key: str | None = None
    ) -> Steps[PropertyDefinition]:
        """Define a property and return its definition."""
        path, key = f"properties/{in_path(kind)}", new_key(idempotency_key)
        answer = yield from self._api("POST", path, definition, key=key)
        return answer  # type: ignore[no-any-return]

    @operation
    def update(
        self, kind: Kind, name: str, changes: PropertyDefinition
    ) -> Steps[PropertyDefinition]:
        """Change what `changes` names, and return the definition."""
        answer = yield from self._api("PATCH", _property(kind, name), changes)
        return answer  # type: ignore[no-any-return]

    @operation
    def delete(self, kind: Kind, name: str, *, force: bool = False) -> Steps[None]:
        """Delete a property; `force`: also the values that records have, else ConflictError."""
        params = {"force": "true"} if force else {}
        yield from self._api("DELETE", _property(kind, name), params=params)


class PipelineOperations(Group):
    """The pipelines of deals and of tickets."""

    @operation
    def list(self, kind: PipelineKind) -> Steps[list[Pipeline]]:
        """Return all pipelines; new records start in the first one."""
        answer = yield from self._api("GET", f"pipelines/{in_path(kind)}")
        return answer["results"]  # type: ignore[no-any-return]

    @operation
    def get(self, kind: PipelineKind, id: str) -> Steps[Pipeline]:
        """Return a pipeline."""
        answer = yield from self._api("GET", _pipeline(kind, id))
        return answer  # type: ignore[no-any-return]

    @operation
    def create(
        self, kind: PipelineKind, pipeline: Pipeline, *, idempotency_key: str | None = None
    ) -> Steps[Pipeline]:
        """Add a pipeline and return it, with the ids of its stages."""
        path, key = f"pipelines/{in_path(kind)}", new_key(idempotency_key)
        answer = yield from self._api("POST", path, pipeline, key=key)
        return answer  # type: ignore[no-any-return]

    @operation
    def update(self, kind: PipelineKind, id: str, changes: Pipeline) -> Steps[Pipeline]:
        """Change a pipeline and return it; `stages` is the whole list."""
        answer = yield from self._api("PATCH", _pipeline(kind, id), changes)
        return answer  # type: ignore[no-any-return]

    @operation
    def delete(self, kind: PipelineKind, id: str) -> Steps[None]:
        """Delete a pipeline. Raises ConflictError while records are in it."""
        yield from self._api("DELETE", _pipeline(kind, id))


class Properties(PropertyOperations, SyncGroup):
    """The definitions of properties, for Hub."""


class AsyncProperties(PropertyOperations, AsyncGroup):
    """The definitions of properties, for AsyncHub."""


class Pipelines(PipelineOperations, SyncGroup):
    """The pipelines, for Hub."""


class AsyncPipelines(PipelineOperations, AsyncGroup):
    """The pipelines, for AsyncHub."""


def _property(kind: str, name: str) -> str:
    return f"properties/{in_path(kind)}/{in_path(name)}"


def _pipeline(kind: str, id: Any) -> str:
    return f"pipelines/{in_path(kind)}/{in_path(id)}"
