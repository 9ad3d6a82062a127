"""The console's pages of one action and of one contact, and the forms that decide on an action."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import flask

from crmhub.accounts.accounts import Account
from crmhub.accounts.field_maps import IDENTITY
from crmhub.adapter import BadConfig, Rejected
from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.access import may_open, needs
from crmhub.console.blueprint import blueprint
from crmhub.console.list_filters import params
from crmhub.console.pages import done, page, refused
from crmhub.console.people import names_of, visible_action, visible_standing
from crmhub.console.sessions import author, signed_in, visible_accounts
from crmhub.console.template_filters import counted
from crmhub.errors import BadRequest, HubError
from crmhub.helpers.actions import HELPERS
from crmhub.identity.contact_names import ContactName
from crmhub.operators.actions import action_queries, correct_action
from crmhub.operators.actions import discard_action as discarding
from crmhub.operators.actions import retry_action as retrying
from crmhub.operators.actions.action_queries import Full, Wanted
from crmhub.operators.crm import crm_states
from crmhub.properties.kinds import CONTACTS, DEALS, TICKETS, Kind

_CONTACT_PAGE_SIZE = 20
_MAX_LINKS = 20
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}", re.ASCII)
_RECORDS: dict[str, Kind] = {"createDeal": DEALS, "createTicket": TICKETS}


@blueprint.get("/activity/<action_id>")
@needs("activity")
def action(action_id: str) -> flask.Response:
    return page("activity/one.html", **_action_context(action_id))


def _action_context(action_id: str) -> dict[str, Any]:
    action = visible_action(action_queries.shown(hub().database, action_id))
    state = action.summary.state
    values = correct_action.values_of(action.summary.kind, action.request)
    return {
        "found": action,
        "name": _name_of([action]),
        "one": action.summary,
        "standing": visible_standing(action.summary),
        "now": time.time_ns() // 1_000_000,
        "retriable": state in retrying.RETRIED,
        "correctable": state in correct_action.CORRECTED,
        "discardable": state in discarding.DISCARDED,
        "values": values,
        "typed": values,
        "seen": len(action.versions),
        "rules": _rule_links(action, hub().load_account(action.summary.client_id)),
        "more": action.summary.kind != "createLead",
        **_link_context([action]),
    }


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
        **_link_context(shown),
    )


def _name_of(actions: list[Full]) -> ContactName | None:
    """Return the name of the contact that all `actions` are about; None if it is unknown."""
    names = names_of([action.summary for action in actions])
    return next(iter(names.values()), None)


# --- decisions ---------------------------------------------------------------------------------


@blueprint.post("/activity/<action_id>/retry")
@needs("decide")
def retry_action(action_id: str) -> flask.Response:
    count = retrying.retry_one(hub().database, action_id, by=author())
    return done(_retry_message("This action", count), "console.action", action_id=action_id)


@blueprint.post("/activity/<action_id>/edit")
@needs("change")
def edit_action(action_id: str) -> flask.Response:
    form = flask.request.form
    names, shown_texts, typed_texts = (
        [_normalize_newlines(text) for text in form.getlist(part)]
        for part in ("name", "was", "value")
    )
    shown = dict(zip(names, shown_texts, strict=False))
    values = dict(zip(names, typed_texts, strict=False))
    changed = {name: value for name, value in values.items() if shown.get(name) != value}
    added = {
        part: _normalize_newlines(form.get(part, "")).strip() for part in ("new_name", "new_value")
    }
    if added["new_name"]:
        changed[added["new_name"]] = added["new_value"]
    seen = list_filters.parse_id(form.get("seen", ""))
    try:
        count = correct_action.correct(hub(), action_id, changed, by=author(), seen=seen)
    except HubError as exc:
        context = {**_action_context(action_id), "typed": values, **added}
        at = {name: f"value-{index}" for index, name in enumerate(values, 1)}
        at.setdefault(added["new_name"], "new_value")
        return refused(exc, "activity/one.html", at=at, **context)
    return done(
        _retry_message("Corrected: this action", count), "console.action", action_id=action_id
    )


@blueprint.post("/activity/<action_id>/discard")
@needs("decide")
def discard_action(action_id: str) -> flask.Response:
    reason = flask.request.form.get("reason", "")
    try:
        count = discarding.discard_one(hub().database, action_id, reason=reason, by=author())
    except HubError as exc:
        return refused(exc, "activity/one.html", **{**_action_context(action_id), "reason": reason})
    behind = f" and {counted(count - 1, 'blocked action')}" if count > 1 else ""
    return done(f"This action{behind} was discarded.", "console.action", action_id=action_id)


def _retry_message(what: str, count: int) -> str:
    behind = f" and {count - 1} blocked behind it" if count > 1 else ""
    return f"{what}{behind} will be retried now."


def _normalize_newlines(text: str) -> str:
    """Browsers submit CRLF."""
    return text.replace("\r\n", "\n")


# --- data for the pages ---------------------------------------------------------------------------


def _link_context(actions: list[Full]) -> dict[str, Any]:
    return {
        "titles": {
            action.adapter: crm_states.title_of(hub(), action.adapter) for action in actions
        },
        "links": {action.summary.id: _record_links(action) for action in actions},
    }


def _record_links(action: Full) -> list[tuple[str, str]]:
    """Return label and URL of each record that an action wrote; "" for a record without a page."""
    result, record_kind = action.result or {}, _RECORDS.get(action.summary.kind, CONTACTS)
    contact_id, record_id = result.get("contact_id") or "", result.get("record_id") or ""
    ids = [(record_kind, record_id or contact_id)]
    if record_id:
        ids.append((CONTACTS, contact_id))
    crm_url = result.get("url") or ""
    addresses = [crm_url if crm_url.startswith(("https://", "http://")) else "", ""]
    if _uses_hub_records(action.adapter) and may_open(signed_in(), "console.records_one"):
        client_id = action.summary.client_id
        addresses = [
            flask.url_for("console.records_one", client_id=client_id, kind=kind.name, id=id)
            for kind, id in ids
            if id
        ]
    return [
        (f"{kind.singular.capitalize()} {id}", address)
        for (kind, id), address in zip(ids, addresses, strict=False)
        if id
    ]


def _uses_hub_records(adapter: str) -> bool:
    try:
        return not hub().registry.load(adapter).remote
    except BadConfig:
        return False


@dataclass(frozen=True, slots=True)
class RuleLink:
    """A refused property, by the name that bots use, and the URL of its rule or of a new one."""

    name: str
    url: str


def _rule_links(action: Full, account: Account) -> list[RuleLink]:
    """Return a link for each property that the CRM refused, at most 20; none for a former CRM."""
    if action.summary.connection_id != account.connection.id:
        return []
    kind = HELPERS[action.summary.kind].record
    identity = IDENTITY if kind == "contacts" else ()
    names = dict.fromkeys(name for name in _refused_names(action) if name not in identity)
    return [
        RuleLink(
            name,
            flask.url_for(
                "console.fieldmap",
                client_id=account.client_id,
                kind=kind,
                name=name,
                action=action.summary.id,
            ),
        )
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
