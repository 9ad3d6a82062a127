"""The console's pages of one action and of one contact, and the forms that decide on an action."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import flask
from flask_babel import gettext, ngettext

from crmhub.accounts.accounts import Account
from crmhub.accounts.field_maps import IDENTITY
from crmhub.adapter import Rejected
from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.list_filters import params
from crmhub.console.pages import add_page, done, errors_on, page
from crmhub.console.records import entries_of
from crmhub.console.sessions import author, blueprint, may_open, needs, signed_in, visible_accounts
from crmhub.console.template_filters import now_ms, number
from crmhub.console.visibility import names_of, visible_action, visible_text
from crmhub.errors import BadRequest, NotFound
from crmhub.helpers.actions import ACTIONS
from crmhub.helpers.copied_writes import WRITE_ACTIONS
from crmhub.identity import bindings
from crmhub.identity.contact_names import ContactName
from crmhub.operators.actions import action_queries, correct_action
from crmhub.operators.actions import discard_action as discarding
from crmhub.operators.actions import retry_action as retrying
from crmhub.operators.actions.action_queries import Full, Wanted, standing
from crmhub.properties.kinds import CONTACTS, DEALS, KINDS, TICKETS, Kind
from crmhub.records import timeline

_CONTACT_PAGE_SIZE = 20
_MAX_LINKS = 20
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}", re.ASCII)
_ADDING = frozenset(("addNote", "createTask"))
_RECORDS: dict[str, Kind] = {"createDeal": DEALS, "createTicket": TICKETS, **WRITE_ACTIONS}


def _action_context(action_id: str) -> dict[str, Any]:
    action = visible_action(action_queries.shown(hub().database, action_id))
    state, blockers = action.summary.state, standing(hub().database, action.summary)
    values = correct_action.values_of(action.summary.kind, action.request)
    return {
        "found": action,
        "name": _name_of([action]),
        "one": action.summary,
        "standing": replace(blockers, away=visible_text(blockers.away)),
        "now": now_ms(),
        "retriable": state in retrying.RETRIED,
        "correctable": state in correct_action.CORRECTED,
        "discardable": state in discarding.DISCARDED,
        "values": values,
        "typed": values,
        "seen": len(action.versions),
        "rules": _rule_links(action, hub().load_account(action.summary.client_id)),
        "more": correct_action.can_correct(action.summary.kind, "any_property"),
        **_link_context([action]),
    }


add_page("/activity/<action_id>", "action", needs("activity"), "activity/one.html", _action_context)


@blueprint.get("/activity/contact")
@needs("activity")
def contact() -> flask.Response:
    given = params("account", "contact")
    after = params("after").get("after", "")
    if given.keys() != {"account", "contact"}:
        raise BadRequest("Open a contact from the activity list.")
    account = list_filters.account(given)
    selection = Wanted(
        account=account, contact=given["contact"], after=after, account_ids=visible_accounts()
    )
    matches = action_queries.listed_whole(hub().database, selection, limit=_CONTACT_PAGE_SIZE + 1)
    shown = [visible_action(action) for action in matches[:_CONTACT_PAGE_SIZE]]
    name = _name_of(shown)
    return page(
        "activity/contact.html",
        account=account,
        name=name,
        title=name.title if name else given["contact"],
        given=given,
        actions=shown,
        after=after,
        next=shown[-1].summary.id if len(matches) > _CONTACT_PAGE_SIZE else None,
        entries=_entries(account, given["contact"]) if account and not after else [],
        **_link_context(shown),
    )


def _entries(account: Account, contact_id: str) -> list[Any]:
    """Return the notes and tasks of a contact, for users who may see personal data."""
    if not signed_in().may("data"):
        return []
    try:
        with hub().database.reading() as db:
            bound = bindings.of_contact(db, account, contact_id)
    except NotFound:
        return []
    is_remote = hub().registry.is_remote(account.connection.adapter)
    connection_id = account.connection.id if is_remote else timeline.OWN
    return entries_of(account, CONTACTS, connection_id, bound.crm_id if bound else contact_id)


def _name_of(actions: list[Full]) -> ContactName | None:
    """Return the name of the contact that all `actions` are about; None if it is unknown."""
    names = names_of([action.summary for action in actions])
    return next(iter(names.values()), None)


# --- decisions ---------------------------------------------------------------------------------


@blueprint.post("/activity/<action_id>/retry")
@needs("decide")
def retry_action(action_id: str) -> flask.Response:
    count = retrying.retry_one(hub().database, action_id, by=author())
    message = gettext("This action will be retried now.")
    if count > 1:
        message = ngettext(
            "This action and %(num)s blocked behind it will be retried now.",
            "This action and %(num)s blocked behind it will be retried now.",
            count - 1,
        )
    return done(message, "console.action", action_id=action_id)


def _typed_values() -> tuple[dict[str, str], dict[str, str]]:
    """Return the values of a call that the form showed, and those that it says now."""
    names, shown, now = (
        [_normalize_newlines(text) for text in flask.request.form.getlist(part)]
        for part in ("name", "was", "value")
    )
    return dict(zip(names, shown, strict=False)), dict(zip(names, now, strict=False))


def _new_value() -> dict[str, str]:
    """Return the name and the value of a property to add."""
    form = flask.request.form
    return {
        part: _normalize_newlines(form.get(part, "")).strip() for part in ("new_name", "new_value")
    }


def _edit_context(action_id: str) -> dict[str, Any]:
    _, values = _typed_values()
    added = _new_value()
    at = {name: f"value-{index}" for index, name in enumerate(values, 1)}
    at.setdefault(added["new_name"], "new_value")
    return {**_action_context(action_id), "typed": values, "at": at, **added}


@blueprint.post("/activity/<action_id>/edit")
@needs("change")
@errors_on("activity/one.html", _edit_context)
def edit_action(action_id: str) -> flask.Response:
    shown, values = _typed_values()
    changed = {name: value for name, value in values.items() if shown.get(name) != value}
    added = _new_value()
    if added["new_name"]:
        changed[added["new_name"]] = added["new_value"]
    seen = list_filters.parse_id(flask.request.form.get("seen", ""))
    count = correct_action.correct(hub(), action_id, changed, by=author(), seen=seen)
    message = gettext("Corrected: this action will be retried now.")
    if count > 1:
        message = ngettext(
            "Corrected: this action and %(num)s blocked behind it will be retried now.",
            "Corrected: this action and %(num)s blocked behind it will be retried now.",
            count - 1,
        )
    return done(message, "console.action", action_id=action_id)


def _discard_context(action_id: str) -> dict[str, Any]:
    return {**_action_context(action_id), "reason": flask.request.form.get("reason", "")}


@blueprint.post("/activity/<action_id>/discard")
@needs("decide")
@errors_on("activity/one.html", _discard_context)
def discard_action(action_id: str) -> flask.Response:
    reason = flask.request.form.get("reason", "")
    count = discarding.discard_one(hub().database, action_id, reason=reason, by=author())
    message = gettext("This action was discarded.")
    if count > 1:
        message = ngettext(
            "This action and %(count)s blocked action was discarded.",
            "This action and %(count)s blocked actions was discarded.",
            count - 1,
            count=number(count - 1),
        )
    return done(message, "console.action", action_id=action_id)


def _normalize_newlines(text: str) -> str:
    """Browsers submit CRLF."""
    return text.replace("\r\n", "\n")


# --- data for the pages ---------------------------------------------------------------------------


def _link_context(actions: list[Full]) -> dict[str, Any]:
    return {
        "titles": {action.adapter: hub().registry.title(action.adapter) for action in actions},
        "links": {action.summary.id: _record_links(action) for action in actions},
    }


def _record_links(action: Full) -> list[tuple[str, str]]:
    """Return label and URL of each record that an action wrote; "" for a record without a page."""
    result, record_kind = action.result or {}, _RECORDS.get(action.summary.kind, CONTACTS)
    contact_id, record_id = result.get("contact_id") or "", result.get("record_id") or ""
    if action.summary.kind in _ADDING:
        # Of the note's or task's record, since these have no pages.
        # A user who may not see data does not see its kind either.
        record_kind = KINDS.get(action.request.get("of", ""), CONTACTS)
        record_id = "" if contact_id else action.request.get("record_id") or ""
    ids = [(record_kind, record_id or contact_id)]
    if record_id and record_kind is not CONTACTS:
        ids.append((CONTACTS, contact_id))
    crm_url = result.get("url") or ""
    addresses = [crm_url if crm_url.startswith(("https://", "http://")) else "", ""]
    is_own = not hub().registry.is_remote(action.adapter)
    if is_own and may_open(signed_in(), "console.records_one"):
        client_id = action.summary.client_id
        addresses = [
            flask.url_for("console.records_one", client_id=client_id, kind=kind.name, id=id)
            for kind, id in ids
            if id
        ]
    return [
        (f"{gettext(kind.singular).capitalize()} {id}", address)
        for (kind, id), address in zip(ids, addresses, strict=False)
        if id
    ]


def _rule_links(action: Full, account: Account) -> list[tuple[str, str]]:
    """Return each property that the CRM refused, by bots' name, with the URL of its rule.

    At most 20; none for a former CRM.
    """
    if action.summary.connection_id != account.connection.id:
        return []
    kind = ACTIONS[action.summary.kind].record
    identity = IDENTITY if kind == "contacts" else ()
    names = dict.fromkeys(name for name in _refused_names(action) if name not in identity)
    of: dict[str, Any] = {"client_id": account.client_id, "kind": kind}
    return [
        (name, flask.url_for("console.fieldmap", **of, name=name, action=action.summary.id))
        for name in list(names)[:_MAX_LINKS]
    ]


def _refused_names(action: Full) -> Iterator[str]:
    """Yield the names of the properties that the CRM refused in the last attempt."""
    for problem in (action.result or {}).get("refused") or ():
        yield problem["name"]
    if not action.tries or action.tries[-1].outcome != Rejected.__name__:
        return
    # `Rejected` joins its problems as "name: reason; name: reason".
    sent = action.request.get("properties") or {}
    for part in action.tries[-1].message.split("; "):
        name, colon, _ = part.partition(": ")
        if colon and (name in sent or _NAME.fullmatch(name)):
            yield name
