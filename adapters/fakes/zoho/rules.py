"""How the fake Zoho judges the values of a record that is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from typing import Any

from adapters.fakes.zoho.failing import Row, at, fault
from adapters.fakes.zoho.schema import LAYOUTS, Column, Stages

_EMAIL = re.compile(r"[^@\s\\,;:]+@[^@\s\\,;:]+\.[^@\s\\,;:.]{2,}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# Without fractions of a second, and with an offset instead of Z.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", re.ASCII)

Exists = Callable[[str, str], bool]
"""Function that returns whether the module has a record with this id."""


def kept(columns: Mapping[str, Column], row: Mapping[str, Any], *, create: bool) -> dict[str, Any]:
    """Return the values of a row that Zoho looks at; it ignores all others silently.

    Ignored are unknown names, also of wrong case, and fields that the API may not write.
    """
    values = {}
    for name, value in row.items():
        column = columns.get(name)
        if column and not column.read_only and (create or not column.create_only):
            values[name] = value
    return values


def faults(
    columns: Mapping[str, Column], values: Mapping[str, Any], index: int, exists: Exists
) -> Iterator[Row]:
    """Yield an error for each value of row `index` that does not fit its field."""
    for name, value in values.items():
        column = columns[name]
        if value is None:
            if column.mandatory:
                yield fault("MANDATORY_NOT_FOUND", "required field not found", **at(name, index))
        elif wrong := _type_fault(column, value):
            yield fault("INVALID_DATA", "invalid data", **at(name, index), **wrong)
        elif column.lookup and not exists(column.lookup, value["id"]):
            message = "the id given seems to be invalid"
            yield fault("INVALID_DATA", message, **at(name, index, ".id"))


def missing(
    columns: Mapping[str, Column], values: Mapping[str, Any], index: int, demanded: frozenset[str]
) -> Iterator[Row]:
    """Yield an error for each value that a new record lacks; `demanded` by rules of its layout."""
    for column in columns.values():
        needed = column.mandatory or column.name in demanded
        if needed and column.name not in values:
            message = "required field not found"
            yield fault("MANDATORY_NOT_FOUND", message, **at(column.name, index))


def place_faults(values: Mapping[str, Any], layout: str, index: int) -> Iterator[Row]:
    """Yield an error for a pipeline that its layout lacks, or a stage that the pipeline lacks."""
    pipelines = {pipe.name: pipe for pipe in LAYOUTS[layout][2]}
    name, stage = values.get("Pipeline"), values.get("Stage")
    if name is None:
        name = default_pipeline(layout).name
    if name not in pipelines:
        message = "The layout doesn't contain the pipeline"
        yield fault("MAPPING_MISMATCH", message, **at("Pipeline", index))
    elif stage is not None and stage not in pipelines[name].stages:
        message = "Pipeline doesn't contain the Stage"
        yield fault("MAPPING_MISMATCH", message, **at("Stage", index))


def default_pipeline(layout: str) -> Stages:
    """Return the pipeline of deals that name none."""
    return next(pipe for pipe in LAYOUTS[layout][2] if pipe.default)


def _type_fault(column: Column, value: Any) -> dict[str, Any]:
    """Return the details that say why a value does not fit its field; empty if it does."""
    match column.data_type:
        case "boolean":
            return {} if isinstance(value, bool) else _expected("boolean")
        case "integer":
            return {} if _is_number(value, int) else _expected("integer")
        case "double" | "percent" | "currency":
            return {} if _is_number(value, (int, float)) else _expected("double")
        case "lookup" | "ownerlookup":
            is_link = isinstance(value, dict) and isinstance(value.get("id"), str)
            return {} if is_link else _expected("jsonobject")
        case "multiselectpicklist":
            if not isinstance(value, list):
                return _expected("jsonarray")
            return {} if {*value} <= {*column.options} else _supported(column)
    if not isinstance(value, str):
        return _expected("string")
    return _text_fault(column, value)


def _text_fault(column: Column, value: str) -> dict[str, Any]:
    if column.most and len(value) > column.most:
        return {"maximum_length": column.most}
    match column.data_type:
        case "picklist" if value not in column.options:
            return _supported(column)
        case "email" if not _EMAIL.fullmatch(value):
            return _expected("email")
        case "bigint" if not value.isdecimal():
            return _expected("bigint")
        case "date" if not _parses(_DATE, date.fromisoformat, value):
            return _expected("date")
        case "datetime" if not _parses(_TIME, datetime.fromisoformat, value):
            return _expected("datetime")
    return {}


def _parses(form: re.Pattern[str], parse: Callable[[str], object], value: str) -> bool:
    if not form.fullmatch(value):
        return False
    try:
        parse(value)
    except ValueError:
        return False
    return True


def _is_number(value: Any, types: Any) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


def _expected(data_type: str) -> dict[str, Any]:
    return {"expected_data_type": data_type}


def _supported(column: Column) -> dict[str, Any]:
    return {"supported_values": list(column.options)}
