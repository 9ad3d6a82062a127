"""All parts of the admin API, as the application registers them."""

from __future__ import annotations

from crmhub.api.admin import actions
from crmhub.api.admin.blueprint import blueprint

__all__ = ["actions", "blueprint"]
