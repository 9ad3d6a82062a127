"""The batch endpoints of the fake HubSpot for records.

If all items of a batch (its inputs) have trace ids, a failure concerns only its own item. Otherwise
it fails the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adapters.fakes.answers import Answer
from adapters.fakes.hubspot import shapes
from adapters.fakes.hubspot.answers import Refused, iso
from adapters.fakes.hubspot.calls import Call
from adapters.fakes.hubspot.definitions import SINGULAR
from adapters.fakes.hubspot.portal import Record, shown
from adapters.fakes.hubspot.writing import check_full, create, update
from adapters.fakes.records import now_ms

MAX_INPUTS = 100
_MAX_WITH_HISTORY = 50

_Input = dict[str, Any]
_Write = Callable[[_Input], dict[str, Any]]


class _Writes:
    """The creates and updates of one batch.

    `records` maps the ids that the inputs (items) of the batch name to the records to update.
    """

    def __init__(self, call: Call, inputs: Sequence[_Input]) -> None:
        _check_count(inputs)
        self.records: dict[str, Record | None] = {}
        self._portal, self._kind = call.portal, call.kind
        self._created: list[Record] = []
        self._former: list[tuple[Record, dict[str, str]]] = []

    def find(self, item: _Input) -> Record | None:
        """Return the record that an input (item of the batch) names, or None if there is none.

        The input names the record by id or by a unique property.
        """
        return self._portal.find(self._kind, item["id"], item.get("idProperty"))

    def create(self, item: _Input) -> dict[str, Any]:
        """Create a record from a batch item.

        Return the record in the format of HubSpot's responses.
        """
        associations = item.get("associations", ())
        record = create(self._portal, self._kind, item["properties"], associations)
        self._created.append(record)
        return self._shown(record)

    def update(self, item: _Input) -> dict[str, Any]:
        """Update the record that a batch item names, which must be in `records`.

        Return the record in the format of HubSpot's responses.
        """
        record = self.records[item["id"]]
        assert record is not None
        return self._update(record, item)

    def upsert(self, item: _Input) -> dict[str, Any]:
        """Update the record that a batch item names; create the record if it does not exist.

        Return the record in the format of HubSpot's responses. The field `new` of the result says
        whether the record was created.
        """
        name = item.get("idProperty") or "hs_object_id"
        record = self.find(item)
        if record is None:
            if name == "hs_object_id":
                self._portal.load(self._kind, item["id"])
            properties = {name: item["id"], **item["properties"]}
            return {**self.create({"properties": properties}), "new": True}
        if name == "email":
            check_full(self._portal, self._kind, item["properties"])
        return {**self._update(record, item), "new": False}

    def undo(self) -> None:
        """Undo all writes: remove the created records, and restore the updated records."""
        for record in self._created:
            self._portal.remove(record, archive=False)
        for record, properties in reversed(self._former):
            self._portal.store(record, properties)

    def _update(self, record: Record, item: _Input) -> dict[str, Any]:
        self._former.append((record, record.properties))
        update(self._portal, record, item["properties"])
        return self._shown(record)

    def _shown(self, record: Record) -> dict[str, Any]:
        return shown(self._portal, record, names=list(record.properties))


def batch_create(call: Call) -> Answer:
    """Create several records, and respond with them (201)."""
    inputs = call.json(shapes.BATCH_CREATE)["inputs"]
    writes = _Writes(call, inputs)
    return _written_each(inputs, writes, writes.create, done=201)


def batch_update(call: Call) -> Answer:
    """Update several records, named by id or by a unique property.

    Records that do not exist are listed as errors in the response.
    """
    inputs = call.json(shapes.BATCH_UPDATE)["inputs"]
    writes = _Writes(call, inputs)
    if any(item.get("idProperty") == "hs_object_id" for item in inputs):
        raise Refused(400, "idProperty hs_object_id is not a unique property")
    _check_ids(inputs)
    writes.records = {item["id"]: writes.find(item) for item in inputs}
    absent = [id_ for id_, record in writes.records.items() if record is None]
    present = [item for item in inputs if writes.records[item["id"]]]
    return _written_each(present, writes, writes.update, absent=absent)


def batch_upsert(call: Call) -> Answer:
    """Update or create several records; the field `new` of each result tells which was done.

    In an upsert by email, each item must have all properties that a new record requires (HubSpot's
    guide). The results are in another order than the items, as integrators have observed.
    """
    inputs = call.json(shapes.BATCH_UPSERT)["inputs"]
    writes = _Writes(call, inputs)
    _check_ids(inputs)
    answer = _written_each(inputs, writes, writes.upsert)
    answer.body["results"].sort(key=lambda item: -int(item["id"]))
    return answer


def batch_read(call: Call) -> Answer:
    """Respond with several records.

    If some of them do not exist, the status is 207 and the response lists the missing records.
    """
    asked, archived = call.json(shapes.BATCH_READ), call.flag("archived")
    portal, kind = call.portal, call.kind
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


def batch_archive(call: Call) -> Answer:
    """Archive several records; the status is 204, and ids of unknown records are ignored."""
    inputs = call.json(shapes.BATCH_ARCHIVE)["inputs"]
    _check_count(inputs)
    for item in inputs:
        if record := call.portal.find(call.kind, item["id"]):
            call.portal.remove(record)
    return Answer(204)


def _check_count(inputs: Sequence[_Input], most: int = MAX_INPUTS) -> None:
    if len(inputs) > most:
        raise Refused(400, f"Batch input size {len(inputs)} exceeds the limit of {most}")


def _check_ids(inputs: Sequence[_Input]) -> None:
    ids = [item["id"].lower() for item in inputs]
    if len(set(ids)) < len(ids):
        raise Refused(400, "Duplicate IDs found in batch input")


def _written_each(
    inputs: Sequence[_Input],
    writes: _Writes,
    write: _Write,
    *,
    done: int = 200,
    absent: Sequence[str] = (),
) -> Answer:
    """Write all items of a batch with `write`, a method of `writes`; return the response.

    If all items have different trace ids, a failure concerns only its own item. Otherwise the first
    failure stops the batch and undoes the earlier writes. `done` is the status if nothing fails.
    `absent` are ids in the request whose records do not exist; the response lists them as errors.
    """
    traces = [item.get("objectWriteTraceId") for item in inputs]
    traced = None not in traces and len(set(traces)) == len(traces)
    results, errors = [], []
    for item in inputs:
        try:
            result = write(item)
        except Refused as exc:
            if not traced:
                writes.undo()
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
