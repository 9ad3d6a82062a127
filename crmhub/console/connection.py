"""The console's CRM page of an account: a form for the settings that its adapter declares."""

from __future__ import annotations

from typing import Any

import flask

from crmhub.api.http.authentication import hub
from crmhub.console.access import needs
from crmhub.console.account import account_context, installed
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author
from crmhub.errors import HubError, NotFound
from crmhub.operations import queue_statistics, set_crm, switch_crm
from crmhub.operations.set_crm import Crm
from crmhub.operations.switch_crm import DECISIONS

_FATES = {
    "finish": "Finish them in the CRM that is left; it is called for nothing else any more.",
    "move": "Move them to the new CRM, where the former one was not told of the person yet; the"
    " others are finished there.",
    "drop": "Drop them. They can be brought back one by one, to the former CRM.",
}
_SETTING, _SECRET, _REMOVED = "setting.", "secret.", "removed."


@blueprint.get("/accounts/<client_id>/crm")
@needs("data")
def crm(client_id: str) -> flask.Response:
    """Show the form with the settings of the account's CRM.

    If the query parameter `adapter` names another adapter, show the form for that adapter instead.
    """
    return page("account/crm.html", **_shown(client_id, flask.request.args.get("adapter", "")))


@blueprint.post("/accounts/<client_id>/crm")
@needs("change")
def crm_save(client_id: str) -> flask.Response:
    """Save the submitted CRM settings; test the connection first, unless the form says not to."""
    form = flask.request.form
    name, decision = form.get("adapter", ""), form.get("queued", "")
    test = "unasked" not in form
    try:
        set_crm.set_crm(
            hub(),
            client_id,
            _crm(name),
            test=test,
            queued=decision if decision in DECISIONS else None,
            by=author(),
            expected=form.get("seen"),
        )
    except HubError as exc:
        return refused(exc, "account/crm.html", **_shown(client_id, name, typed=True))
    message = "Saved; the CRM says that all is well." if test else "Saved. The CRM was not asked."
    return done(message, "console.crm", client_id=client_id)


@blueprint.post("/accounts/<client_id>/crm/check")
@needs("change")
def crm_check(client_id: str) -> flask.Response:
    """Test a connection with the submitted CRM settings; nothing is saved."""
    name = flask.request.form.get("adapter", "")
    try:
        wrong = set_crm.check_crm(hub(), client_id, _crm(name))
    except HubError as exc:
        return refused(exc, "account/crm.html", **_shown(client_id, name, typed=True))
    shown = _shown(client_id, name, typed=True)
    return page("account/crm.html", asked=True, wrong=wrong, **shown)


def _crm(adapter: str) -> Crm:
    """Return the CRM settings of the submitted form, for the adapter with the name `adapter`.

    A secret whose field is empty stays unchanged, unless the form says to remove the secret.
    """
    form = flask.request.form

    def fields(prefix: str) -> dict[str, str]:
        return {
            name.removeprefix(prefix): value.strip()
            for name, value in form.items()
            if name.startswith(prefix)
        }

    secrets = {name: value for name, value in fields(_SECRET).items() if value}
    removed = dict.fromkeys(fields(_REMOVED), "")
    return Crm(adapter, fields(_SETTING), {**removed, **secrets}, whole=True, guarded=True)


def _shown(client_id: str, name: str, *, typed: bool = False) -> dict[str, Any]:
    """Return the template variables of the CRM page for the adapter `name`.

    An empty name means the account's present adapter. The form shows the submitted settings if
    `typed` is true, else the stored settings. Raises NotFound for an unknown adapter.
    """
    shared = account_context(client_id)
    account = shared["account"]
    current = account.connection.adapter
    adapter = installed(name or current)
    if name and name not in hub().registry.names:
        raise NotFound(f"There is no adapter {name[:60]!r} here.")
    same = adapter.name == current
    given = dict(account.connection.settings) if same else {}
    removed: set[str] = set()
    if typed:
        given = dict(_crm(adapter.name).settings)
        removed = {
            field.removeprefix(_REMOVED)
            for field in flask.request.form
            if field.startswith(_REMOVED)
        }
    with hub().database.reading() as db:
        queued = switch_crm.count_queued(db, account)
    stored = shared["detail"].secrets if same else ()
    return {
        **shared,
        "adapter": adapter,
        "seen": set_crm.fingerprint(account),
        "present": installed(current),
        "same": same,
        "adapters": [
            (choice.name, choice.title or choice.name) for choice in hub().registry.installed()
        ],
        "given": given,
        "removed": removed,
        # None: the stored secrets cannot be decrypted.
        "stored": stored or (),
        "broken": stored is None,
        "away": queue_statistics.outage_of(hub().database, account),
        "queued": 0 if same else queued,
        "fates": _FATES,
        "fate": flask.request.form.get("queued", "finish"),
    }
