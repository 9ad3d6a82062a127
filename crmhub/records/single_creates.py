"""Creates single records on PostgreSQL; those of several threads share one statement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.drivers import Deadlocked, HeldUp
from crmhub.database.write_batcher import WriteBatcher
from crmhub.properties.catalogue import Catalogue
from crmhub.records import unique_values, writing
from crmhub.records.models import NewRecord, Record


class SingleCreates:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._batcher = WriteBatcher(self._create_together)

    def create(self, catalogue: Catalogue, new: NewRecord, *, id: int) -> Record:
        """The input must have no links, and the catalogue at most one unique property.

        Raises DuplicateValue, and GuardFailed if the catalogue has changed.
        """
        while True:
            try:
                record = self._batcher.call(catalogue, (new, id))
            except HeldUp:
                # A record of the shared statement must wait: each is now written alone.
                [record] = self._create_together(catalogue, [(new, id)])
            if record is not None:
                return record
            claims, *_ = writing.new_rows(catalogue, [new], [id], 0)
            paths = {id: new.path}
            with self._database.reading() as connection:
                taken = unique_values.taken_values(connection, catalogue, claims.rows, paths)
            # Deadlocked: the value has become free meanwhile.
            if not isinstance(taken, Deadlocked):
                raise taken

    def _create_together(
        self, catalogue: Catalogue, creations: Sequence[tuple[NewRecord, int]]
    ) -> list[Record | None]:
        """Return None for records whose unique value is taken."""
        inputs, ids = zip(*creations, strict=True)
        now = now_ms()
        claims, items, *parts = writing.new_rows(catalogue, inputs, ids, now)
        insert = partial(
            Connection.insert_unclaimed,
            claims=claims,
            items=items,
            parts=parts,
            added=writing.counter(catalogue.account_id, catalogue.kind, 1),
            guard=Connection.held_at(catalogue.account_id, catalogue.version),
        )
        went = self._database.transact(insert, one_statement=True)
        return [writing.new_record(id, now, new) if id in went else None for new, id in creations]
