"""The one blueprint of the admin API, on which every part of it stands."""

from __future__ import annotations

from crmhub.api.admin.callers import PREFIX
from crmhub.api.reading import Blueprint

blueprint = Blueprint(
    "Admin",
    __name__,
    url_prefix=PREFIX,
    description="For operators, with a token that `crmhub admin token create` makes.",
)
