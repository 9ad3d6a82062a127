"""The values of unique properties: each stands in a table whose key makes a second one fail."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection
from crmhub.database.drivers import Deadlocked
from crmhub.database.statements import Statement, equals, in_list
from crmhub.database.tables import unique_value
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import DuplicateValue, property_path
from crmhub.records.index import UNIQUE, IndexChange

_HOLDERS = Statement(
    sa.select(unique_value.c.value, unique_value.c.record_id).where(
        *equals(unique_value, "account_id", "prop_id"), in_list(unique_value.c.value, "keys")
    )
)


def claim(
    tx: Connection, catalogue: Catalogue, change: IndexChange, paths: Mapping[int, str]
) -> None:
    claimed = sorted(change.unique_come)
    if tx.insert("unique_value", UNIQUE, claimed, or_skip=True) < len(claimed):
        raise taken_values(tx, catalogue, claimed, paths)


def taken_values(
    tx: Connection, catalogue: Catalogue, claimed: Sequence[Row], paths: Mapping[int, str]
) -> DuplicateValue | Deadlocked:
    """Return Deadlocked if the other record was archived just now: a second attempt may succeed."""
    names = {known.prop_id: known.name for known in catalogue.unique}
    held = holders(tx, catalogue.account_id, [(prop_id, key) for _, prop_id, key, _ in claimed])
    taken = []
    for _, prop_id, key, record_id in claimed:
        holder = held.get((prop_id, key))
        if holder is None:
            return Deadlocked("A record that held the same value was archived just now; try again.")
        if holder != record_id:
            taken.append((paths[record_id], names[prop_id], holder))
    return duplicate_values(catalogue.kind, taken)


def duplicate_values(kind: Kind, taken: Sequence[tuple[str, str, int]]) -> DuplicateValue:
    words = "; ".join(
        f"{property_path(path, name)}: another {kind.singular}, {holder}, has this value"
        for path, name, holder in taken
    )
    return DuplicateValue(f"{words}.", taken)


def holders(
    connection: Connection, account_id: int, values: Collection[tuple[int, str]]
) -> dict[tuple[int, str], int]:
    """By (`prop_id`, `unique_key`)."""
    held: dict[tuple[int, str], int] = {}
    for prop_id in {prop_id for prop_id, _ in values}:
        keys = sorted({key for other, key in values if other == prop_id})
        of = {"account_id": account_id, "prop_id": prop_id, "keys": keys}
        held |= {(prop_id, row.value): row.record_id for row in connection.rows(_HOLDERS, of)}
    return held
