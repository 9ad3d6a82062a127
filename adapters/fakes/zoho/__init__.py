"""A fake Zoho CRM (API v8): a CRM in memory with Zoho's ids, errors, limits and COQL.

Where Zoho's documentation is silent, it does what is harder for an adapter, or has an option for
both. It does not know the hub or its adapter.
"""

from __future__ import annotations

from adapters.fakes.zoho.fake import FakeZoho, Options

__all__ = ["FakeZoho", "Options"]
