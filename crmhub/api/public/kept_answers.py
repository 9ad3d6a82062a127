"""Answers with records that are too long to be stored for an Idempotency-Key.

They are stored without the records' values, which are read again when the answer is repeated. The
errors of a partial batch are stored as they are, so they are short.
"""

from __future__ import annotations

from typing import Any

import orjson

from crmhub.api.http.answers import record_shown
from crmhub.api.http.authentication import account, hub
from crmhub.helpers.crm_records import Deferred
from crmhub.properties.kinds import Kind
from crmhub.records.partial_batches import Refusal

# Bytes of JSON. 100 errors of this length, or records without values, are shorter than 64 KiB.
_LONGEST_MESSAGE = 500


def shown_error(refusal: Refusal) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "index": refusal.index,
        "category": refusal.error.category,
        "message": _shortened(refusal.error.message),
    }
    if refusal.existing_id is not None:
        shown["existingId"] = refusal.existing_id
    if isinstance(refusal.error, Deferred):
        [shown["actionId"]] = refusal.error.action_ids
    return shown


def _shortened(message: str) -> str:
    if len(orjson.dumps(message)) <= _LONGEST_MESSAGE:
        return message
    text = message[:_LONGEST_MESSAGE]
    while len(orjson.dumps(text)) > _LONGEST_MESSAGE - 4:
        text = text[: len(text) * 9 // 10]
    return f"{text}…"


def without_values(answer: Any) -> Any:
    """The properties and the lists of linked ids become empty."""
    if isinstance(answer, list):
        return [without_values(each) for each in answer]
    if "results" in answer:
        return {**answer, "results": without_values(answer["results"])}
    # Which links are shown depends on the request.
    links: dict[str, list[int]] = {name: [] for name in answer["associations"]}
    return {**answer, "properties": {}, "associations": links}


def with_values(kind: Kind, kept: Any) -> Any:
    """Add the present values; a record that was archived since then stays without."""
    if isinstance(kept, dict) and "results" in kept:
        return {**kept, "results": with_values(kind, kept["results"])}
    if not isinstance(kept, list):
        return with_values(kind, [kept])[0]
    found = hub().records.stored(account(), kind, [each["id"] for each in kept])
    shown = {each.id: each for each in found}
    return [
        {**each, **record_shown(shown[each["id"]], requested=each["associations"])}
        if each["id"] in shown
        else each
        for each in kept
    ]
