"""Import all modules with routes of the admin API, which registers them on the blueprint."""

from crmhub.api.admin import (  # noqa: F401
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

__all__ = ["blueprint"]
