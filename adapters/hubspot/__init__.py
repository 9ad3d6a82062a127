"""HubSpot: contacts, deals and tickets over its CRM API, with an access token or OAuth.

What is not obvious about HubSpot, with its source, stands beside the code that minds it. What
matters most: its search lags behind writes by up to half a minute, so a contact is read by email
(`idProperty=email`), which does not, and a lead is never searched for and then created; an upsert
by email is not partial, so what exists is patched.
"""

from __future__ import annotations

from adapters.hubspot.adapter import HubSpotAdapter

__all__ = ["HubSpotAdapter"]
