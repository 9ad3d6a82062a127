"""The admin API's route for the list of plans; plans.toml defines them."""

from __future__ import annotations

import flask
from marshmallow import fields

from crmhub.api.admin.account_answers import PlanShown
from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.lists import all_of
from crmhub.api.http.authentication import hub, needs
from crmhub.api.http.schemas import PageOf


class PlanPageShown(PageOf):
    results = fields.List(fields.Nested(PlanShown), required=True)


@blueprint.get("/plans")
@documented("listPlans", 200, PlanPageShown, "List the plans that accounts can be on")
@needs("accounts:read")
def _list() -> flask.Response:
    return all_of(PlanShown(many=True).dump([plan for _, plan in sorted(hub().plans.items())]))
