from __future__ import annotations

from adapters.zoho.adapter import ZohoAdapter

__all__ = ["ZohoAdapter"]
