"""The console's activity pages: lists of actions, and pages of an action and of a contact.

Their forms retry, correct and discard actions.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import flask

from crmhub.accounts.accounts import Account
from crmhub.adapter import BadConfig
from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.access import may_open, needs
from crmhub.console.blueprint import blueprint
from crmhub.console.list_filters import params
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author, signed_in, visible_accounts
from crmhub.console.template_filters import counted, label
from crmhub.errors import BadRequest, Forbidden, HubError
from crmhub.journal import action_queries, attention
from crmhub.journal import discard_action as discarding
from crmhub.journal import retry_action as retrying
from crmhub.journal.action_queries import KINDS, STATES, Full, Summary, Wanted
from crmhub.journal.attention import Attention
from crmhub.journal.blockers import Standing, standing
from crmhub.operations import correct_action
from crmhub.operations.personal_data import hide_in_action, hide_in_text
from crmhub.properties.kinds import CONTACTS, DEALS, TICKETS, Kind

FILTERS = (
    "account", "helper", "state", "contactToken", "contact", "phone", "reason", "olderThan",
    "newerThan",
)  # fmt: skip
_EXTRA_FILTERS = frozenset(FILTERS[3:-1])
STATE_CHOICES = (
    ("", "Any state"),
    ("queued,running", "Waiting: queued or in progress"),
    ("dead,parked", "Needs attention: failed or blocked"),
    *((state, label(state).capitalize()) for state in STATES),
)
KIND_CHOICES = (("", "Any helper"), *((kind, kind) for kind in KINDS))
_PAGE_SIZE = 50
_CONTACT_PAGE_SIZE = 20
# A larger count is shown as "more than" this.
_MAX_COUNT = 10_000
_RECORDS: dict[str, Kind] = {"createDeal": DEALS, "createTicket": TICKETS}


@blueprint.get("/activity")
@needs("activity")
def activity() -> flask.Response:
    """Show a page of the list of actions, the newest action first."""
    given = params(*FILTERS)
    after = params("after").get("after", "")
    choices: dict[str, Any] = {
        "given": given,
        "states": STATE_CHOICES,
        "kinds": KIND_CHOICES,
        "unfolded": not _EXTRA_FILTERS.isdisjoint(given),
    }
    try:
        selection = _selection(given, after=after)
        matches = _summaries(selection)
    except HubError as exc:
        return refused(exc, "activity/list.html", actions=[], **choices)
    shown = matches[:_PAGE_SIZE]
    return page(
        "activity/list.html",
        actions=shown,
        needs=_count_attention(selection.account),
        retriable=not selection.states or not set(retrying.RETRIED).isdisjoint(selection.states),
        discardable=not selection.states
        or not set(discarding.DISCARDED).isdisjoint(selection.states),
        after=after,
        next=shown[-1].id if len(matches) > _PAGE_SIZE else None,
        **choices,
    )


@blueprint.get("/activity/<action_id>")
@needs("activity")
def action(action_id: str) -> flask.Response:
    """Show an action with its request, its attempts and its result."""
    return page("activity/one.html", **_action_context(action_id))


def _action_context(action_id: str) -> dict[str, Any]:
    """Return the template variables of an action's page.

    Raises NotFound if there is no action with this id.
    """
    action = _visible(action_queries.shown(hub().database, action_id))
    state = action.summary.state
    values = correct_action.values_of(action.summary.kind, action.request)
    return {
        "found": action,
        "one": action.summary,
        "standing": _standing(action.summary),
        "now": time.time_ns() // 1_000_000,
        "retriable": state in retrying.RETRIED,
        "correctable": state in correct_action.CORRECTED,
        "discardable": state in discarding.DISCARDED,
        "values": values,
        "typed": values,
        "seen": len(action.versions),
        "more": action.summary.kind != "createLead",
        **_link_context([action]),
    }


@blueprint.get("/activity/contact")
@needs("activity")
def contact() -> flask.Response:
    """Show the actions of a contact, the newest action first."""
    given = params("account", "contact")
    after = params("after").get("after", "")
    if given.keys() != {"account", "contact"}:
        raise BadRequest("A timeline is of a contact of an account; come here from one of theirs.")
    selection = _selection(given, after=after)
    matches = action_queries.listed_whole(hub().database, selection, limit=_CONTACT_PAGE_SIZE + 1)
    shown = [_visible(action) for action in matches[:_CONTACT_PAGE_SIZE]]
    return page(
        "activity/contact.html",
        account=selection.account,
        given=given,
        actions=shown,
        after=after,
        next=shown[-1].summary.id if len(matches) > _CONTACT_PAGE_SIZE else None,
        **_link_context(shown),
    )


# --- decisions ---------------------------------------------------------------------------------


@blueprint.post("/activity/<action_id>/retry")
@needs("decide")
def retry_action(action_id: str) -> flask.Response:
    """Retry an action, and the actions that it blocks."""
    count = retrying.retry_one(hub().database, action_id, by=author())
    return done(_retry_message("This action", count), "console.action", action_id=action_id)


@blueprint.post("/activity/<action_id>/edit")
@needs("change")
def edit_action(action_id: str) -> flask.Response:
    """Correct values in an action's request; then retry it and the actions that it blocks."""
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
        return refused(
            exc, "activity/one.html", **{**_action_context(action_id), "typed": values, **added}
        )
    return done(
        _retry_message("Corrected: this action", count), "console.action", action_id=action_id
    )


