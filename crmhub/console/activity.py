"""What became of everything that helpers accepted: lists, one action, one person; and decisions."""

from __future__ import annotations

import time
from typing import Any

import flask

from crmhub.accounts.accounts import Account
from crmhub.adapter.contract import BadConfig
from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.blueprint import blueprint
from crmhub.console.list_filters import asked
from crmhub.console.pages import done, page, refused
from crmhub.console.sessions import author
from crmhub.console.template_filters import counted, label
from crmhub.errors import BadRequest, HubError
from crmhub.journal import (
    action_queries,
    attention,
)
from crmhub.journal import (
    discard_action as discarding,
)
from crmhub.journal.action_queries import (
    KINDS,
    STATES,
    Full,
    Wanted,
)
from crmhub.journal.attention import Attention
from crmhub.journal.blockers import standing
from crmhub.operations import correct_action
from crmhub.properties.kinds import (
    CONTACTS,
    DEALS,
    TICKETS,
    Kind,
)

FILTERS = (
    "account", "helper", "state", "contactToken", "contact", "phone", "reason", "olderThan",
    "newerThan",
)  # fmt: skip
_RARE = frozenset(FILTERS[3:-1])
STATE_CHOICES = (
    ("", "Any state"),
    ("queued,running", "Waiting: queued or in progress"),
    ("dead,parked", "Needs attention: failed or blocked"),
    *((state, label(state).capitalize()) for state in STATES),
)
KIND_CHOICES = (("", "Any helper"), *((kind, kind) for kind in KINDS))
_AT_ONCE = 50
_PERSONS_AT_ONCE = 20
# More are counted as "more than".
_COUNTED = 10_000
_RECORDS: dict[str, Kind] = {"createDeal": DEALS, "createTicket": TICKETS}


@blueprint.get("/activity")
def activity() -> flask.Response:
    """List actions, the newest first."""
    given = asked(*FILTERS)
    after = asked("after").get("after", "")
    choices: dict[str, Any] = {
        "given": given,
        "states": STATE_CHOICES,
        "kinds": KIND_CHOICES,
        "unfolded": not _RARE.isdisjoint(given),
    }
    try:
        wanted = _wanted(given, after=after)
        found = action_queries.listed(hub().database, wanted, limit=_AT_ONCE + 1)
    except HubError as exc:
        return refused(exc, "activity/list.html", actions=[], **choices)
    shown = found[:_AT_ONCE]
    return page(
        "activity/list.html",
        actions=shown,
        needs=_attention(wanted.account),
        retriable=not wanted.states or not set(action_queries.RETRIED).isdisjoint(wanted.states),
        discardable=not wanted.states or not set(discarding.DISCARDED).isdisjoint(wanted.states),
        after=after,
        next=shown[-1].id if len(found) > _AT_ONCE else None,
        **choices,
    )


@blueprint.get("/activity/<action_id>")
def action(action_id: str) -> flask.Response:
    """Show an action with all that is known of it."""
    return page("activity/one.html", **_one(action_id))


def _one(action_id: str) -> dict[str, Any]:
    """Return what the page of an action shows; raises NotFound."""
    found = action_queries.shown(hub().database, action_id)
    state = found.summary.state
    values = correct_action.values_of(found.summary.kind, found.request)
    return {
        "found": found,
        "one": found.summary,
        "standing": standing(hub().database, found.summary),
        "now": time.time_ns() // 1_000_000,
        "retriable": state in action_queries.RETRIED,
        "correctable": state in correct_action.CORRECTED,
        "discardable": state in discarding.DISCARDED,
        "values": values,
        "typed": values,
        "seen": len(found.versions),
        "more": found.summary.kind != "createLead",
        **_links([found]),
    }


@blueprint.get("/activity/contact")
def contact() -> flask.Response:
    """Show everything that was accepted for one contact, the newest first."""
    given = asked("account", "contact")
    after = asked("after").get("after", "")
    if given.keys() != {"account", "contact"}:
        raise BadRequest("A timeline is of a contact of an account; come here from one of theirs.")
    wanted = _wanted(given, after=after)
    found = action_queries.listed_whole(hub().database, wanted, limit=_PERSONS_AT_ONCE + 1)
    shown = found[:_PERSONS_AT_ONCE]
    return page(
        "activity/contact.html",
        account=wanted.account,
        given=given,
        actions=shown,
        after=after,
        next=shown[-1].summary.id if len(found) > _PERSONS_AT_ONCE else None,
        **_links(shown),
    )


# --- decisions ---------------------------------------------------------------------------------


@blueprint.post("/activity/<action_id>/retry")
def retry_action(action_id: str) -> flask.Response:
    """Retry an action, with what is blocked behind it."""
    count = action_queries.retry_one(hub().database, action_id, by=author())
    return done(_retried("This action", count), "console.action", action_id=action_id)


