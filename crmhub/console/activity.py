"""The console's list of actions, and the pages that retry or discard several of them.

An action is selected by the filters of the list, or by its checkbox.
"""

from __future__ import annotations

from typing import Any

import flask

from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.access import needs
from crmhub.console.blueprint import blueprint
from crmhub.console.list_filters import params
from crmhub.console.pages import done, fragment, page, refused
from crmhub.console.people import names_of, visible_action
from crmhub.console.sessions import author, signed_in, visible_accounts
from crmhub.console.template_filters import counted, label
from crmhub.errors import Forbidden, HubError
from crmhub.operators.actions import action_queries, attention
from crmhub.operators.actions import discard_action as discarding
from crmhub.operators.actions import retry_action as retrying
from crmhub.operators.actions.action_batches import Chosen
from crmhub.operators.actions.action_queries import KINDS, STATE_WORDS, STATES, Summary, Wanted
from crmhub.operators.actions.action_search import MOST_NAMES
from crmhub.operators.actions.attention import Attention
from crmhub.queue.models import is_id

FILTERS = (
    "q", "account", "helper", "state", "newerThan", "contactToken", "contact", "phone", "reason",
    "olderThan", "acceptedFrom", "acceptedUntil", "endedFrom", "endedUntil",
)  # fmt: skip
_EXTRA_FILTERS = frozenset(FILTERS[5:])
STATE_CHOICES = (
    ("", "Any state"),
    ("queued,running", "Waiting: queued or in progress"),
    ("dead,parked", "Needs attention: failed or blocked"),
    *((state, label(state).capitalize()) for state in STATES),
)
KIND_CHOICES = (("", "Any helper"), *((kind, kind) for kind in KINDS))
_PAGE_SIZE = 15
# A larger count is shown as "more than" this.
_MAX_COUNT = 10_000
# The most actions that checkboxes can select: those of one page.
_MAX_SELECTED = 50


@blueprint.get("/activity")
@needs("activity")
def activity() -> flask.Response:
    given = _filters()
    after = params("after").get("after", "")
    choices: dict[str, Any] = {
        "given": given,
        "states": _state_choices(given),
        "kinds": KIND_CHOICES,
        "most_names": MOST_NAMES,
        "unfolded": not _EXTRA_FILTERS.isdisjoint(given),
    }
    try:
        selection = _selection(given, after=after)
        shown, more = _page_of(selection)
    except HubError as exc:
        return refused(exc, "activity/list.html", actions=[], **choices)
    states = set(selection.states or STATES)
    return page(
        "activity/list.html",
        **_rows_context(given, shown),
        needs=_count_attention(selection.account),
        retriable=not states.isdisjoint(retrying.RETRIED),
        discardable=not states.isdisjoint(discarding.DISCARDED),
        after=after,
        next=shown[-1].id if more else None,
        **choices,
    )


@blueprint.get("/activity/rows")
@needs("activity")
def activity_rows() -> flask.Response:
    given = _filters()
    shown, _ = _page_of(_selection(given))
    return fragment("activity/rows.html", given=given, **_rows_context(given, shown))


def _filters() -> dict[str, str]:
    """Return the filters in the URL; a state may have its word for people, such as `failed`."""
    given = params(*FILTERS)
    if "state" in given:
        states = {word: state for state, word in STATE_WORDS.items()}
        given["state"] = ",".join(states.get(word, word) for word in given["state"].split(","))
    return given


def _page_of(selection: Wanted) -> tuple[list[Summary], bool]:
    database, limit = hub().database, _PAGE_SIZE + 1
    if signed_in().may("data"):
        matches = action_queries.listed(database, selection, limit=limit)
    else:
        # The values to hide in the reasons are in the requests.
        whole = action_queries.listed_whole(database, selection, limit=limit)
        matches = [visible_action(action).summary for action in whole]
    return matches[:_PAGE_SIZE], len(matches) > _PAGE_SIZE


def _rows_context(given: dict[str, str], actions: list[Summary]) -> dict[str, Any]:
    return {
        "actions": actions,
        "names": names_of(actions),
        "of_one_account": "account" in given,
        # Actions that a retry or a discard can take have a checkbox.
        "decidable": {*retrying.RETRIED, *discarding.DISCARDED},
    }


