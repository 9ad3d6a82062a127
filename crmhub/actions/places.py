"""Pipelines and stages that a bot names before anybody has set them up.

An account starts with HubSpot's usual pipelines. A bot built for an account with others should
work at once; so as long as nobody has edited the account's pipelines, what helpers name is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from crmhub.accounts.accounts import Account
from crmhub.db import Connection
from crmhub.records import catalogue
from crmhub.records.catalogue import Catalogue, Pipeline, Stage
from crmhub.records.kinds import Kind
from crmhub.records.store import RecordStore

# Beyond these a bot is sending data, not places.
_MOST_PIPELINES = 100
_MOST_STAGES = 100
_LONGEST_ID = 100


def make(
    records: RecordStore, account: Account, kind: Kind, properties: Mapping[str, str]
) -> frozenset[str]:
    """Add the pipeline and stage that `properties` name and that do not exist.

    Returns the names of the properties that named a new place; none when nothing was added.
    """
    named = _Named(kind, properties.get(kind.pipeline, ""), properties.get(kind.stage, ""))
    if not kind.pipeline or not named.new_in(records.catalogue(account, kind)):
        return frozenset()

    def work(tx: Connection) -> frozenset[str]:
        # Before the question, so that its answer holds until the end.
        tx.hold(account.id, alone=True)
        edited = tx.scalar(
            "select pipelines_edited from account where id = :account", {"account": account.id}
        )
        if edited:
            return frozenset()
        catalogue.change(tx, account.id)
        known = catalogue.load(tx, account.id, kind)
        changed = named.new_in(known)
        if changed is not None:
            _store(tx, account.id, known, changed)
        # Added by another call meanwhile is as good.
        return frozenset({kind.pipeline, kind.stage})

    made = records.database.transact(work)
    records.catalogues.reload(account.id, kind)
    return made


@dataclass(frozen=True, slots=True)
class _Named:
    """The pipeline and stage a bot named; either may be empty."""

    kind: Kind
    pipeline: str
    stage: str

    def new_in(self, known: Catalogue) -> Pipeline | None:
        """Return the pipeline as it would have to become, or None when nothing is to be added."""
        pipeline_id, stage_id = self.pipeline.strip(), self.stage.strip()
        if len(pipeline_id) > _LONGEST_ID or len(stage_id) > _LONGEST_ID:
            return None
        stages = (Stage(stage_id, stage_id),) if stage_id else ()
        pipeline = known.pipeline(pipeline_id)
        if pipeline_id and pipeline is None:
            full = len(known.pipelines) >= _MOST_PIPELINES
            return None if full else Pipeline(pipeline_id, pipeline_id, stages)
        if not stage_id or any(each.has(stage_id) for each in known.pipelines):
            # A stage of another pipeline than the one named is a mistake and nothing new.
            return None
        pipeline = pipeline or known.pipelines[0]
        full = len(pipeline.stages) >= _MOST_STAGES
        return None if full else replace(pipeline, stages=pipeline.stages + stages)


def _store(tx: Connection, account_id: int, known: Catalogue, pipeline: Pipeline) -> None:
    row = {
        "account": account_id,
        "kind": known.kind.code,
        "id": pipeline.id,
        "stages": catalogue.dump_stages(pipeline.stages),
    }
    if known.pipeline(pipeline.id) is None:
        position = len(known.pipelines)
        new = (account_id, known.kind.code, pipeline.id, pipeline.label, position, row["stages"])
        tx.insert("pipeline", catalogue.PIPELINE, [new])
        return
    tx.run(
        "update pipeline set stages = :stages"
        " where account_id = :account and kind = :kind and id = :id",
        row,
    )
