"""The stored progress of CSV imports, saved in the transaction of each batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from crmhub.csv.columns import Choices
from crmhub.csv.spreadsheets import Position
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import delete_where, find_row, insert_row, set_where
from crmhub.database.tables import csv_import
from crmhub.errors import Conflict


@dataclass(frozen=True, slots=True)
class Tally:
    created: int = 0
    updated: int = 0
    refused: int = 0

    @property
    def rows(self) -> int:
        return self.created + self.updated + self.refused


@dataclass(frozen=True, slots=True)
class ImportedUpTo:
    """`refused_bytes` is the length of the refused rows."""

    tally: Tally
    position: Position
    refused_bytes: int = 0

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> ImportedUpTo:
        """Read what `asdict` has returned."""
        tally, position = Tally(**saved["tally"]), Position(**saved["position"])
        return cls(tally, position, saved["refused_bytes"])


class StoredProgress:
    """`digest` identifies the file of the command, or the job of the console."""

    def __init__(self, account_id: int, kind: int, digest: str, name: str) -> None:
        self._key = {"account_id": account_id, "kind": kind, "digest": digest}
        self._account_id = account_id
        self._name = name

    def begin(
        self, tx: Connection, choices: Choices, start: Position, *, again: bool
    ) -> ImportedUpTo:
        """Return the progress of an earlier import, or store the start of a new one.

        `again` deletes the earlier progress. Raises Conflict if the file was already imported, or
        with other options.
        """
        if again:
            self.delete(tx)
        first = {"choices": choices.to_json(), "position": start.bytes, "lines": start.lines}
        numbers = {**asdict(Tally()), "refused_bytes": 0, "changed_at": now_ms()}
        insert_row(tx, csv_import, self._key | first | numbers, or_skip=True)
        row = find_row(tx, csv_import, self._key, lock=True)
        if row.ended_at is not None:
            raise Conflict(
                f"{self._name} was imported already: {row.created} created,"
                f" {row.updated} updated, {row.refused} refused. --again imports it again."
            )
        if Choices.from_json(row.choices) != choices:
            raise Conflict(
                f"{self._name} was imported up to line {row.lines} with other"
                f" options: {row.choices}. "
                " Give the same options to continue, or --again to restart."
            )
        tally = Tally(row.created, row.updated, row.refused)
        return ImportedUpTo(tally, Position(row.position, row.lines), row.refused_bytes)

    def lock(self, tx: Connection) -> int | None:
        """Return the position in bytes; None if the import has ended."""
        row = find_row(tx, csv_import, self._key, lock=True)
        return None if row is None or row.ended_at is not None else int(row.position)

    def note(self, tx: Connection, now: ImportedUpTo) -> None:
        position = {"position": now.position.bytes, "lines": now.position.lines}
        values = {**asdict(now.tally), **position, "refused_bytes": now.refused_bytes}
        set_where(tx, csv_import, self._key, **values, changed_at=now_ms())

    def end(self, tx: Connection, position: Position) -> bool:
        """Return False if the import had ended before."""
        if self.lock(tx) != position.bytes:
            return False
        now = now_ms()
        return set_where(tx, csv_import, self._key, ended_at=now, changed_at=now) > 0

    def count_rows(self, tx: Connection) -> int:
        row = find_row(tx, csv_import, self._key)
        return Tally(row.created, row.updated, row.refused).rows if row else 0

    def delete(self, tx: Connection) -> None:
        delete_where(tx, csv_import, self._key)
