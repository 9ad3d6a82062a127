"""The pipelines and stages of deals and tickets. No generated id is used again."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.bounds import MAX_PIPELINES, MAX_STAGES
from crmhub.database.connection import Connection
from crmhub.database.rows import delete_where, set_where
from crmhub.database.statements import Statement, in_list, param
from crmhub.database.tables import account as account_table
from crmhub.database.tables import ix_text
from crmhub.database.tables import pipeline as pipeline_table
from crmhub.errors import BadRequest, Conflict, NotFound, Semantic, listed
from crmhub.properties import catalogue as catalogues
from crmhub.properties import values
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.definitions import Pipeline, Stage
from crmhub.properties.kinds import Kind
from crmhub.records.definitions import label_problems
from crmhub.records.store import RecordStore

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
_ID_RULE = "an id is a letter or digit, then at most 99 of letters, digits, _, . and -"


@dataclass(frozen=True, slots=True)
class StageInput:
    """New unless the pipeline has its id. None keeps a value, or means its default.

    `probability` is a decimal number from 0 to 1 as text, "" for none.
    """

    id: str | None = None
    label: str | None = None
    probability: str | None = None
    closed: bool | None = None


def find(records: RecordStore, account: Account, kind: Kind, pipeline_id: str) -> Pipeline:
    """Read from the database now; raises NotFound."""
    return _named(records.catalogues.reload(account.id, kind), pipeline_id)


_text = ix_text.c
_OF_ACCOUNT = _text.account_id == param("account_id")
_COUNT_RECORDS = Statement(
    sa.select(sa.func.count())
    .select_from(ix_text)
    .where(_OF_ACCOUNT, _text.prop_id == param("prop_id"), _text.value == param("value"))
)
_in_pipeline = ix_text.alias("in_pipeline")
_COUNT_BY_STAGE = Statement(
    sa.select(_text.value, sa.func.count().label("n"))
    .where(
        _OF_ACCOUNT,
        _text.prop_id == param("stage"),
        in_list(_text.value, "stages"),
        _text.record_id.in_(
            sa.select(_in_pipeline.c.record_id).where(
                _in_pipeline.c.account_id == param("account_id"),
                _in_pipeline.c.prop_id == param("pipeline"),
                _in_pipeline.c.value == param("pipeline_id"),
            )
        ),
    )
    .group_by(_text.value)
    .order_by(_text.value)
)


def add(
    records: RecordStore,
    account: Account,
    kind: Kind,
    *,
    label: str,
    stages: Sequence[StageInput],
    id: str | None = None,
) -> Pipeline:
    """Raises BadRequest, Conflict for an id in use, and Semantic for more than MAX_PIPELINES."""

    def add_to(tx: Connection, catalogue: Catalogue) -> Pipeline:
        if id is not None and catalogue.pipeline(id) is not None:
            raise Conflict(f"id: {kind.name} have a pipeline {id} already; choose another id.")
        if len(catalogue.pipelines) >= MAX_PIPELINES:
            raise Semantic(
                f"{kind.name} have {MAX_PIPELINES} pipelines, which is the most there can be."
            )
        malformed = [] if id is None or ID.fullmatch(id) else [("id", _ID_RULE)]
        unnamed = Pipeline(id or "", label.strip(), ())
        wanted = _wanted(catalogue, unnamed, stages, malformed)
        catalogues.change(tx, account.id)
        named = _with_ids(tx, account.id, catalogue, wanted)
        catalogues.store_pipeline(tx, account.id, kind, named)
        _note_edited(tx, account.id)
        return named

    return records.edit(account, kind, add_to)


def change(
    records: RecordStore,
    account: Account,
    kind: Kind,
    pipeline_id: str,
    *,
    label: str | None = None,
    stages: Sequence[StageInput] | None = None,
) -> Pipeline:
    """None changes nothing; stages missing in `stages` are removed.

    Raises NotFound, BadRequest, and Conflict for an id in use or a removed stage with records.
    """

    def change_it(tx: Connection, catalogue: Catalogue) -> Pipeline:
        known = _named(catalogue, pipeline_id)
        relabelled = known if label is None else replace(known, label=label.strip())
        wanted = _wanted(catalogue, relabelled, stages, [])
        if wanted == known:
            return known
        catalogues.change(tx, account.id)
        named = _with_ids(tx, account.id, catalogue, wanted)
        _refuse_held(tx, catalogue, known, named)
        catalogues.store_pipeline(tx, account.id, kind, named)
        _note_edited(tx, account.id)
        return named

    return records.edit(account, kind, change_it)


def delete(records: RecordStore, account: Account, kind: Kind, pipeline_id: str) -> None:
    """Raises NotFound, and Conflict if it contains records or is the last pipeline."""

    def delete_it(tx: Connection, catalogue: Catalogue) -> None:
        known = _named(catalogue, pipeline_id)
        if len(catalogue.pipelines) == 1:
            raise Conflict(f"{pipeline_id} is the last pipeline of {kind.name}; add another first.")
        of = {"account_id": account.id, "prop_id": _prop_id(catalogue, kind.pipeline)}
        held = tx.scalar(_COUNT_RECORDS, of | {"value": known.id})
        if held:
            raise Conflict(
                f"{_counted(held, kind)} in the pipeline {pipeline_id}; move or archive them first."
            )
        catalogues.change(tx, account.id)
        key = {"account_id": account.id, "kind": kind.code, "id": known.id}
        delete_where(tx, pipeline_table, key)
        _note_edited(tx, account.id)

    records.edit(account, kind, delete_it)


def _note_edited(tx: Connection, account_id: int) -> None:
    # From now on the pipelines are somebody's decision: what bots name is not added any more.
    set_where(tx, account_table, {"id": account_id}, pipelines_edited=True)


def _named(catalogue: Catalogue, pipeline_id: str) -> Pipeline:
    known = catalogue.pipeline(pipeline_id)
    if known is None:
        kind = catalogue.kind.name
        raise NotFound(
            f"{kind} have no pipeline {pipeline_id[:100]!r};"
            f" GET /pipelines/{kind} lists those they have."
        )
    return known


def _counted(n: int, kind: Kind) -> str:
    return f"1 {kind.singular} is" if n == 1 else f"{n} {kind.name} are"


def _wanted(
    catalogue: Catalogue,
    known: Pipeline,
    stages: Sequence[StageInput] | None,
    problems: list[tuple[str, str]],
) -> Pipeline:
    """New stages without an id have "". Raises BadRequest with the given and all other problems,
    and Conflict if another pipeline has a stage id."""
    problems += _label("label", known.label)
    if stages is None:
        wanted = known
    else:
        if not 1 <= len(stages) <= MAX_STAGES:
            problems.append(("stages", f"{len(stages)} stages; send 1 to {MAX_STAGES}"))
        kept = {each.id: each for each in known.stages}
        made = [_stage(i, each, kept, problems) for i, each in enumerate(stages[:MAX_STAGES])]
        wanted = replace(known, stages=tuple(made))
        _refuse_twins(wanted, problems)
    if problems:
        raise BadRequest(listed(problems))
    _refuse_taken(catalogue, known, wanted)
    return wanted


def _label(path: str, label: str) -> list[tuple[str, str]]:
    return label_problems(path, label) if label else [(path, "blank; send a name for people")]


def _stage(
    i: int, sent: StageInput, kept: dict[str, Stage], problems: list[tuple[str, str]]
) -> Stage:
    path = f"stages[{i}]"
    old = kept.get(sent.id or "")
    if old is None and sent.id is not None and not ID.fullmatch(sent.id):
        problems.append((f"{path}.id", _ID_RULE))
    if old is None and sent.label is None:
        problems.append((f"{path}.label", "is missing; a new stage needs one"))
    stage = old or Stage(sent.id or "", "")
    if sent.label is not None:
        stage = replace(stage, label=sent.label.strip())
        problems += _label(f"{path}.label", stage.label)
    if sent.probability is not None:
        probability = _probability(sent.probability)
        if probability is None:
            reason = "send a number from 0 to 1 of at most 15 digits, such as 0.2"
            problems.append((f"{path}.probability", reason))
        else:
            stage = replace(stage, probability=probability)
    return stage if sent.closed is None else replace(stage, closed=sent.closed)


def _probability(text: str) -> str | None:
    if not text:
        return ""
    try:
        number = values.canonical("number", text)
    except values.InvalidValue:
        return None
    if not 0 <= Decimal(number) <= 1:
        return None
    return number if "." in number else f"{number}.0"


def _refuse_twins(wanted: Pipeline, problems: list[tuple[str, str]]) -> None:
    seen: dict[str, int] = {}
    for i, stage in enumerate(wanted.stages):
        first = seen.setdefault(stage.id, i) if stage.id else i
        if first != i:
            problems.append((f"stages[{i}].id", f"the same as stages[{first}].id; send each once"))


def _refuse_taken(catalogue: Catalogue, known: Pipeline, wanted: Pipeline) -> None:
    others = {
        stage.id: each.id
        for each in catalogue.pipelines
        if each.id != known.id
        for stage in each.stages
    }
    own = {stage.id for stage in known.stages}
    taken = [
        (f"stages[{i}].id", f"{stage.id} is a stage of the pipeline {others[stage.id]} already")
        for i, stage in enumerate(wanted.stages)
        if stage.id in others and stage.id not in own
    ]
    if taken:
        raise Conflict(f"{listed(taken)}; choose other ids, or leave them out.")


def _with_ids(tx: Connection, account_id: int, catalogue: Catalogue, wanted: Pipeline) -> Pipeline:
    taken = {wanted.id, *(stage.id for stage in wanted.stages)}
    taken |= {id for each in catalogue.pipelines for id in (each.id, *(s.id for s in each.stages))}
    return replace(
        wanted,
        id=wanted.id or _issue(tx, account_id, taken),
        stages=tuple(
            stage if stage.id else replace(stage, id=_issue(tx, account_id, taken))
            for stage in wanted.stages
        ),
    )


def _issue(tx: Connection, account_id: int, taken: Collection[str]) -> str:
    while (id := str(catalogues.next_id(tx, account_id))) in taken:
        pass
    return id


def _refuse_held(tx: Connection, catalogue: Catalogue, known: Pipeline, wanted: Pipeline) -> None:
    gone = {each.id: each.label for each in known.stages if not wanted.has(each.id)}
    if not gone:
        return
    kind = catalogue.kind
    held = tx.rows(
        _COUNT_BY_STAGE,
        {
            "account_id": catalogue.account_id,
            "stage": _prop_id(catalogue, kind.stage),
            "stages": sorted(gone),
            "pipeline": _prop_id(catalogue, kind.pipeline),
            "pipeline_id": known.id,
        },
    )
    if held:
        stages = [
            ("stages", f"{_counted(row.n, kind)} in the stage {row.value} ({gone[row.value]})")
            for row in held
        ]
        raise Conflict(
            f"{listed(stages)}; move them to another stage first,"
            " or send the stage with its id to keep it."
        )


def _prop_id(catalogue: Catalogue, name: str) -> int:
    known = catalogue.get(name)
    # Built in, so it cannot be deleted.
    assert known is not None
    return known.prop_id
