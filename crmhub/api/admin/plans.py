"""The plans that accounts can be on; they are changed in plans.toml."""

from __future__ import annotations

import flask
from marshmallow import fields

from crmhub.api.admin.account_answers import plan_shown
from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.lists import PageOf, all_of
from crmhub.api.http.authentication import hub, needs
from crmhub.api.schemas import Shown
from crmhub.api.usage import RATE


class PlanShown(Shown):
    """What accounts on it may use."""

    name = fields.String(required=True)
    rate_limit = fields.String(data_key="rateLimit", required=True, allow_none=True, metadata=RATE)
    key_rate_limit = fields.String(
        data_key="keyRateLimit", required=True, allow_none=True, metadata=RATE
    )
    quotas = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(metadata={"minimum": 0}),
        required=True,
        metadata={
            "description": "How many records of a kind; a kind that is missing has no limit."
        },
    )


class PlanPageShown(PageOf):
    """All plans, by name."""

    results = fields.List(fields.Nested(PlanShown), required=True)


@blueprint.get("/plans")
@documented("listPlans", 200, PlanPageShown, "List the plans that accounts can be on")
@needs("accounts:read")
def _list() -> flask.Response:
    return all_of([plan_shown(plan) for _, plan in sorted(hub().plans.items())])
