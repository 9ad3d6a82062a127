"""Create the pipelines and stages that a bot names before an operator has created them.

An account starts with HubSpot's default pipelines. The hub creates others that helpers name, until
somebody edits the account's pipelines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.bounds import MAX_PIPELINES, MAX_STAGES
from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, param
from crmhub.database.tables import account as account_table
from crmhub.properties import catalogue
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.definitions import Pipeline, Stage
from crmhub.properties.kinds import Kind
from crmhub.records.definitions import label_problems
from crmhub.records.store import RecordStore

_LONGEST_ID = 100

_ARE_EDITED = Statement(
    sa.select(account_table.c.pipelines_edited).where(account_table.c.id == param("id"))
)


def make(
    records: RecordStore, account: Account, kind: Kind, properties: Mapping[str, str]
) -> frozenset[str]:
    """Create the pipeline and the stage that the properties of a record name, if necessary.

    If both exist afterwards, return the names of their properties, otherwise an empty set.
    """
    named = _Named(
        properties.get(kind.pipeline, "").strip(), properties.get(kind.stage, "").strip()
    )
    if not kind.pipeline:
        return frozenset()
    known = records.catalogue(account, kind)
    if named.new_in(known) is None:
        return frozenset({kind.pipeline, kind.stage} if named.is_in(known) else ())

    def add(tx: Connection, known: Catalogue) -> frozenset[str]:
        if tx.scalar(_ARE_EDITED, {"id": account.id}):
            return frozenset()
        changed = named.new_in(known)
        if changed is not None:
            catalogue.change(tx, account.id)
            catalogue.store_pipeline(tx, account.id, kind, changed)
        # Another call may have added it meanwhile; the result is the same.
        return frozenset({kind.pipeline, kind.stage})

    return records.edit(account, kind, add)


@dataclass(frozen=True, slots=True)
class _Named:
    """The ids of the pipeline and the stage that a bot named; each may be empty."""

    pipeline: str
    stage: str

    def new_in(self, known: Catalogue) -> Pipeline | None:
        """Return the new or extended pipeline to store; None if it exists or must not be made."""
        if not (_can_be(self.pipeline) and _can_be(self.stage)) or self._meant(known):
            return None
        stages = (Stage(self.stage, self.stage),) if self.stage else ()
        pipeline = known.pipeline(self.pipeline)
        if self.pipeline and pipeline is None:
            full = len(known.pipelines) >= MAX_PIPELINES
            return None if full else Pipeline(self.pipeline, self.pipeline, stages)
        if not self.stage or any(each.has(self.stage) for each in known.pipelines):
            # A stage that exists in another pipeline is a mistake, not a new stage.
            return None
        pipeline = pipeline or known.pipelines[0]
        full = len(pipeline.stages) >= MAX_STAGES
        return None if full else replace(pipeline, stages=pipeline.stages + stages)

    def is_in(self, known: Catalogue) -> bool:
        pipelines = [one for one in known.pipelines if self.pipeline in ("", one.id)]
        return any(not self.stage or one.has(self.stage) for one in pipelines)

    def _meant(self, known: Catalogue) -> bool:
        """Return whether the bot seems to mean an existing pipeline or stage, but sent a wrong id.

        That is its label, or its id in another case. The hub then creates nothing; the error names
        the right id.
        """
        pipelines = {each.id: each.label for each in known.pipelines}
        stages = {each.id: each.label for one in known.pipelines for each in one.stages}
        return _almost(self.pipeline, pipelines) or _almost(self.stage, stages)


def _can_be(text: str) -> bool:
    # The id also becomes the label, so it must be a valid label.
    return len(text) <= _LONGEST_ID and not label_problems("", text)


def _almost(text: str, known: Mapping[str, str]) -> bool:
    folded = text.casefold()
    return text not in known and any(
        folded in (id.casefold(), label.casefold()) for id, label in known.items()
    )
