"""The HubSpot-like CRM as the conformance tests and the adapter's own tests see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapters.fakes.hubspot import FakeHubSpot, Options
from adapters.fakes.kit import LaggingKitCrm
from adapters.hubspot import HubSpotAdapter
from crmhub.adapter import Conflict
from crmhub.adapter.matching import Lead
from crmhub.adapter.testing import Connection

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


def person(*, strict: bool = False, mark: str = "", contact_id: str = "", **values: str) -> Lead:
    """Return a lead with these values, its email and phone among them."""
    return Lead(
        values,
        email=values.get("email", ""),
        phone=values.get("phone", ""),
        strict=strict,
        mark=mark,
        contact_id=contact_id,
    )


def calls(fake: FakeHubSpot) -> list[str]:
    """Return method and path of every call so far, and forget them."""
    return [f"{one.method} {one.path}" for one in fake.take_requests()]
