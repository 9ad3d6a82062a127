"""The console's audit log page: changes with author, time, and values before and after."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

import flask
from flask_babel import format_date, gettext, lazy_gettext

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
from crmhub.errors import HubError
from crmhub.operators.files import export_lists

_PAGE_SIZE = 25
# What an entry says of its verb, and the verb alone.
_VERBS = {
    "open": (lazy_gettext("opened %(object)s"), lazy_gettext("open")),
    "change": (lazy_gettext("changed %(object)s"), lazy_gettext("change")),
    "create": (lazy_gettext("created %(object)s"), lazy_gettext("create")),
    "revoke": (lazy_gettext("revoked %(object)s"), lazy_gettext("revoke")),
    "rotate": (lazy_gettext("rotated %(object)s"), lazy_gettext("rotate")),
    "enrol": (lazy_gettext("registered %(object)s"), lazy_gettext("enrol")),
    "unenrol": (lazy_gettext("unregistered %(object)s"), lazy_gettext("unenrol")),
    "retry": (lazy_gettext("retried %(object)s"), lazy_gettext("retry")),
    "edit": (lazy_gettext("corrected %(object)s"), lazy_gettext("edit")),
    "discard": (lazy_gettext("discarded %(object)s"), lazy_gettext("discard")),
    "erase": (lazy_gettext("erased %(object)s"), lazy_gettext("erase")),
    "import": (lazy_gettext("imported %(object)s"), lazy_gettext("import")),
    "export": (lazy_gettext("exported %(object)s"), lazy_gettext("export")),
    "merge": (lazy_gettext("merged %(object)s"), lazy_gettext("merge")),
    "unmerge": (lazy_gettext("separated %(object)s"), lazy_gettext("unmerge")),
    "dismiss": (lazy_gettext("dismissed %(object)s"), lazy_gettext("dismiss")),
    "invite": (lazy_gettext("invited %(object)s"), lazy_gettext("invite")),
    "reset": (lazy_gettext("reset %(object)s"), lazy_gettext("reset")),
    "remove": (lazy_gettext("removed %(object)s"), lazy_gettext("remove")),
    "link": (lazy_gettext("linked %(object)s"), lazy_gettext("link")),
    "unlink": (lazy_gettext("unlinked %(object)s"), lazy_gettext("unlink")),
    "pick": (lazy_gettext("picked %(object)s"), lazy_gettext("pick")),
    "replay": (lazy_gettext("replayed %(object)s"), lazy_gettext("replay")),
    "load": (lazy_gettext("loaded %(object)s"), lazy_gettext("load")),
    "compare": (lazy_gettext("compared %(object)s"), lazy_gettext("compare")),
    "test": (lazy_gettext("tested %(object)s"), lazy_gettext("test")),
}
# What an entry says of its object, and the object alone.
_OBJECTS = {
    "account": (lazy_gettext("the account"), lazy_gettext("account")),
    "connection": (lazy_gettext("the CRM"), lazy_gettext("connection")),
    "fieldMap": (lazy_gettext("the field map"), lazy_gettext("field map")),
    "key": (lazy_gettext("an API key"), lazy_gettext("key")),
    "webhookId": (lazy_gettext("the webhook id"), lazy_gettext("webhook id")),
    "token": (lazy_gettext("an admin token"), lazy_gettext("token")),
    "user": (lazy_gettext("a user"), lazy_gettext("user")),
    "workflow": (lazy_gettext("a workflow"), lazy_gettext("workflow")),
    "actions": (lazy_gettext("actions"), lazy_gettext("actions")),
    "person": (lazy_gettext("the data of a person"), lazy_gettext("person")),
    "records": (lazy_gettext("records"), lazy_gettext("records")),
    "encryptionKey": (lazy_gettext("the encryption key"), lazy_gettext("encryption key")),
    "duplicate": (lazy_gettext("a possible duplicate"), lazy_gettext("duplicate")),
    "connectLink": (lazy_gettext("a link to connect a CRM"), lazy_gettext("connect link")),
    "eventSubscription": (
        lazy_gettext("an event subscription"),
        lazy_gettext("event subscription"),
    ),
    "copy": (lazy_gettext("the copy of the CRM"), lazy_gettext("copy")),
    "team": (lazy_gettext("a team"), lazy_gettext("team")),
    "alerts": (lazy_gettext("the alerts"), lazy_gettext("alerts")),
}
# Kinds of objects that only users with the right "people" see.
_OF_PEOPLE = ("user", "token")
# Kinds of objects whose ids are numbers within the database: they tell nobody anything.
_NUMBERED = ("connection", "fieldMap")
_OBJECT_CHOICES = (
    ("", lazy_gettext("Anything")),
    *((name, _OBJECTS[name][1]) for name in OBJECTS),
)
_VERB_CHOICES = (("", lazy_gettext("Any change")), *((name, _VERBS[name][1]) for name in VERBS))


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
    names = {today: gettext("Today"), today - timedelta(days=1): gettext("Yesterday")}
    # Translated for the order of day and month; the letters are those of Unicode's CLDR.
    pattern = gettext("EEEE, d MMMM y")
    days = []
    for day, of_day in groupby(
        entries, lambda one: datetime.fromtimestamp(one.at / 1000, here).date()
    ):
        alike = [list(same) for _, same in groupby(of_day, _likeness)]
        days.append(
            (names.get(day) or format_date(day, pattern), [(_say(same[0]), same) for same in alike])
        )
    return days


def _likeness(entry: Entry) -> tuple[Any, ...]:
    return entry.by, _say(entry), entry.client_id


def _say(entry: Entry) -> Said:
    adapter = entry.after.get("adapter") if entry.object == "connection" else None
    to = hub().registry.title(adapter) if adapter else ""
    object = str(_OBJECTS[entry.object][0]) if entry.object in _OBJECTS else entry.object
    if entry.verb not in _VERBS:
        return Said(f"{entry.verb} {object}", to)
    return Said(str(_VERBS[entry.verb][0]) % {"object": object}, to)


def _selection(given: dict[str, str], after: str) -> Wanted:
    account = list_filters.account(given)
    (object,) = list_filters.one_of(given, "object", OBJECTS)[:1] or ("",)
    (verb,) = list_filters.one_of(given, "verb", VERBS)[:1] or ("",)
    return Wanted(
        account_id=account.id if account else None,
        object=object,
        verb=verb,
        by=given.get("by", ""),
        newer_than_ms=list_filters.age(given, "newerThan", gettext("Within the last")) or None,
        older_than_ms=list_filters.age(given, "olderThan", gettext("Older than")) or None,
        at=list_filters.period(given),
        before_id=list_filters.parse_id(after),
        account_ids=visible_accounts(),
        without=() if signed_in().may("people") else _OF_PEOPLE,
    )
