"""Records as a CSV file, that spreadsheets open and `importing` reads again."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.csv.spreadsheets import guarded
from crmhub.errors import Semantic, listed
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import unknown
from crmhub.records.search.filters import Filter, iso
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.plans import Query
from crmhub.records.store import RecordStore

_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is exported: the records that meet all filters, and these properties; () means all.

    With `raw`, values are written as they are, even those that a spreadsheet takes for formulas.
    """

    filters: tuple[Filter, ...] = ()
    properties: tuple[str, ...] = ()
    raw: bool = False


def export(
    records: RecordStore, account: Account, kind: Kind, wanted: Wanted, out: TextIO, *, by: Author
) -> Iterator[tuple[int, int]]:
    """Write records, the oldest first, and return after each step how many of how many are out.

    What exists at the beginning comes once each, and so may what is created meanwhile. Raises
    Semantic and BadRequest, before anything is written, for properties and filters that cannot be.
    """
    names = _names(records, account, kind, wanted.properties)
    write = csv.writer(out).writerow
    cell = str if wanted.raw else guarded
    query = Query(wanted.filters, sort="created_at", descending=False, limit=_ROWS)
    page = records.page(account, kind, PageRequest(query))
    write(["id", *names, "createdAt", "updatedAt"])
    written = 0
    while True:
        for each in page.records:
            held = json.loads(each.properties)
            values = [cell(held.get(name, "")) for name in names]
            write([each.id, *values, iso(each.created_at), iso(each.updated_at)])
        written += len(page.records)
        yield written, max(page.total, written)
        if not page.cursor:
            break
        after = records.cursor(account, kind, page.cursor)
        page = records.page(account, kind, PageRequest(query, after))
    told = {"records": written, "properties": list(names)}
    records.database.transact(
        lambda tx: audit.note(
            tx, by, "export", "records", kind.name, account_id=account.id, after=told
        )
    )


def _names(
    records: RecordStore, account: Account, kind: Kind, wanted: Sequence[str]
) -> tuple[str, ...]:
    catalogue = records.catalogues.reload(account.id, kind)
    if not wanted:
        return tuple(each.name for each in catalogue)
    problems = [
        (name[:100], unknown(catalogue, name)) for name in wanted if not catalogue.get(name)
    ]
    if problems:
        raise Semantic(listed(problems))
    return tuple(dict.fromkeys(wanted))
