"""HubSpot: contacts, deals and tickets over its CRM API, with an access token or OAuth.

Surprises of HubSpot are explained, with their source, beside the code that handles them. The most
important: search lags behind writes by up to half a minute, so contacts are read by email
(`idProperty=email`), which does not lag, and a lead is never searched for and then created. An
upsert by email is not partial, so existing contacts are patched.
"""

from __future__ import annotations

from adapters.hubspot.adapter import HubSpotAdapter

__all__ = ["HubSpotAdapter"]
