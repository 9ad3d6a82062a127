"""The batch routes of the public API: up to 100 records in a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import flask
from marshmallow import fields, validate

from crmhub.api.http import schemas
from crmhub.api.http.answers import as_json, nothing, record_shown, record_source
from crmhub.api.http.authentication import account, hub
from crmhub.api.http.blueprint import Blueprint
from crmhub.api.http.document_components import PREFER
from crmhub.api.http.documentation import documents
from crmhub.api.http.field_types import Flag, Strict, scalar
from crmhub.api.http.schemas import HIGHEST_ID, ID, RecordShown, Shown, UpsertedShown
from crmhub.api.public.copies import DEFERRED, crm_records, writer
from crmhub.api.public.kept_answers import shown_error
from crmhub.bounds import MAX_BATCH_INPUTS
from crmhub.errors import BadRequest
from crmhub.properties.kinds import Kind
from crmhub.records.models import Change, NewRecord, Record, Stored, Upsert
from crmhub.records.partial_batches import Outcome, Written, write_valid
from crmhub.records.store import RecordStore

_View = Callable[[Any], Any]
_PARTIAL = "With `partial=true`: at least one input was refused, and the others are stored."


# --- shapes of partial batches -----------------------------------------------------------------


class BatchQuery(Strict):
    is_partial = Flag(
        in_query=True,
        data_key="partial",
        metadata={
            "description": "Store the valid inputs, and answer an error for each of the others.",
            "default": False,
        },
    )


_CATEGORIES = (
    "BadRequestError",
    "LimitExceededError",
    "NotFoundError",
    "ConflictError",
    "SemanticError",
    "InternalError",
)


class RefusedInput(Shown):
    index = fields.Integer(
        required=True,
        metadata={
            "minimum": 0,
            "maximum": MAX_BATCH_INPUTS - 1,
            "description": "The position of the input in `inputs`, from 0.",
        },
    )
    category = fields.String(required=True, validate=validate.OneOf(_CATEGORIES))
    message = fields.String(
        required=True, metadata={"description": "What is wrong, where, and what would be right."}
    )
    existing_id = fields.Integer(
        data_key="existingId",
        metadata={**ID, "description": "The record that has the input's unique value."},
    )
    action_id = fields.String(
        data_key="actionId",
        metadata={"description": "The action with which a worker finishes this input."},
    )


class PartialBatchShown(Shown):
    results = fields.List(
        fields.Nested(RecordShown),
        required=True,
        metadata={
            "description": "The stored records, in input order: the n-th is that of the n-th input"
            " whose position is not in `errors`."
        },
    )
    errors = fields.List(fields.Nested(RefusedInput), required=True)


class PartialUpsertShown(PartialBatchShown):
    results = fields.List(fields.Nested(UpsertedShown), required=True)


# --- routes ------------------------------------------------------------------------------------


def add_batches(blueprint: Blueprint, kind: Kind, *, read: _View, write: _View) -> None:
    name, several = kind.name, kind.name.capitalize()

    @blueprint.post("/batch/create")
    @documents(
        f"createBatchOf{several}",
        201,
        {"oneOf": [RecordShown(many=True), PartialBatchShown]},
        f"Create up to 100 {name}, all or none",
        others={207: (_PARTIAL, PartialBatchShown), **DEFERRED},
        parameters=[PREFER],
    )
    @write
    @blueprint.arguments(schemas.BatchCreate())
    @blueprint.arguments(BatchQuery(), location="query")
    def batch_create(body: dict[str, Any], query: dict[str, Any]) -> flask.Response:
        inputs = body["inputs"]
        new = [
            NewRecord(each["properties"], each.get("associations", {}), path)
            for path, each in _numbered(inputs)
        ]
        requested = _requested(inputs)
        if query.get("is_partial"):
            outcome = write_valid(
                _store(),
                account(),
                kind,
                new,
                lambda some: [(one, True) for one in writer().create(account(), kind, some)],
            )
            return _partial_answer(outcome, 201, requested)
        created = writer().create(account(), kind, new)
        return _whole_answer(created, 201, requested)

    @blueprint.post("/batch/read")
    @documents(
        f"readBatchOf{several}",
        200,
        RecordShown(many=True),
        f"Read up to 100 {name}",
    )
    @read
    @blueprint.arguments(schemas.BatchRead())
    def batch_read(body: dict[str, Any]) -> flask.Response:
        names = body.get("properties")
        with hub().slots.long_answers:
            found = _batch_read(kind, body)
            shown = [record_shown(record, properties=names) for record in found]
            return as_json(shown, headers=record_source())

    @blueprint.post("/batch/update")
    @documents(
        f"updateBatchOf{several}",
        200,
        {"oneOf": [RecordShown(many=True), PartialBatchShown]},
        f"Change up to 100 {name}, all or none",
        others={207: (_PARTIAL, PartialBatchShown), **DEFERRED},
        parameters=[PREFER],
    )
    @write
    @blueprint.arguments(schemas.BatchUpdate())
    @blueprint.arguments(BatchQuery(), location="query")
    def batch_update(body: dict[str, Any], query: dict[str, Any]) -> flask.Response:
        inputs = body["inputs"]
        changes = [
            Change(
                each["id"],
                each.get("properties", {}),
                path,
                associations=each.get("associations", {}),
            )
            for path, each in _numbered(inputs)
        ]
        requested = _requested(inputs)
        if query.get("is_partial"):
            outcome = write_valid(
                _store(),
                account(),
                kind,
                changes,
                lambda some: [(one, False) for one in writer().update(account(), kind, some)],
            )
            return _partial_answer(outcome, 200, requested)
        updated = writer().update(account(), kind, changes)
        return _whole_answer(updated, 200, requested)

    @blueprint.post("/batch/upsert")
    @documents(
        f"upsertBatchOf{several}",
        200,
        {"oneOf": [UpsertedShown(many=True), PartialUpsertShown]},
        f"Change or create up to 100 {name}, all or none",
        others={207: (_PARTIAL, PartialUpsertShown), **DEFERRED},
        parameters=[PREFER],
    )
    @write
    @blueprint.arguments(schemas.BatchUpsert())
    @blueprint.arguments(BatchQuery(), location="query")
    def batch_upsert(body: dict[str, Any], query: dict[str, Any]) -> flask.Response:
        inputs = [
            Upsert(
                each["id_property"],
                each["id"],
                each.get("properties", {}),
                path,
                each.get("associations", {}),
            )
            for path, each in _numbered(body["inputs"])
        ]
        requested = _requested(body["inputs"])
        if query.get("is_partial"):
            upsert = partial(writer().upsert, account(), kind)
            outcome = write_valid(_store(), account(), kind, inputs, upsert)
            return _partial_answer(outcome, 200, requested, with_new=True)
        done = writer().upsert(account(), kind, inputs)
        shown = [
            {**record_shown(record, requested=names), "new": new}
            for (record, new), names in zip(done, requested, strict=True)
        ]
        return as_json(shown, headers=record_source())

    @blueprint.post("/batch/archive")
    @documents(
        f"archiveBatchOf{several}",
        204,
        None,
        f"Archive up to 100 {name}, all or none",
        others=DEFERRED,
        parameters=[PREFER],
    )
    @write
    @blueprint.arguments(schemas.BatchArchive())
    def batch_archive(body: dict[str, Any]) -> flask.Response:
        ids = [(each["id"], path) for path, each in _numbered(body["inputs"])]
        writer().archive(account(), kind, ids)
        return nothing()


def _numbered(inputs: Sequence[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"inputs[{i}].", each) for i, each in enumerate(inputs)]


def _requested(inputs: Sequence[dict[str, Any]]) -> list[Iterable[str]]:
    """The kinds of links that each input names."""
    return [each.get("associations", ()) for each in inputs]


def _whole_answer(
    records: Sequence[Record], status: int, requested: Sequence[Iterable[str]]
) -> flask.Response:
    shown = [
        record_shown(record, requested=names)
        for record, names in zip(records, requested, strict=True)
    ]
    return as_json(shown, status, record_source())


def _store() -> RecordStore | None:
    return None if crm_records() else hub().records


def _partial_answer(
    outcome: Outcome, status: int, requested: Sequence[Iterable[str]], *, with_new: bool = False
) -> flask.Response:
    """207 if an input was refused."""

    def shown(written: Written) -> dict[str, Any]:
        record = record_shown(written.record, requested=requested[written.index])
        return {**record, "new": written.is_new} if with_new else record

    errors = [shown_error(each) for each in outcome.refused]
    answer = {"results": [shown(each) for each in outcome.written], "errors": errors}
    return as_json(answer, 207 if errors else status, record_source())


def _batch_read(kind: Kind, body: dict[str, Any]) -> list[Stored]:
    by = body.get("id_property")
    ids = [each["id"] for each in body["inputs"]]
    for i, id in enumerate(ids):
        if by is None and (isinstance(id, bool) or not isinstance(id, int)):
            raise BadRequest(
                f"inputs[{i}].id: must be an integer; with idProperty it may be a value of that."
            )
        if id is None or isinstance(id, dict | list):
            raise BadRequest(f"inputs[{i}].id: must be a value of the idProperty.")
    if by is not None:
        return hub().records.stored_by(account(), kind, by, [scalar(id) for id in ids])
    return hub().records.stored(account(), kind, [id for id in ids if 0 < id <= HIGHEST_ID])
