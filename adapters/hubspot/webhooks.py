"""HubSpot's webhooks: their signature (version 3), and the records that they name.

Sources: HubSpot's pages "Validating requests" and "Webhooks", November 2026.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from crmhub.adapter import Denied, Event, Kind, Rejected, WebhookRequest
from crmhub.adapter.answers import objects_in, text_of

_OLDEST_MS = 300_000
# HubSpot signs the address with these characters decoded: : / ? @ ! $ ' ( ) * , ;
_DECODED = re.compile("%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.IGNORECASE)
# By the word before the point in a subscription type, and by the id of a type of objects.
_KINDS: Mapping[str, Kind] = {
    "contact": "contacts",
    "company": "companies",
    "deal": "deals",
    "ticket": "tickets",
    "0-1": "contacts",
    "0-2": "companies",
    "0-3": "deals",
    "0-5": "tickets",
}
# A merge names three records: those that were merged, and the new one.
_IDS = ("objectId", "primaryObjectId", "mergedObjectIds", "newObjectId", "fromObjectId")


def events_in(request: WebhookRequest, secret: str) -> list[Event]:
    """Return the records that a webhook names; `secret`: the app's client secret."""
    _check_signature(request, secret)
    try:
        items = objects_in(json.loads(request.body))
    except (ValueError, RecursionError):
        raise Rejected([], "The webhook is not JSON.") from None
    return list(dict.fromkeys(event for item in items for event in _events_of(item)))


def _check_signature(request: WebhookRequest, secret: str) -> None:
    at = request.headers.get("x-hubspot-request-timestamp", "")
    given = request.headers.get("x-hubspot-signature-v3", "")
    url = _DECODED.sub(lambda found: unquote(found[0]), request.url)
    signed = b"".join((request.method.encode(), url.encode(), request.body, at.encode()))
    digest = base64.b64encode(hmac.new(secret.encode(), signed, hashlib.sha256).digest())
    is_genuine = hmac.compare_digest(digest, given.encode(errors="replace"))
    is_fresh = re.fullmatch("[0-9]{1,15}", at) and abs(time.time() * 1000 - int(at)) <= _OLDEST_MS
    if not (is_genuine and is_fresh):
        raise Denied("The webhook's signature is wrong, or older than five minutes.")


def _events_of(item: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the records of a change; a changed link names two, other types of objects none."""
    word = text_of(item.get("subscriptionType")).partition(".")[0]
    kind = _KINDS.get(word) or _KINDS.get(
        text_of(item.get("objectTypeId") or item.get("fromObjectTypeId"))
    )
    linked = text_of(item.get("associationType")).lower().partition("_to_")[2]
    other = _KINDS.get(linked) or _KINDS.get(text_of(item.get("toObjectTypeId")))
    named = [(kind, item.get(name)) for name in _IDS] + [(other, item.get("toObjectId"))]
    for kind, ids in named:
        for record_id in map(text_of, ids if isinstance(ids, list) else [ids]):
            if kind and record_id:
                yield Event(kind, record_id)
