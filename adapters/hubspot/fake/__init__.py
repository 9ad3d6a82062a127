"""A HubSpot-like CRM over real HTTP.

It speaks versions 2026-09, 2026-03 and v3 for contacts, deals, tickets and companies, refuses
what HubSpot refuses, holds its rate limits, lets its search lag, and fails when told to.
"""

from __future__ import annotations

from adapters.hubspot.fake.answers import Refused
from adapters.hubspot.fake.fake import FakeHubSpot
from adapters.hubspot.fake.faults import Fault
from adapters.hubspot.fake.service import Options, Seen

__all__ = ["FakeHubSpot", "Fault", "Options", "Refused", "Seen"]
