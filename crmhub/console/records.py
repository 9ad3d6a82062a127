"""The console's pages for the hub's own records: lists with filters, and a page per record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import flask
from flask_babel import lazy_gettext

from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.api.public.record_paths import number
from crmhub.console.accounts import tabs
from crmhub.console.list_filters import text
from crmhub.console.pages import page, refused, see
from crmhub.console.sessions import blueprint, needs
from crmhub.errors import HubError, NotFound
from crmhub.operators.crm import copy_crm
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import KINDS, Kind
from crmhub.records import copied, timeline
from crmhub.records.search.filters import Filter
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query
from crmhub.search_limits import SearchLimit

ROWS = 5
"""The most rows for filters."""
_FEWEST_ROWS = 3
SORTS = (
    ("updated_at", lazy_gettext("Recently changed")),
    ("updated_at asc", lazy_gettext("Longest unchanged")),
    ("created_at", lazy_gettext("Newest")),
    ("created_at asc", lazy_gettext("Oldest")),
)
OPERATOR_CHOICES = (
    ("EQ", lazy_gettext("is")),
    ("NEQ", lazy_gettext("is not")),
    ("CONTAINS_TOKEN", lazy_gettext("contains")),
    ("NOT_CONTAINS_TOKEN", lazy_gettext("does not contain")),
    ("IN", lazy_gettext("is one of")),
    ("NOT_IN", lazy_gettext("is none of")),
    ("GT", lazy_gettext("is more than")),
    ("GTE", lazy_gettext("is at least")),
    ("LT", lazy_gettext("is less than")),
    ("LTE", lazy_gettext("is at most")),
    ("HAS_PROPERTY", lazy_gettext("has a value")),
    ("NOT_HAS_PROPERTY", lazy_gettext("has no value")),
)
FIELDS = (
    ("id", lazy_gettext("Id")),
    ("createdAt", lazy_gettext("Created")),
    ("updatedAt", lazy_gettext("Changed")),
)
_COLUMNS = {
    "contacts": ("firstname", "lastname", "email", "phone"),
    "deals": ("dealname", "dealstage", "amount"),
    "companies": ("name", "domain", "phone", "city"),
    "tickets": ("subject", "hs_pipeline_stage", "hs_ticket_priority"),
}
_PAGE_SIZE = 20
# The most links that a record page shows to records of one kind.
_MAX_LINKS = 50
_FILTER = re.compile(r"filters\[(\d+)\]\.?(\w*)")


@blueprint.get("/records/<client_id>")
@needs("data")
def records(client_id: str) -> flask.Response:
    return see(flask.url_for("console.records_of", client_id=client_id, kind="contacts"))


@blueprint.get("/records/<client_id>/<kind>")
@needs("data")
def records_of(client_id: str, kind: str) -> flask.Response:
    account, record_kind = hub().load_account(client_id), kind_of(kind)
    catalogue = hub().records.catalogue(account, record_kind)
    given = filter_rows()
    sort = flask.request.args.get("sort", "")
    sort = sort if sort in dict(SORTS) else SORTS[0][0]
    context: dict[str, Any] = {
        **_frame(account, record_kind),
        "rows": _rows(given),
        "given": given,
        "sort": sort,
        "sorts": SORTS,
        "operators": OPERATOR_CHOICES,
        "properties": [*FIELDS, *((prop.name, prop.label) for prop in catalogue)],
        "columns": _columns(catalogue, given),
    }
    column, _, order = sort.partition(" ")
    query = Query(
        tuple(map(filter_of, given)), sort=column, descending=order != "asc", limit=_PAGE_SIZE
    )
    cursor = flask.request.args.get("cursor", "")
    try:
        request = PageRequest(query)
        if cursor:
            request = replace(request, after=hub().records.cursor(account, record_kind, cursor))
        limit = SearchLimit(hub().settings.search_timeout_s)
        result = hub().records.page(account, record_kind, request, limit)
    except HubError as exc:
        exc.fields = tuple(_fields_of(exc))
        return refused(exc, "records/list.html", records=[], **context)
    return page(
        "records/list.html",
        total=result.total,
        records=[(prop, json.loads(prop.properties)) for prop in result.records],
        cursor=cursor,
        next=result.cursor,
        **context,
    )


@blueprint.get("/records/<client_id>/<kind>/<id>")
@needs("data")
def records_one(client_id: str, kind: str, id: str) -> flask.Response:
    account, record_kind = hub().load_account(client_id), kind_of(kind)
    record = hub().records.get(account, record_kind, number(record_kind, id))
    catalogue = hub().records.catalogue(account, record_kind)
    properties, values = record.properties, []
    place = timeline.OWN, str(record.id)
    if account.switches.mirror:
        place = account.connection.id, properties.get(copied.ID, "")
    # Properties in the order of the catalogue, then those it no longer defines.
    for name in dict.fromkeys((*(p.name for p in catalogue if p.name in properties), *properties)):
        definition = catalogue.get(name)
        options = (
            {option.value: option.label for option in definition.options} if definition else {}
        )
        values.append((name, definition, properties[name], options.get(properties[name], "")))
    return page(
        "records/one.html",
        record=record,
        title=_title(record.properties, record_kind),
        values_of=values,
        links=[
            (KINDS[name], ids[:_MAX_LINKS], len(ids)) for name, ids in record.associations.items()
        ],
        entries=entries_of(account, record_kind, *place),
        **_frame(account, record_kind),
    )


def entries_of(
    account: Account, kind: Kind, connection_id: int, record_id: str
) -> list[tuple[Any, dict[str, str]]]:
    """Return the newest notes and tasks of a record, each with a task's properties."""
    with hub().database.reading() as db:
        rows = timeline.latest(db, account.id, connection_id, kind, [record_id])
    return [(row, json.loads(row.properties)) for row in rows]


