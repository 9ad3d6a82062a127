"""What stands in HubSpot's answers: texts, words, moments, lists and the next page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from crmhub.adapter.http import Answer


def text_of(value: Any) -> str:
    """Return a value as text, "" for none."""
    return "" if value is None else str(value)


def word(body: Mapping[str, Any], name: str) -> str:
    """Return a word that HubSpot made, "" for anything else."""
    text = text_of(body.get(name))
    return text if re.fullmatch(r"[A-Z_]{1,60}", text) else ""


def moment(value: Any) -> float:
    """Return a time in seconds since 1970, 0 for what is none."""
    try:
        return datetime.fromisoformat(text_of(value)).timestamp()
    except ValueError:
        return 0.0


def objects_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list, none of anything else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def next_page(answer: Answer, *, after: str) -> str:
    """Return the cursor of the next page, "" after the last one, or when it leads nowhere new."""
    paging = answer.object().get("paging")
    following = paging.get("next") if isinstance(paging, dict) else None
    cursor = text_of(following.get("after")) if isinstance(following, dict) else ""
    return cursor if cursor != after else ""
