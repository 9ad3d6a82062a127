"""Export of records to a CSV file that spreadsheets open and `importing` reads again."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.csv.text_guards import escape_formula
from crmhub.errors import Semantic, listed
from crmhub.properties.catalogue import FIELDS, Catalogue
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import unknown
from crmhub.records.search.filters import Filter, iso
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query
from crmhub.records.store import RecordStore

_PAGE_SIZE = 1000


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
) -> Iterator[tuple[int, int]]:
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
    summary = {"records": written, "properties": names}
    records.database.transact(
        lambda tx: audit.note(
            tx, by, "export", "records", kind.name, account_id=account.id, after=summary
        )
    )


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
