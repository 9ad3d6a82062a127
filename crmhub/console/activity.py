"""The console's list of actions, the pages that retry or discard several of them, and the charts.

An action is selected by the filters of the list, or by its checkbox. The charts show the actions
accepted and finished in each interval, and their duration.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import flask
from flask_babel import format_datetime, gettext, lazy_gettext, ngettext

from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.downloads import csv_of_list
from crmhub.console.list_filters import OF_ACTIVITY, OF_PERSON, TIMES, params
from crmhub.console.pages import add_page, done, errors_on, fragment, page, refused
from crmhub.console.reader_zone import reader_zone
from crmhub.console.saved_views import views_of
from crmhub.console.sessions import author, blueprint, needs, signed_in, visible_accounts
from crmhub.console.template_filters import label, number, translated
from crmhub.console.visibility import names_of, visible_action
from crmhub.errors import Forbidden, HubError
from crmhub.operators.actions import action_queries, attention
from crmhub.operators.actions import discard_action as discarding
from crmhub.operators.actions import retry_action as retrying
from crmhub.operators.actions.action_batches import Chosen
from crmhub.operators.actions.action_queries import KINDS, STATE_WORDS, STATES, Summary, Wanted
from crmhub.operators.actions.action_search import MOST_NAMES
from crmhub.operators.actions.attention import Attention
from crmhub.operators.actions.history import SPANS, Part, history
from crmhub.operators.failures import groups
from crmhub.operators.files import export_lists
from crmhub.queue.models import is_id

KIND_CHOICES = (("", lazy_gettext("Any helper")), *((kind, kind) for kind in KINDS))
_PAGE_SIZE = 15
# A larger count is shown as "more than" this.
_MAX_COUNT = 10_000
# The most causes that the filter offers, those with the most actions first.
_MAX_CAUSES = 25
# The most actions that checkboxes can select: those of one page.
_MAX_SELECTED = 50
_SPAN_LABELS = {
    "24h": lazy_gettext("24 hours"),
    "7d": lazy_gettext("7 days"),
    "30d": lazy_gettext("30 days"),
}
# Translated for the order of day and month; the letters are those of Unicode's CLDR.
_TIME_FORMATS = {
    "24h": "HH:mm",
    "7d": lazy_gettext("MMM dd HH:mm"),
    "30d": lazy_gettext("MMM dd"),
}


@blueprint.get("/activity")
@needs("activity")
def activity() -> flask.Response:
    given = _filters()
    after = params("after").get("after", "")
    choices: dict[str, Any] = {
        "given": given,
        "views": views_of("activity", given),
        "states": [(state, label(state).capitalize()) for state in STATES],
        "kinds": KIND_CHOICES,
        "most_names": MOST_NAMES,
        "periods": list_filters.period_choices(given),
        "accounts": list_filters.account_choices(given),
        "causes": [],
        "times": TIMES,
        "unfolded": not given.keys().isdisjoint((*OF_PERSON, *TIMES)),
    }
    try:
        selection = _selection(given, after=after)
        choices["causes"] = _cause_choices(given.get("cause", ""), selection.account)
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


@blueprint.get("/activity/export")
@needs("activity")
def activity_export() -> flask.Response:
    selection, hide, by = _selection(_filters()), not signed_in().may("data"), author()
    return csv_of_list(
        "activity",
        lambda out: export_lists.export_actions(hub().database, selection, out, hide=hide, by=by),
    )


def _filters() -> dict[str, str]:
    """Return the filters in the URL; a state may have its word for people, such as `failed`."""
    given = params(*OF_ACTIVITY)
    if state := list_filters.several("state"):
        states = {str(word): state for state, word in STATE_WORDS.items()}
        given["state"] = ",".join(states.get(word, word) for word in state.split(","))
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
        "groups": _by_contact(actions),
        "names": names_of(actions),
        "of_one_account": "account" in given,
        # Actions that a retry or a discard can take have a checkbox.
        "decidable": {*retrying.RETRIED, *discarding.DISCARDED},
    }


def _cause_choices(chosen: str, account: Account | None) -> list[tuple[str, str]]:
    """Return the causes of failures with the most actions, and the chosen one."""
    found, _ = groups.groups(hub().database, account=account, account_ids=visible_accounts())
    choices = {"": gettext("Any")}
    choices |= {chosen: gettext("A cause without failed actions")} if chosen else {}
    choices |= {
        one.key: f"{translated(one.said)[:80]} ({one.cause.kind})"
        for place, one in enumerate(found)
        if place < _MAX_CAUSES or one.key == chosen
    }
    return list(choices.items())


def _by_contact(actions: list[Summary]) -> list[list[Summary]]:
    """Return the actions of each contact, the newest first; the contact of the newest first.

    They are those of one page of the list: a contact may stand on the next page again. A write of
    another record belongs to no contact, and stands alone.
    """
    groups: dict[tuple[str, str], list[Summary]] = {}
    for one in actions:
        groups.setdefault((one.client_id, one.hub_id or one.id), []).append(one)
    return list(groups.values())


# --- decisions on several ------------------------------------------------------------------------


def _chosen() -> tuple[dict[str, Any], Wanted]:
    """Return the filters in the URL, with actions selected by checkboxes as `id`; and the query."""
    given: dict[str, Any] = _filters()
    if "selected" not in flask.request.args:
        return given, _selection(given)
    ids = list(filter(is_id, flask.request.args.getlist("id")))[:_MAX_SELECTED]
    # No id of the database: nothing checked must not mean everything.
    selection = Wanted(ids=tuple(ids) or ("none",), account_ids=visible_accounts())
    return {**given, "id": ids, "selected": "1"}, selection


def _confirm_context(find: Callable[..., Chosen]) -> dict[str, Any]:
    given, selection = _chosen()
    return {
        "given": given,
        "found": find(hub().database, selection, most=_MAX_COUNT + 1),
        "most": _MAX_COUNT,
        "wanted": selection,
        "reason": flask.request.form.get("reason", ""),
        "back": flask.url_for("console.activity", **_filters_in(given)),
    }


_retry_context = partial(_confirm_context, retrying.retriable)
_discard_context = partial(_confirm_context, discarding.discardable)
_RETRY, _DISCARD = "activity/retry.html", "activity/discard.html"
add_page("/activity/retry", "confirm_retry", needs("decide"), _RETRY, _retry_context)
add_page("/activity/discard", "confirm_discard", needs("decide"), _DISCARD, _discard_context)


@blueprint.post("/activity/retry")
@needs("decide")
def retry_actions() -> flask.Response:
    given, selection = _chosen()
    count = retrying.retry(hub().database, selection, by=author())
    message = ngettext(
        "%(count)s action will be retried now.",
        "%(count)s actions will be retried now.",
        count,
        count=number(count),
    )
    return _back_to_list(message if count else gettext("Nothing was left to retry."), given)


@blueprint.post("/activity/discard")
@needs("decide")
@errors_on(_DISCARD, _discard_context)
def discard_actions() -> flask.Response:
    reason, (given, selection) = flask.request.form.get("reason", ""), _chosen()
    count = discarding.discard(hub().database, selection, reason=reason, by=author())
    message = ngettext(
        "%(count)s action was discarded.",
        "%(count)s actions were discarded.",
        count,
        count=number(count),
    )
    return _back_to_list(message if count else gettext("Nothing was left to discard."), given)


def _back_to_list(message: str, given: dict[str, Any]) -> flask.Response:
    """Return to the list; after a selection by checkboxes, with its filters."""
    kept = _filters_in(given) if "selected" in given else {}
    return done(message, "console.activity", **kept)


def _filters_in(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in OF_ACTIVITY}


# --- data for the pages ---------------------------------------------------------------------------


def _selection(given: dict[str, str], *, after: str = "") -> Wanted:
    if {"reason", "q"} & given.keys() and not signed_in().may("data"):
        # Whoever may search for parts of a text can find out the text.
        raise Forbidden("Your role only allows to search for a whole email or phone.")
    begin, end = list_filters.period(given)
    return Wanted(
        account=list_filters.account(given),
        states=list_filters.one_of(given, "state", STATES),
        kinds=list_filters.one_of(given, "helper", KINDS),
        contact_token=given.get("contactToken", ""),
        contact=given.get("contact", ""),
        email=given.get("email", ""),
        phone=given.get("phone", ""),
        reason=given.get("reason", ""),
        older_than_ms=list_filters.age(given, "olderThan", gettext("Older than")),
        newer_than_ms=list_filters.age(given, "newerThan", gettext("Newer than")),
        accepted=(
            list_filters.moment(given, "acceptedFrom", gettext("Accepted from")) or begin,
            list_filters.moment(given, "acceptedUntil", gettext("Accepted before")) or end,
        ),
        ended=(
            list_filters.moment(given, "endedFrom", gettext("Ended from")),
            list_filters.moment(given, "endedUntil", gettext("Ended before")),
        ),
        search=given.get("q", ""),
        cause=given.get("cause", ""),
        fix=given.get("fix", ""),
        after=after,
        account_ids=visible_accounts(),
    )


def _count_attention(account: Account | None) -> Attention:
    with hub().database.reading() as db:
        if account is None:
            return attention.of_all(db, visible_accounts())
        return attention.of_accounts(db, [account.id])[account.id]


# --- charts ------------------------------------------------------------------------------------


@blueprint.get("/activity/charts")
@needs("activity")
def charts() -> flask.Response:
    given = params("account", "span")
    span = given.get("span", "24h")
    span = span if span in SPANS else "24h"
    shared: dict[str, Any] = {
        "given": given,
        "chosen": span,
        "spans": _SPAN_LABELS,
        "accounts": list_filters.account_choices(given),
    }
    try:
        account = list_filters.account(given)
    except HubError as exc:
        return refused(exc, "activity/charts.html", **shared)
    # One offset for all: of days before a change to or from summer time, one begins an hour off.
    offset = datetime.now(reader_zone().zone).utcoffset() or timedelta()
    parts = history(
        hub().database,
        SPANS[span],
        account,
        account_ids=visible_accounts(),
        offset_ms=offset // timedelta(milliseconds=1),
    )
    return page(
        "activity/charts.html",
        **shared,
        rows=[(_interval_of(part, span), part) for part in reversed(parts)],
        accepted=sum(part.accepted for part in parts),
        done=sum(part.done for part in parts),
        ended=sum(part.ended for part in parts),
        waiting=parts[-1].waiting,
        slowest=max(part.p95 or 0 for part in parts),
        oldest=max(part.oldest for part in parts),
        # The top of the axis, an even number.
        highest=_axis_top(max(max(part.accepted, part.ended) for part in parts)),
    )


def _axis_top(highest: int) -> int:
    """Return the smallest of 2, 4, 6, 10, 20, 40, 60, 100, … that is not below `highest`."""
    scale = 1
    while highest > 10 * scale:
        scale *= 10
    return next(top * scale for top in (2, 4, 6, 10) if highest <= top * scale)


def _interval_of(part: Part, span: str) -> dict[str, str]:
    """Return an interval's label, and its begin and end as the list's filters take them."""
    begin, end = (
        datetime.fromtimestamp(at / 1000, reader_zone().zone)
        for at in (part.begins_at, part.begins_at + SPANS[span].part_ms)
    )
    label = format_datetime(begin, str(_TIME_FORMATS[span]), rebase=False)
    minutes = {"timespec": "minutes"}
    return {"label": label, "begin": begin.isoformat(**minutes), "end": end.isoformat(**minutes)}
