"""The console's audit log page: changes with author, time, and values before and after."""

from __future__ import annotations

from typing import Any

import flask

from crmhub import audit
from crmhub.api.http.authentication import hub
from crmhub.audit import OBJECTS, VERBS, Wanted
from crmhub.console import list_filters
from crmhub.console.downloads import csv_of_list
from crmhub.console.list_filters import OF_AUDIT, params
from crmhub.console.pages import page, refused
from crmhub.console.saved_views import views_of
from crmhub.console.sessions import author, blueprint, needs, signed_in, visible_accounts
from crmhub.console.template_filters import spaced
from crmhub.errors import HubError
from crmhub.operators.files import export_lists

_PAGE_SIZE = 15
# Kinds of objects that only users with the right "people" see.
_OF_PEOPLE = ("user", "token")
# Kinds of objects whose ids are numbers within the database: they tell nobody anything.
_NUMBERED = ("connection", "fieldMap")
_OBJECT_CHOICES = (("", "Anything"), *((name, spaced(name)) for name in OBJECTS))
_VERB_CHOICES = (("", "Any change"), *((name, name) for name in VERBS))


@blueprint.get("/audit")
@needs("data")
def audit_log() -> flask.Response:
    given = params(*OF_AUDIT)
    after = params("after").get("after", "")
    choices: dict[str, Any] = {
        "given": given,
        "views": views_of("audit", given),
        "accounts": list_filters.account_choices(given),
        "objects": _OBJECT_CHOICES,
        "verbs": _VERB_CHOICES,
        "periods": list_filters.period_choices(given),
    }
    try:
        selection = _selection(given, after)
    except HubError as exc:
        return refused(exc, "audit/list.html", entries=[], **choices)
    with hub().database.reading() as db:
        matches = audit.listed(db, selection, limit=_PAGE_SIZE + 1)
    shown = matches[:_PAGE_SIZE]
    return page(
        "audit/list.html",
        entries=shown,
        numbered=_NUMBERED,
        after=after,
        next=shown[-1].id if len(matches) > _PAGE_SIZE else None,
        **choices,
    )


@blueprint.get("/audit/export")
@needs("data")
def audit_export() -> flask.Response:
    selection, by = _selection(params(*OF_AUDIT), ""), author()
    return csv_of_list(
        "audit", lambda out: export_lists.export_audit(hub().database, selection, out, by=by)
    )


def _selection(given: dict[str, str], after: str) -> Wanted:
    account = list_filters.account(given)
    (object,) = list_filters.one_of(given, "object", OBJECTS)[:1] or ("",)
    (verb,) = list_filters.one_of(given, "verb", VERBS)[:1] or ("",)
    return Wanted(
        account_id=account.id if account else None,
        object=object,
        verb=verb,
        by=given.get("by", ""),
        newer_than_ms=list_filters.age(given, "newerThan", "Within the last") or None,
        older_than_ms=list_filters.age(given, "olderThan", "Older than") or None,
        at=list_filters.period(given),
        before_id=list_filters.parse_id(after),
        account_ids=visible_accounts(),
        without=() if signed_in().may("people") else _OF_PEOPLE,
    )
