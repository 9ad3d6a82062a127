"""The adapter for Odoo, over JSON-RPC (Odoo 17 and 18) or JSON-2 (Odoo 19 and later).

Every write is a `load`, Odoo's import of rows. It names the field at fault, knows no archived
record, and takes the mark of a create as external id: a second `load` with it changes nothing. Each
call is one transaction, so an error that Odoo itself reports means that nothing was written.
"""

from __future__ import annotations

from adapters.odoo.adapter import OdooAdapter

__all__ = ["OdooAdapter"]
