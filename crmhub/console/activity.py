"""What became of everything that helpers accepted: lists, one action, one person, retries."""

from __future__ import annotations

from typing import Any

import flask

from crmhub.actions import mending
from crmhub.actions.mending import KINDS, STATES, Full, Wanted
from crmhub.actions.standing import standing
from crmhub.adapter.contract import BadConfig
from crmhub.api.authentication import hub
from crmhub.console import narrowing
from crmhub.console.blueprint import blueprint
from crmhub.console.guarding import author
from crmhub.console.narrowing import asked
from crmhub.console.pages import done, page, refused
from crmhub.console.words import counted
from crmhub.errors import BadRequest, HubError
from crmhub.records.kinds import CONTACTS, DEALS, TICKETS, Kind

FILTERS = (
    "account", "helper", "state", "contactToken", "contact", "phone", "reason", "olderThan",
    "newerThan",
)  # fmt: skip
_RARE = frozenset(FILTERS[3:-1])
STATE_CHOICES = (
    ("", "Any state"),
    ("queued,running", "Waiting: queued or running"),
    ("dead,parked", "For you to decide: dead or parked"),
    *((state, state.capitalize()) for state in STATES),
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
        found = mending.listed(hub().database, _wanted(given, after=after), limit=_AT_ONCE + 1)
    except HubError as exc:
        return refused(exc, "activity/list.html", actions=[], **choices)
    shown = found[:_AT_ONCE]
    return page(
        "activity/list.html",
        actions=shown,
        after=after,
        next=shown[-1].id if len(found) > _AT_ONCE else None,
        **choices,
    )


@blueprint.get("/activity/<action_id>")
def action(action_id: str) -> flask.Response:
    """Show an action with all that is known of it."""
    found = mending.shown(hub().database, action_id)
    return page(
        "activity/one.html",
        found=found,
        one=found.summary,
        standing=standing(hub().database, found.summary),
        retriable=found.summary.state in mending.RETRIED,
        **_links([found]),
    )


@blueprint.get("/activity/contact")
def contact() -> flask.Response:
    """Show everything that was accepted for one contact, the newest first."""
    given = asked("account", "contact")
    after = asked("after").get("after", "")
    if given.keys() != {"account", "contact"}:
        raise BadRequest("A timeline is of a contact of an account; come here from one of theirs.")
    wanted = _wanted(given, after=after)
    found = mending.listed_whole(hub().database, wanted, limit=_PERSONS_AT_ONCE + 1)
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


# --- retry -------------------------------------------------------------------------------------


@blueprint.post("/activity/<action_id>/retry")
def retry_action(action_id: str) -> flask.Response:
    """Let an action be tried again, with what is parked behind it."""
    count = mending.retry_one(hub().database, action_id, by=author())
    behind = f" and {count - 1} behind it" if count > 1 else ""
    said = f"This action{behind} will be tried again now."
    return done(said, "console.action", action_id=action_id)


@blueprint.get("/activity/retry")
def confirm_retry() -> flask.Response:
    """Ask whether all that match are to be tried again, and say how many these are."""
    given = asked(*FILTERS)
    wanted = _wanted(given)
    counts = mending.retriable(hub().database, wanted, most=_COUNTED + 1)
    return page(
        "activity/retry.html",
        given=given,
        counts=counts,
        total=sum(counts.values()),
        most=_COUNTED,
        dead_alone=not wanted.states,
    )


@blueprint.post("/activity/retry")
def retry_actions() -> flask.Response:
    """Let all that match be tried again."""
    given = asked(*FILTERS)
    count = mending.retry(hub().database, _wanted(given), by=author())
    said = f"{counted(count, 'action')} will be tried again now."
    return done(said if count else "Nothing was left to try again.", "console.activity")


# --- what pages need ---------------------------------------------------------------------------


def _wanted(given: dict[str, str], *, after: str = "") -> Wanted:
    return Wanted(
        account=narrowing.account(given),
        states=narrowing.one_of(given, "state", STATES),
        kinds=narrowing.one_of(given, "helper", KINDS),
        contact_token=given.get("contactToken", ""),
        contact=given.get("contact", ""),
        phone=given.get("phone", ""),
        reason=given.get("reason", ""),
        older_than_ms=narrowing.age(given, "olderThan", "Older than"),
        newer_than_ms=narrowing.age(given, "newerThan", "Newer than"),
        after=after,
    )


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
