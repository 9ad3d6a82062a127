"""Pipelines and stages of a Pipedrive company; one pipeline may be set aside for tickets."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.pipedrive.api import PIPELINES, Api
from crmhub.adapter import (
    BadConfig,
    Choice,
    Context,
    Linked,
    Pipeline,
    Problem,
    Unsupported,
)
from crmhub.adapter.remembered import HOUR, Remembered

NAMES: Mapping[str, tuple[str, str]] = {
    "deals": ("pipeline", "dealstage"),
    "tickets": ("hs_pipeline", "hs_pipeline_stage"),
}
"""The names of pipeline and stage, by kind of record."""


class Pipelines:
    """The pipelines of a Pipedrive company, loaded once an hour."""

    def __init__(self, api: Api, context: Context) -> None:
        self._api = api
        self._support = context.settings["support_pipeline"].casefold()
        self._pipelines = Remembered(self._load, context, name="pipelines")

    def of(self, kind: Linked, *, newer_than: float = HOUR) -> list[Pipeline]:
        """Return the pipelines for deals or for tickets, in Pipedrive's order.

        Raises Unsupported for tickets if the setting `support_pipeline` is empty, and BadConfig if
        it names no pipeline.
        """
        if kind == "tickets" and not self._support:
            raise Unsupported(
                "Pipedrive has no tickets; the setting support_pipeline names a pipeline for them."
            )
        pipelines = self._pipelines.get(newer_than=newer_than)
        named = [one for one in pipelines if self._support in (one.id, one.label.casefold())]
        if kind == "deals":
            return [one for one in pipelines if one not in named]
        if len(named) != 1:
            reason = "Pipedrive has not exactly one pipeline with this name or id"
            problem = Problem("support_pipeline", reason)
            raise BadConfig(f"support_pipeline: {reason}.", problems=[problem])
        return named

    def _load(self) -> list[Pipeline]:
        stages: dict[str, list[Choice]] = {}
        params = {"sort_by": "order_nr"}
        for answer, stage in self._api.listed("stages", params=params, cost=PIPELINES):
            if not stage.get("is_deleted"):
                choice = Choice(answer.id(stage), str(stage.get("name")))
                stages.setdefault(str(stage.get("pipeline_id")), []).append(choice)
        # The list of pipelines cannot be sorted by their order.
        pipelines = sorted(
            (str(one.get("order_nr")).zfill(9), answer.id(one), str(one.get("name")))
            for answer, one in self._api.listed("pipelines", params={}, cost=PIPELINES)
            if not one.get("is_deleted")
        )
        return [Pipeline(id, name, tuple(stages.get(id, ()))) for _, id, name in pipelines]
