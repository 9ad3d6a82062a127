"""The console's audit log page: changes with author, time, and values before and after."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

import flask

from crmhub import audit
from crmhub.api.http.authentication import hub
from crmhub.audit import OBJECTS, VERBS, Entry, Wanted
from crmhub.console import list_filters
from crmhub.console.downloads import csv_of_list
from crmhub.console.list_filters import OF_AUDIT, params
from crmhub.console.pages import page, refused
from crmhub.console.reader_zone import reader_zone
from crmhub.console.saved_views import views_of
from crmhub.console.sessions import author, blueprint, needs, signed_in, visible_accounts
from crmhub.console.template_filters import spaced
from crmhub.errors import HubError
from crmhub.operators.crm import crm_states
from crmhub.operators.files import export_lists

_PAGE_SIZE = 25
_PAST = {
    "open": "opened", "change": "changed", "create": "created", "revoke": "revoked",
    "rotate": "rotated", "enrol": "registered", "unenrol": "unregistered", "retry": "retried",
    "edit": "corrected", "discard": "discarded", "erase": "erased", "import": "imported",
    "export": "exported", "merge": "merged", "unmerge": "separated", "dismiss": "dismissed",
    "invite": "invited", "reset": "reset", "remove": "removed", "link": "linked",
    "unlink": "unlinked", "pick": "picked", "replay": "replayed", "load": "loaded",
    "compare": "compared", "test": "tested",
}  # fmt: skip
_WHAT = {
    "account": "the account", "connection": "the CRM", "fieldMap": "the field map",
    "key": "an API key", "webhookId": "the webhook id", "token": "an admin token",
    "user": "a user", "workflow": "a workflow", "actions": "actions",
    "person": "the data of a person", "records": "records",
    "encryptionKey": "the encryption key", "duplicate": "a possible duplicate",
    "connectLink": "a link to connect a CRM", "eventSubscription": "an event subscription",
    "copy": "the copy of the CRM", "team": "a team", "alerts": "the alerts",
}  # fmt: skip
# Kinds of objects that only users with the right "people" see.
_OF_PEOPLE = ("user", "token")
# Kinds of objects whose ids are numbers within the database: they tell nobody anything.
_NUMBERED = ("connection", "fieldMap")
_OBJECT_CHOICES = (("", "Anything"), *((name, spaced(name)) for name in OBJECTS))
_VERB_CHOICES = (("", "Any change"), *((name, name) for name in VERBS))


class Said(NamedTuple):
    """What was done, such as `changed the CRM`, and the title of the CRM it was changed `to`."""

    what: str
    to: str


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
        return refused(exc, "audit/list.html", days=[], **choices)
    with hub().database.reading() as db:
        matches = audit.listed(db, selection, limit=_PAGE_SIZE + 1)
    shown = matches[:_PAGE_SIZE]
    return page(
        "audit/list.html",
        days=_by_day(shown),
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


def _by_day(entries: Sequence[Entry]) -> list[tuple[str, list[tuple[Said, list[Entry]]]]]:
    """Return days with their sentences, each with its entries: the newest first.

    Entries that follow each other and say the same belong to one sentence.
    """
    here = reader_zone().zone
    today = datetime.now(here).date()
    names = {today: "Today", today - timedelta(days=1): "Yesterday"}
    days = []
    for day, of_day in groupby(
        entries, lambda one: datetime.fromtimestamp(one.at / 1000, here).date()
    ):
        alike = [list(same) for _, same in groupby(of_day, _likeness)]
        name = names.get(day, f"{day:%A}, {day.day} {day:%B %Y}")
        days.append((name, [(_say(same[0]), same) for same in alike]))
    return days


def _likeness(entry: Entry) -> tuple[Any, ...]:
    return entry.by, _say(entry), entry.client_id


def _say(entry: Entry) -> Said:
    adapter = entry.after.get("adapter") if entry.object == "connection" else None
    to = crm_states.title_of(hub(), adapter) if adapter else ""
    return Said(f"{_PAST.get(entry.verb, entry.verb)} {_WHAT.get(entry.object, entry.object)}", to)


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
