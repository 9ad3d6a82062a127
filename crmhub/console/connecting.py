"""The console's pages that connect an account to its CRM by OAuth, for operators and customers.

A customer has no session: these pages are open to everybody, and the signed link or state says what
its holder may do (`operations.connect_crm`).
"""

from __future__ import annotations

import flask

from crmhub.accounts.accounts import CLIENT_ID
from crmhub.api.http.authentication import hub
from crmhub.console.access import needs, open_to_all
from crmhub.console.blueprint import blueprint
from crmhub.console.connection import (
    CALLBACK,
    crm_page,
    given_crm,
    given_decision,
    redirect_address,
    refused_crm,
)
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author
from crmhub.errors import HubError, Semantic
from crmhub.operators.crm import connect_crm


@blueprint.post("/accounts/<client_id>/crm/connect")
@needs("change")
def crm_connect(client_id: str) -> flask.Response:
    name = flask.request.form.get("adapter", "")
    try:
        address = connect_crm.start(
            hub(),
            client_id,
            given_crm(client_id, name),
            by=author(),
            browser=flask.g.cookie,
            redirect_uri=_required_address(),
            queued=given_decision(),
            expected=flask.request.form.get("seen"),
        )
    except HubError as exc:
        return refused_crm(exc, client_id, name)
    return _leave(address)


@blueprint.post("/accounts/<client_id>/crm/link")
@needs("change")
def crm_link(client_id: str) -> flask.Response:
    name = flask.request.form.get("adapter", "")
    try:
        address = _required_address()
        link = connect_crm.make_link(
            hub(),
            client_id,
            given_crm(client_id, name),
            by=author(),
            queued=given_decision(),
            expected=flask.request.form.get("seen"),
        )
    except HubError as exc:
        return refused_crm(exc, client_id, name)
    url = link.url(address.removesuffix(CALLBACK))
    shown = crm_page(client_id, name, typed=True)
    return page("account/crm_link.html", 201, link=url, expires_at=link.expires_at, **shown)


@blueprint.get("/connect/link/<token>")
@open_to_all
def by_link(token: str) -> flask.Response:
    try:
        invitation = connect_crm.open_link(hub(), token)
    except HubError as exc:
        return _failed(exc)
    return page("connect/invitation.html", token=token, invitation=invitation)


@blueprint.post("/connect/link/<token>")
@open_to_all
def connect_by_link(token: str) -> flask.Response:
    try:
        address = connect_crm.start_by_link(
            hub(), token, browser=flask.g.cookie, redirect_uri=_required_address()
        )
    except HubError as exc:
        return _failed(exc)
    return _leave(address)


@blueprint.get("/connect/callback")
@open_to_all
def connect_callback() -> flask.Response:
    given = flask.request.args
    user = flask.g.signed_in
    try:
        connected = connect_crm.finish(
            hub(),
            given.get("state", ""),
            code=given.get("code", ""),
            error=given.get("error", ""),
            browser=flask.g.cookie,
            user_id=user.user_id if user else "",
        )
    except HubError as exc:
        return _failed(exc)
    if connected.by_link:
        return page("connect/connected.html", connected=connected)
    return done(f"Connected to {connected.crm}.", "console.crm", client_id=connected.client_id)


def _required_address() -> str:
    address = redirect_address()
    if not address:
        raise Semantic(connect_crm.NO_ADDRESS)
    return address


def _leave(address: str) -> flask.Response:
    """Return a page that leads to the CRM at once.

    No redirect: browsers apply `form-action` of the content security policy to it.
    """
    return page("connect/leave.html", address=address)


def _failed(error: HubError) -> flask.Response:
    """Say why an account was not connected.

    An operator gets back to the CRM page with what was typed, a customer to the link.
    """
    state = flask.request.args.get("state", "")
    origin = connect_crm.origin_of(hub(), state, browser=flask.g.cookie)
    client_id, typed = state.partition(".")[0], origin.visit_id if origin else ""
    is_operator = flask.g.signed_in is not None and CLIENT_ID.fullmatch(client_id)
    back = ""
    if is_operator:
        back = flask.url_for("console.crm", client_id=client_id, typed=typed or None)
    return refused(error, "connect/failed.html", back=back, link=origin.link if origin else "")
