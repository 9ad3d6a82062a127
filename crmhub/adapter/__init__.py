"""The names an adapter may import from the hub: base class, data types and errors."""

from crmhub.adapter.context import (
    Budget,
    Context,
    OpenBudget,
    Response,
    Session,
    Store,
)
from crmhub.adapter.contract import (
    OPTIONAL,
    Adapter,
    configured,
    features,
    hold_back_create,
    hold_back_update,
)
from crmhub.adapter.errors import (
    AdapterError,
    BadConfig,
    Conflict,
    Denied,
    LacksRight,
    NotFound,
    NotYet,
    Problem,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
    Unsupported,
)
from crmhub.adapter.values import (
    Changes,
    Choice,
    Contact,
    ContactWrite,
    Described,
    Kind,
    Linked,
    Outcome,
    Owner,
    Pipeline,
    PropertyType,
    Saved,
    Setting,
    Written,
    is_record_id,
)

__all__ = [
    "OPTIONAL", "Adapter", "AdapterError", "BadConfig", "Budget", "Changes", "Choice",
    "Conflict", "Contact", "ContactWrite", "Context", "Denied", "Described", "Kind",
    "LacksRight", "Linked", "NotFound", "NotYet", "OpenBudget", "Outcome", "Owner", "Pipeline",
    "Problem", "PropertyType", "Rejected", "Response", "Saved", "Session", "Setting", "Store",
    "Throttled", "Unavailable", "Uncertain", "Unsupported", "Written", "configured", "features",
    "hold_back_create", "hold_back_update", "is_record_id",
]  # fmt: skip
