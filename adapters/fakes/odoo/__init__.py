"""A fake Odoo that serves HTTP, for tests and for trying the hub.

The fake has contacts, opportunities, tickets and tasks over JSON-RPC and JSON-2, with the errors of
both, in the versions 17, 18 and 19.
"""

from __future__ import annotations

from adapters.fakes.odoo.fake import FakeOdoo, Options

__all__ = ["FakeOdoo", "Options"]
