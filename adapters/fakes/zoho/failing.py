"""Zoho's error answers: an object with code, message and details, or a list of those in `data`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adapters.fakes.answers import Answer, Refused

Row = dict[str, Any]


def fault(code: str, message: str, **details: Any) -> Row:
    """Return an error as Zoho writes it."""
    return {"code": code, "details": details, "message": message, "status": "error"}


def refused(status: int, code: str, message: str, **details: Any) -> Refused:
    """Return the refusal of a whole call, with a single error as its body."""
    return Refused(status, fault(code, message, **details))


def listed(status: int, code: str, message: str, **details: Any) -> Refused:
    """Return the refusal of a call for records, with a single error in the list `data`."""
    return Refused(status, {"data": [fault(code, message, **details)]})


def answered(rows: Sequence[Row], success: int) -> Answer:
    """Return the answer to a write: `success`, 207 for a part of the rows, or 400 for none."""
    failed = [row for row in rows if row["status"] == "error"]
    status = success if not failed else 400 if len(failed) == len(rows) else 207
    return Answer(status, {"data": list(rows)})


def together(faults: Sequence[Row]) -> Row:
    """Return the error of a row with these errors; several are packed into one."""
    if len(faults) == 1:
        return dict(faults[0])
    return fault("MULTIPLE_OR_MULTI_ERRORS", "Multiple errors occurred", errors=list(faults))


def at(index: int, name: str, rest: str = "") -> Mapping[str, str]:
    """Return the details that name the field `name` of row `index`; `rest` is a deeper path."""
    path = f"$.data[{index}].{name}{rest}"
    return {"api_name": rest.rpartition(".")[2] or name, "json_path": path}
