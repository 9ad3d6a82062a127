"""The console's pages for the copy of an account's CRM.

The CRM page shows the copy, and its buttons send forms here. A page of its own says what a copy
would hold and take, begins it, and later changes its properties; it asks the CRM, so that the CRM
page opens without it.
"""

from __future__ import annotations

from typing import Any

import flask
from flask_babel import gettext

from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.console.accounts import account_context
from crmhub.console.connection import HOW_OFTEN, count_missing, crm_context
from crmhub.console.pages import add_page, done, errors_on, message_of, typed
from crmhub.console.sessions import author, blueprint, needs
from crmhub.errors import Conflict, HubError, Semantic
from crmhub.operators.accounts import change_account
from crmhub.operators.crm import copy_crm, copy_plan

_CHOICE = ("mirror", "mirror_properties")


def _plan_context(client_id: str) -> dict[str, Any]:
    """Return the template variables of the page that begins a copy, or changes its properties.

    `unplanned`: why the CRM does not tell its properties, "" if it does. `unread`: the chosen
    properties that the page cannot offer, since the connection cannot read their kind now.
    """
    shared = account_context(client_id)
    account: Account = shared["account"]
    planned, unplanned, unread = None, "", frozenset[str]()
    try:
        planned = copy_plan.plan(hub(), account)
    except HubError as exc:
        message = message_of(exc)
        unplanned = f"{message[:1].upper()}{message[1:]}"
    if planned and any(kind.obstacle for kind in planned.kinds):
        offered = {one.name for kind in planned.kinds for one in kind.properties}
        unread = account.switches.copied_properties - offered
    return {
        **shared,
        "crm_name": hub().registry.title(account.connection.adapter),
        "planned": planned,
        "unplanned": unplanned,
        "groups": list(copy_plan.choices(planned)) if planned else (),
        "unread": sorted(unread),
        "seen": change_account.settings_version(hub(), account, _CHOICE),
        "example": copy_plan.EXAMPLE,
    }


add_page(
    "/accounts/<client_id>/crm/copy",
    "crm_copy",
    needs("change"),
    "account/copy.html",
    _plan_context,
)


@blueprint.post("/accounts/<client_id>/crm/copy")
@needs("change")
@errors_on("account/copy.html", _plan_context)
def crm_copy_begin(client_id: str) -> flask.Response:
    """Begin a copy with the checked properties, or let the present copy have these.

    If all that the form offered are checked, those that the CRM gets later are copied, too.
    """
    form = flask.request.form
    names, offered = form.getlist("property"), form.get("offered", "")
    if not names:
        raise Semantic("Choose at least one property.")
    chosen = "" if str(len(names)) == offered else ",".join(names)
    values, seen = {"mirror": True, "mirror_properties": chosen}, form.get("seen")
    had_copy = hub().load_account(client_id).switches.mirror
    account = change_account.change(
        hub(), client_id, values, by=author(), shown=_CHOICE, expected=seen
    )
    if had_copy:
        return _to_crm(gettext("Saved. A worker applies the choice of properties."), client_id)
    crm = hub().registry.title(account.connection.adapter)
    message = gettext("A worker loads the copy of %(crm)s.", crm=crm)
    return _to_crm(message, client_id)


@blueprint.post("/accounts/<client_id>/crm/copy/every")
@needs("change")
@errors_on("account/crm.html", crm_context)
def crm_copy_every(client_id: str) -> flask.Response:
    form = flask.request.form
    values, seen = typed(*HOW_OFTEN), form.get("seen")
    account = change_account.change(
        hub(), client_id, values, by=author(), shown=HOW_OFTEN, expected=seen
    )
    seconds = f"{account.switches.mirror_every_s:,}"
    crm = hub().registry.title(account.connection.adapter)
    message = gettext("%(crm)s is asked every %(seconds)s s.", crm=crm, seconds=seconds)
    return _to_crm(message, client_id)


@blueprint.post("/accounts/<client_id>/crm/copy/load")
@needs("change")
@errors_on("account/crm.html", crm_context)
def crm_copy_load(client_id: str) -> flask.Response:
    copy_crm.load_anew(hub(), hub().load_account(client_id), by=author())
    return _to_crm(gettext("A worker loads all records again."), client_id)


@blueprint.post("/accounts/<client_id>/crm/copy/compare")
@needs("change")
@errors_on("account/crm.html", crm_context)
def crm_copy_compare(client_id: str) -> flask.Response:
    copy_crm.compare(hub(), hub().load_account(client_id), by=author())
    return _to_crm(gettext("A worker compares the copy with the CRM."), client_id)


@blueprint.post("/accounts/<client_id>/crm/copy/accept")
@needs("change")
@errors_on("account/crm.html", crm_context)
def crm_copy_accept(client_id: str) -> flask.Response:
    """Compare again, and archive the records that the last comparison found missing."""
    account = hub().load_account(client_id)
    if flask.request.form.getlist("missing") != [
        f"{kind} {count}" for kind, count in count_missing(account)
    ]:
        raise Conflict(
            "Nothing was archived: another comparison has run since this page was opened."
            " Check the numbers and confirm again."
        )
    copy_crm.compare(hub(), account, accept=True, by=author())
    return _to_crm(gettext("A worker compares again and archives the missing records."), client_id)


@blueprint.post("/accounts/<client_id>/crm/copy/off")
@needs("change")
@errors_on("account/crm.html", crm_context)
def crm_copy_off(client_id: str) -> flask.Response:
    change_account.change(hub(), client_id, {"mirror": False}, by=author())
    return _to_crm(gettext("A worker deletes the copy."), client_id)


def _to_crm(message: str, client_id: str) -> flask.Response:
    return done(message, "console.crm", client_id=client_id)
