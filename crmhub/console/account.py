"""One account: what it is, what its helpers do where there is a choice, what it may use."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import flask

from crmhub.accounts.accounts import Account
from crmhub.adapter.registry import Installed
from crmhub.api.http.authentication import hub
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author
from crmhub.errors import HubError
from crmhub.identity import possible_duplicates
from crmhub.operations import change_account as operating
from crmhub.operations import queue_statistics
from crmhub.operations.change_account import Detail
from crmhub.properties.kinds import KINDS

TABS = (
    ("Overview", "console.account"),
    ("CRM", "console.crm"),
    ("Field map", "console.fieldmap"),
    ("Bots", "console.bots"),
    ("Keys", "console.keys"),
    ("Catalogue", "console.catalogue"),
    ("Records", "console.records"),
    ("Possible duplicates", "console.duplicates"),
)
"""The pages of an account: label and endpoint. Endpoints behind a tab begin with its own."""

SWITCHES = (
    (
        "strict",
        "Strict",
        "One bad value refuses a whole helper call. Otherwise the good ones are stored, and the"
        " others named in the answer.",
    ),
    (
        "soft_errors",
        "Soft errors",
        "Helpers answer errors with status 200, for builders that show nothing of others.",
    ),
    (
        "require_secret",
        "Demand the webhook secret",
        "Every helper call must carry it in the header X-Webhook-Secret.",
    ),
    (
        "bare_tokens",
        "Find the account by the contactToken alone",
        "getProperties and setProperties may be called without an id in the path.",
    ),
    (
        "phone_identifies",
        "The phone identifies the contact",
        "A lead's phone decides before its conversation. For channels whose users are known by"
        " their phone number, such as WhatsApp and SMS.",
    ),
    (
        "auto_define_properties",
        "Define unknown properties",
        "The public API stores an unknown property as text instead of refusing it.",
    ),
)
"""Those that are on or off: name, label, and what it means."""
_OTHERS = ("name", "plan", "lead_requires", "deadline_s", "region", "rotation", "portal_alias")
# Beside a value, under this and its name: what the page showed before anybody typed.
_SHOWN = "shown."
_LEAD = (("email", "an email"), ("email_or_phone", "an email or a phone"))


def about(client_id: str) -> dict[str, Any]:
    """Return what every page of an account is made from; raises NotFound."""
    found = operating.detail(hub(), client_id)
    return {"account": found.account, "detail": found, "tabs": tabs(found.account)}


def tabs(account: Account) -> list[tuple[str, str]]:
    """Return the pages of an account, with how many possible duplicates are to be decided on."""
    with hub().database.reading() as db:
        count = possible_duplicates.count_open(db, account)
    counts = {"console.duplicates": f" ({count:,})" if count else ""}
    return [(f"{label}{counts.get(endpoint, '')}", endpoint) for label, endpoint in TABS]


def installed(name: str) -> Installed:
    """Return the adapter of this name, with its error where it cannot be used."""
    for one in hub().registry.installed():
        if one.name == name:
            return one
    return Installed(name, "", "", error=f"No adapter named {name!r} is installed.")


@blueprint.get("/accounts/<client_id>")
def account(client_id: str) -> flask.Response:
    """Show an account."""
    return page("account/overview.html", **_overview(client_id))


@blueprint.post("/accounts/<client_id>")
def change_account(client_id: str) -> flask.Response:
    """Change what differs from what the page showed: others may have changed the rest since."""
    form = flask.request.form
    values: dict[str, Any] = {name: form.get(name, "").strip() for name in _OTHERS if name in form}
    values |= {name: "true" if name in form else "false" for name, _, _ in SWITCHES}
    shown = {name: form[f"{_SHOWN}{name}"] for name in values if f"{_SHOWN}{name}" in form}
    changed = {name: value for name, value in values.items() if value != shown.get(name)}
    try:
        operating.change(hub(), client_id, changed, by=author())
    except HubError as exc:
        again = {"given": values, "shown": shown}
        return refused(exc, "account/overview.html", **{**_overview(client_id), **again})
    return done("Saved. It is in effect within a second.", "console.account", client_id=client_id)


@blueprint.post("/accounts/<client_id>/disabled")
def disable_account(client_id: str) -> flask.Response:
    """Shut the account everywhere, or open it again."""
    disabled = flask.request.form.get("disabled") == "true"
    operating.change(hub(), client_id, {}, disabled=disabled, by=author())
    said = "The account is disabled." if disabled else "The account is enabled."
    return done(said, "console.account", client_id=client_id)


def _overview(client_id: str) -> dict[str, Any]:
    shared = about(client_id)
    found: Detail = shared["detail"]
    plan, used = found.account.plan, hub().records.counts(found.account)
    alias = "".join(one.value for one in found.ids if one.purpose == "alias")
    given = {
        "name": found.account.name,
        "plan": plan.name,
        **{name: _text(value) for name, value in asdict(found.account.switches).items()},
        "portal_alias": alias,
    }
    return {
        **shared,
        "adapter": installed(found.account.connection.adapter),
        "away": queue_statistics.away(hub().database, found.account),
        "waiting": queue_statistics.waiting(hub().database, [found.account.id])[found.account.id],
        "usage": [
            (name, used.get(kind.code, 0), plan.quotas.get(name)) for name, kind in KINDS.items()
        ],
        "given": given,
        "shown": given,
        "switches": SWITCHES,
        "lead": _LEAD,
        "plans": [(name, name) for name in sorted(hub().plans)],
    }


def _text(value: Any) -> str:
    """Return a switch as a form holds it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
