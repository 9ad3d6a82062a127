"""Imports all routes of the admin API, which registers them on its blueprint."""

from __future__ import annotations

from crmhub.api.admin import (
    accounts,
    actions,
    audit,
    connections,
    duplicates,
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
    "field_maps",
    "keys",
    "plans",
    "workflows",
]
