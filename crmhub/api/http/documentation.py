"""Describe views for the OpenAPI document, with the decorator `documents`.

The errors follow from the view's method, path, body and scope. A description stands in
`descriptions.toml`, or in the view's docstring, after its first paragraph.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from crmhub.api.http.answers import OWN_RECORDS
from crmhub.api.http.document_components import (
    ALWAYS,
    ERRORS,
    IDEMPOTENCY_KEY,
    UNDER_API,
    Shape,
    header_references,
)
from crmhub.api.http.idempotency_key import REPLAYED
from crmhub.properties.kinds import KINDS

# By operation id; those of the records are written once for all kinds.
DESCRIPTIONS = Path(__file__).with_name("descriptions.toml")
_F = TypeVar("_F", bound=Callable[..., Any])

API_KEY: list[dict[str, list[str]]] = [{"ApiKey": []}]
ADMIN_TOKEN: list[dict[str, list[str]]] = [{"AdminToken": []}]

_ANYWHERE = (400, 401, 429, 500, 503)
_OF_BODIES = (413, 415, 422)
_OF_WRITES = {"post": (409, 422), "patch": (409, 422), "put": (422,), "delete": (409,)}
# Routes whose body names records by their ids, all of which must exist.
_BY_ID = ("/batch/update", "/batch/archive", "/merge")
_PLACEHOLDER = re.compile(r"{(\w+)}")
# The first words of the ids of operations that make records, which a plan may limit.
_MAKING = ("create", "upsert", "restore")


@dataclass(frozen=True, slots=True)
class Documented:
    """The OpenAPI description of a view, which it decorates.

    `operation_id` is a verb and a noun, such as `createContact`, unique. `others` maps statuses
    besides `status` to their descriptions, or to pairs of a description and another schema.
    `headers` are response headers besides those of all answers. `parameters` and `body` are OpenAPI
    objects of inputs that the view reads without a schema. The `errors` follow from the method, the
    path, the body and the scope, unless given.
    """

    operation_id: str
    status: int
    schema: Any
    summary: str
    _: KW_ONLY
    security: Sequence[dict[str, list[str]]] = field(default_factory=lambda: API_KEY)
    others: Mapping[int, str | tuple[str, Any]] | None = None
    headers: Sequence[str] = ()
    parameters: Sequence[Shape] = ()
    errors: Sequence[int] = ()
    body: Shape | None = None

    def __call__(self, view: _F) -> _F:
        noted: Any = view
        noted.documented = self
        return view

    def responses(self) -> dict[int, dict[str, Any]]:
        answers = {self.status: self._response(self.summary, self.schema)}
        for status, other in (self.others or {}).items():
            words, schema = (other, self.schema) if isinstance(other, str) else other
            answers[status] = self._response(words, schema)
        return answers

    def _response(self, words: str, schema: Any) -> dict[str, Any]:
        carried = (*(UNDER_API if self.security is API_KEY else ALWAYS), *self.headers)
        shape: dict[str, Any] = {"description": words, "headers": header_references(carried)}
        if schema is not None:
            shape["content"] = {"application/json": {"schema": schema}}
        return shape


documents = Documented


def operation(view: Any, method: str, *, path: str, tag: str) -> dict[str, Any]:
    """A deep copy, because apispec changes it."""
    documented: Documented = view.documented
    inputs = {one.location: one.schema for one in view.needs.inputs}
    scope: str = view.needs.scope
    doc: dict[str, Any] = {"operationId": documented.operation_id, "summary": documented.summary}
    if words := description_of(view, documented.operation_id, scope):
        doc["description"] = words
    doc["tags"] = [tag]
    doc["security"] = list(documented.security)
    if "query" in inputs:
        doc["parameters"] = [{"in": "query", "schema": inputs["query"]}]
    if "json" in inputs:
        content = {"application/json": {"schema": inputs["json"]}}
        doc["requestBody"] = {"required": True, "content": content}
    if documented.body is not None:
        doc["requestBody"] = documented.body
    doc["responses"] = documented.responses()
    if tag in KINDS:
        for each in doc["responses"].values():
            if "content" in each:
                each["headers"].update(header_references((*OWN_RECORDS, "X-CRM-Synced-At")))
    read = [*documented.parameters]
    if view.needs.rebuild is not None:
        # An example of its own: the same key with another request would be refused.
        read.append(IDEMPOTENCY_KEY | {"example": f"{documented.operation_id}-1"})
        for each in doc["responses"].values():
            each["headers"].update(header_references([REPLAYED]))
    if read:
        doc.setdefault("parameters", []).extend(read)
    possible = documented.errors or _possible(doc, documented, scope, method, path)
    doc["responses"] |= {str(status): ERRORS[status][0] for status in sorted(possible)}
    return deepcopy(doc)


def _possible(
    doc: dict[str, Any], documented: Documented, scope: str, method: str, path: str
) -> set[int]:
    of_admin = documented.security is ADMIN_TOKEN
    writes = scope.endswith(":write")
    possible = {*_ANYWHERE}
    if scope:
        possible.add(403)
    # The key decides about the client id of the public API: another one is answered 401.
    if {*_PLACEHOLDER.findall(path)} - (set() if of_admin else {"client_id"}):
        possible.add(404)
    if "requestBody" in doc:
        possible.update(_OF_BODIES)
    if writes:
        possible.update(_OF_WRITES.get(method, ()))
        if "/associations/" in path:
            # Nothing else is at stake: associating or dissociating again changes nothing.
            possible.discard(409)
        if path.endswith(_BY_ID):
            possible.add(404)
    if documented.operation_id.startswith(_MAKING) and doc["tags"][0] in KINDS:
        possible.add(402)
    return possible


def description_of(view: Callable[..., Any], operation_id: str, scope: str) -> str:
    own = (inspect.getdoc(view) or "").partition("\n\n")[2]
    words = own or written_descriptions().get(operation_id, "")
    if words and scope:
        resource, _, right = scope.partition(":")
        shown = f"contacts:{right}` for contacts" if resource == "{resource}" else f"{scope}`"
        words = f"{words}\n\nScope: `{shown}."
    return words


@cache
def written_descriptions() -> dict[str, str]:
    found: dict[str, dict[str, str]] = tomllib.loads(DESCRIPTIONS.read_text("utf-8"))
    known = {id: words.strip() for id, words in found["operations"].items()}
    for kind in KINDS.values():
        names = {
            "<one>": kind.singular,
            "<several>": kind.name,
            "<One>": kind.singular.capitalize(),
            "<Several>": kind.name.capitalize(),
        }
        for id, words in found["records"].items():
            known[_filled(id, names)] = _filled(words.strip(), names)
    return known


def _filled(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text
