"""Find the pipeline and the stage of a deal or ticket that a chatbot names by id or label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from crmhub.adapter.errors import Problem, Rejected
from crmhub.adapter.values import Pipeline
from crmhub.translatable import translatable

PLACES: Mapping[str, tuple[str, str]] = {
    "deals": ("pipeline", "dealstage"),
    "tickets": ("hs_pipeline", "hs_pipeline_stage"),
}
"""The hub's names of the pipeline and the stage of a record, by kind."""
_DEFAULTS = ("default", "0")
_MOST_OPTIONS = 20


def place(
    pipelines: Sequence[Pipeline], wanted: tuple[str, str], names: tuple[str, str]
) -> tuple[str, str]:
    """Return the ids of `wanted`: pipeline and stage, each an id, a label in any case, or "".

    Without a pipeline, the stage determines it, of several the default one; without a stage, it is
    the first. Raises Rejected with the valid ids. `names`: of the properties, for messages.
    """
    pipeline_name, stage_name = wanted
    candidates = sorted(pipelines, key=lambda pipeline: pipeline.id not in _DEFAULTS)
    if pipeline_name and pipelines and not any(pipeline.id for pipeline in pipelines):
        raise Rejected(
            [Problem(names[0], translatable("the CRM has no pipelines here; leave it out"))]
        )
    if pipeline_name:
        candidates = [pipeline for pipeline in candidates if pipeline.id == pipeline_name] or [
            pipeline
            for pipeline in candidates
            if pipeline.label.casefold() == pipeline_name.casefold()
        ]
        if len(candidates) != 1:
            options = [(pipeline.id, pipeline.label) for pipeline in pipelines]
            reason = no_such_pipeline(pipeline_name, options)
            raise Rejected([Problem(names[0], reason, _values(options))])
    if stage_name:
        return _stage(candidates, stage_name, names[1])
    default = next((pipeline for pipeline in candidates if pipeline.stages), None)
    if default is None:
        raise Rejected(
            [Problem(names[1], translatable("the CRM has no stages here; add one there"))]
        )
    return default.id, default.stages[0].value


def _stage(candidates: Sequence[Pipeline], wanted: str, name: str) -> tuple[str, str]:
    for pipeline in candidates:
        if any(stage.value == wanted for stage in pipeline.stages):
            return pipeline.id, wanted
    folded = wanted.casefold()
    labelled = [
        (pipeline.id, stage.value)
        for pipeline in candidates
        for stage in pipeline.stages
        if folded in (stage.label.casefold(), stage.value.casefold())
    ]
    of_first = [match for match in labelled if match[0] == candidates[0].id]
    for matches in (of_first, labelled):
        if len(matches) == 1:
            return matches[0]
    options = [(each.value, each.label) for pipeline in candidates for each in pipeline.stages]
    reason = no_such_stage(wanted, [(one.id, one.label) for one in candidates], options)
    raise Rejected([Problem(name, reason, _values(options))])


def no_such_pipeline(text: str, pipelines: Iterable[tuple[str, str]]) -> str:
    return translatable(
        'there is no pipeline "%(text)s"; send one of %(options)s',
        text=text[:60],
        options=_named(pipelines),
    )


def no_such_stage(
    text: str, pipelines: Sequence[tuple[str, str]], stages: Iterable[tuple[str, str]]
) -> str:
    said = {"text": text[:60], "options": _named(stages)}
    if len(pipelines) == 1 and pipelines[0][0]:
        return translatable(
            'pipeline %(pipeline)s has no stage "%(text)s"; send one of %(options)s',
            pipeline=_named(pipelines),
            **said,
        )
    return translatable('there is no stage "%(text)s"; send one of %(options)s', **said)


def _named(options: Iterable[tuple[str, str]]) -> str:
    unique = dict(options)
    shown = ", ".join(
        f'"{value}" ({label[:60]})' if label and label != value else f'"{value}"'
        for value, label in list(unique.items())[:_MOST_OPTIONS]
    )
    hidden = len(unique) - _MOST_OPTIONS
    return f"{shown} and {hidden} more" if hidden > 0 else shown


def _values(options: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(dict(options))[:_MOST_OPTIONS]
