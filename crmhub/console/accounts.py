"""The console's list of accounts, and the form that opens a new account."""

from __future__ import annotations

from typing import Any

import flask

from crmhub.accounts import accounts as stored
from crmhub.accounts.changes import client_id_of
from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.access import needs
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import page, refused
from crmhub.console.people import visible_states
from crmhub.console.sessions import author, visible_accounts
from crmhub.errors import HubError
from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.crm import crm_states

_PAGE_SIZE = 50


@blueprint.get("/accounts")
@needs("activity")
def accounts() -> flask.Response:
    words = flask.request.args.get("q", "").strip()[:200]
    after = list_filters.parse_id(flask.request.args.get("after", "")) or 0
    with hub().database.reading() as db:
        matches = stored.search_accounts(
            db,
            hub().plans,
            words,
            after=after,
            limit=_PAGE_SIZE + 1,
            among=visible_accounts(),
        )
        shown = matches[:_PAGE_SIZE]
        crms = visible_states(crm_states.states_of(hub(), db, shown))
    return page(
        "accounts/list.html",
        accounts=shown,
        crms=crms,
        q=words,
        after=after,
        next=shown[-1].id if len(matches) > _PAGE_SIZE else None,
    )


@blueprint.get("/accounts/new")
@needs("change", all_accounts=True)
def new_account() -> flask.Response:
    return page("accounts/new.html", given={}, **_plan_choices())


@blueprint.post("/accounts/new")
@needs("change", all_accounts=True)
def open_new_account() -> flask.Response:
    given = {
        name: flask.request.form.get(name, "").strip() for name in ("name", "client_id", "plan")
    }
    try:
        account, issued = open_account(
            hub(),
            name=given["name"],
            # Not the next free id: a form submitted twice must open only one account.
            client_id=given["client_id"] or client_id_of(given["name"]),
            plan=given["plan"] or "default",
            by=author(),
        )
    except HubError as exc:
        return refused(exc, "accounts/new.html", given=given, **_plan_choices())
    return page("accounts/opened.html", 201, account=account, issued=issued)


def _plan_choices() -> dict[str, Any]:
    return {"plans": [(name, name) for name in sorted(hub().plans)]}
