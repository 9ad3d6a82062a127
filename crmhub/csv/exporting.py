"""Export of records to a CSV file that spreadsheets open.

The module `importing` can import the file again.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.csv.spreadsheets import escape_formula
from crmhub.errors import Semantic, listed
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import unknown
from crmhub.records.search.filters import Filter, iso
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query
from crmhub.records.store import RecordStore

_PAGE_SIZE = 1000


@dataclass(frozen=True, slots=True)
class Selection:
    """The records and properties to export.

    `filters` choose the records, and `properties` names the properties; () means all. With `raw`,
    values are written unchanged, even if a spreadsheet would execute them as formulas.
    """

    filters: tuple[Filter, ...] = ()
    properties: tuple[str, ...] = ()
    raw: bool = False


def export(
    records: RecordStore,
    account: Account,
    kind: Kind,
    selection: Selection,
    out: TextIO,
    *,
    by: Author,
) -> Iterator[tuple[int, int]]:
    """Write records to the file `out`, the oldest first; yield progress after each page.

    Each yielded pair is the number of records written so far, and the total number. Each record
    that exists at the start is written once; records that are created meanwhile may be included.
    Raises Semantic for unknown properties, and BadRequest or Semantic for invalid filters, before
    anything is written.
    """
    names = _property_names(records, account, kind, selection.properties)
    write = csv.writer(out).writerow
    cell = str if selection.raw else escape_formula
    query = Query(selection.filters, sort="created_at", descending=False, limit=_PAGE_SIZE)
    page = records.page(account, kind, PageRequest(query))
    write(["id", *names, "createdAt", "updatedAt"])
    written = 0
    while True:
        for record in page.records:
            values_by_name = json.loads(record.properties)
            values = [cell(values_by_name.get(name, "")) for name in names]
            write([record.id, *values, iso(record.created_at), iso(record.updated_at)])
        written += len(page.records)
        yield written, max(page.total, written)
        if not page.cursor:
            break
        after = records.cursor(account, kind, page.cursor)
        page = records.page(account, kind, PageRequest(query, after))
    summary = {"records": written, "properties": list(names)}
    records.database.transact(
        lambda tx: audit.note(
            tx, by, "export", "records", kind.name, account_id=account.id, after=summary
        )
    )


def _property_names(
    records: RecordStore, account: Account, kind: Kind, requested: Sequence[str]
) -> tuple[str, ...]:
    catalogue = records.catalogues.reload(account.id, kind)
    if not requested:
        return tuple(prop.name for prop in catalogue)
    problems = [
        (name[:100], unknown(catalogue, name)) for name in requested if not catalogue.get(name)
    ]
    if problems:
        raise Semantic(listed(problems))
    return tuple(dict.fromkeys(requested))
