"""Import all modules with routes of the admin API.

The import registers their routes on the blueprint.
"""

from __future__ import annotations

from crmhub.api.admin import (
    accounts,
    actions,
    audit,
    connections,
    duplicates,
    events,
    field_maps,
    keys,
    plans,
    workflows,
)
from crmhub.api.admin.blueprint import blueprint

__all__ = [
    "accounts",
    "actions",
    "audit",
    "blueprint",
    "connections",
    "duplicates",
    "events",
    "field_maps",
    "keys",
    "plans",
    "workflows",
]
