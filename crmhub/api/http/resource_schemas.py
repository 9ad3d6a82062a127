"""Schemas of answers, made from the descriptions of what operators see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from crmhub.api.http.schemas import MOMENT, CountedPage, Moment, PageOf, Shown
from crmhub.operators.resources import Column, Resource, named

_SHOWN: Mapping[str, Callable[..., fields.Field[Any]]] = {
    "text": fields.String,
    "number": fields.Integer,
    "decimal": fields.Float,
    "flag": fields.Boolean,
    "moment": Moment,
    "words": lambda **given: fields.List(fields.String(), **given),
    "texts": lambda **given: fields.Dict(keys=fields.String(), values=fields.String(), **given),
    "numbers": lambda **given: fields.Dict(
        keys=fields.String(), values=fields.Integer(metadata={"minimum": 0}), **given
    ),
    "by name": lambda **given: fields.Dict(keys=fields.String(), **given),
    "moments": lambda **given: fields.Dict(
        keys=fields.String(), values=fields.String(metadata=MOMENT), **given
    ),
    "any": fields.Dict,
}


class _Resource(Shown):
    """Base schema of described resources."""

    described: Mapping[str, Column]

    def get_attribute(self, obj: Any, attr: str, default: Any) -> Any:
        column = self.described[attr]
        value = column.value(obj)
        return value if value or column.always else default


@cache
def schema_of(resource: Resource) -> type[ma.Schema]:
    described = {column.name: column for column in resource.columns if column.wire}
    made = {name: _shown(column) for name, column in described.items()}
    schema = _Resource.from_dict(made, name=resource.name)
    setattr(schema, "described", described)  # noqa: B010
    return schema


def shown(resource: Resource, items: Any, *, many: bool = False) -> Any:
    """Return the JSON of an item, or of several."""
    return schema_of(resource)(many=many).dump(items)


def _shown(column: Column) -> fields.Field[Any]:
    given: dict[str, Any] = {"data_key": column.wire, "required": column.always}
    says: dict[str, Any] = {"description": column.says} if column.says else {}
    if column.least is not None:
        says["minimum"] = column.least
    if column.null:
        given["allow_none"] = True
    if column.words:
        one_of = validate.OneOf(named(column.words))
        if column.type == "words":
            return fields.List(fields.String(validate=one_of), metadata=says, **given)
        given["validate"] = one_of
    if isinstance(column.type, str):
        return _SHOWN[column.type](metadata=says, **given)
    inside = column.type if isinstance(column.type, Resource) else column.type()
    nested = fields.Nested(schema_of(inside), **({} if column.many else given))
    return fields.List(nested, metadata=says, **given) if column.many else nested


@cache
def page_of(resource: Resource) -> type[ma.Schema]:
    results = fields.List(fields.Nested(schema_of(resource)), required=True)
    return PageOf.from_dict({"results": results}, name=resource.page or f"{resource.name}Page")


@cache
def counted_page_of(resource: Resource) -> type[ma.Schema]:
    results = fields.List(fields.Nested(schema_of(resource)), required=True)
    return CountedPage.from_dict({"results": results}, name=f"{resource.name}Page")
