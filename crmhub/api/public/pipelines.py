"""The public API's routes for pipelines and their stages (`/pipelines/{deals|tickets}`)."""

from __future__ import annotations

from typing import Any

import flask
from marshmallow import fields

from crmhub.api.http.answers import as_json, nothing
from crmhub.api.http.authentication import account, hub
from crmhub.api.http.blueprint import Blueprint, of_kind
from crmhub.api.http.documentation import documents
from crmhub.api.http.field_types import Flag, Inner, Items, Scalar, Strict, Text
from crmhub.api.http.idempotency_key import Rebuild
from crmhub.api.http.schemas import CountedPage, Shown
from crmhub.api.public.properties import LINE, all_of, in_path
from crmhub.bounds import MAX_STAGES
from crmhub.errors import NotFound
from crmhub.properties.definitions import Pipeline
from crmhub.properties.kinds import KINDS, Kind
from crmhub.records import pipelines
from crmhub.records.definitions import LONGEST_LABEL
from crmhub.records.pipelines import ID, StageInput

_KINDS = {name: kind for name, kind in KINDS.items() if kind.pipeline}

# --- shapes ----------------------------------------------------------------------------------

_LABEL = {
    "minLength": 1,
    "maxLength": LONGEST_LABEL,
    "pattern": LINE,
    "description": "Shown to people.",
}
_NEW_ID = {"pattern": f"^{ID.pattern}$", "description": "Without one the hub issues one."}


class StageGiven(Strict):
    """A stage in a change of its pipeline: the `id` of an existing stage changes this one."""

    id = Text(metadata={"maxLength": 100, "description": "Without one the hub issues one."})
    label = Text(metadata={**_LABEL, "description": "Shown to people; a new stage needs one."})
    probability = Scalar(
        allow_none=True,
        metadata={
            "type": ["number", "string"],
            "minimum": 0,
            "maximum": 1,
            "description": "How likely a deal in this stage is won, from 0 to 1; null for none.",
        },
    )
    closed = Flag(metadata={"description": "Records in this stage are done.", "default": False})


class NewStage(StageGiven):
    id = Text(metadata=_NEW_ID)
    label = Text(required=True, metadata=_LABEL)


_STAGES = {
    "minItems": 1,
    "maxItems": MAX_STAGES,
    "description": "In order: new records start in the first one.",
}


class PipelineInput(Strict):
    id = Text(metadata=_NEW_ID)
    label = Text(required=True, metadata=_LABEL)
    stages = Items(Inner(NewStage), required=True, metadata=_STAGES)


class PipelineChange(Strict):
    label = Text(metadata=_LABEL)
    stages = Items(
        Inner(StageGiven),
        metadata={
            **_STAGES,
            "description": "The whole list, in order. A stage that is left out goes,"
            " unless records are in it: 409.",
        },
    )


class StageShown(Shown):
    id = fields.String(required=True)
    label = fields.String(required=True)
    probability = fields.String(
        metadata={"description": 'A decimal from "0.0" to "1.0"; left out when there is none.'}
    )
    closed = fields.Boolean(required=True)


class PipelineShown(Shown):
    id = fields.String(required=True)
    label = fields.String(required=True)
    stages = fields.List(fields.Nested(StageShown), required=True)


class PipelinePageShown(CountedPage):
    """Schema of the list of all pipelines; new records start in the first one."""

    results = fields.List(fields.Nested(PipelineShown), required=True)


def pipeline_shown(pipeline: Pipeline) -> dict[str, Any]:
    stages = [
        {
            "id": stage.id,
            "label": stage.label,
            **({"probability": stage.probability} if stage.probability else {}),
            "closed": stage.closed,
        }
        for stage in pipeline.stages
    ]
    return {"id": pipeline.id, "label": pipeline.label, "stages": stages}


def _read(body: dict[str, Any]) -> dict[str, Any]:
    if "stages" in body:
        body["stages"] = [StageInput(**each) for each in body["stages"]]
    return body


def _with_stages(kept: dict[str, Any]) -> dict[str, Any]:
    """Add the present stages to a stored pipeline; none if it was deleted since then."""
    kind = (flask.request.view_args or {})["kind"]
    try:
        return pipeline_shown(pipelines.find(hub().records, account(), kind, kept["id"]))
    except NotFound:
        return kept


# --- routes ----------------------------------------------------------------------------------

blueprint = Blueprint(
    "pipelines",
    __name__,
    url_prefix="/<client_id>/api/v1/pipelines",
    description="Where deals and tickets stand. Each request needs the scope of its resource.",
)

_OF = [in_path("resource", enum=list(_KINDS))]
_ONE = [*_OF, in_path("pipeline_id")]
# The id of a pipeline that a bot created may contain a slash.
_PATH = "/<resource>/<path:pipeline_id>"


@blueprint.get("/<resource>", parameters=_OF)
@documents("listPipelines", 200, PipelinePageShown, "List all pipelines")
@of_kind("read", _KINDS)
def _list(kind: Kind) -> flask.Response:
    catalogue = hub().records.catalogues.reload(account().id, kind)
    return all_of([pipeline_shown(each) for each in catalogue.pipelines])


@blueprint.post("/<resource>", parameters=_OF)
@documents("createPipeline", 201, PipelineShown, "Add a pipeline")
@of_kind("write", _KINDS, Rebuild(lambda shown: {**shown, "stages": []}, _with_stages))
@blueprint.arguments(PipelineInput)
def _create(body: dict[str, Any], kind: Kind) -> flask.Response:
    made = pipelines.add(hub().records, account(), kind, **_read(body))
    hub().directory.forget(account().id)
    return as_json(pipeline_shown(made), 201)


@blueprint.get(_PATH, parameters=_ONE)
@documents("getPipeline", 200, PipelineShown, "Read a pipeline")
@of_kind("read", _KINDS)
def _get(kind: Kind, pipeline_id: str) -> flask.Response:
    return as_json(pipeline_shown(pipelines.find(hub().records, account(), kind, pipeline_id)))


@blueprint.patch(_PATH, parameters=_ONE)
@documents("updatePipeline", 200, PipelineShown, "Change a pipeline or its stages")
@of_kind("write", _KINDS)
@blueprint.arguments(PipelineChange)
def _update(body: dict[str, Any], kind: Kind, pipeline_id: str) -> flask.Response:
    changed = pipelines.change(hub().records, account(), kind, pipeline_id, **_read(body))
    hub().directory.forget(account().id)
    return as_json(pipeline_shown(changed))


@blueprint.delete(_PATH, parameters=_ONE)
@documents("deletePipeline", 204, None, "Delete a pipeline that nothing is in")
@of_kind("write", _KINDS)
def _delete(kind: Kind, pipeline_id: str) -> flask.Response:
    pipelines.delete(hub().records, account(), kind, pipeline_id)
    hub().directory.forget(account().id)
    return nothing()
