"""Parse parts of HubSpot's responses: texts, codes, times, lists, the cursor of the next page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from crmhub.adapter.http import Answer


def text_of(value: Any) -> str:
    """Return a JSON value as text; null gives ""."""
    return "" if value is None else str(value)


def word(body: Mapping[str, Any], name: str) -> str:
    """Return the upper-case code in the field `name` of a body, such as an error category.

    Returns "" if the field is missing or holds anything else.
    """
    text = text_of(body.get(name))
    return text if re.fullmatch(r"[A-Z_]{1,60}", text) else ""


def moment(value: Any) -> float:
    """Return an ISO 8601 time in seconds since 1970; 0 for anything else."""
    try:
        return datetime.fromisoformat(text_of(value)).timestamp()
    except ValueError:
        return 0.0


def objects_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the JSON objects of a list; an empty list if `value` is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def next_page(answer: Answer, *, after: str) -> str:
    """Return the cursor of the next page of a list, or "" on the last page.

    Returns "" also if the cursor equals `after`, the cursor of the present page.
    """
    paging = answer.object().get("paging")
    following = paging.get("next") if isinstance(paging, dict) else None
    cursor = text_of(following.get("after")) if isinstance(following, dict) else ""
    return cursor if cursor != after else ""
