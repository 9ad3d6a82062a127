"""How the fake Zoho shows its records."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from adapters.fakes.records import Record
from adapters.fakes.zoho.schema import Column

# The time zone of the account, in which all times are shown.
_ZONE = timezone(timedelta(hours=1))


def shown(module: str, columns: Mapping[str, Column], record: Record) -> dict[str, Any]:
    """Return a record as the API shows it: all fields, with null for those without a value."""
    values: dict[str, Any] = dict.fromkeys(columns)
    for name, value in record.properties.items():
        values[name] = _value(columns.get(name), value)
    if module == "Contacts":
        names = (record.properties.get(name) for name in ("First_Name", "Last_Name"))
        values["Full_Name"] = " ".join(filter(None, names))
    times = {"Created_Time": record.created_at, "Modified_Time": record.updated_at}
    return values | {name: time_of(at) for name, at in times.items()} | {"id": record.id}


def in_coql(value: Any) -> Any:
    """Return a value as COQL shows it: a link has no name there."""
    return {"id": value["id"]} if isinstance(value, dict) else value


def _value(column: Column | None, value: Any) -> Any:
    if column and column.data_type == "datetime":
        return datetime.fromisoformat(value).astimezone(_ZONE).isoformat(timespec="seconds")
    if column and column.lookup:
        return {"id": value["id"], "name": "Somebody"}
    return float(value) if column and column.json_type == "double" else value


def time_of(ms: int) -> str:
    """Return a time in ms since 1970 as Zoho writes it, in whole seconds."""
    at = datetime.fromtimestamp(ms // 1000, UTC)
    return at.astimezone(_ZONE).isoformat(timespec="seconds")
