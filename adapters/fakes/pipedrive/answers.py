"""Response bodies of the fake Pipedrive, in Pipedrive's format."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from adapters.fakes import answers

INVALID = "ERR_SCHEMA_VALIDATION_FAILED"


class Refused(answers.Refused):
    """Pipedrive refuses a request; of an error's body only `success` and `error` are documented.

    `extra` holds further fields of the body.
    """

    def __init__(
        self,
        status: int,
        error: str,
        *,
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        body = {
            "success": False,
            "error": error,
            "error_info": "Please check developers.pipedrive.com for more information.",
            "data": None,
            "additional_data": None,
            **extra,
        }
        super().__init__(status, body, headers=headers)


def invalid(where: str, why: str, **extra: Any) -> Refused:
    """Return the refusal of a parameter or a value; `where` names it."""
    return Refused(400, f"Validation failed: {where}: {why}", code=INVALID, **extra)


def moment(at_ms: int) -> str:
    """Return a time, in ms since 1970, in the format of v2: RFC 3339 in whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms // 1000))
