"""The fake Zoho CRM as the conformance tests and the adapter's own tests see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from adapters.fakes.kit import LaggingKitCrm
from adapters.fakes.zoho import FakeZoho, Options
from adapters.zoho import ZohoAdapter
from crmhub.adapter import Conflict, WebhookRequest
from crmhub.adapter.testing import Connection

_FAKE = FakeZoho()
SECRETS = {
    "client_id": _FAKE.tokens.client_id,
    "client_secret": _FAKE.tokens.client_secret,
    "refresh_token": _FAKE.tokens.refresh_token,
    "webhook_token": "token-of-the-notifications",
}


class ZohoCrm(LaggingKitCrm):
    """A fake Zoho CRM, as `crmhub.adapter.testing.HttpCrm` wants it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            FakeZoho(Options(**{"limit": "none", "at_once": None, **options})), Conflict
        )
        # The tests fetch more tokens than Zoho gives.
        self.fake.token_requests.change(None, 600.0)

    @property
    def spent(self) -> int:
        return int(self.fake.credits.spent)

    def notes(self, kind: str, record_id: str) -> Mapping[str, str]:
        notes = self.fake.store.records["Notes"].items()
        parent = {"module": {"api_name": self.fake.kinds[kind]}, "id": record_id}
        held = {id: note.properties for id, note in notes}
        return {id: one["Note_Content"] for id, one in held.items() if one["Parent_Id"] == parent}

    def tasks(self, contact_id: str) -> Mapping[str, Mapping[str, str]]:
        names = {"Subject": "subject", "Description": "notes", "Due_Date": "due"}
        priorities = {"Low": "LOW", "Normal": "MEDIUM", "High": "HIGH"}
        return {
            id: {ours: task.properties.get(name, "") for name, ours in names.items()}
            | {"priority": priorities.get(task.properties.get("Priority"), "")}
            for id, task in self.fake.store.records["Tasks"].items()
            if task.properties["Who_Id"]["id"] == contact_id
        }

    def watchers(self, kind: str) -> list[str]:
        event = f"{self.fake.kinds[kind]}.all"
        found = self.fake.channels.all.values()
        return [one["notify_url"] for one in found if event in one["events"]]

    def webhook(self, kind: str, record_id: str) -> WebhookRequest:
        body = {
            "server_time": 1580375220000,
            "query_params": {},
            "module": self.fake.kinds[kind],
            "resource_uri": f"{self.fake.url}/crm/v8/{self.fake.kinds[kind]}",
            "ids": [record_id],
            "affected_fields": [],
            "operation": "update",
            "channel_id": "10000007828",
            "token": SECRETS["webhook_token"],
        }
        return WebhookRequest("POST", "https://hub.test/", {}, json.dumps(body).encode())


def connected(fake: FakeZoho, **settings: str) -> Connection:
    """Return a connection to a fake, each adapter of which is a process of its own."""
    return Connection(ZohoAdapter, {"accounts_url": fake.url, **settings}, SECRETS)


def adapted(fake: FakeZoho, **settings: str) -> ZohoAdapter:
    """Return an adapter that talks to a fake."""
    adapter = connected(fake, **settings).adapter()
    assert isinstance(adapter, ZohoAdapter)
    return adapter


def calls(fake: FakeZoho) -> list[str]:
    """Return method and path of every call so far, and forget them."""
    return [f"{one.method} {one.path}" for one in fake.take_requests()]
