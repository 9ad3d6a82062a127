"""The HubSpot-like CRM as the conformance tests and the adapter's own tests see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from adapters.fakes.hubspot import FakeHubSpot, Options
from adapters.fakes.hubspot.definitions import TYPE_IDS
from adapters.fakes.kit import LaggingKitCrm
from adapters.hubspot import HubSpotAdapter
from crmhub.adapter import Conflict, Kind, WebhookRequest, Written
from crmhub.adapter.testing import Connection
from crmhub.adapter.types import from_html

VERSIONS = ("2026-09", "2026-03", "v3")
TOKEN = {"access_token": Options().token}
OAUTH = {
    "client_id": Options().client_id,
    "client_secret": Options().client_secret,
    "refresh_token": Options().refresh_token,
}


class HubSpotCrm(LaggingKitCrm):
    """A fake HubSpot with neither limits nor lag, as `crmhub.adapter.testing.HttpCrm` wants it."""

    def __init__(self, **options: Any) -> None:
        usual = {"limit": "none", "search_limit": "none"}
        super().__init__(FakeHubSpot(Options(**(usual | options))), Conflict)

    def merge_contacts(self, gone_id: str, kept_id: str) -> str:
        return str(self.fake.merge("contacts", kept_id, gone_id))

    def notes(self, kind: Written, record_id: str) -> Mapping[str, str]:
        notes = self.fake.records("notes")
        ids = self.fake.linked(kind, record_id, "notes")
        return {one: from_html(notes[one]["hs_note_body"]) for one in ids}

    def tasks(self, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        tasks = self.fake.records("tasks")
        return {
            one: {
                "subject": tasks[one].get("hs_task_subject", ""),
                "notes": from_html(tasks[one].get("hs_task_body", "")),
                "due": tasks[one]["hs_timestamp"],
                "priority": tasks[one].get("hs_task_priority", ""),
                "owner": tasks[one].get("hubspot_owner_id", ""),
            }
            for one in self.fake.linked("contacts", contact_id, "tasks")
        }

    def webhook(self, kind: Kind, record_id: str) -> WebhookRequest:
        body = {"subscriptionType": "object.propertyChange", "objectTypeId": TYPE_IDS[kind]}
        return webhook(self.fake, [body | {"objectId": int(record_id)}])


def webhook(
    fake: FakeHubSpot,
    items: Any,
    *,
    url: str = "https://hub.example.test/hook?a=1%2F2",
    **more: Any,
) -> WebhookRequest:
    """Return a webhook; HubSpot signs the address with reserved characters decoded."""
    body = items if isinstance(items, bytes) else json.dumps(items).encode()
    headers = fake.webhook_headers(url.replace("%2F", "/"), body, **more)
    return WebhookRequest("POST", url, {name.lower(): v for name, v in headers.items()}, body)


def connected(
    fake: FakeHubSpot, credentials: Mapping[str, str] = TOKEN, **settings: str
) -> Connection:
    """Return a connection to a fake, each adapter of which is a process of its own."""
    return Connection(HubSpotAdapter, {"base_url": fake.url, **settings}, credentials)


def adapted(
    fake: FakeHubSpot, credentials: Mapping[str, str] = TOKEN, **settings: str
) -> HubSpotAdapter:
    """Return an adapter that talks to a fake."""
    adapter = connected(fake, credentials, **settings).adapter()
    assert isinstance(adapter, HubSpotAdapter)
    return adapter


def calls(fake: FakeHubSpot) -> list[str]:
    """Return method and path of every call so far, and forget them."""
    return [f"{one.method} {one.path}" for one in fake.take_requests()]
