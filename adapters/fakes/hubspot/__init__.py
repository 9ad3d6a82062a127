"""A fake HubSpot that serves HTTP, for tests and for trying the hub.

The fake supports contacts, deals and tickets in the API versions 2026-09, 2026-03 and v3, with
HubSpot's refusals, rate limits and search lag, as far as crmhub calls HubSpot.
"""

from __future__ import annotations

from adapters.fakes.fake import Seen
from adapters.fakes.faults import Fault
from adapters.fakes.hubspot.answers import Refused
from adapters.fakes.hubspot.fake import FakeHubSpot, Options

__all__ = ["FakeHubSpot", "Fault", "Options", "Refused", "Seen"]
