"""The public API's routes for contacts, deals, companies and tickets.

`records_blueprint` makes the same routes for each of these kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import flask
import orjson

from crmhub.api.http import flask_proxies, schemas
from crmhub.api.http.answers import (
    JsonAnswer,
    as_json,
    nothing,
    page_frame,
    page_shown,
    record_shown,
    record_source,
)
from crmhub.api.http.authentication import account, hub, needs
from crmhub.api.http.blueprint import Blueprint, writes
from crmhub.api.http.document_components import ID_OR_VALUE, IF_MATCH, IF_NONE_MATCH, PREFER
from crmhub.api.http.documentation import documents
from crmhub.api.http.failures import duplicate
from crmhub.api.http.field_types import scalar
from crmhub.api.http.idempotency_key import Rebuild
from crmhub.api.http.schemas import LIST_SORTS, ORDERS, SINCE, SORTS
from crmhub.api.public.batches import add_batches
from crmhub.api.public.copies import (
    DEFERRED,
    crm_records,
    deferred,
    read_single,
    refuse_copy,
    writer,
)
from crmhub.api.public.kept_answers import with_values, without_values
from crmhub.api.public.notes import add_notes
from crmhub.api.public.record_paths import (
    if_match,
    is_unmodified,
    kind_in_path,
    linkable_number,
    number,
)
from crmhub.audit import Author
from crmhub.errors import BadRequest, NotFound, listed
from crmhub.helpers.crm_records import Deferred
from crmhub.operators.duplicates import merge_records
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import DuplicateValue
from crmhub.records import archived, linking
from crmhub.records.models import Change, NewRecord, Record, Stored
from crmhub.records.search.cursor import Cursor
from crmhub.records.search.filters import Filter
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query
from crmhub.records.writing import missing
from crmhub.search_limits import SearchLimit

_DEFAULT_LIMIT = 20
_SEARCH_INPUT = schemas.SearchInput()


def records_blueprint(kind: Kind) -> Blueprint:
    name, one = kind.name, kind.singular
    blueprint = Blueprint(
        name,
        __name__,
        url_prefix=f"/<client_id>/api/v1/{name}",
        description=f"{name.capitalize()} of the hub.",
    )
    blueprint.register_error_handler(DuplicateValue, lambda error: duplicate(error, name))
    blueprint.register_error_handler(Deferred, deferred)
    rebuild = Rebuild(without_values, lambda kept: with_values(kind, kept), by_journal=True)
    read, write = needs(f"{name}:read"), writes(f"{name}:write", rebuild)
    several, single = name.capitalize(), one.capitalize()

    @blueprint.get("")
    @documents(
        f"list{several}",
        200,
        schemas.PageShown,
        f"List {name}",
        # 422: the search took too long.
        errors=(400, 401, 403, 422, 429, 500, 503),
    )
    @read
    @blueprint.arguments(schemas.RecordListQuery(), location="query")
    def list_records(query: dict[str, Any]) -> flask.Response:
        return _page(kind, query, (), is_archived=query.get("archived"))

    @blueprint.post("/search")
    @documents(f"search{several}", 200, schemas.PageShown, f"Search {name}")
    @read
    @blueprint.arguments(_SEARCH_INPUT)
    @blueprint.arguments(schemas.ListQuery(), location="query")
    def search(body: dict[str, Any], query: dict[str, Any]) -> flask.Response:
        filters = tuple(_filter(each) for each in body.pop("filters"))
        return _page(kind, _merged_options(body, query), filters, is_archived=False)

    @blueprint.post("")
    @documents(
        f"create{single}",
        201,
        schemas.RecordShown,
        f"Create a {one}",
        others=DEFERRED,
        headers=["ETag"],
        parameters=[PREFER],
    )
    @write
    @blueprint.arguments(schemas.RecordInput())
    def create(body: dict[str, Any]) -> flask.Response:
        new = NewRecord(body["properties"], body.get("associations", {}))
        [record] = writer().create(account(), kind, [new])
        return _record_answer(record, 201, requested=body.get("associations", ()))

    @blueprint.get("/<record:id>")
    @documents(
        f"get{single}",
        200,
        schemas.RecordShown,
        f"Read a {one}",
        others={304: (f"The properties of the {one} have not changed", None)},
        headers=["ETag"],
        parameters=[ID_OR_VALUE, IF_NONE_MATCH],
    )
    @read
    @blueprint.arguments(schemas.GetQuery(), location="query")
    def get(query: dict[str, Any], id: str) -> flask.Response:
        by = query.get("id_property")
        read = (
            partial(hub().records.stored, account(), kind, [number(kind, id)])
            if by is None
            else partial(hub().records.stored_by, account(), kind, by, [id])
        )
        found = read_single(kind, id, by, read)
        if not found:
            raise NotFound(
                missing(kind, id) if by is None else f"There is no {one} with this {by}."
            )
        # With a unique value, the ETag may be that of another record, which had the value then.
        if by is None and is_unmodified(found[0].version):
            unmodified = nothing(304)
            unmodified.headers.update({"ETag": f'"{found[0].version}"', **record_source()})
            return unmodified
        return _record_answer(found[0], 200, query.get("properties"), query.get("associations", ()))

    @blueprint.patch("/<record:id>")
    @documents(
        f"update{single}",
        200,
        schemas.RecordShown,
        f"Change a {one}",
        others=DEFERRED,
        headers=["ETag"],
        parameters=[IF_MATCH, PREFER],
    )
    @write
    @blueprint.arguments(schemas.RecordChange())
    def update(body: dict[str, Any], id: str) -> flask.Response:
        links = body.get("associations", {})
        change = Change(
            number(kind, id), body.get("properties", {}), if_match=if_match(), associations=links
        )
        [record] = writer().update(account(), kind, [change])
        return _record_answer(record, 200, requested=links)

    @blueprint.delete("/<record:id>")
    @documents(
        f"archive{single}",
        204,
        None,
        f"Archive a {one}",
        others=DEFERRED,
        parameters=[IF_MATCH, PREFER],
    )
    @write
    def archive(id: str) -> flask.Response:
        writer().archive(account(), kind, [(number(kind, id), "")], if_match=if_match())
        return nothing()

    @blueprint.post("/<record:id>/restore")
    @documents(
        f"restore{single}",
        200,
        schemas.RecordShown,
        f"Restore an archived {one}",
        headers=["ETag"],
    )
    @write
    def restore(id: str) -> flask.Response:
        refuse_copy("restored")
        record = merge_records.restore(hub(), account(), kind, number(kind, id))
        return _record_answer(record, 200)

    if not kind.pipeline:

        @blueprint.post("/merge")
        @documents(
            f"merge{several}",
            200,
            schemas.RecordShown,
            f"Merge two {name}",
            others=DEFERRED,
            headers=["ETag"],
            parameters=[PREFER],
        )
        @write
        @blueprint.arguments(schemas.MergeInput())
        def merge(body: dict[str, Any]) -> flask.Response:
            change, caller = body.get("properties", {}), flask_proxies.g().caller
            keep, other = body["keep"], body["merge"]
            _require_both(kind, keep, other)
            if (crm := crm_records()) is not None:
                return _record_answer(crm.merge(account(), kind, keep, other, change), 200)
            by = Author("key", caller.key_name or caller.key_id, caller.key_id)
            record = merge_records.merge(
                hub(), caller.account, kind, keep, other, change=change, by=by
            )
            return _record_answer(record, 200)

    add_batches(blueprint, kind, read=read, write=write)
    add_notes(blueprint, kind, read=read)

    @blueprint.get("/<record:id>/associations/<to>")
    @documents(
        f"listAssociationsOf{single}",
        200,
        schemas.LinkPageShown,
        f"List the ids that a {one} is associated with",
    )
    @read
    @blueprint.arguments(schemas.LinkQuery(), location="query")
    def linked(query: dict[str, Any], id: str, to: str) -> flask.Response:
        records, owner = hub().records, account()
        text = query.get("cursor")
        after = records.cursor(owner, kind, text) if text else None
        limit = query.get("limit") or (after.limit if after else _DEFAULT_LIMIT)
        total, ids, cursor = linking.linked(
            records, owner, kind, number(kind, id), kind_in_path(to), limit=limit, after=after
        )
        return JsonAnswer(page_frame(orjson.dumps(ids), cursor, total), headers=record_source())

    @blueprint.put("/<record:id>/associations/<to>/<to_id>")
    @documents(
        f"associate{single}",
        204,
        None,
        f"Associate a {one} with a record",
        others=DEFERRED,
        parameters=[PREFER],
    )
    @write
    def link(id: str, to: str, to_id: str) -> flask.Response:
        other = kind_in_path(to)
        to_number = linkable_number(other, to_id)
        if (crm := crm_records()) is not None:
            crm.link(account(), kind, number(kind, id), other, to_number)
        else:
            linking.link(hub().records, account(), kind, number(kind, id), other, to_number)
        return nothing()

    @blueprint.delete("/<record:id>/associations/<to>/<to_id>")
    @documents(
        f"dissociate{single}",
        204,
        None,
        f"Remove an association of a {one}",
        others=DEFERRED,
        parameters=[PREFER],
    )
    @write
    def unlink(id: str, to: str, to_id: str) -> flask.Response:
        other = kind_in_path(to)
        to_number = number(other, to_id)
        if (crm := crm_records()) is not None:
            crm.link(account(), kind, number(kind, id), other, to_number, removes=True)
        else:
            linking.unlink(hub().records, account(), kind, number(kind, id), other, to_number)
        return nothing()

    return blueprint


def _record_answer(
    record: Record | Stored,
    status: int,
    properties: tuple[str, ...] | None = None,
    requested: Sequence[str] = (),
) -> flask.Response:
    shown = record_shown(record, properties=properties, requested=requested)
    return as_json(shown, status, {"ETag": f'"{record.version}"', **record_source()})


def _page(
    kind: Kind, query: dict[str, Any], filters: tuple[Filter, ...], *, is_archived: bool | None
) -> flask.Response:
    """`is_archived`: None for what the cursor continues."""
    records, owner = hub().records, flask_proxies.g().caller.account
    request = PageRequest(
        Query(
            filters,
            sort=LIST_SORTS[query["sort"]] if "sort" in query else "updated_at",
            descending=ORDERS[query.get("order", "desc")],
            limit=query.get("limit", _DEFAULT_LIMIT),
            since=tuple((SINCE[name], query[name]) for name in SINCE if name in query),
        ),
        properties=query.get("properties"),
        include=query.get("include", ()),
    )
    if text := query.get("cursor"):
        request = _continued(request, query, records.cursor(owner, kind, text))
    if is_archived is None:
        is_archived = request.after is not None and request.after.filters == archived.LISTING
    if request.query.sort == "archived_at" and not is_archived:
        raise BadRequest("sort: archivedAt is the order of archived records; send archived=true.")
    read_page = records.archived if is_archived else records.page
    page = read_page(owner, kind, request, SearchLimit(hub().settings.search_timeout_s))
    body = page_shown(page, properties=request.properties, include=request.include)
    return JsonAnswer(body, headers=record_source())


def _continued(request: PageRequest, query: dict[str, Any], after: Cursor) -> PageRequest:
    """The cursor has the options that `query` lacks."""
    return replace(
        request,
        after=after,
        query=replace(
            request.query,
            sort=request.query.sort if "sort" in query else after.sort,
            descending=request.query.descending if "order" in query else after.descending,
            limit=query.get("limit", after.limit),
            since=tuple({**dict(after.since), **dict(request.query.since)}.items()),
        ),
        properties=query.get("properties", after.properties),
        include=query.get("include", after.include),
    )


def _require_both(kind: Kind, keep: int, other: int) -> None:
    """Raise NotFound that names the key of the body whose record does not exist."""
    present = {one.id for one in hub().records.read(account(), kind, [keep, other])}
    unknown = [
        (name, missing(kind, id))
        for name, id in (("keep", keep), ("merge", other))
        if id not in present
    ]
    if unknown:
        raise NotFound(listed(unknown))


def _merged_options(body: dict[str, Any], query: dict[str, Any]) -> dict[str, Any]:
    """Raises BadRequest if the body and the query differ."""
    # A client that follows nextLink sends the body again, with its empty cursor.
    if not body.get("cursor"):
        body.pop("cursor", None)
    for name in body.keys() & query.keys():
        same = SORTS.get(body[name]) == SORTS.get(query[name]) if name == "sort" else False
        if body[name] != query[name] and not same:
            name = _SEARCH_INPUT.fields[name].data_key or name
            raise BadRequest(f"{name}: differs between the body and the query; send it once.")
    return body | query


def _filter(given: dict[str, Any]) -> Filter:
    value, several = given.get("value"), given.get("values")
    return Filter(
        given["property_name"],
        given["operator"],
        None if value is None else scalar(value),
        None if several is None else tuple(several),
    )
