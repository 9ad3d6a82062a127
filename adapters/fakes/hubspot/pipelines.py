"""The endpoints of the fake HubSpot for pipelines and their stages."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from adapters.fakes.answers import Answer
from adapters.fakes.hubspot import shapes
from adapters.fakes.hubspot.answers import Refused, iso, not_found
from adapters.fakes.hubspot.calls import Call
from adapters.fakes.hubspot.definitions import PIPELINE, STAGE, stage
from adapters.fakes.records import now_ms

_Json = dict[str, Any]


def list_pipelines(call: Call) -> Answer:
    """Respond with all pipelines of a kind of record; contacts and companies have none."""
    return Answer(200, {"results": list(call.portal.pipelines[call.kind].values())})


def read_pipeline(call: Call) -> Answer:
    """Respond with one pipeline."""
    return Answer(200, _pipeline(call))


def create_pipeline(call: Call) -> Answer:
    """Create a pipeline with its stages, and respond with it.

    Ids that the request does not give are generated.
    """
    given = call.json(shapes.PIPELINE_CREATE)
    if call.kind not in PIPELINE:
        raise Refused(400, f"{call.kind} have no pipelines")
    id_, at = given.get("pipelineId") or str(uuid4()), iso(now_ms())
    if id_ in call.portal.pipelines[call.kind]:
        raise Refused(409, f"Pipeline {id_} already exists", category="OBJECT_ALREADY_EXISTS")
    made = {
        "id": id_,
        "label": given["label"],
        "displayOrder": given["displayOrder"],
        "stages": [_stage_of(call, stage) for stage in given["stages"]],
        "createdAt": at,
        "updatedAt": at,
        "archived": False,
    }
    call.portal.pipelines[call.kind][id_] = made
    return Answer(201, made)


def update_pipeline(call: Call) -> Answer:
    """Update fields of a pipeline, and respond with it."""
    given = call.json(shapes.PIPELINE_UPDATE)
    pipeline = _pipeline(call)
    pipeline.update(given, updatedAt=iso(now_ms()))
    return Answer(200, pipeline)


def replace_pipeline(call: Call) -> Answer:
    """Replace the label, order and stages of a pipeline, and respond with it."""
    given = call.json(shapes.PIPELINE_CREATE)
    pipeline = _pipeline(call)
    pipeline |= {
        "label": given["label"],
        "displayOrder": given["displayOrder"],
        "stages": [_stage_of(call, stage) for stage in given["stages"]],
        "updatedAt": iso(now_ms()),
    }
    return Answer(200, pipeline)


def delete_pipeline(call: Call) -> Answer:
    """Delete a pipeline.

    With the query parameter validateReferencesBeforeDelete, the request is refused if a record uses
    the pipeline.
    """
    pipeline = _pipeline(call)
    _check_unused(call, PIPELINE.get(call.kind, ""), pipeline["id"])
    del call.portal.pipelines[call.kind][pipeline["id"]]
    return Answer(204)


def list_stages(call: Call) -> Answer:
    """Respond with the stages of a pipeline."""
    return Answer(200, {"results": _pipeline(call)["stages"]})


def read_stage(call: Call) -> Answer:
    """Respond with one stage of a pipeline."""
    return Answer(200, _stage(call))


def create_stage(call: Call) -> Answer:
    """Create a stage in a pipeline, and respond with it (201)."""
    given = call.json(shapes.STAGE_CREATE)
    pipeline = _pipeline(call)
    made = _stage_of(call, given)
    if made["id"] in [stage["id"] for stage in pipeline["stages"]]:
        raise Refused(409, f"Stage {made['id']} already exists", category="OBJECT_ALREADY_EXISTS")
    pipeline["stages"].append(made)
    return Answer(201, made)


def update_stage(call: Call) -> Answer:
    """Update fields of a stage, and respond with it."""
    given = call.json(shapes.STAGE_UPDATE)
    stage = _stage(call)
    stage.update(given, updatedAt=iso(now_ms()))
    return Answer(200, stage)


def delete_stage(call: Call) -> Answer:
    """Delete a stage of a pipeline.

    With the query parameter validateReferencesBeforeDelete, the request is refused if a record uses
    the stage.
    """
    pipeline, removed = _pipeline(call), _stage(call)
    _check_unused(call, STAGE.get(call.kind, ""), removed["id"])
    pipeline["stages"].remove(removed)
    return Answer(204)


def _pipeline(call: Call) -> _Json:
    if pipeline := call.portal.pipelines[call.kind].get(call.at["pipeline"]):
        return pipeline
    raise not_found(f"Pipeline {call.at['pipeline']} not found", category="OBJECT_NOT_FOUND")


def _stage(call: Call) -> _Json:
    stages: list[_Json] = _pipeline(call)["stages"]
    for existing in stages:
        if existing["id"] == call.at["stage"]:
            return existing
    raise not_found(f"Stage {call.at['stage']} not found", category="OBJECT_NOT_FOUND")


def _stage_of(call: Call, given: _Json) -> _Json:
    """Return a new stage from the JSON of a request.

    Raises Refused if a stage of a deal pipeline lacks a probability.
    """
    if call.kind == "deals" and "probability" not in given["metadata"]:
        raise Refused(400, "A stage of a deal pipeline needs metadata.probability")
    id_ = given.get("stageId") or str(uuid4())
    return stage(id_, given["label"], given["displayOrder"], given["metadata"], iso(now_ms()))


def _check_unused(call: Call, name: str, id_: str) -> None:
    if not call.flag("validateReferencesBeforeDelete"):
        return
    records = call.portal.records[call.kind].values()
    if any(record.properties.get(name) == id_ for record in records):
        raise Refused(400, f"{id_} is used by records and cannot be deleted")
