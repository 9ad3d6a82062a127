"""The adapter for Zoho CRM, API v8: contacts, deals and cases, which are the hub's tickets.

Records are looked up with COQL, Zoho's query language, which shows a write at once. Zoho's search
endpoint is not used, since it lags behind writes and matches parts of values.
"""

from __future__ import annotations

from adapters.zoho.adapter import ZohoAdapter

__all__ = ["ZohoAdapter"]