def _state_choices(given: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the choices of the state filter, and one more for other states of a link."""
    chosen = given.get("state", "")
    if not chosen or chosen in dict(STATE_CHOICES):
        return STATE_CHOICES
    words = " or ".join(label(state) for state in chosen.split(","))
    return (*STATE_CHOICES, (chosen, words.capitalize()))


# --- decisions on several ------------------------------------------------------------------------


@blueprint.get("/activity/retry")
@needs("decide")
def confirm_retry() -> flask.Response:
    given = _given()
    selection = _selection_of_form(given)
    matches = retrying.retriable(hub().database, selection, most=_MAX_COUNT + 1)
    return page("activity/retry.html", **_confirm_context(given, matches, selection))


@blueprint.post("/activity/retry")
@needs("decide")
def retry_actions() -> flask.Response:
    given = _given()
    count = retrying.retry(hub().database, _selection_of_form(given), by=author())
    message = f"{counted(count, 'action')} will be retried now."
    return _back_to_list(message if count else "Nothing was left to retry.", given)


@blueprint.get("/activity/discard")
@needs("decide")
def confirm_discard() -> flask.Response:
    return page("activity/discard.html", **_discard_context())


@blueprint.post("/activity/discard")
@needs("decide")
def discard_actions() -> flask.Response:
    reason, given = flask.request.form.get("reason", ""), _given()
    try:
        selection = _selection_of_form(given)
        count = discarding.discard(hub().database, selection, reason=reason, by=author())
    except HubError as exc:
        return refused(exc, "activity/discard.html", **_discard_context(), reason=reason)
    message = f"{counted(count, 'action')} {'was' if count == 1 else 'were'} discarded."
    return _back_to_list(message if count else "Nothing was left to discard.", given)


def _discard_context() -> dict[str, Any]:
    given = _given()
    selection = _selection_of_form(given)
    matches = discarding.discardable(hub().database, selection, most=_MAX_COUNT + 1)
    return _confirm_context(given, matches, selection)


def _confirm_context(given: dict[str, Any], matches: Chosen, selection: Wanted) -> dict[str, Any]:
    return {
        "given": given,
        "found": matches,
        "most": _MAX_COUNT,
        "wanted": selection,
        "back": flask.url_for("console.activity", **_filters_in(given)),
    }


def _given() -> dict[str, Any]:
    """Return the filters in the URL, and as `id` the actions selected by checkboxes, if any."""
    given: dict[str, Any] = _filters()
    if "selected" in flask.request.args:
        ids = filter(is_id, flask.request.args.getlist("id"))
        given |= {"id": list(ids)[:_MAX_SELECTED], "selected": "1"}
    return given


def _selection_of_form(given: dict[str, Any]) -> Wanted:
    if "selected" in given:
        # No id of the database: nothing checked must not mean everything.
        return Wanted(ids=tuple(given["id"]) or ("none",), account_ids=visible_accounts())
    return _selection(given)


def _back_to_list(message: str, given: dict[str, Any]) -> flask.Response:
    """Return to the list; after a selection by checkboxes, with its filters."""
    kept = _filters_in(given) if "selected" in given else {}
    return done(message, "console.activity", **kept)


def _filters_in(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in FILTERS}


# --- data for the pages ---------------------------------------------------------------------------


def _selection(given: dict[str, str], *, after: str = "") -> Wanted:
    if {"reason", "q"} & given.keys() and not signed_in().may("data"):
        # Whoever may search for parts of a text can find out the text.
        raise Forbidden("Your role does not allow to search in reasons, names and emails.")
    return Wanted(
        account=list_filters.account(given),
        states=list_filters.one_of(given, "state", STATES),
        kinds=list_filters.one_of(given, "helper", KINDS),
        contact_token=given.get("contactToken", ""),
        contact=given.get("contact", ""),
        phone=given.get("phone", ""),
        reason=given.get("reason", ""),
        older_than_ms=list_filters.age(given, "olderThan", "Accepted before the last"),
        newer_than_ms=list_filters.age(given, "newerThan", "Accepted within the last"),
        accepted=(
            list_filters.moment(given, "acceptedFrom", "Accepted from"),
            list_filters.moment(given, "acceptedUntil", "Accepted before"),
        ),
        ended=(
            list_filters.moment(given, "endedFrom", "Ended from"),
            list_filters.moment(given, "endedUntil", "Ended before"),
        ),
        search=given.get("q", ""),
        after=after,
        account_ids=visible_accounts(),
    )


def _count_attention(account: Account | None) -> Attention:
    with hub().database.reading() as db:
        if account is None:
            return attention.of_all(db, visible_accounts())
        return attention.of_accounts(db, [account.id])[account.id]
