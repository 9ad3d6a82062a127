"""Erases records permanently, and finds contacts by email address or phone number.

Archived records have no index rows: their properties are read one record at a time.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from crmhub.database import tables
from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, equals, in_list, param
from crmhub.database.tables import archived_record, ix_text
from crmhub.properties import catalogue
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import CONTACTS, Kind
from crmhub.records import associations, writing
from crmhub.records.associations import Links
from crmhub.records.index import PREFIX

EMAILS = ("email",)
PHONES = ("phone", "mobilephone")


def _of_kind(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.account_id == param("account_id"), table.c.kind == param("kind"))


def _held(table: sa.Table) -> Statement:
    return Statement(
        sa.select(
            table.c.id,
            table.c.created_at,
            sa.cast(table.c.properties, sa.Text).label("properties"),
        )
        .where(_of_kind(table), in_list(table.c.id, "ids"))
        .order_by(table.c.id)
    )


_HELD = ((_held(tables.records), False), (_held(archived_record), True))
_WITH_TEXT = Statement(
    sa.select(ix_text.c.record_id).where(
        *equals(ix_text, "account_id", "prop_id"),
        in_list(ix_text.c.value, "texts"),
        ix_text.c.full_value.is_(None),
    )
)
_ARCHIVED_WITH_TEXT = Statement(
    sa.select(archived_record.c.id).where(
        _of_kind(archived_record),
        in_list(archived_record.c.properties.op("->>")(sa.cast(param("name"), sa.Text)), "texts"),
    )
)
_LIVE = Statement(
    sa.select(tables.records.c.id).where(
        _of_kind(tables.records), in_list(tables.records.c.id, "ids")
    )
)
_DELETE_ARCHIVED = Statement(
    sa.delete(archived_record).where(
        _of_kind(archived_record), in_list(archived_record.c.id, "ids")
    )
)


@dataclass(frozen=True, slots=True)
class Held:
    """`created_at` is in ms since 1970."""

    id: int
    created_at: int
    archived: bool
    properties: Mapping[str, str] = field(repr=False)


def contacts(connection: Connection, account_id: int, ids: Collection[int]) -> list[Held]:
    return records(connection, account_id, CONTACTS, ids)


def records(
    connection: Connection, account_id: int, kind: Kind, ids: Collection[int]
) -> list[Held]:
    """Includes archived records; missing ids are left out."""
    if not ids:
        return []
    of = {"account_id": account_id, "kind": kind.code, "ids": sorted(ids)}
    return [
        Held(row.id, row.created_at, archived, json.loads(row.properties))
        for statement, archived in _HELD
        for row in connection.rows(statement, of)
    ]


def contacts_with(
    connection: Connection, account_id: int, names: Sequence[str], texts: Collection[str]
) -> set[int]:
    """Return the ids of contacts, archived or not, with one of `texts` as a property of `names`."""
    if not texts:
        return set()
    known = catalogue.load(connection, account_id, CONTACTS)
    prefixes = sorted(text[:PREFIX] for text in texts)
    found: set[int] = set()
    for name in names:
        one = known.get(name)
        if one is None or one.index != "ix_text":
            continue
        of = {"account_id": account_id, "prop_id": one.prop_id, "texts": prefixes}
        found |= {row.record_id for row in connection.rows(_WITH_TEXT, of)}
    of_contacts = {"account_id": account_id, "kind": CONTACTS.code, "texts": texts}
    for name in names:
        rows = connection.rows(_ARCHIVED_WITH_TEXT, of_contacts | {"name": name})
        found |= {row.id for row in rows}
    return found


def linked(connection: Connection, account_id: int, kind: Kind, ids: Collection[int]) -> Links:
    together: dict[str, set[int]] = {}
    for links in associations.of_records(connection, account_id, kind, sorted(ids)).values():
        for name, to_ids in links.items():
            together.setdefault(name, set()).update(to_ids)
    return {name: sorted(to_ids) for name, to_ids in together.items()}


def erase(tx: Connection, known: Catalogue, ids: Collection[int], *, now: int) -> None:
    """Delete records, archived or not, with their links and index rows."""
    if not ids:
        return
    of = {"account_id": known.account_id, "kind": known.kind.code, "ids": sorted(ids)}
    live = tx.rows(_LIVE, of)
    if live:
        writing.archive(tx, known, [(row.id, "") for row in live], now=now, erased=True)
    tx.run(_DELETE_ARCHIVED, of)
    associations.delete_archived(tx, known.account_id, known.kind, sorted(ids))
