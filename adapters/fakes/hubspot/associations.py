"""The endpoints of the fake HubSpot for associations (links between two records).

The endpoints list the types of links, and read, create and delete links, also in batches.
"""

from __future__ import annotations

from typing import Any

from adapters.fakes.answers import Answer
from adapters.fakes.hubspot import shapes
from adapters.fakes.hubspot.answers import Refused, iso
from adapters.fakes.hubspot.calls import Call
from adapters.fakes.hubspot.definitions import TYPE_IDS
from adapters.fakes.hubspot.linking import (
    TYPES,
    LinkType,
    checked_target,
    checked_types,
    default_type,
    described,
    invalid_objects,
    link,
    linked,
    types_between,
    unlink,
)
from adapters.fakes.hubspot.portal import Record
from adapters.fakes.records import now_ms

_MAX_PAGE = 500
_MAX_READ = 1_000
_MAX_WRITTEN = 2_000


def labels(call: Call) -> Answer:
    """Respond with the association types (kinds of link) from one kind of record to another."""
    source, target = _kinds(call)
    return Answer(
        200, {"results": [described(link_type) for link_type in types_between(source, target)]}
    )


def link_by_default(call: Call) -> Answer:
    """Link two records with the unlabelled association type; the request has no body."""
    source, target = _ends(call)
    type_ = default_type(source.kind, target.kind)
    link(call.portal, source, target, type_)
    results = [_default(source.id, target.id, type_)]
    inverse = TYPES[type_.inverse]
    return Answer(200, _complete([*results, _default(target.id, source.id, inverse)]))


def link_by_type(call: Call) -> Answer:
    """Link two records with the association types that the request body gives."""
    given = call.json(shapes.ASSOCIATION_TYPES)
    source, target = _ends(call)
    for type_ in _types(source, target.kind, given, target.id):
        link(call.portal, source, target, type_)
    return Answer(201, _pair(call, source, target))


def unlink_records(call: Call) -> Answer:
    """Delete all links between two records.

    The status is 204 even if there is no link.
    """
    source = call.portal.load(call.kind, call.at["id"])
    unlink(call.portal, source, call.portal.kind(call.at["to"]), call.at["to_id"])
    return Answer(204)


def list_links(call: Call) -> Answer:
    """Respond with a page of the links from a record to the records of one kind."""
    source = call.portal.load(call.kind, call.at["id"])
    links = _links(call, source, call.portal.kind(call.at["to"]))
    limit = call.integer("limit", _MAX_PAGE, most=_MAX_PAGE)
    after = call.cursor()
    page = [link for link in links if int(link["toObjectId"]) > after]
    body: dict[str, Any] = {"results": page[:limit]}
    if len(page) > limit:
        body["paging"] = {"next": {"after": str(page[limit - 1]["toObjectId"])}}
    return Answer(200, body)


def batch_read(call: Call) -> Answer:
    """Respond with the links from several records to the records of one kind.

    If some of the several records have no links, the status is 207 and the response lists these
    records.
    """
    source, target = _kinds(call)
    inputs = call.json(shapes.LINKS_READ)["inputs"]
    _check_count(inputs, _MAX_READ)
    results, errors = [], []
    for item in inputs:
        record = call.portal.find(source, item["id"])
        if record and (links := _links(call, record, target)):
            results.append({"from": {"id": item["id"]}, "to": links})
        else:
            errors.append(_no_links(source, target, item["id"]))
    body = _complete(results)
    if errors:
        body |= {"numErrors": len(errors), "errors": errors}
    return Answer(207 if errors else 200, body)


def batch_link_by_default(call: Call) -> Answer:
    """Link several pairs of records with the unlabelled association type."""
    source, target = _kinds(call)
    inputs = call.json(shapes.PAIRS)["inputs"]
    _check_count(inputs, _MAX_WRITTEN)
    type_ = default_type(source, target)
    pairs = [_found_pair(call, type_, pair) for pair in inputs]
    for pair, other in pairs:
        link(call.portal, pair, other, type_)
    return Answer(200, _complete([_default(pair.id, other.id, type_) for pair, other in pairs]))


