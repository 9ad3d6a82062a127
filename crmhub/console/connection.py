"""The console's CRM page of an account: a form for the settings that its adapter declares.

The form follows the chosen CRM: the script fetches its fields at once, and without the script the
button "Show fields" does. The form says in `shown` whose fields it has, so that it is never saved
with the fields of another CRM.

The pages that connect an account to its CRM by OAuth are open to everybody, since a customer has no
session: the signed link or state says what its holder may do (`operators.crm.connect_crm`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flask
from flask_babel import gettext

from crmhub.accounts.accounts import CLIENT_ID, Account, ConnectionInfo
from crmhub.api.http.addresses import public_url
from crmhub.api.http.authentication import hub
from crmhub.console.accounts import account_context, installed
from crmhub.console.list_filters import parse_id, text
from crmhub.console.pages import add_page, done, errors_on, page, see, set_faults
from crmhub.console.sessions import PREFIX, author, blueprint, needs, open_to_all, signed_in
from crmhub.console.template_filters import translated
from crmhub.crm import watching
from crmhub.errors import NotFound, Semantic
from crmhub.operators.accounts import change_account
from crmhub.operators.alerts import queue_statistics
from crmhub.operators.crm import (
    connect_crm,
    copy_crm,
    mappable_properties,
    set_crm,
    switch_crm,
)
from crmhub.operators.crm.set_crm import Crm
from crmhub.operators.crm.switch_crm import DECISIONS, Decision
from crmhub.properties.kinds import BY_CODE
from crmhub.records import copies

_SETTING, _SECRET, _REMOVED = "setting.", "secret.", "removed."
HOW_OFTEN = ("mirror_every_s",)
"""The fields of the form that says how often the CRM is asked."""
# Where a CRM sends people back after they have let the hub in.
_CALLBACK = f"{PREFIX}/connect/callback"


def crm_context(client_id: str) -> dict[str, Any]:
    """Return the template variables of the CRM page, with the settings of a submitted form.

    Query parameters: `adapter` chooses the fields, by default those of the account's present
    adapter; `restore` (id of a former connection) and `typed` (id of a failed visit to the CRM)
    choose the values.
    """
    values, form = flask.request.values, flask.request.form
    name = values.get("adapter", "")
    if not name and (before := _typed_before(client_id, "")):
        name = before.adapter
    shared = account_context(client_id)
    account: Account = shared["account"]
    current = account.connection.adapter
    adapter = installed(name or current)
    if name and name not in hub().registry.names:
        raise NotFound("There is no adapter %(name)s here.", name=repr(name[:60]))
    # The fields of another adapter tell nothing about this one.
    typed = "adapter" in form and form.get("shown", adapter.name) == adapter.name
    past = parse_id(values.get("restore", ""))
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
        "visit": values.get("typed") if before else "",
        "entered": before.credentials if before else (),
        "removed": _typed_fields(_REMOVED) if typed else (),
        # None: the stored secrets cannot be decrypted.
        "stored": stored or (),
        "broken": stored is None,
        "restored": restored,
        "kept": kept,
        "away": queue_statistics.outage_of(hub().database, account),
        "queued": 0 if adapter.name == current else queued,
        "copies": copy_crm.states(hub(), account),
        "missing": count_missing(account),
        "every": form.get("mirror_every_s", account.switches.mirror_every_s),
        "every_seen": change_account.settings_version(hub(), account, HOW_OFTEN),
        "uncopied": _why_uncopied(account),
        "hook": watching.webhook_address(hub(), account),
        "watch": watching.watch_state(hub(), account),
        "fates": _fates(hub().registry.title(current)),
        "fate": form.get("queued", "finish"),
        "redirect": _redirect_address(),
        "at": _form_fields(adapter.name),
    }


def count_missing(account: Account) -> list[tuple[str, int]]:
    """Return each kind of record whose last comparison kept missing records, and their number."""
    with hub().database.reading() as db:
        rows = copies.rows(db, account)
    return [
        (BY_CODE[row.kind].name, row.missing)
        for row in rows
        if row.state == "following" and row.missing is not None
    ]


def _why_uncopied(account: Account) -> str | None:
    """Return why the account's CRM cannot be copied, "" if it can, None for local."""
    name = account.connection.adapter
    if not hub().registry.is_remote(name) or installed(name).error:
        return None
    return copy_crm.why_impossible(hub(), account)


def _form_fields(adapter: str) -> dict[str, str]:
    return {
        one.name: f"{_SECRET if one.secret else _SETTING}{one.name}"
        for one in installed(adapter).settings
    }


def _fates(former: str) -> dict[Decision, str]:
    return {
        "finish": gettext("Finish sending them to %(crm)s, then disconnect it.", crm=former),
        "move": gettext(
            "Send them to the new CRM, except for contacts %(crm)s already has.", crm=former
        ),
        "drop": gettext(
            "Drop them. You can retry them one by one later; they then go to %(crm)s.", crm=former
        ),
    }


def _given_crm(client_id: str) -> Crm:
    """Return the CRM settings of the submitted form.

    A secret whose field is empty stays unchanged, unless the form removes it; one typed for a
    failed visit to the CRM counts. Raises Semantic if the form has another adapter's fields or
    names another address than the visit did.
    """
    form = flask.request.form
    adapter = form.get("adapter", "")
    if form.get("shown", adapter) != adapter:
        title = hub().registry.title(adapter)
        raise Semantic("Not saved. Fill in the fields of %(crm)s first.", crm=title)

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
    visit_id = text(flask.request.values.get("typed", ""))
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
    labels = ", ".join(translated(one.label) for one in declared if one.name in secrets)
    for one in declared:
        before, after = (given.get(one.name) or one.default for given in (typed.settings, settings))
        if labels and one.type == "url" and before != after:
            reason = gettext("For another address, enter again: %(secrets)s.", secrets=labels)
            raise Semantic(f"settings.{one.name}: {reason}", fields=[(one.name, reason)])


