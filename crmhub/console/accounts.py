"""The console's list of accounts, the form that opens one, and the overview page of an account."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import flask
from flask_babel import gettext, lazy_gettext

from crmhub.accounts import accounts as stored
from crmhub.accounts.accounts import Account
from crmhub.accounts.changes import client_id_of
from crmhub.adapter.registry import Installed
from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.pages import add_page, done, errors_on, page, typed
from crmhub.console.sessions import author, blueprint, may_open, needs, signed_in, visible_accounts
from crmhub.console.visibility import visible_copies, visible_states
from crmhub.identity import possible_duplicates
from crmhub.operators.accounts import change_account as operating
from crmhub.operators.accounts.change_account import Detail
from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.alerts import queue_statistics
from crmhub.operators.crm import copy_crm, crm_states
from crmhub.properties.kinds import KINDS

TABS = (
    (lazy_gettext("Overview"), "console.account"),
    (lazy_gettext("CRM"), "console.crm"),
    (lazy_gettext("Field map"), "console.fieldmap"),
    (lazy_gettext("Bots"), "console.bots"),
    (lazy_gettext("Teams"), "console.teams"),
    (lazy_gettext("Keys"), "console.keys"),
    (lazy_gettext("Properties"), "console.properties"),
    (lazy_gettext("Records"), "console.records"),
    (lazy_gettext("Events"), "console.events"),
    (lazy_gettext("Import and export"), "console.imports"),
    (lazy_gettext("Possible duplicates"), "console.duplicates"),
)
"""Label and endpoint; the endpoints of a tab's subpages begin with the tab's endpoint."""

SWITCHES = (
    (
        "strict",
        lazy_gettext("Strict"),
        lazy_gettext(
            "One invalid value rejects the whole helper call. When off, the valid values are"
            " stored, and the response names the others."
        ),
    ),
    (
        "soft_errors",
        lazy_gettext("Soft errors"),
        lazy_gettext(
            "Helpers answer errors with status 200, for builders that hide all other responses."
        ),
    ),
    (
        "require_secret",
        lazy_gettext("Require the webhook secret"),
        lazy_gettext("Every helper call must send it in the header X-Webhook-Secret."),
    ),
    (
        "bare_tokens",
        lazy_gettext("Find the account by the contactToken alone"),
        lazy_gettext("getProperties and setProperties may be called without an id in the path."),
    ),
    (
        "blank_clears",
        lazy_gettext("Blank values clear properties"),
        lazy_gettext(
            "When off, setProperties leaves a property unchanged if its new value is blank."
        ),
    ),
    (
        "phone_identifies",
        lazy_gettext("The phone identifies the contact"),
        lazy_gettext(
            "A lead's phone takes precedence over its conversation. For channels that identify"
            " users by phone number, such as WhatsApp and SMS."
        ),
    ),
    (
        "auto_define_properties",
        lazy_gettext("Define unknown properties"),
        lazy_gettext("The public API stores an unknown property as text instead of refusing it."),
    ),
)
"""Name, label, explanation."""
_OTHERS = (
    "name", "plan", "lead_requires", "deadline_s", "region", "language", "rotation", "portal_alias",
)  # fmt: skip
_SETTINGS = (*_OTHERS, *(name for name, _, _ in SWITCHES))
_LEAD = (
    ("email", lazy_gettext("an email")),
    ("email_or_phone", lazy_gettext("an email or a phone")),
)
SAVED = lazy_gettext("Saved. The change takes effect within a second.")
_PAGE_SIZE = 50


def account_context(client_id: str) -> dict[str, Any]:
    """Return the template variables that all pages of an account use."""
    detail = operating.detail(hub(), client_id)
    return {"account": detail.account, "detail": detail, "tabs": tabs(detail.account)}


def tabs(account: Account) -> list[tuple[str, str]]:
    """Return the label and endpoint of each tab that the user may open."""
    with hub().database.reading() as db:
        count = possible_duplicates.count_open(db, account)
    counts = {"console.duplicates": f" ({count:,})" if count else ""}
    return [
        (f"{label}{counts.get(endpoint, '')}", endpoint)
        for label, endpoint in TABS
        if may_open(signed_in(), endpoint)
    ]


def installed(name: str) -> Installed:
    """Return the installed adapter with this name, or an `Installed` with an `error`."""
    for adapter in hub().registry.installed():
        if adapter.name == name:
            return adapter
    return Installed(
        name, "", "", error=gettext("No adapter named %(name)s is installed.", name=repr(name))
    )


# --- the list, and a new account ------------------------------------------------------------------


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


def _new_context() -> dict[str, Any]:
    return {"given": {}, "plans": _plan_choices()}


def _typed_new() -> dict[str, str]:
    return typed("name", "client_id", "plan")


add_page(
    "/accounts/new",
    "new_account",
    needs("change", all_accounts=True),
    "accounts/new.html",
    _new_context,
)


@blueprint.post("/accounts/new")
@needs("change", all_accounts=True)
@errors_on("accounts/new.html", _new_context, _typed_new)
def open_new_account() -> flask.Response:
    given = _typed_new()
    account, issued = open_account(
        hub(),
        name=given["name"],
        # Not the next free id: a form submitted twice must open only one account.
        client_id=given["client_id"] or client_id_of(given["name"]),
        plan=given["plan"] or "default",
        by=author(),
    )
    return page("accounts/opened.html", 201, account=account, issued=issued)


def _plan_choices() -> list[tuple[str, str]]:
    return [(name, name) for name in sorted(hub().plans)]


# --- the overview page of an account -------------------------------------------------------------


def _overview(client_id: str) -> dict[str, Any]:
    shared = account_context(client_id)
    detail: Detail = shared["detail"]
    plan, counts = detail.account.plan, hub().records.counts(detail.account)
    with hub().database.reading() as db:
        crms = visible_states(crm_states.states_of(hub(), db, [detail.account]))[detail.account.id]
    alias = "".join(webhook_id.value for webhook_id in detail.ids if webhook_id.purpose == "alias")
    given = {
        "name": detail.account.name,
        "plan": plan.name,
        **{name: _text(value) for name, value in asdict(detail.account.switches).items()},
        "portal_alias": alias,
    }
    return {
        **shared,
        "adapter": installed(detail.account.connection.adapter),
        "crms": crms,
        "copies": visible_copies(copy_crm.states(hub(), detail.account)),
        "remote": hub().registry.is_remote(detail.account.connection.adapter),
        "waiting": queue_statistics.waiting(hub().database, [detail.account.id])[detail.account.id],
        "usage": [
            (name, counts.get(kind.code, 0), plan.quotas.get(name)) for name, kind in KINDS.items()
        ],
        "given": given,
        "seen": operating.settings_version(hub(), detail.account, _SETTINGS),
        "switches": SWITCHES,
        "lead": _LEAD,
        "plans": _plan_choices(),
    }


def _typed() -> dict[str, str]:
    given = typed(*(name for name in _OTHERS if name in flask.request.form))
    return given | {name: _text(name in flask.request.form) for name, _, _ in SWITCHES}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


add_page("/accounts/<client_id>", "account", needs("activity"), "account/overview.html", _overview)


@blueprint.post("/accounts/<client_id>")
@needs("change")
@errors_on("account/overview.html", _overview, _typed)
def change_account(client_id: str) -> flask.Response:
    """Save the overview form, unless somebody else changed the settings since it was shown."""
    seen = flask.request.form.get("seen")
    operating.change(hub(), client_id, _typed(), by=author(), shown=_SETTINGS, expected=seen)
    return done(SAVED, "console.account", client_id=client_id)


@blueprint.post("/accounts/<client_id>/disabled")
@needs("change")
def disable_account(client_id: str) -> flask.Response:
    disabled = flask.request.form.get("disabled") == "true"
    operating.change(hub(), client_id, {}, disabled=disabled, by=author())
    message = (
        gettext("The account is disabled.") if disabled else gettext("The account is enabled.")
    )
    return done(message, "console.account", client_id=client_id)
