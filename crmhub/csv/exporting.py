"""Export of records to a CSV file that spreadsheets open and `importing` reads again."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.csv.text_guards import escape_formula
from crmhub.errors import Semantic, listed
from crmhub.properties.catalogue import FIELDS, Catalogue
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import BY_CODE, Kind
from crmhub.properties.validation import unknown
from crmhub.records import timeline
from crmhub.records.search.filters import Filter, iso
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query
from crmhub.records.store import RecordStore

_PAGE_SIZE, _NOTES_PAGE_SIZE = 1000, 100
_OF_TASKS = ("subject", "due", "owner", "priority")


@dataclass(frozen=True, slots=True)
class Selection:
    """`properties`: () means all. With `raw`, formulas stay; with `labels`, titles are labels."""

    filters: tuple[Filter, ...] = ()
    properties: tuple[str, ...] = ()
    raw: bool = False
    labels: bool = False
    delimiter: str = ","


def export(
    records: RecordStore,
    account: Account,
    kind: Kind,
    selection: Selection,
    out: TextIO,
    *,
    by: Author,
) -> Generator[tuple[int, int]]:
    """Write records, the oldest first; yield the numbers written and in total after each page.

    Each record that exists at the start is written once; later ones may be included. Raises
    Semantic and BadRequest before anything is written.
    """
    catalogue = records.catalogues.reload(account.id, kind)
    properties = _properties(catalogue, selection.properties)
    names = [prop.name for prop in properties]
    write = csv.writer(out, delimiter=selection.delimiter).writerow
    cell = str if selection.raw else escape_formula
    query = Query(selection.filters, sort="created_at", descending=False, limit=_PAGE_SIZE)
    page = records.page(account, kind, PageRequest(query))
    titles = _labels(catalogue, properties) if selection.labels else names
    write(["id", *map(cell, titles), "createdAt", "updatedAt"])
    of: dict[str, Any] = {"records": 0, "properties": names}
    noting = audit.noting(
        records.database, by, "export", "records", kind.name, account_id=account.id, after=of
    )
    with noting:
        while True:
            for record in page.records:
                values_by_name = json.loads(record.properties)
                values = [cell(values_by_name.get(name, "")) for name in names]
                write([record.id, *values, iso(record.created_at), iso(record.updated_at)])
            of["records"] += len(page.records)
            yield of["records"], max(page.total, of["records"])
            if not page.cursor:
                return
            after = records.cursor(account, kind, page.cursor)
            page = records.page(account, kind, PageRequest(query, after))


def export_notes(
    records: RecordStore, account: Account, selection: Selection, out: TextIO, *, by: Author
) -> Generator[tuple[int, int]]:
    """Write notes and tasks of the account's records, as `export` does; archived ones are left out.

    Filters and properties of the selection do not count.
    """
    database = records.database
    write = csv.writer(out, delimiter=selection.delimiter).writerow
    cell = str if selection.raw else escape_formula
    titles = ["id", "resource", "recordId", "crmId", "kind", "at", "author", *_OF_TASKS, "text"]
    write([*titles, "createdAt"])
    with database.reading() as connection:
        total = timeline.total(connection, account.id)
    last, of = 0, {"records": 0}
    noting = audit.noting(
        database, by, "export", "records", "notes", account_id=account.id, after=of
    )
    with noting:
        while True:
            with database.reading() as connection:
                page = timeline.after(connection, account.id, last, most=_NOTES_PAGE_SIZE)
            there = _own_records(records, account, page)
            for row in page:
                if row.connection_id == timeline.OWN and (row.kind, row.record_id) not in there:
                    continue
                of_task = json.loads(row.properties)
                texts = [row.author, *(of_task.get(name, "") for name in _OF_TASKS), row.text]
                place = (BY_CODE[row.kind].name, row.record_id, row.crm_id)
                times = [iso(row.at), *map(cell, texts), iso(row.created_at)]
                write([row.id, *map(cell, place), row.type, *times])
                of["records"] += 1
            yield of["records"], max(total, of["records"])
            if not page:
                return
            last = page[-1].id


def _own_records(
    records: RecordStore, account: Account, entries: Sequence[Any]
) -> set[tuple[int, str]]:
    """Return the kinds and ids of the hub's own records that have these notes, and exist."""
    ids: dict[int, set[int]] = {}
    for row in entries:
        if row.connection_id == timeline.OWN:
            ids.setdefault(row.kind, set()).add(int(row.record_id))
    return {
        (code, str(one.id))
        for code, of_kind in ids.items()
        for one in records.read(account, BY_CODE[code], sorted(of_kind))
    }


def _properties(catalogue: Catalogue, requested: Sequence[str]) -> list[Property]:
    if not requested:
        return list(catalogue)
    found = [catalogue.get(name) for name in dict.fromkeys(requested)]
    problems = [
        (name[:100], unknown(catalogue, name)) for name in requested if not catalogue.get(name)
    ]
    if problems:
        raise Semantic(listed(problems))
    return [prop for prop in found if prop is not None]


def _labels(catalogue: Catalogue, properties: Sequence[Property]) -> list[str]:
    """A label that another property has as label or name is followed by the property's name."""
    taken = Counter(text for prop in catalogue for text in {prop.name, prop.label.casefold()})
    return [
        f"{prop.label} ({prop.name})".strip()
        if not prop.label or prop.label in FIELDS or taken[prop.label.casefold()] > 1
        else prop.label
        for prop in properties
    ]
