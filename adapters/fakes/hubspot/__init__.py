"""A fake HubSpot that serves HTTP, for tests and for trying the hub.

The fake supports contacts, deals, tickets and companies in the API versions 2026-09, 2026-03 and
v3, with HubSpot's refusals, rate limits and search lag. The fake injects faults on request.
"""

from __future__ import annotations

from adapters.fakes.fake import Seen
from adapters.fakes.faults import Fault
from adapters.fakes.hubspot.answers import Refused
from adapters.fakes.hubspot.fake import FakeHubSpot
from adapters.fakes.hubspot.service import Options

__all__ = ["FakeHubSpot", "Fault", "Options", "Refused", "Seen"]
