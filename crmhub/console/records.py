"""The hub's own records of an account, to look at: lists with the filters of the API, and each."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import flask

from crmhub.accounts.accounts import Account
from crmhub.api.http.authentication import hub
from crmhub.api.records import number, search_limit
from crmhub.console.account import tabs
from crmhub.console.blueprint import blueprint
from crmhub.console.list_filters import text
from crmhub.console.pages import page, refused, see
from crmhub.errors import HubError, NotFound
from crmhub.operations import change_account
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import KINDS, Kind
from crmhub.records.search.filters import Filter
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.plans import Query

ROWS = 5
"""So many filters the form has room for."""
SORTS = (
    ("updated_at", "Changed last"),
    ("updated_at asc", "Changed first"),
    ("created_at", "Created last"),
    ("created_at asc", "Created first"),
)
OPERATOR_CHOICES = (
    ("EQ", "is"), ("NEQ", "is not"), ("CONTAINS_TOKEN", "contains"),
    ("NOT_CONTAINS_TOKEN", "does not contain"), ("IN", "is one of"), ("NOT_IN", "is none of"),
    ("GT", "is more than"), ("GTE", "is at least"), ("LT", "is less than"),
    ("LTE", "is at most"), ("HAS_PROPERTY", "has a value"), ("NOT_HAS_PROPERTY", "has no value"),
)  # fmt: skip
FIELDS = (("id", "Id"), ("createdAt", "Created"), ("updatedAt", "Changed"))
_COLUMNS = {
    "contacts": ("firstname", "lastname", "email", "phone"),
    "deals": ("dealname", "dealstage", "amount"),
    "companies": ("name", "domain", "phone", "city"),
    "tickets": ("subject", "hs_pipeline_stage", "hs_ticket_priority"),
}
_AT_ONCE = 25
# So many links of a record to records of one kind are shown.
_LINKS = 50
_PLACE = re.compile(r"filters\[(\d+)\]\.?")


@blueprint.get("/records/<client_id>")
def records(client_id: str) -> flask.Response:
    """Lead to the contacts of an account."""
    return see(flask.url_for("console.records_of", client_id=client_id, kind="contacts"))


@blueprint.get("/records/<client_id>/<kind>")
def records_of(client_id: str, kind: str) -> flask.Response:
    """List records of one kind, narrowed by up to five filters."""
    account, of = change_account.find(hub(), client_id), _kind(kind)
    known = hub().records.catalogue(account, of)
    given = _given()
    sort = flask.request.args.get("sort", "")
    sort = sort if sort in dict(SORTS) else SORTS[0][0]
    context: dict[str, Any] = {
        **_frame(account, of),
        "rows": (given + [("", "EQ", "")] * ROWS)[:ROWS],
        "given": given,
        "sort": sort,
        "sorts": SORTS,
        "operators": OPERATOR_CHOICES,
        "properties": [*FIELDS, *((one.name, one.label) for one in known)],
        "columns": _columns(known, given),
    }
    column, _, order = sort.partition(" ")
    query = Query(
        tuple(map(_filter, given)), sort=column, descending=order != "asc", limit=_AT_ONCE
    )
    cursor = flask.request.args.get("cursor", "")
    try:
        request = PageRequest(query)
        if cursor:
            request = replace(request, after=hub().records.cursor(account, of, cursor))
        found = hub().records.page(account, of, request, search_limit())
    except HubError as exc:
        return refused(_told(exc), "records/list.html", records=[], **context)
    return page(
        "records/list.html",
        total=found.total,
        records=[(one, json.loads(one.properties)) for one in found.records],
        cursor=cursor,
        next=found.cursor,
        **context,
    )


@blueprint.get("/records/<client_id>/<kind>/<id>")
def records_one(client_id: str, kind: str, id: str) -> flask.Response:
    """Show a record with what it is associated with."""
    account, of = change_account.find(hub(), client_id), _kind(kind)
    record = hub().records.get(account, of, number(of, id))
    known = hub().records.catalogue(account, of)
    held, values = record.properties, []
    # As the catalogue has them; then what it does not define any more.
    for name in dict.fromkeys((*(one.name for one in known if one.name in held), *held)):
        defined = known.get(name)
        options = {each.value: each.label for each in defined.options} if defined else {}
        values.append((name, defined, held[name], options.get(held[name], "")))
    return page(
        "records/one.html",
        record=record,
        title=_title(record.properties, of),
        values_of=values,
        links=[(KINDS[name], ids[:_LINKS], len(ids)) for name, ids in record.associations.items()],
        **_frame(account, of),
    )


def _frame(account: Account, kind: Kind) -> dict[str, Any]:
    return {"account": account, "tabs": tabs(account), "kind": kind, "kinds": list(KINDS.values())}


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise NotFound(f"There are no {name[:60]}; records are {', '.join(KINDS)}.")
    return KINDS[name]


def _given() -> list[tuple[str, str, str]]:
    """Return the filters of the address that name a property: it, the operator, the value."""
    args = flask.request.args
    rows = zip(
        args.getlist("property"), args.getlist("operator"), args.getlist("value"), strict=False
    )
    given = [(text(name), text(operator), text(value)) for name, operator, value in rows]
    return [row for row in given if row[0]][:ROWS]


def _filter(row: tuple[str, str, str]) -> Filter:
    name, operator, value = row
    if operator in ("IN", "NOT_IN"):
        return Filter(name, operator, values=tuple(part.strip() for part in value.split(";")))
    if operator in ("HAS_PROPERTY", "NOT_HAS_PROPERTY"):
        return Filter(name, operator)
    return Filter(name, operator, value)


def _told(error: HubError) -> HubError:
    """Return the error in the words of the form: of its rows and not of filters[0]."""
    error.message = _PLACE.sub(lambda match: f"Filter {int(match[1]) + 1}, ", error.message)
    return error


def _columns(known: Catalogue, given: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Return the properties that a list shows: what names a record, and what is looked for."""
    names = dict.fromkeys((*_COLUMNS[known.kind.name], *(row[0] for row in given)))
    found = [known.get(name) for name in names]
    return [(one.name, one.label) for one in found if one is not None]


def _title(properties: dict[str, str], kind: Kind) -> str:
    """Return what people call a record, "" for one without any such value."""
    names = _COLUMNS[kind.name]
    if kind.name == "contacts":
        whole = " ".join(filter(None, (properties.get(name) for name in names[:2])))
        return whole or properties.get("email") or properties.get("phone") or ""
    return properties.get(names[0], "")
