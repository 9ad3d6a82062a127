"""The console's CRM page of an account: a form for the settings that its adapter declares.

The form follows the chosen CRM: the script fetches its fields at once, and without the script the
button "Show fields" does. The form says in `shown` whose fields it has, so that it is never saved
with the fields of another CRM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flask

from crmhub.accounts.accounts import Account, ConnectionInfo
from crmhub.api.http.addresses import public_url
from crmhub.api.http.authentication import hub
from crmhub.console.access import needs
from crmhub.console.account import account_context, installed
from crmhub.console.blueprint import PREFIX, blueprint
from crmhub.console.field_faults import set_faults
from crmhub.console.list_filters import parse_id, text
from crmhub.console.pages import done, page, refused, see
from crmhub.console.sessions import author, signed_in
from crmhub.errors import HubError, NotFound, Semantic
from crmhub.operators.alerts import queue_statistics
from crmhub.operators.crm import connect_crm, mappable_properties, set_crm, switch_crm
from crmhub.operators.crm.set_crm import Crm, Fault
from crmhub.operators.crm.switch_crm import DECISIONS, Decision

_SETTING, _SECRET, _REMOVED = "setting.", "secret.", "removed."
CALLBACK = f"{PREFIX}/connect/callback"
"""Where a CRM sends people back after they have let the hub in."""


@blueprint.get("/accounts/<client_id>/crm")
@needs("data")
def crm(client_id: str) -> flask.Response:
    """Show the CRM form.

    Query parameters: `adapter` chooses the fields, `restore` (id of a former connection) and
    `typed` (id of a failed visit to the CRM) the values.
    """
    name = flask.request.args.get("adapter", "")
    if not name and (typed := _typed_before(client_id, "")):
        name = typed.adapter
    return page("account/crm.html", **crm_page(client_id, name))


@blueprint.post("/accounts/<client_id>/crm/fields")
@needs("change")
def crm_fields(client_id: str) -> flask.Response:
    name = flask.request.form.get("adapter", "")
    return see(flask.url_for("console.crm", client_id=client_id, adapter=name))


@blueprint.post("/accounts/<client_id>/crm")
@needs("change")
def crm_save(client_id: str) -> flask.Response:
    form = flask.request.form
    name = form.get("adapter", "")
    test = "unasked" not in form
    try:
        set_crm.set_crm(
            hub(),
            client_id,
            given_crm(client_id, name),
            test=test,
            queued=given_decision(),
            by=author(),
            expected=form.get("seen"),
        )
    except HubError as exc:
        return refused_crm(exc, client_id, name)
    message = "Saved. Connection test passed." if test else "Saved without testing."
    return done(message, "console.crm", client_id=client_id)


@blueprint.post("/accounts/<client_id>/crm/check")
@needs("change")
def crm_check(client_id: str) -> flask.Response:
    name = flask.request.form.get("adapter", "")
    try:
        crm = given_crm(client_id, name)
        fault = set_crm.check_crm(hub(), client_id, crm)
    except HubError as exc:
        return refused_crm(exc, client_id, name)
    if fault and fault.setting:
        set_faults({form_fields(name).get(fault.setting, ""): fault.message})
    shown = crm_page(client_id, name, typed=True, fault=fault)
    account = hub().load_account(client_id)
    # The warnings are about the stored connection.
    is_stored = fault is None and _is_stored(crm, account.connection)
    warnings = mappable_properties.unfilled(hub(), account) if is_stored else []
    return page("account/crm.html", tested=True, warnings=warnings, **shown)


def _is_stored(crm: Crm, connection: ConnectionInfo) -> bool:
    """Return whether submitted settings, without a new secret, are those of the connection."""
    if crm.adapter != connection.adapter or any(crm.credentials.values()):
        return False
    return all(
        (crm.settings.get(one.name) or one.default)
        == (connection.settings.get(one.name) or one.default)
        for one in installed(crm.adapter).settings
        if not one.secret
    )


def refused_crm(error: HubError, client_id: str, name: str) -> flask.Response:
    context = crm_page(client_id, name, typed=True)
    return refused(error, "account/crm.html", at=form_fields(name), **context)


def given_crm(client_id: str, adapter: str) -> Crm:
    """Return the CRM settings of the submitted form.

    A secret whose field is empty stays unchanged, unless the form removes it; one typed for a
    failed visit to the CRM counts. Raises Semantic if the form has another adapter's fields or
    names another address than the visit did.
    """
    form = flask.request.form
    if form.get("shown", adapter) != adapter:
        title = installed(adapter).title or adapter
        raise Semantic(f"Not saved. Fill in the fields of {title} first.")

    secrets = {name: value for name, value in _typed_fields(_SECRET).items() if value}
    removed = dict.fromkeys(_typed_fields(_REMOVED), "")
    past, settings = parse_id(form.get("restore", "")), _typed_fields(_SETTING)
    if typed := _typed_before(client_id, adapter):
        missing = {name: text for name, text in typed.credentials.items() if name not in secrets}
        _require_same_addresses(adapter, settings, typed, missing)
        secrets |= missing
    return Crm(adapter, settings, {**removed, **secrets}, whole=True, guarded=True, past=past)


def _typed_fields(prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value.strip()
        for name, value in flask.request.form.items()
        if name.startswith(prefix)
    }


def _typed_before(client_id: str, adapter: str) -> Crm | None:
    """Return what the user typed for the failed visit that the form or the URL names, if any."""
    visit_id = text(flask.request.form.get("typed", "") or flask.request.args.get("typed", ""))
    if not visit_id:
        return None
    account = hub().load_account(client_id)
    typed = connect_crm.typed_crm(hub(), account, visit_id, user_id=signed_in().user_id)
    return typed if typed and adapter in ("", typed.adapter) else None


def _require_same_addresses(
    adapter: str, settings: Mapping[str, str], typed: Crm, secrets: Mapping[str, str]
) -> None:
    """Raise Semantic if secrets that were typed for one address would be sent to another one."""
    declared = installed(adapter).settings
    labels = ", ".join(one.label for one in declared if one.name in secrets)
    for one in declared:
        before, after = (given.get(one.name) or one.default for given in (typed.settings, settings))
        if labels and one.type == "url" and before != after:
            reason = f"For another address, enter again: {labels}."
            raise Semantic(f"settings.{one.name}: {reason}", fields=[(one.name, reason)])


def given_decision() -> Decision | None:
    given = flask.request.form.get("queued", "")
    return next((decision for decision in DECISIONS if decision == given), None)


def crm_page(
    client_id: str,
    name: str,
    *,
    typed: bool = False,
    fault: Fault | None = None,
) -> dict[str, Any]:
    """Return the template variables of the CRM page.

    An empty name means the account's present adapter. `typed`: show the submitted settings.
    `fault` is what a connection test has found.
    """
    shared = account_context(client_id)
    account: Account = shared["account"]
    current = account.connection.adapter
    adapter = installed(name or current)
    if name and name not in hub().registry.names:
        raise NotFound(f"There is no adapter {name[:60]!r} here.")
    form = flask.request.form
    # The fields of another adapter tell nothing about this one.
    typed = typed and form.get("shown", adapter.name) == adapter.name
    past = parse_id(form.get("restore", "") or flask.request.args.get("restore", ""))
    kept = [one for one in shared["detail"].past if one.adapter == adapter.name != current]
    restored = next((one for one in kept if one.id == past), None)
    base = account
    if restored is not None:
        base = set_crm.base_of(hub(), account, Crm(adapter.name, {}, {}, past=restored.id))
    same = adapter.name == base.connection.adapter
    stored = set_crm.secret_names(hub(), base) if same else ()
    given: Mapping[str, str] = base.connection.settings if same else {}
    before = _typed_before(client_id, adapter.name)
    if typed:
        given = _typed_fields(_SETTING)
    elif before:
        given = before.settings
    with hub().database.reading() as db:
        queued = switch_crm.count_queued(db, account)
    present = installed(current)
    return {
        **shared,
        "adapter": adapter,
        "seen": set_crm.fingerprint(account),
        "present": present,
        "same": adapter.name == current,
        "adapters": [
            (choice.name, choice.title or choice.name) for choice in hub().registry.installed()
        ],
        "given": given,
        "visit": (form.get("typed") or flask.request.args.get("typed")) if before else "",
        "entered": before.credentials if before else (),
        "removed": _typed_fields(_REMOVED) if typed else (),
        # None: the stored secrets cannot be decrypted.
        "stored": stored or (),
        "broken": stored is None,
        "restored": restored,
        "kept": kept,
        "away": queue_statistics.outage_of(hub().database, account),
        "queued": 0 if adapter.name == current else queued,
        "fates": _fates(present.title or current),
        "fate": form.get("queued", "finish"),
        "fault": fault,
        "redirect": redirect_address(),
    }


def form_fields(adapter: str) -> dict[str, str]:
    return {
        one.name: f"{_SECRET if one.secret else _SETTING}{one.name}"
        for one in installed(adapter).settings
    }


def _fates(former: str) -> dict[Decision, str]:
    return {
        "finish": f"Finish sending them to {former}, then disconnect it.",
        "move": f"Send them to the new CRM, except for contacts {former} already has.",
        "drop": f"Drop them. You can retry them one by one later; they then go to {former}.",
    }


def redirect_address() -> str:
    """Return the address to which a CRM sends people back, or "" if `public_url` must be set."""
    base = public_url(flask.request, hub().settings.public_url)
    return "" if base is None else f"{base}{CALLBACK}"
