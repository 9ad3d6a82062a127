"""Records that are taken out for good: who has an email or a phone, and the end of a record.

An archived record has no index rows, so those are found by reading through them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from crmhub.database.connection import (
    Connection,
    Database,
    now_ms,
)
from crmhub.properties import catalogue
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import CONTACTS, Kind
from crmhub.records import associations, writing
from crmhub.records.associations import Links
from crmhub.records.index import PREFIX

EMAILS = ("email",)
PHONES = ("phone", "mobilephone")

ARCHIVED_MS = 90 * 86_400_000
"""So long an archived record is kept."""


@dataclass(frozen=True, slots=True)
class Held:
    """A contact, archived or not, with what it holds; `created_at` in ms since 1970."""

    id: int
    created_at: int
    archived: bool
    properties: Mapping[str, str] = field(repr=False)


def contacts(connection: Connection, account_id: int, ids: Collection[int]) -> list[Held]:
    """Return those of the contacts that exist, archived ones too."""
    return records(connection, account_id, CONTACTS, ids)


def records(
    connection: Connection, account_id: int, kind: Kind, ids: Collection[int]
) -> list[Held]:
    """Return those of the records of a kind that exist, archived ones too."""
    if not ids:
        return []
    among, params = connection.among("id", "ids", sorted(ids))
    params |= {"account": account_id, "kind": kind.code}
    found = []
    for table, archived in (("records", False), ("archived_record", True)):
        rows = connection.rows(
            f"select id, created_at, cast(properties as text) from {table}"
            f" where account_id = :account and kind = :kind and {among} order by id",
            params,
        )
        found += [Held(id, at, archived, json.loads(text)) for id, at, text in rows]
    return found


def contacts_with(
    connection: Connection, account_id: int, names: Sequence[str], texts: Collection[str]
) -> set[int]:
    """Return the contacts that hold one of the texts under one of these properties."""
    if not texts:
        return set()
    known = catalogue.load(connection, account_id, CONTACTS)
    among, params = connection.among("value", "texts", sorted(text[:PREFIX] for text in texts))
    found: set[int] = set()
    for name in names:
        one = known.get(name)
        if one is None or one.index != "ix_text":
            continue
        rows = connection.rows(
            "select record_id from ix_text where account_id = :account and prop_id = :prop"
            f" and {among} and full_value is null",
            {"account": account_id, "prop": one.prop_id, **params},
        )
        found |= {row[0] for row in rows}
    for name in names:
        among, params = connection.among("properties ->> cast(:name as text)", "texts", [*texts])
        rows = connection.rows(
            "select id from archived_record where account_id = :account and kind = :kind"
            f" and {among}",
            {"account": account_id, "kind": CONTACTS.code, "name": name, **params},
        )
        found |= {row[0] for row in rows}
    return found


def linked(connection: Connection, account_id: int, kind: Kind, ids: Collection[int]) -> Links:
    """Return what these records are linked with, by kind, ids rising."""
    together: dict[str, set[int]] = {}
    for links in associations.of_records(connection, account_id, kind, sorted(ids)).values():
        for name, to_ids in links.items():
            together.setdefault(name, set()).update(to_ids)
    return {name: sorted(to_ids) for name, to_ids in together.items()}


def erase(tx: Connection, known: Catalogue, ids: Collection[int], *, now: int) -> None:
    """Take these records out of every table, archived ones too; their links go on both sides."""
    if not ids:
        return
    among, params = tx.among("id", "ids", sorted(ids))
    params |= {"account": known.account_id, "kind": known.kind.code}
    of = f"account_id = :account and kind = :kind and {among}"
    live = tx.rows(f"select id from records where {of}", params)
    if live:
        writing.archive(tx, known, [(id, "") for (id,) in live], now=now)
    tx.run(f"delete from archived_record where {of}", params)


def forget_archived(database: Database, *, most: int = 1000) -> int:
    """Delete up to `most` records that were archived 90 days ago, and return how many went."""
    return database.transact(
        lambda tx: tx.run(
            "delete from archived_record where (account_id, kind, id) in (select account_id, kind,"
            " id from archived_record where archived_at <= :before"
            " order by archived_at limit :most)",
            {"before": now_ms() - ARCHIVED_MS, "most": most},
        )
    )
