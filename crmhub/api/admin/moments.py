"""The field for a date or time in a request to the admin API."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import marshmallow as ma

from crmhub.api.field_types import Text
from crmhub.errors import Semantic

_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})?"
_SAID = re.compile(f"^{_DATE}({_TIME})?$")


class MomentText(Text):
    """Field for a date, or a date with time, as text; loaded as ms since 1970.

    A date or time without an offset is in UTC.
    """

    def __init__(self, description: str, **kwargs: Any) -> None:
        shown = {"pattern": _SAID.pattern, "description": description}
        super().__init__(metadata=shown, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not _SAID.fullmatch(text):
            raise ma.ValidationError(
                "must be a date such as 2031-12-31, or with its time 2031-12-31T08:00:00Z"
            )
        try:
            read = datetime.fromisoformat(text)
            # OverflowError: in UTC it may lie beyond the year 9999.
            read = (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            # 422, because the pattern in the schema accepts days such as 2031-02-30.
            raise Semantic(f"{self.data_key}: {text} is not in the calendar.") from None
        return int(read.timestamp() * 1000)
