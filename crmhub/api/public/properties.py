"""The public API's routes for property definitions (`/properties/{resource}`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import flask
import orjson
from marshmallow import fields, validate

from crmhub.api.http.answers import JsonAnswer, as_json, nothing, page_frame
from crmhub.api.http.authentication import account, hub
from crmhub.api.http.blueprint import Blueprint, of_kind
from crmhub.api.http.documentation import documents
from crmhub.api.http.failures import duplicate
from crmhub.api.http.field_types import Choice, Flag, Inner, Items, Strict, Text
from crmhub.api.http.idempotency_key import Rebuild
from crmhub.api.http.schemas import CountedPage, Exactly
from crmhub.bounds import MAX_OPTIONS
from crmhub.errors import NotFound
from crmhub.properties.catalogue import FIELDS
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import KINDS, Kind
from crmhub.properties.validation import NAME, DuplicateValue
from crmhub.properties.values import TYPES, Option
from crmhub.records import definitions
from crmhub.records.definitions import (
    CHOICES,
    LONGEST_DESCRIPTION,
    LONGEST_LABEL,
    LONGEST_OPTION,
    NAMING,
    Changes,
)


def in_path(name: str, **schema: Any) -> dict[str, Any]:
    return {"in": "path", "name": name, "required": True, "schema": {"type": "string", **schema}}


def all_of(shown: Sequence[dict[str, Any]]) -> flask.Response:
    return JsonAnswer(page_frame(orjson.dumps(shown), "", len(shown)))


# --- shapes ----------------------------------------------------------------------------------


# Without line breaks and other control characters.
LINE = r"^[^\u0000-\u001f\u007f-\u009f]*$"


class OptionInput(Strict):
    """Schema of an option of an enumeration; without a label, people see its value."""

    value = Text(
        required=True,
        metadata={
            "minLength": 1,
            "maxLength": LONGEST_OPTION,
            "pattern": r"^[^;\u0000-\u001f\u007f-\u009f]*$",
            "description": "Sent and stored; without a blank at its start or end.",
        },
    )
    label = Text(
        metadata={"maxLength": LONGEST_LABEL, "pattern": LINE, "description": "Shown to people."}
    )


class PropertyChange(Strict):
    name = Text(metadata={"description": "Cannot be changed."})
    label = Text(
        metadata={
            "maxLength": LONGEST_LABEL,
            "pattern": LINE,
            "description": 'Shown to people; "" for one made of the name.',
        }
    )
    type = Choice(TYPES, metadata={"description": "Cannot be changed."})
    description = Text(metadata={"maxLength": LONGEST_DESCRIPTION})
    required = Flag(
        metadata={
            "description": "New records need a value, and no update may clear it."
            " Records without one stay as they are."
        }
    )
    unique = Flag(
        metadata={
            "description": "No two records have the same value, and idProperty takes this one."
            f" Types: {', '.join(NAMING)}. 409 when values repeat already."
        }
    )
    read_only = Flag(data_key="readOnly", metadata={"description": "Callers cannot write it."})
    options = Items(
        Inner(OptionInput),
        metadata={
            "maxItems": MAX_OPTIONS,
            "description": f"The whole list, of {' and '.join(CHOICES)} only."
            " An option that records have cannot go: 409.",
        },
    )


class PropertyInput(PropertyChange):
    name = Text(
        required=True,
        metadata={
            "pattern": f"^{NAME.pattern}$",
            "description": f"None of {', '.join(FIELDS)}.",
        },
    )
    type = Choice(TYPES, required=True, error_messages={"required": "is missing"})


class DeleteQuery(Strict):
    force = Flag(
        in_query=True,
        metadata={"description": "Delete the values that records have, too.", "default": False},
    )


class OptionShown(Exactly):
    value = fields.String(required=True)
    label = fields.String(required=True)


class PropertyShown(Exactly):
    name = fields.String(required=True)
    label = fields.String(required=True)
    type = fields.String(required=True, validate=validate.OneOf(TYPES))
    description = fields.String(required=True)
    required = fields.Boolean(required=True)
    unique = fields.Boolean(required=True)
    read_only = fields.Boolean(data_key="readOnly", required=True)
    options = fields.List(
        fields.Nested(OptionShown),
        required=True,
        metadata={"description": "Of the pipeline and stage properties: those of the pipelines."},
    )


class PropertyPageShown(CountedPage):
    results = fields.List(fields.Nested(PropertyShown), required=True)


def property_shown(prop: Property) -> dict[str, Any]:
    shown: dict[str, Any] = PropertyShown().dump(prop)
    return shown


def _read(body: dict[str, Any]) -> dict[str, Any]:
    if "options" in body:
        body["options"] = tuple(
            Option(each["value"], each.get("label", "")) for each in body["options"]
        )
    return body


def _with_options(kept: dict[str, Any]) -> dict[str, Any]:
    """Add the present options to a stored property; none if it was deleted since then."""
    kind = (flask.request.view_args or {})["kind"]
    try:
        return property_shown(definitions.find(hub().records, account(), kind, kept["name"]))
    except NotFound:
        return kept


# --- routes ----------------------------------------------------------------------------------

blueprint = Blueprint(
    "properties",
    __name__,
    url_prefix="/<client_id>/api/v1/properties",
    description="What records may hold. Each request needs the scope of the resource it is about.",
)

_OF = [in_path("resource", enum=list(KINDS))]
_ONE = [*_OF, in_path("name")]


@blueprint.errorhandler(DuplicateValue)
def _duplicate(error: DuplicateValue) -> flask.Response:
    return duplicate(error, (flask.request.view_args or {})["kind"].name)


@blueprint.get("/<resource>", parameters=_OF)
@documents("listProperties", 200, PropertyPageShown, "List all properties")
@of_kind("read", KINDS)
def _list(kind: Kind) -> flask.Response:
    catalogue = hub().records.catalogues.reload(account().id, kind)
    return all_of([property_shown(each) for each in catalogue])


@blueprint.post("/<resource>", parameters=_OF)
@documents("createProperty", 201, PropertyShown, "Define a property")
@of_kind("write", KINDS, Rebuild(lambda shown: {**shown, "options": []}, _with_options))
@blueprint.arguments(PropertyInput)
def _create(body: dict[str, Any], kind: Kind) -> flask.Response:
    new = Property(0, **{"label": "", **_read(body)})
    return as_json(property_shown(definitions.define(hub().records, account(), kind, new)), 201)


@blueprint.get("/<resource>/<name>", parameters=_ONE)
@documents("getProperty", 200, PropertyShown, "Read a property's definition")
@of_kind("read", KINDS)
def _get(kind: Kind, name: str) -> flask.Response:
    return as_json(property_shown(definitions.find(hub().records, account(), kind, name)))


@blueprint.patch("/<resource>/<name>", parameters=_ONE)
@documents("updateProperty", 200, PropertyShown, "Change a property's definition")
@of_kind("write", KINDS)
@blueprint.arguments(PropertyChange)
def _update(body: dict[str, Any], kind: Kind, name: str) -> flask.Response:
    changes = cast(Changes, _read(body))
    changed = definitions.change(hub().records, account(), kind, name, changes)
    return as_json(property_shown(changed))


@blueprint.delete("/<resource>/<name>", parameters=_ONE)
@documents("deleteProperty", 204, None, "Delete a property")
@of_kind("write", KINDS)
@blueprint.arguments(DeleteQuery, location="query")
def _delete(query: dict[str, Any], kind: Kind, name: str) -> flask.Response:
    force = query.get("force", False)
    definitions.delete(hub().records, account(), kind, name, force=force)
    return nothing()