@blueprint.post("/activity/<action_id>/edit")
def edit_action(action_id: str) -> flask.Response:
    """Correct values of an action and retry it, with what is blocked behind it."""
    form = flask.request.form
    names, was, typed = (
        [_unified(each) for each in form.getlist(part)] for part in ("name", "was", "value")
    )
    shown = dict(zip(names, was, strict=False))
    values = dict(zip(names, typed, strict=False))
    changed = {name: text for name, text in values.items() if shown.get(name) != text}
    new = {part: _unified(form.get(part, "")).strip() for part in ("new_name", "new_value")}
    if new["new_name"]:
        changed[new["new_name"]] = new["new_value"]
    seen = list_filters.whole(form.get("seen", ""))
    try:
        count = correct_action.correct(hub(), action_id, changed, by=author(), seen=seen)
    except HubError as exc:
        return refused(exc, "activity/one.html", **{**_one(action_id), "typed": values, **new})
    return done(_retried("Corrected: this action", count), "console.action", action_id=action_id)


@blueprint.post("/activity/<action_id>/discard")
def discard_action(action_id: str) -> flask.Response:
    """Discard an action, with what is blocked behind it."""
    reason = flask.request.form.get("reason", "")
    try:
        count = discarding.discard_one(hub().database, action_id, reason=reason, by=author())
    except HubError as exc:
        return refused(exc, "activity/one.html", **{**_one(action_id), "reason": reason})
    behind = f" and {counted(count - 1, 'blocked action')}" if count > 1 else ""
    return done(f"This action{behind} was discarded.", "console.action", action_id=action_id)


@blueprint.get("/activity/retry")
def confirm_retry() -> flask.Response:
    """Ask whether all that match are to be retried, and say how many these are."""
    given = asked(*FILTERS)
    wanted = _wanted(given)
    found = action_queries.retriable(hub().database, wanted, most=_COUNTED + 1)
    return page("activity/retry.html", given=given, found=found, most=_COUNTED, wanted=wanted)


@blueprint.post("/activity/retry")
def retry_actions() -> flask.Response:
    """Retry all that match."""
    count = action_queries.retry(hub().database, _wanted(asked(*FILTERS)), by=author())
    said = f"{counted(count, 'action')} will be retried now."
    return done(said if count else "Nothing was left to retry.", "console.activity")


@blueprint.get("/activity/discard")
def confirm_discard() -> flask.Response:
    """Ask why all that match are to be discarded, and say how many these are."""
    return page("activity/discard.html", **_to_discard())


@blueprint.post("/activity/discard")
def discard_actions() -> flask.Response:
    """Discard all that match."""
    reason = flask.request.form.get("reason", "")
    try:
        wanted = _wanted(asked(*FILTERS))
        count = discarding.discard(hub().database, wanted, reason=reason, by=author())
    except HubError as exc:
        return refused(exc, "activity/discard.html", **_to_discard(), reason=reason)
    said = f"{counted(count, 'action')} {'was' if count == 1 else 'were'} discarded."
    return done(said if count else "Nothing was left to discard.", "console.activity")


def _to_discard() -> dict[str, Any]:
    given = asked(*FILTERS)
    wanted = _wanted(given)
    found = discarding.discardable(hub().database, wanted, most=_COUNTED + 1)
    return {"given": given, "found": found, "most": _COUNTED, "wanted": wanted}


def _retried(what: str, count: int) -> str:
    behind = f" and {count - 1} blocked behind it" if count > 1 else ""
    return f"{what}{behind} will be retried now."


def _unified(text: str) -> str:
    """Return a text of a form with its line breaks as they were before the browser's."""
    return text.replace("\r\n", "\n")


# --- what pages need ---------------------------------------------------------------------------


def _wanted(given: dict[str, str], *, after: str = "") -> Wanted:
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
    )


def _attention(account: Account | None) -> Attention:
    """Return what needs a person, of an account or of all."""
    with hub().database.reading() as db:
        if account is None:
            return attention.of_all(db)
        return attention.of_accounts(db, [account.id])[account.id]


def _links(actions: list[Full]) -> dict[str, Any]:
    """Return where the records stand that actions have written, by the action's id."""
    return {
        "titles": {one.adapter: _title(one.adapter) for one in actions},
        "links": {one.summary.id: _records_of(one) for one in actions},
    }


def _records_of(one: Full) -> list[tuple[str, str]]:
    """Return labels and addresses; "" where the CRM has told of no page."""
    result, kind = one.result or {}, _RECORDS.get(one.summary.kind, CONTACTS)
    contact_id, record_id = result.get("contact_id") or "", result.get("record_id") or ""
    ids = [(kind, record_id or contact_id)]
    if record_id:
        ids.append((CONTACTS, contact_id))
    elsewhere = result.get("url") or ""
    addresses = [elsewhere if elsewhere.startswith(("https://", "http://")) else "", ""]
    if _is_own(one.adapter):
        of = one.summary.client_id
        addresses = [
            flask.url_for("console.records_one", client_id=of, kind=each.name, id=id)
            for each, id in ids
            if id
        ]
    return [
        (f"{each.singular.capitalize()} {id}", address)
        for (each, id), address in zip(ids, addresses, strict=False)
        if id
    ]


def _is_own(adapter: str) -> bool:
    """Return whether a CRM's records are the hub's own."""
    try:
        return not hub().registry.load(adapter).remote
    except BadConfig:
        return False


def _title(adapter: str) -> str:
    try:
        return hub().registry.load(adapter).title or adapter
    except BadConfig:
        return adapter
