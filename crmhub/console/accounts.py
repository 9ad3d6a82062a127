"""The accounts, and how another one is opened."""

from __future__ import annotations

from typing import Any

import flask

from crmhub.accounts import accounts as stored
from crmhub.api.http.authentication import hub
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import page, refused
from crmhub.console.sessions import author
from crmhub.errors import HubError
from crmhub.operations import queue_statistics
from crmhub.operations.open_account import open_account

_AT_ONCE = 50


@blueprint.get("/accounts")
def accounts() -> flask.Response:
    """List the accounts, the oldest first; some of them by name."""
    words = flask.request.args.get("q", "").strip()[:200]
    after = _number(flask.request.args.get("after", ""))
    with hub().database.reading() as db:
        found = stored.search_accounts(db, hub().plans, words, after=after, limit=_AT_ONCE + 1)
    shown = found[:_AT_ONCE]
    return page(
        "accounts/list.html",
        accounts=shown,
        waiting=queue_statistics.waiting(hub().database, [one.id for one in shown]),
        titles={one.name: one.title or one.name for one in hub().registry.installed()},
        q=words,
        after=after,
        next=shown[-1].id if len(found) > _AT_ONCE else None,
    )


@blueprint.get("/accounts/new")
def new_account() -> flask.Response:
    """Show the form for another account."""
    return page("accounts/new.html", given={}, **_choices())


@blueprint.post("/accounts/new")
def open_new_account() -> flask.Response:
    """Open an account and show what it is reached by, this once."""
    given = {
        name: flask.request.form.get(name, "").strip() for name in ("name", "client_id", "plan")
    }
    try:
        account, issued = open_account(
            hub(),
            name=given["name"],
            # Not the next free one: a form that is sent twice opens one account.
            client_id=given["client_id"] or stored.client_id_of(given["name"]),
            plan=given["plan"] or "default",
            by=author(),
        )
    except HubError as exc:
        return refused(exc, "accounts/new.html", given=given, **_choices())
    return page("accounts/opened.html", 201, account=account, issued=issued)


def _choices() -> dict[str, Any]:
    return {"plans": [(name, name) for name in sorted(hub().plans)]}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
