"""A HubSpot-like CRM over real HTTP.

It speaks versions 2026-09, 2026-03 and v3 for contacts, deals, tickets and companies, refuses
what HubSpot refuses, holds its rate limits, lets its search lag, and fails when told to.
"""

from __future__ import annotations

from crmhub.fakes.hubspot.answers import Refused
from crmhub.fakes.hubspot.fake import FakeHubSpot
from crmhub.fakes.hubspot.faults import Fault
from crmhub.fakes.hubspot.service import Options, Seen

__all__ = ["FakeHubSpot", "Fault", "Options", "Refused", "Seen"]
