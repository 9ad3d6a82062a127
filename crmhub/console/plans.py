"""The console's pages about the hub as a whole: its plans and its running processes."""

from __future__ import annotations

import flask

from crmhub import __version__
from crmhub.accounts import accounts
from crmhub.api.http.authentication import hub
from crmhub.console.access import needs
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import page
from crmhub.operators import processes
from crmhub.properties.kinds import KINDS


@blueprint.get("/plans")
@needs("data", all_accounts=True)
def plans() -> flask.Response:
    with hub().database.reading() as db:
        counts = accounts.count_by_plan(db)
    return page(
        "plans/plans.html",
        plans=sorted(hub().plans.values(), key=lambda plan: plan.name),
        counts=counts,
        kinds=list(KINDS),
        file=hub().settings.plans,
    )


@blueprint.get("/workers")
@needs("data", all_accounts=True)
def workers() -> flask.Response:
    listed = processes.list_processes(hub().database)
    return page(
        "plans/workers.html",
        processes=listed,
        current=__version__,
        has_worker=any(one.kind == "worker" and one.alive for one in listed),
    )
