"""What the fake Zoho tells of its account: fields, layouts, pipelines and users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapters.fakes.zoho.failing import refused
from adapters.fakes.zoho.schema import LAYOUTS, Column, id_of

USERS = (
    {"id": id_of(1), "full_name": "Grace Hopper", "email": "grace@example.com"},
    {"id": id_of(2), "full_name": "Alan Turing", "email": "alan@example.com"},
)
"""The active users."""


def fields(columns: Mapping[str, Column]) -> dict[str, Any]:
    """Return the definitions of the fields of a module."""
    return {"fields": [column.definition(i) for i, column in enumerate(columns.values(), 500)]}


def layouts() -> dict[str, Any]:
    """Return the layouts of deals, without their sections."""
    named = [{"id": i, "name": name, "status": status} for i, (name, status, _) in LAYOUTS.items()]
    return {"layouts": named}


def pipelines(layout_id: str) -> dict[str, Any]:
    """Return the pipelines of a layout with their stages; raise Refused for an unknown layout."""
    if layout_id not in LAYOUTS:
        raise refused(400, "INVALID_DATA", "invalid layout id", param_name="layout_id")
    listed = [
        {
            "id": id_of(200 + number),
            "display_value": pipeline.label,
            "actual_value": pipeline.name,
            "default": pipeline.default,
            "maps": [
                {
                    "id": id_of(300 + place),
                    "display_value": label,
                    "actual_value": value,
                    "sequence_number": place,
                    "forecast_type": "Open",
                    "forecast_category": {"name": "Pipeline", "id": id_of(400)},
                }
                for place, (value, label) in enumerate(pipeline.stages.items(), 1)
            ],
        }
        for number, pipeline in enumerate(LAYOUTS[layout_id][2], 1)
    ]
    return {"pipeline": listed}


def users(parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return a page of the active users; `parameters` are those of the query."""
    size, page = int(parameters.get("per_page", 200)), int(parameters.get("page", 1))
    shown = USERS[size * (page - 1) : size * page]
    more = size * page < len(USERS)
    info = {"per_page": size, "count": len(shown), "page": page, "more_records": more}
    return {"users": list(shown), "info": info}


def reference(user: Mapping[str, str]) -> dict[str, str]:
    """Return a user as records refer to it."""
    return {"name": user["full_name"], "id": user["id"]}
