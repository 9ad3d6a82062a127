"""Links from imported records to the records that a column of the file names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from crmhub.accounts.accounts import Account
from crmhub.bounds import MAX_FILTER_VALUE_LENGTH, MAX_FILTER_VALUES
from crmhub.csv.columns import Target
from crmhub.errors import Semantic
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind
from crmhub.records.search.filters import Filter
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query
from crmhub.records.store import RecordStore
from crmhub.records.upserts import search_form

_PAGE_SIZE = 1000
_SHOWN_IDS = 5


@dataclass(frozen=True, slots=True)
class LinkCell:
    target: Target
    text: str


def find_linked(
    records: RecordStore,
    account: Account,
    catalogues: Mapping[str, Catalogue],
    cells_by_line: Mapping[int, Sequence[LinkCell]],
) -> tuple[dict[int, list[tuple[Kind, int]]], dict[int, str]]:
    """Return the (kind, id) pairs to link to, and the faults; both by line.

    A cell names one record by a value of the target's property, or several, separated by
    semicolons.
    """
    linked: dict[int, list[tuple[Kind, int]]] = {}
    faults: dict[int, str] = {}
    parts = {cell: _parts(cell) for cells in cells_by_line.values() for cell in cells}
    wanted: dict[Target, list[str]] = {}
    for cell, values in parts.items():
        wanted.setdefault(cell.target, []).extend(values)
    ids_by_value = {
        target: _find(records, account, catalogues[target.kind.name], target, values)
        for target, values in wanted.items()
    }
    for line, cells in cells_by_line.items():
        for cell in cells:
            for part in parts[cell]:
                ids = ids_by_value[cell.target].get(part, [])
                if len(ids) == 1:
                    linked.setdefault(line, []).append((cell.target.kind, ids[0]))
                else:
                    faults.setdefault(line, _fault(cell.target, part, ids))
    return linked, faults


def _parts(cell: LinkCell) -> list[str]:
    """Only ids are separated; a name such as "Smith; Jones & Co." stays whole."""
    if cell.target.property != "id":
        return [cell.text.strip()] if cell.text.strip() else []
    return [part.strip() for part in cell.text.replace(",", ";").split(";") if part.strip()]


def _find(
    records: RecordStore,
    account: Account,
    catalogue: Catalogue,
    target: Target,
    wanted: Sequence[str],
) -> dict[str, list[int]]:
    if target.property == "id":
        ids = {part: int(part) for part in wanted if part.isascii() and part.isdigit()}
        existing = {each.id for each in records.stored(account, target.kind, list(ids.values()))}
        return {part: [id] for part, id in ids.items() if id in existing}
    prop = catalogue.get(target.property)
    if prop is None:
        raise Semantic(f"{catalogue.kind.name} no longer have the property {target.property}.")
    forms = {part: search_form(account, prop, part) for part in wanted}
    by_form: dict[str, list[int]] = {}
    possible = sorted({form for form in forms.values() if len(form) <= MAX_FILTER_VALUE_LENGTH})
    for first in range(0, len(possible), MAX_FILTER_VALUES):
        values = tuple(possible[first : first + MAX_FILTER_VALUES])
        query = Query((Filter(prop.name, "IN", values=values),), limit=_PAGE_SIZE)
        request = PageRequest(query)
        while True:
            page = records.page(account, target.kind, request)
            for stored in page.records:
                value = json.loads(stored.properties).get(prop.name, "")
                by_form.setdefault(value, []).append(stored.id)
            if not page.cursor:
                break
            after = records.cursor(account, target.kind, page.cursor)
            request = replace(request, after=after)
    return {part: by_form.get(form, []) for part, form in forms.items()}


def _fault(target: Target, value: str, ids: Sequence[int]) -> str:
    kind = target.kind
    if not ids:
        return (
            f"there is no {kind.singular} with {target.property} {value[:60]}; import the"
            f" {kind.name} first, or correct the cell"
        )
    shown = ", ".join(map(str, sorted(ids)[:_SHOWN_IDS]))
    return (
        f"{len(ids)} {kind.name} have {target.property} {value[:60]} (ids {shown}); link by a"
        f" column of ids ({kind.name}.id)"
    )
