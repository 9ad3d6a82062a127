"""The console's saved views: filters of Activity and of the audit log, under a name."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

import flask
from flask_babel import gettext, lazy_gettext

from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.list_filters import OF_ACTIVITY, OF_AUDIT, OF_PERSON, text
from crmhub.console.pages import add_page, done, errors_on
from crmhub.console.sessions import blueprint, for_users, may_open, signed_in
from crmhub.errors import NotFound, Semantic
from crmhub.operators.users import saved_views

_PAGES = {
    "activity": (lazy_gettext("Activity"), "console.activity", OF_ACTIVITY),
    "audit": (lazy_gettext("Audit log"), "console.audit_log", OF_AUDIT),
}
"""Label, endpoint and filters of the lists that have views."""
_PERSONAL = frozenset({"q", *OF_PERSON})
"""Filters whose values may name one person."""


def views_of(page: str, given: dict[str, str]) -> dict[str, Any]:
    """Return what the bar of views above a list shows; `given`: the list's present filters."""
    return {
        "page": page,
        "endpoint": _PAGES[page][1],
        "listed": [one for one in _seen() if one["page"] == page],
        "is_personal": not _PERSONAL.isdisjoint(given),
        "may_share": saved_views.may_share(signed_in()),
        "longest": saved_views.LONGEST_NAME,
    }


def _seen() -> list[dict[str, Any]]:
    """Return the views that the user may open, without those of accounts that they do not see."""
    user, seen = signed_in(), []
    for row in saved_views.list_views(hub(), user):
        label, endpoint, _ = _PAGES[row.page]
        query = dict(parse_qsl(row.query))
        named = query.get("account")
        if may_open(user, endpoint) and (not named or list_filters.is_visible(named)):
            seen.append(
                {
                    "id": row.id,
                    "page": row.page,
                    "label": label,
                    "name": row.name,
                    "url": f"{flask.url_for(endpoint)}?{row.query}",
                    "query": query,
                    "shared": bool(row.shared),
                    "by": "" if row.user_id == user.user_id else row.email,
                    "deletable": saved_views.may_delete(user, row),
                }
            )
    return seen


def _context(**_: str) -> dict[str, Any]:
    return {
        "views": _seen(),
        "may_share": saved_views.may_share(signed_in()),
        "longest": saved_views.LONGEST_NAME,
    }


add_page("/views", "saved_views", for_users, "views/list.html", _context)


@blueprint.post("/views/of/<page>")
@for_users
@errors_on("views/list.html", _context)
def views_save(page: str) -> flask.Response:
    if page not in _PAGES or not may_open(signed_in(), _PAGES[page][1]):
        raise NotFound("There are no views of %(page)s.", page=repr(page[:40]))
    form = {name: text(value) for name, value in flask.request.form.items()}
    filters = {name: form[name] for name in _PAGES[page][2] if form.get(name)}
    if not filters:
        raise Semantic("Filter the list first: a view is a filter under a name.")
    if not _PERSONAL.isdisjoint(filters):
        raise Semantic("A view cannot name one person. Clear the search, contact and reason first.")
    if account := list_filters.account(filters):
        filters["account"] = account.client_id
    saved_views.save_view(
        hub(), signed_in(), page, form.get("name", ""), urlencode(filters), shared="shared" in form
    )
    return done(gettext("The view is saved."), _PAGES[page][1], **filters)


@blueprint.post("/views/<view>")
@for_users
@errors_on("views/list.html", _context)
def views_change(view: str) -> flask.Response:
    form = flask.request.form
    name, shared = text(form.get("name", "")), "shared" in form
    saved_views.change_view(hub(), signed_in(), view, name, shared=shared)
    return done(gettext("The view is changed."), "console.saved_views")


@blueprint.post("/views/<view>/deleted")
@for_users
@errors_on("views/list.html", _context)
def views_delete(view: str) -> flask.Response:
    saved_views.delete_view(hub(), signed_in(), view)
    return done(gettext("The view is deleted."), "console.saved_views")