def batch_link(call: Call) -> Answer:
    """Link several pairs of records with the association types that the request gives per pair."""
    source, target = _kinds(call)
    inputs = call.json(shapes.PAIRS_WITH_TYPES)["inputs"]
    _check_count(inputs, _MAX_WRITTEN)
    pairs = []
    for pair in inputs:
        found = _found_pair(call, default_type(source, target), pair)
        pairs.append((found, _types(found[0], target, pair["types"], found[1].id)))
    for (record, other), types in pairs:
        for type_ in types:
            link(call.portal, record, other, type_)
    return Answer(201, _complete([_pair(call, *found) for found, _ in pairs]))


def batch_unlink(call: Call) -> Answer:
    """Delete the links of several pairs of records.

    In v4 the status is 204 without a body, in later versions 200 with a batch result.
    """
    source, target = _kinds(call)
    for pair in call.json(shapes.LINKS_ARCHIVE)["inputs"]:
        if record := call.portal.find(source, pair["from"]["id"]):
            for to in pair["to"]:
                unlink(call.portal, record, target, to["id"])
    return Answer(204) if call.version == "v4" else Answer(200, _complete([]))


def _kinds(call: Call) -> tuple[str, str]:
    return call.kind, call.portal.kind(call.at["to"])


def _ends(call: Call) -> tuple[Record, Record]:
    source = call.portal.load(call.kind, call.at["id"])
    type_ = default_type(call.kind, call.portal.kind(call.at["to"]))
    return source, checked_target(call.portal, type_, call.at["to_id"])


def _types(source: Record, target: str, given: list[dict[str, Any]], id_: str) -> list[LinkType]:
    types = checked_types(source.kind, given, to=id_)
    for type_ in types:
        if type_.target != target:
            raise invalid_objects(
                f"Association type {type_.id} does not lead to {TYPE_IDS[target]}",
                kind=target,
                id_=id_,
            )
    return types


def _found_pair(call: Call, type_: LinkType, pair: dict[str, Any]) -> tuple[Record, Record]:
    source = call.portal.find(type_.source, pair["from"]["id"])
    if source is None:
        raise invalid_objects("No such record", kind=type_.source, id_=pair["from"]["id"])
    return source, checked_target(call.portal, type_, pair["to"]["id"])


def _links(call: Call, source: Record, kind: str) -> list[dict[str, Any]]:
    return [
        {
            "toObjectId": _id(call, id_),
            "associationTypes": [described(TYPES[type_id]) for type_id in sorted(types)],
        }
        for id_, types in sorted(
            linked(call.portal, source, kind).items(), key=lambda pair: int(pair[0])
        )
    ]


def _default(source: str, target: str, type_: LinkType) -> dict[str, Any]:
    return {
        "from": {"id": source},
        "to": {"id": target},
        "associationSpec": {
            "associationCategory": "HUBSPOT_DEFINED",
            "associationTypeId": type_.id,
        },
    }


def _id(call: Call, id_: str) -> str | int:
    """Return a record id in the format of the call's API version: a number in v4, else a string."""
    return int(id_) if call.version == "v4" else id_


def _pair(call: Call, source: Record, target: Record) -> dict[str, Any]:
    return {
        "fromObjectTypeId": TYPE_IDS[source.kind],
        "fromObjectId": _id(call, source.id),
        "toObjectTypeId": TYPE_IDS[target.kind],
        "toObjectId": _id(call, target.id),
        "labels": [],
    }


def _no_links(source: str, target: str, id_: str) -> dict[str, Any]:
    return {
        "status": "error",
        "category": "OBJECT_NOT_FOUND",
        "subCategory": "crm.associations.NO_ASSOCIATIONS_FOUND",
        "message": f"No {target} is associated with {source} {id_}.",
        "context": {"fromObjectId": [id_]},
        "errors": [],
        "links": {},
    }


def _check_count(inputs: list[Any], most: int) -> None:
    if len(inputs) > most:
        raise Refused(400, f"Batch input size {len(inputs)} exceeds the limit of {most}")


def _complete(results: list[dict[str, Any]]) -> dict[str, Any]:
    at = iso(now_ms())
    return {"status": "COMPLETE", "results": results, "startedAt": at, "completedAt": at}
