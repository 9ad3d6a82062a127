"""The console's pages for the copy of an account's CRM.

The CRM page shows the copy, and its buttons send forms here. A page of its own says what a copy
would hold and take, and begins it; it asks the CRM, so that the CRM page opens without it.
"""

from __future__ import annotations

from typing import Any

import flask

from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.console.accounts import account_context, installed
from crmhub.console.connection import crm_context
from crmhub.console.pages import add_page, done, errors_on
from crmhub.console.sessions import author, blueprint, needs
from crmhub.errors import HubError, Semantic
from crmhub.operators.accounts import change_account
from crmhub.operators.crm import copy_crm, copy_plan


def _plan_context(client_id: str) -> dict[str, Any]:
    """Return the template variables of the page that begins a copy.

    `unplanned`: why the CRM does not tell its properties, "" if it does.
    """
    shared = account_context(client_id)
    account: Account = shared["account"]
    planned, unplanned = None, ""
    if not account.switches.mirror:
        try:
            planned = copy_plan.plan(hub(), account)
        except HubError as exc:
            unplanned = f"{exc.message[:1].upper()}{exc.message[1:]}"
    return {
        **shared,
        "crm_name": _title(account),
        "planned": planned,
        "unplanned": unplanned,
        "groups": list(copy_plan.choices(planned)) if planned else (),
        "example": copy_plan.EXAMPLE,
    }


def _title(account: Account) -> str:
    present = installed(account.connection.adapter)
    return present.title or present.name


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
    """Begin a copy with the checked properties.

    If all that the form offered are checked, those that the CRM gets later are copied, too.
    """
    form = flask.request.form
    names, offered = form.getlist("property"), form.get("offered", "")
    if not names:
        raise Semantic("Choose at least one property.")
    chosen = "" if str(len(names)) == offered else ",".join(names)
    values = {"mirror": True, "mirror_properties": chosen}
    account = change_account.change(hub(), client_id, values, by=author())
    return _to_crm(f"A worker loads the copy of {_title(account)}.", client_id)


@blueprint.post("/accounts/<client_id>/crm/copy/load")
@needs("change")
@errors_on("account/crm.html", crm_context)
def crm_copy_load(client_id: str) -> flask.Response:
    copy_crm.load_anew(hub(), hub().load_account(client_id), by=author())
    return _to_crm("A worker loads all records again.", client_id)


@blueprint.post("/accounts/<client_id>/crm/copy/compare")
@needs("change")
@errors_on("account/crm.html", crm_context)
def crm_copy_compare(client_id: str) -> flask.Response:
    copy_crm.compare(hub(), hub().load_account(client_id), by=author())
    return _to_crm("A worker compares the copy with the CRM.", client_id)


@blueprint.post("/accounts/<client_id>/crm/copy/off")
@needs("change")
@errors_on("account/crm.html", crm_context)
def crm_copy_off(client_id: str) -> flask.Response:
    change_account.change(hub(), client_id, {"mirror": False}, by=author())
    return _to_crm("A worker deletes the copy.", client_id)


def _to_crm(message: str, client_id: str) -> flask.Response:
    return done(message, "console.crm", client_id=client_id)
