"""The public API's route for the plan of the account: its limits and usage (`GET /usage`)."""

from __future__ import annotations

from typing import Any, ClassVar

import flask
from marshmallow import fields

from crmhub.accounts.accounts import Account
from crmhub.api.http.answers import as_json
from crmhub.api.http.authentication import account, hub
from crmhub.api.http.blueprint import Blueprint
from crmhub.api.http.documentation import documents
from crmhub.api.http.schemas import Shown
from crmhub.properties.kinds import KINDS

RATE = {"description": 'Calls in a window, such as "1000/10s"; null: no limit.'}


class UsedShown(Shown):
    used = fields.Integer(required=True, metadata={"minimum": 0})
    limit = fields.Integer(
        required=True, allow_none=True, metadata={"minimum": 0, "description": "null: no limit."}
    )


class ResourcesUsedShown(Shown):
    class Meta(Shown.Meta):
        include: ClassVar = {kind: fields.Nested(UsedShown, required=True) for kind in KINDS}


class UsageShown(Shown):
    plan = fields.String(required=True)
    rate_limit = fields.String(data_key="rateLimit", required=True, allow_none=True, metadata=RATE)
    key_rate_limit = fields.String(
        data_key="keyRateLimit", required=True, allow_none=True, metadata=RATE
    )
    resources = fields.Nested(ResourcesUsedShown, required=True)


blueprint = Blueprint(
    "usage",
    __name__,
    url_prefix="/<client_id>/api/v1/usage",
    description="What the plan allows, and what is used. Any key of the account may read it.",
)


@blueprint.get("")
@documents("getUsage", 200, UsageShown, "Read the plan's limits and what is used")
def _get() -> flask.Response:
    return as_json(usage_shown(account()))


def usage_shown(of: Account) -> dict[str, Any]:
    plan = of.plan
    used = hub().records.counts(of)
    return {
        "plan": plan.name,
        # As plans.toml writes a rate.
        "rateLimit": str(plan.rate_limit) if plan.rate_limit else None,
        "keyRateLimit": str(plan.key_rate_limit) if plan.key_rate_limit else None,
        "resources": {
            name: {"used": used.get(kind.code, 0), "limit": plan.quotas.get(name)}
            for name, kind in KINDS.items()
        },
    }
