"""Parse parts of HubSpot's responses: texts, codes, times, lists, the cursor of the next page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from crmhub.adapter.http import Answer


def text_of(value: Any) -> str:
    """Return a JSON value as text; return "" for null."""
    return "" if value is None else str(value)


def word(body: Mapping[str, Any], name: str) -> str:
    """Return the code in the field `name` of a response body, such as an error category.

    The code is converted to upper case. Returns "" if the field is missing or contains no text.
    """
    text = text_of(body.get(name))
    return text if re.fullmatch(r"[A-Z_]{1,60}", text) else ""


def moment(value: Any) -> float:
    """Convert an ISO 8601 time to seconds since 1970.

    Returns 0 for any value that is not such a time.
    """
    try:
        return datetime.fromisoformat(text_of(value)).timestamp()
    except ValueError:
        return 0.0


def objects_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the JSON objects in the list `value`; return an empty list if `value` is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def next_page(answer: Answer, *, after: str) -> str:
    """Return the cursor of the next page of a list, or "" if `answer` is the last page.

    `after` is the cursor of the page `answer`. Returns "" also if HubSpot repeats this cursor.
    """
    paging = answer.object().get("paging")
    following = paging.get("next") if isinstance(paging, dict) else None
    cursor = text_of(following.get("after")) if isinstance(following, dict) else ""
    return cursor if cursor != after else ""