def _frame(account: Account, kind: Kind) -> dict[str, Any]:
    """`elsewhere`: the CRM that has the account's records, "" without an external one.

    `copied`: the state of the CRM's copy of this kind; None without a copy.
    """
    registry, adapter = hub().registry, account.connection.adapter
    crm = registry.title(adapter) if registry.is_remote(adapter) else ""
    states = copy_crm.states(hub(), account)
    return {
        "account": account,
        "tabs": tabs(account),
        "kind": kind,
        "kinds": list(KINDS.values()),
        "elsewhere": crm,
        "copied": next((one for one in states if one.kind == kind.name), None),
    }


def kind_of(name: str) -> Kind:
    if name not in KINDS:
        raise NotFound(
            "There are no records of kind %(kind)s; kinds are %(kinds)s.",
            kind=repr(name[:60]),
            kinds=", ".join(KINDS),
        )
    return KINDS[name]


def filter_rows() -> list[tuple[str, str, str]]:
    """Return the first five filters in the URL, as (property, operator, value)."""
    args = flask.request.args
    rows = zip(
        args.getlist("property"), args.getlist("operator"), args.getlist("value"), strict=False
    )
    given = [(text(name), text(operator), text(value)) for name, operator, value in rows]
    return [row for row in given if row[0]][:ROWS]


def _rows(given: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    count = min(ROWS, max(_FEWEST_ROWS, len(given) + 1))
    return (given + [("", "EQ", "")] * count)[:count]


def filter_of(row: tuple[str, str, str]) -> Filter:
    """Return the filter of a row of the form; several values are separated by semicolons."""
    name, operator, value = row
    if operator in ("IN", "NOT_IN"):
        return Filter(name, operator, values=tuple(part.strip() for part in value.split(";")))
    if operator in ("HAS_PROPERTY", "NOT_HAS_PROPERTY"):
        return Filter(name, operator)
    return Filter(name, operator, value)


def _fields_of(error: HubError) -> Iterator[tuple[str, str]]:
    """Yield the form field and the reason of each fault: `value-1` for `filters[0].value`."""
    for path, reason in error.fields:
        if match := _FILTER.match(path):
            part = {"propertyName": "property", "operator": "operator"}.get(match[2], "value")
            yield f"{part}-{int(match[1]) + 1}", reason


def _columns(catalogue: Catalogue, given: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Return the name and label of each column: the usual ones, and those of filters."""
    names = dict.fromkeys((*_COLUMNS[catalogue.kind.name], *(row[0] for row in given)))
    properties = [catalogue.get(name) for name in names]
    return [(prop.name, prop.label) for prop in properties if prop is not None]


def _title(properties: dict[str, str], kind: Kind) -> str:
    """Return a contact's name, email or phone, another record's first column; "" for none."""
    names = _COLUMNS[kind.name]
    if kind.name == "contacts":
        full_name = " ".join(filter(None, (properties.get(name) for name in names[:2])))
        return full_name or properties.get("email") or properties.get("phone") or ""
    return properties.get(names[0], "")
