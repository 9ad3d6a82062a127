"""Pipedrive's webhooks (version 2.0): set up and removed, their proof, and the records they name.

Sources: Pipedrive's API file of v1 (August 2026) and its page "Guide for Webhooks v2".
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from crmhub.adapter import Event, Kind, NotFound, WebhookRequest
from crmhub.adapter.answers import text_of, value_at
from crmhub.adapter.rest_adapter import RestAdapter
from crmhub.adapter.webhooks import body_of, check_proof, end_of

# The kinds of records by Pipedrive's names.
_ENTITIES: Mapping[str, tuple[Kind, ...]] = {
    "person": ("contacts",),
    "organization": ("companies",),
    "deal": ("deals", "tickets"),
}
_USER, _VERSION, _NAME = "crmhub", "2.0", "crmhub"


def events_in(request: WebhookRequest, password: str) -> Iterator[Event]:
    """Yield the records that a webhook names; Pipedrive signs nothing, but sends HTTP Basic."""
    proof = base64.b64encode(f"{_USER}:{password}".encode()).decode()
    check_proof(request.headers.get("authorization", ""), f"Basic {proof}")
    meta = value_at(body_of(request), "meta")
    ids = [text_of(value_at(meta, name)) for name in ("entity_id", "merged_to_id")]
    kinds = _ENTITIES.get(text_of(value_at(meta, "entity")), ())
    return (Event(kind, one) for kind in kinds for one in ids)


def watch(adapter: RestAdapter, address: str, password: str) -> None:
    """Leave exactly one webhook for each kind of record: one per entity, for all actions."""
    wanted = {
        "subscription_url": address,
        "event_action": "*",
        "http_auth_user": _USER,
        "http_auth_password": password,
        "version": _VERSION,
    }
    lacking = set(_ENTITIES)
    for one in _found(adapter, address):
        entity = text_of(one.get("event_object"))
        if entity in lacking and one.get("is_active") and wanted.items() <= one.items():
            lacking.remove(entity)
        else:
            _delete(adapter, one)
    for entity in sorted(lacking):
        body = {**wanted, "event_object": entity, "name": _NAME}
        adapter.call("POST", "webhooks", body=body)


def unwatch(adapter: RestAdapter, address: str) -> None:
    for one in _found(adapter, address):
        _delete(adapter, one)


def _found(adapter: RestAdapter, address: str) -> list[Mapping[str, Any]]:
    """Return the webhooks to addresses that end like this one; removed ones may be listed, too."""
    answer = adapter.listed("GET", "webhooks")
    return [
        one
        for one in answer.items("data")
        if end_of(text_of(one.get("subscription_url"))) == end_of(address)
        and not one.get("remove_time")
    ]


def _delete(adapter: RestAdapter, one: Mapping[str, Any]) -> None:
    with suppress(NotFound):
        adapter.call("DELETE", "webhooks", text_of(one.get("id")))
