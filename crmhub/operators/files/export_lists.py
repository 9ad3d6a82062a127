"""Export of actions and of the audit log to CSV, page by page, the newest first."""

from __future__ import annotations

import csv
import json
from collections.abc import Generator, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TextIO

from crmhub import audit
from crmhub.audit import Author
from crmhub.csv.text_guards import escape_formula
from crmhub.database.connection import Database
from crmhub.identity.contact_names import ContactName
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.action_queries import STATE_WORDS, Full, Summary, Wanted
from crmhub.operators.actions.personal_data import hide_in_action
from crmhub.records.search.filters import iso

_PAGE_SIZE = 500
_NOBODY = ContactName()
_PERSON = ("name", "email", "phone")
_ACTION = ("action", "accepted", "account", "helper", "state", "contactId")
_OUTCOME = ("attempts", "ended", "reason")
_ENTRY = ("time", "author", "authorKind", "change", "object", "objectId", "account")


def export_actions(
    database: Database, wanted: Wanted, out: TextIO, *, hide: bool, by: Author
) -> Generator[int]:
    """Write the selected actions; yield the number written after each page.

    With `hide`, personal data is hidden as on the console's pages, and persons are left out.
    """
    write = csv.writer(out).writerow
    write([*_ACTION, *(() if hide else _PERSON), *_OUTCOME])
    account_id = wanted.account.id if wanted.account else None
    of = {"actions": 0, **_filters(wanted)}
    with audit.noting(database, by, "export", "actions", account_id=account_id, after=of):
        while True:
            page, names = _page_of(database, wanted, hide=hide)
            for one in page:
                person = names.get(one.id, _NOBODY)
                state = STATE_WORDS.get(one.state, one.state)
                ended = iso(one.finished_at) if one.finished_at else ""
                action = (one.id, iso(one.created_at), one.client_id, one.kind, state, one.hub_id)
                shown = [] if hide else [getattr(person, name) for name in _PERSON]
                write(_escaped([*action, *shown, one.attempts, ended, one.reason]))
            of["actions"] += len(page)
            yield of["actions"]
            if len(page) < _PAGE_SIZE:
                return
            wanted = replace(wanted, after=page[-1].id)


def _page_of(
    database: Database, wanted: Wanted, *, hide: bool
) -> tuple[Sequence[Summary], dict[str, ContactName]]:
    if hide:
        # The values to hide in the reasons are in the requests.
        whole: list[Full] = action_queries.listed_whole(database, wanted, limit=_PAGE_SIZE)
        return [hide_in_action(one).summary for one in whole], {}
    page = action_queries.listed(database, wanted, limit=_PAGE_SIZE)
    return page, action_queries.names_of(database, page)


def export_audit(
    database: Database, wanted: audit.Wanted, out: TextIO, *, by: Author
) -> Generator[int]:
    """Write the selected entries; yield the number written after each page."""
    write = csv.writer(out).writerow
    write([*_ENTRY, "before", "after"])
    of = {"entries": 0, **_filters(wanted)}
    here = wanted.account_id
    with audit.noting(database, by, "export", "records", "audit", account_id=here, after=of):
        while True:
            with database.reading() as db:
                page = audit.listed(db, wanted, limit=_PAGE_SIZE)
            for one in page:
                author = (iso(one.at), one.by.name, one.by.kind)
                changed = (one.verb, one.object, one.object_id, one.client_id)
                values = (json.dumps(each, ensure_ascii=False) for each in (one.before, one.after))
                write(_escaped([*author, *changed, *values]))
            of["entries"] += len(page)
            yield of["entries"]
            if len(page) < _PAGE_SIZE:
                return
            wanted = replace(wanted, before_id=page[-1].id)


def _escaped(cells: Iterable[Any]) -> list[str]:
    return [escape_formula(str(cell)) for cell in cells]


def _filters(wanted: Wanted | audit.Wanted) -> dict[str, Any]:
    """Return the names of the filters, whose values may be personal data."""
    left_out = {"after", "before_id", "account_ids", "without"}
    named = [
        one.name
        for one in fields(wanted)
        if one.name not in left_out and getattr(wanted, one.name) not in (None, "", 0, (), (0, 0))
    ]
    return {"filters": named}