def _decision() -> Decision | None:
    given = flask.request.form.get("queued", "")
    return next((decision for decision in DECISIONS if decision == given), None)


add_page("/accounts/<client_id>/crm", "crm", needs("data"), "account/crm.html", crm_context)


@blueprint.post("/accounts/<client_id>/crm/fields")
@needs("change")
def crm_fields(client_id: str) -> flask.Response:
    name = flask.request.form.get("adapter", "")
    return see(flask.url_for("console.crm", client_id=client_id, adapter=name))


@blueprint.post("/accounts/<client_id>/crm")
@needs("change")
@errors_on("account/crm.html", crm_context)
def crm_save(client_id: str) -> flask.Response:
    form = flask.request.form
    test = "unasked" not in form
    set_crm.set_crm(
        hub(),
        client_id,
        _given_crm(client_id),
        test=test,
        queued=_decision(),
        by=author(),
        expected=form.get("seen"),
    )
    passed, untested = gettext("Saved. Connection test passed."), gettext("Saved without testing.")
    return done(passed if test else untested, "console.crm", client_id=client_id)


@blueprint.post("/accounts/<client_id>/crm/check")
@needs("change")
@errors_on("account/crm.html", crm_context)
def crm_check(client_id: str) -> flask.Response:
    crm = _given_crm(client_id)
    fault = set_crm.check_crm(hub(), client_id, crm)
    if fault and fault.setting:
        set_faults({_form_fields(crm.adapter).get(fault.setting, ""): fault.message})
    shown = crm_context(client_id)
    account = hub().load_account(client_id)
    # The warnings are about the stored connection.
    is_stored = fault is None and _is_stored(crm, account.connection)
    warnings = mappable_properties.unfilled(hub(), account) if is_stored else []
    return page("account/crm.html", tested=True, fault=fault, warnings=warnings, **shown)


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


# --- connecting by OAuth -------------------------------------------------------------------------


def _redirect_address() -> str:
    """Return the address to which a CRM sends people back, or "" if `public_url` must be set."""
    base = public_url(flask.request, hub().settings.public_url)
    return "" if base is None else f"{base}{_CALLBACK}"


def _required_address() -> str:
    address = _redirect_address()
    if not address:
        raise Semantic(connect_crm.NO_ADDRESS)
    return address


def _leave(address: str) -> flask.Response:
    """Return a page that leads to the CRM at once.

    No redirect: browsers apply `form-action` of the content security policy to it.
    """
    return page("connect/leave.html", address=address)


@blueprint.post("/accounts/<client_id>/crm/connect")
@needs("change")
@errors_on("account/crm.html", crm_context)
def crm_connect(client_id: str) -> flask.Response:
    return _leave(
        connect_crm.start(
            hub(),
            client_id,
            _given_crm(client_id),
            by=author(),
            browser=flask.g.cookie,
            redirect_uri=_required_address(),
            queued=_decision(),
            expected=flask.request.form.get("seen"),
        )
    )


@blueprint.post("/accounts/<client_id>/crm/link")
@needs("change")
@errors_on("account/crm.html", crm_context)
def crm_link(client_id: str) -> flask.Response:
    address = _required_address()
    link = connect_crm.make_link(
        hub(),
        client_id,
        _given_crm(client_id),
        by=author(),
        queued=_decision(),
        expected=flask.request.form.get("seen"),
    )
    url, shown = link.url(address.removesuffix(_CALLBACK)), crm_context(client_id)
    return page("account/crm_link.html", 201, link=url, expires_at=link.expires_at, **shown)


def _failed_context(**_: str) -> dict[str, Any]:
    """Return the template variables of the page that says why an account was not connected.

    An operator gets back to the CRM page with what was typed, a customer to the link.
    """
    state = flask.request.args.get("state", "")
    origin = connect_crm.origin_of(hub(), state, browser=flask.g.cookie)
    client_id, visit_id = state.partition(".")[0], origin.visit_id if origin else ""
    back = ""
    if flask.g.signed_in is not None and CLIENT_ID.fullmatch(client_id):
        back = flask.url_for("console.crm", client_id=client_id, typed=visit_id or None)
    return {"back": back, "link": origin.link if origin else ""}


@blueprint.get("/connect/link/<token>")
@open_to_all
@errors_on("connect/failed.html", _failed_context)
def by_link(token: str) -> flask.Response:
    invitation = connect_crm.open_link(hub(), token)
    return page("connect/invitation.html", token=token, invitation=invitation)


@blueprint.post("/connect/link/<token>")
@open_to_all
@errors_on("connect/failed.html", _failed_context)
def connect_by_link(token: str) -> flask.Response:
    address = connect_crm.start_by_link(
        hub(), token, browser=flask.g.cookie, redirect_uri=_required_address()
    )
    return _leave(address)


@blueprint.get("/connect/callback")
@open_to_all
@errors_on("connect/failed.html", _failed_context)
def connect_callback() -> flask.Response:
    given, user = flask.request.args, flask.g.signed_in
    connected = connect_crm.finish(
        hub(),
        given.get("state", ""),
        code=given.get("code", ""),
        error=given.get("error", ""),
        browser=flask.g.cookie,
        user_id=user.user_id if user else "",
    )
    if connected.by_link:
        return page("connect/connected.html", connected=connected)
    message = gettext("Connected to %(crm)s.", crm=connected.crm)
    return done(message, "console.crm", client_id=connected.client_id)
