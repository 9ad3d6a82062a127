"""The adapter for HubSpot: contacts, deals and tickets over its CRM API.

The adapter authenticates with an access token or OAuth. Where HubSpot behaves unexpectedly, a
comment next to the code explains it and names the source. The most important surprise: search
results lag behind writes by up to half a minute. So contacts are read by email
(`idProperty=email`), which does not lag, and a lead's contact is never created merely because a
search did not find it. HubSpot's upsert by email resets properties that are not sent, so existing
contacts are updated with PATCH.
"""

from __future__ import annotations

from adapters.hubspot.adapter import HubSpotAdapter

__all__ = ["HubSpotAdapter"]