@blueprint.post("/activity/<action_id>/discard")
@needs("decide")
def discard_action(action_id: str) -> flask.Response:
    """Discard an action, and the actions that it blocks."""
    reason = flask.request.form.get("reason", "")
    try:
        count = discarding.discard_one(hub().database, action_id, reason=reason, by=author())
    except HubError as exc:
        return refused(exc, "activity/one.html", **{**_action_context(action_id), "reason": reason})
    behind = f" and {counted(count - 1, 'blocked action')}" if count > 1 else ""
    return done(f"This action{behind} was discarded.", "console.action", action_id=action_id)


@blueprint.get("/activity/retry")
@needs("decide")
def confirm_retry() -> flask.Response:
    """Show the number of actions that match the filters in the URL, with a button to retry them."""
    given = params(*FILTERS)
    selection = _selection(given)
    matches = retrying.retriable(hub().database, selection, most=_MAX_COUNT + 1)
    return page(
        "activity/retry.html", given=given, found=matches, most=_MAX_COUNT, wanted=selection
    )


@blueprint.post("/activity/retry")
@needs("decide")
def retry_actions() -> flask.Response:
    """Retry all actions that match the filters in the URL."""
    count = retrying.retry(hub().database, _selection(params(*FILTERS)), by=author())
    message = f"{counted(count, 'action')} will be retried now."
    return done(message if count else "Nothing was left to retry.", "console.activity")


@blueprint.get("/activity/discard")
@needs("decide")
def confirm_discard() -> flask.Response:
    """Show the number of actions that match the filters in the URL, with a form to discard them.

    The form asks for the reason.
    """
    return page("activity/discard.html", **_discard_context())


@blueprint.post("/activity/discard")
@needs("decide")
def discard_actions() -> flask.Response:
    """Discard all actions that match the filters in the URL."""
    reason = flask.request.form.get("reason", "")
    try:
        selection = _selection(params(*FILTERS))
        count = discarding.discard(hub().database, selection, reason=reason, by=author())
    except HubError as exc:
        return refused(exc, "activity/discard.html", **_discard_context(), reason=reason)
    message = f"{counted(count, 'action')} {'was' if count == 1 else 'were'} discarded."
    return done(message if count else "Nothing was left to discard.", "console.activity")


def _discard_context() -> dict[str, Any]:
    given = params(*FILTERS)
    selection = _selection(given)
    matches = discarding.discardable(hub().database, selection, most=_MAX_COUNT + 1)
    return {"given": given, "found": matches, "most": _MAX_COUNT, "wanted": selection}


def _retry_message(what: str, count: int) -> str:
    behind = f" and {count - 1} blocked behind it" if count > 1 else ""
    return f"{what}{behind} will be retried now."


def _normalize_newlines(text: str) -> str:
    """Return the text with LF as line break; browsers submit CRLF."""
    return text.replace("\r\n", "\n")


# --- data for the pages ---------------------------------------------------------------------------


def _summaries(selection: Wanted) -> list[Summary]:
    """Return the selected actions of a page, and one more if there is a next page."""
    database, limit = hub().database, _PAGE_SIZE + 1
    if signed_in().may("data"):
        return action_queries.listed(database, selection, limit=limit)
    # The values to hide in the reasons are in the requests.
    whole = action_queries.listed_whole(database, selection, limit=limit)
    return [_visible(action).summary for action in whole]


def _visible(action: Full) -> Full:
    """Return an action as the user may see it: without personal data if their role says so."""
    return action if signed_in().may("data") else hide_in_action(action)


def _standing(action: Summary) -> Standing:
    """Return the reasons why an action waits, as the user may see them."""
    reasons = standing(hub().database, action)
    if signed_in().may("data"):
        return reasons
    return replace(reasons, away=hide_in_text(reasons.away))


def _selection(given: dict[str, str], *, after: str = "") -> Wanted:
    if "reason" in given and not signed_in().may("data"):
        # Whoever may search for parts of a text can find out the text.
        raise Forbidden("Your role does not allow to search in reasons.")
    return Wanted(
        account=list_filters.account(given),
        states=list_filters.one_of(given, "state", STATES),
        kinds=list_filters.one_of(given, "helper", KINDS),
        contact_token=given.get("contactToken", ""),
        contact=given.get("contact", ""),
        phone=given.get("phone", ""),
        reason=given.get("reason", ""),
        older_than_ms=list_filters.age(given, "olderThan", "Older than"),
        newer_than_ms=list_filters.age(given, "newerThan", "Newer than"),
        after=after,
        account_ids=visible_accounts(),
    )


def _count_attention(account: Account | None) -> Attention:
    """Return the numbers of failed actions and of actions blocked by failed actions.

    Only actions of `account` are counted; if it is None, those of all accounts that the user sees.
    """
    with hub().database.reading() as db:
        if account is None:
            return attention.of_all(db, visible_accounts())
        return attention.of_accounts(db, [account.id])[account.id]


def _link_context(actions: list[Full]) -> dict[str, Any]:
    """Return the template variables with links from actions to the records they have written."""
    return {
        "titles": {action.adapter: _adapter_title(action.adapter) for action in actions},
        "links": {action.summary.id: _record_links(action) for action in actions},
    }


def _record_links(action: Full) -> list[tuple[str, str]]:
    """Return the label and the URL of each record that an action wrote.

    The URL is "" for a record that has no page.
    """
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
    """Return whether the adapter with this name stores its records in the hub itself."""
    try:
        return not hub().registry.load(adapter).remote
    except BadConfig:
        return False


def _adapter_title(adapter: str) -> str:
    try:
        return hub().registry.load(adapter).title or adapter
    except BadConfig:
        return adapter
