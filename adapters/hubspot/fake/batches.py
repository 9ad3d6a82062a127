"""The fake's batch endpoints for records; without trace ids, one failure fails the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adapters.hubspot.fake.answers import Answer, Refused, iso
from adapters.hubspot.fake.definitions import SINGULAR
from adapters.hubspot.fake.portal import Portal, Record, now_ms, shown
from adapters.hubspot.fake.writing import check_full, create, update

MAX_INPUTS = 100
_MAX_WITH_HISTORY = 50

_Input = dict[str, Any]
_Write = Callable[[_Input], dict[str, Any]]


def batch_create(portal: Portal, kind: str, inputs: Sequence[_Input]) -> Answer:
    """Create records; without a trace id on each, the first failure fails the whole batch."""
    _check_count(inputs)
    created: list[Record] = []

    def write(item: _Input) -> dict[str, Any]:
        record = create(portal, kind, item["properties"], item["associations"])
        created.append(record)
        return _written(portal, record)

    try:
        return _written_each(inputs, write, done=201)
    except Refused:
        for record in created:
            portal.remove(record, archive=False)
        raise


def batch_update(portal: Portal, kind: str, inputs: Sequence[_Input]) -> Answer:
    """Update records by id or by a unique property; the answer lists records that do not exist."""
    _check_count(inputs)
    if any(item.get("idProperty") == "hs_object_id" for item in inputs):
        raise Refused(400, "idProperty hs_object_id is not a unique property")
    _check_ids(inputs)
    by_id = {item["id"]: portal.find(kind, item["id"], item.get("idProperty")) for item in inputs}
    records = {id_: record for id_, record in by_id.items() if record}
    absent = [id_ for id_ in by_id if id_ not in records]
    before: list[tuple[Record, dict[str, str]]] = []

    def write(item: _Input) -> dict[str, Any]:
        record = records[item["id"]]
        before.append((record, record.properties))
        update(portal, record, item["properties"])
        return _written(portal, record)

    try:
        present = [item for item in inputs if item["id"] in records]
        return _written_each(present, write, absent=absent)
    except Refused:
        _restore(portal, before)
        raise


def batch_upsert(portal: Portal, kind: str, inputs: Sequence[_Input]) -> Answer:
    """Update or create records; each result says whether its record is `new`.

    An upsert by email is not partial (HubSpot's guide): each input must contain all that a new
    record requires. As integrators observed, results come in another order, with lower-case emails.
    """
    _check_count(inputs)
    _check_ids(inputs)
    created: list[Record] = []
    before: list[tuple[Record, dict[str, str]]] = []

    def write(item: _Input) -> dict[str, Any]:
        name = item.get("idProperty") or "hs_object_id"
        found = portal.find(kind, item["id"], name)
        if found is None:
            if name == "hs_object_id":
                portal.load(kind, item["id"])
            record = create(portal, kind, {name: item["id"], **item["properties"]})
            created.append(record)
            return {**_written(portal, record), "new": True}
        if name == "email":
            check_full(portal, kind, item["properties"])
        before.append((found, found.properties))
        update(portal, found, item["properties"])
        return {**_written(portal, found), "new": False}

    try:
        answer = _written_each(inputs, write)
    except Refused:
        for record in created:
            portal.remove(record, archive=False)
        _restore(portal, before)
        raise
    answer.body["results"].sort(key=lambda item: -int(item["id"]))
    return answer


def batch_read(portal: Portal, kind: str, asked: dict[str, Any], *, archived: bool) -> Answer:
    """Return each of the records that exist; status 207 lists those that do not."""
    _check_count(
        asked["inputs"], _MAX_WITH_HISTORY if asked["propertiesWithHistory"] else MAX_INPUTS
    )
    ids = list(dict.fromkeys(item["id"] for item in asked["inputs"]))
    found = {
        id_: portal.archived[kind].get(id_)
        if archived
        else portal.find(kind, id_, asked.get("idProperty"))
        for id_ in ids
    }
    results = {
        record.id: shown(
            portal,
            record,
            names=asked["properties"] or None,
            history=asked["propertiesWithHistory"],
        )
        for record in found.values()
        if record
    }
    absent = [id_ for id_, record in found.items() if record is None]
    return _outcome(list(results.values()), [_not_there(kind, absent)] if absent else [])


def batch_archive(portal: Portal, kind: str, inputs: Sequence[_Input]) -> None:
    """Archive records; ids of records that do not exist are ignored."""
    _check_count(inputs)
    for item in inputs:
        if record := portal.find(kind, item["id"]):
            portal.remove(record)


def _restore(portal: Portal, before: Sequence[tuple[Record, dict[str, str]]]) -> None:
    for record, properties in reversed(before):
        portal.store(record, properties)


def _check_count(inputs: Sequence[_Input], most: int = MAX_INPUTS) -> None:
    if len(inputs) > most:
        raise Refused(400, f"Batch input size {len(inputs)} exceeds the limit of {most}")


def _check_ids(inputs: Sequence[_Input]) -> None:
    ids = [item["id"].lower() for item in inputs]
    if len(set(ids)) < len(ids):
        raise Refused(400, "Duplicate IDs found in batch input")


def _written(portal: Portal, record: Record) -> dict[str, Any]:
    return shown(portal, record, names=list(record.properties))


def _written_each(
    inputs: Sequence[_Input], write: _Write, *, done: int = 200, absent: Sequence[str] = ()
) -> Answer:
    """Write the inputs in order and return the batch's answer.

    With a trace id on every input, a failure concerns only its own input. Without trace ids the
    first failure stops the batch, and the caller undoes the earlier writes.
    """
    traces = [item.get("objectWriteTraceId") for item in inputs]
    traced = None not in traces and len(set(traces)) == len(traces)
    results, errors = [], []
    for item in inputs:
        try:
            result = write(item)
        except Refused as exc:
            if not traced:
                raise
            errors.append(_failed(exc, item["objectWriteTraceId"]))
        else:
            trace = item.get("objectWriteTraceId")
            results.append({**result, **({"objectWriteTraceId": trace} if trace else {})})
    if absent:
        errors.append(_not_there("object", absent))
    return _outcome(results, errors, done=done)


def _failed(refused: Refused, trace: str) -> dict[str, Any]:
    body = refused.body
    return {
        "status": "error",
        "category": body.get("category", "OBJECT_NOT_FOUND"),
        "message": body["message"],
        "context": {**body.get("context", {}), "objectWriteTraceId": [trace]},
        "errors": body.get("errors", []),
        "links": {},
    }


def _not_there(kind: str, ids: Sequence[str]) -> dict[str, Any]:
    return {
        "status": "error",
        "category": "OBJECT_NOT_FOUND",
        "message": f"Could not get some {SINGULAR.get(kind, kind).upper()} objects, they may be "
        "deleted or not exist. Check that ids are valid.",
        "context": {"ids": list(ids)},
        "errors": [],
        "links": {},
    }


def _outcome(
    results: list[dict[str, Any]], errors: list[dict[str, Any]], *, done: int = 200
) -> Answer:
    at = iso(now_ms())
    body: dict[str, Any] = {
        "status": "COMPLETE",
        "results": results,
        "startedAt": at,
        "completedAt": at,
    }
    if errors:
        body |= {"numErrors": len(errors), "errors": errors}
    return Answer(207 if errors else done, body)
