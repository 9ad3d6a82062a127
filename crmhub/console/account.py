"""One account: what it is, how it is reached, how its helpers behave."""

from __future__ import annotations

import flask

from crmhub.actions import operating
from crmhub.api.authentication import hub
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import page

TABS = (("Overview", "console.account"),)
"""The pages of an account: label and endpoint."""


@blueprint.get("/accounts/<client_id>")
def account(client_id: str) -> flask.Response:
    """Show an account."""
    found = operating.detail(hub(), client_id)
    return page("account/overview.html", account=found.account, detail=found, tabs=TABS)
