"""Which pipeline and stage a bot means, by their ids or their labels."""

from __future__ import annotations

from collections.abc import Sequence

from crmhub.adapter.contract import Choice, Pipeline, Problem, Rejected

_DEFAULTS = ("default", "0")
_FEW = 20


def place(
    pipelines: Sequence[Pipeline], wanted: tuple[str, str], names: tuple[str, str]
) -> tuple[str, str]:
    """Return the ids of the pipeline and the stage that `wanted` names; either may be "".

    Without a pipeline the stage tells it, and the default one goes first; without a stage it is
    the pipeline's first. Labels are taken in any case where they mean one place. Raises Rejected
    under the property of `names` that is wrong, with the ids to send: nothing is ever put in
    another place than the one named.
    """
    pipeline, stage = wanted
    among = sorted(pipelines, key=lambda one: one.id not in _DEFAULTS)
    if pipeline:
        among = [one for one in among if one.id == pipeline] or [
            one for one in among if one.label.casefold() == pipeline.casefold()
        ]
        if len(among) != 1:
            options = [Choice(one.id, one.label) for one in pipelines]
            raise _misplaced(names[0], pipeline, options)
    if stage:
        return _stage(among, stage, names[1])
    first = next((one for one in among if one.stages), None)
    if first is None:
        raise Rejected([Problem(names[1], "the CRM has no stages here; add one there")])
    return first.id, first.stages[0].value


def _stage(among: Sequence[Pipeline], wanted: str, name: str) -> tuple[str, str]:
    for one in among:
        if any(stage.value == wanted for stage in one.stages):
            return one.id, wanted
    folded = wanted.casefold()
    labelled = [
        (one.id, stage.value)
        for one in among
        for stage in one.stages
        if folded in (stage.label.casefold(), stage.value.casefold())
    ]
    of_first = [found for found in labelled if found[0] == among[0].id]
    for meant in (of_first, labelled):
        if len(meant) == 1:
            return meant[0]
    raise _misplaced(name, wanted, [stage for one in among for stage in one.stages])


def _misplaced(name: str, text: str, options: Sequence[Choice]) -> Rejected:
    values = tuple(dict.fromkeys(option.value for option in options))[:_FEW]
    shown = ", ".join(f'"{value}"' for value in values)
    reason = f'the CRM has no "{text[:60]}" here; send one of {shown}'
    return Rejected([Problem(name, reason, values)])
