"""The values that the records of a kind hold of one property, all of them at once.

Callers have begun a change of the catalogue, so nobody writes records meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection
from crmhub.properties.catalogue import Property
from crmhub.properties.kinds import Kind
from crmhub.properties.validation import DuplicateValue
from crmhub.records.index import UNIQUE, unique_key

_BATCH = 1000


def count(tx: Connection, account_id: int, known: Property) -> int:
    """Return how many records hold a value."""
    n: int = tx.scalar(
        f"select count(*) from {known.index} where account_id = :account and prop_id = :prop",
        {"account": account_id, "prop": known.prop_id},
    )
    return n


def by_option(tx: Connection, account_id: int, known: Property) -> Counter[str]:
    """Return how many records hold each option; the property is one of the two enumerations."""
    held: Counter[str] = Counter()
    for value, n in tx.rows(
        "select coalesce(full_value, value), count(*) from ix_text"
        " where account_id = :account and prop_id = :prop group by 1",
        {"account": account_id, "prop": known.prop_id},
    ):
        for option in value.split(";") if known.type == "multi_enumeration" else [value]:
            held[option] += n
    return held


def claim(tx: Connection, account_id: int, kind: Kind, known: Property) -> None:
    """Note the values as unique ones; DuplicateValue where two records hold the same."""
    for rows in _values(tx, account_id, kind, known):
        claimed = [(account_id, known.prop_id, unique_key(value), id) for id, value in rows]
        if tx.insert("unique_value", UNIQUE, claimed, or_skip=True) == len(claimed):
            continue
        for _, prop_id, key, id in claimed:
            first = tx.scalar(
                "select record_id from unique_value"
                " where account_id = :account and prop_id = :prop and value = :value",
                {"account": account_id, "prop": prop_id, "value": key},
            )
            if first != id:
                raise DuplicateValue(
                    f"unique: {kind.name} {first} and {id} have the same {known.name}; change one"
                    " of them first.",
                    [("unique", known.name, first)],
                )


def release(tx: Connection, account_id: int, known: Property) -> None:
    """Let the values be held by more than one record."""
    tx.run(
        "delete from unique_value where account_id = :account and prop_id = :prop",
        {"account": account_id, "prop": known.prop_id},
    )


def erase(tx: Connection, account_id: int, kind: Kind, known: Property) -> None:
    """Take the values out of all records, which get a new version, and out of the index."""
    without = (
        "properties - cast(:name as text)"
        if tx.dialect == "postgresql"
        else "json_remove(properties, '$.' || :name)"
    )
    of = {"account": account_id, "prop": known.prop_id}
    tx.run(
        f"update records set properties = {without}, version = version + 1"
        " where account_id = :account and kind = :kind and id in"
        f" (select record_id from {known.index} where account_id = :account and prop_id = :prop)",
        {**of, "kind": kind.code, "name": known.name},
    )
    tx.run(f"delete from {known.index} where account_id = :account and prop_id = :prop", of)
    release(tx, account_id, known)


def _values(tx: Connection, account_id: int, kind: Kind, known: Property) -> Iterator[list[Row]]:
    """Yield `(id, value)` of the records that hold one, a batch at a time."""
    of = {"account": account_id, "prop": known.prop_id, "rows": _BATCH}
    behind = ""
    while keys := tx.rows(
        f"select value, record_id from {known.index}"
        f" where account_id = :account and prop_id = :prop{behind}"
        " order by value, record_id limit :rows",
        of,
    ):
        where, ids = tx.among("id", "ids", [id for _, id in keys])
        yield tx.rows(
            "select id, properties ->> cast(:name as text) from records"
            f" where account_id = :account and kind = :kind and {where}",
            {"account": account_id, "kind": kind.code, "name": known.name, **ids},
        )
        behind = " and (value, record_id) > (:value, :id)"
        of["value"], of["id"] = keys[-1]
