"""The hub's own records as a benchmark judges them, under HubSpot's names."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Database
from crmhub.database.statements import Statement
from crmhub.database.tables import association, records, timeline_entry
from crmhub.properties.kinds import CONTACTS, KINDS
from crmhub.records.timeline import TASK

_RECORDS = Statement(sa.select(records.c.kind, records.c.id, records.c.properties))
_LINKS = Statement(
    sa.select(association.c.from_kind, association.c.from_id, association.c.to_id).where(
        association.c.to_kind == CONTACTS.code
    )
)
_ENTRIES = Statement(sa.select(timeline_entry).where(timeline_entry.c.kind == CONTACTS.code))


@dataclass(frozen=True, slots=True)
class OwnRecords:
    """The records, notes and tasks in a hub's database, of all accounts; it has no faults."""

    url: str

    def faults(self, *faults: Mapping[str, Any]) -> None:
        """Do nothing: no other system is called."""

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Return all records of a kind, notes or tasks, each with properties and contacts."""
        database = Database(self.url, pool_size=1)
        try:
            with database.reading() as connection:
                if kind not in KINDS:
                    return [
                        _of_entry(row)
                        for row in connection.rows(_ENTRIES)
                        if (row.type == TASK) == (kind == "tasks")
                    ]
                contacts = defaultdict(list)
                for row in connection.rows(_LINKS):
                    contacts[row.from_kind, row.from_id].append(str(row.to_id))
                return [
                    {
                        "properties": _read(row.properties) | {"hs_object_id": str(row.id)},
                        "associations": {"contacts": contacts[row.kind, row.id]},
                    }
                    for row in connection.rows(_RECORDS)
                    if row.kind == KINDS[kind].code
                ]
        finally:
            database.close()


def _read(properties: Any) -> dict[str, str]:
    held = json.loads(properties) if isinstance(properties, str | bytes) else properties
    return {name: str(value) for name, value in held.items()}


def _of_entry(row: Any) -> dict[str, Any]:
    told = {"hs_note_body": f"<p>{row.text}</p>"}
    if row.type == TASK:
        told = {"hs_task_subject": json.loads(row.properties)["subject"]}
    return {"properties": told, "associations": {"contacts": [row.record_id]}}
