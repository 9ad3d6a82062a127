"""Reads records by their ids, or by the values of a unique property."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, equals, in_list, param
from crmhub.database.tables import ix_text, records
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import CONTACTS, Kind
from crmhub.records import associations, unique_values, upserts
from crmhub.records.index import unique_key
from crmhub.records.models import Stored


def with_texts(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select columns of the records that have one of `texts` as the value of a property."""
    return (
        sa.select(*columns)
        .join_from(
            ix_text,
            records,
            sa.and_(
                records.c.account_id == ix_text.c.account_id,
                records.c.kind == param("kind"),
                records.c.id == ix_text.c.record_id,
            ),
        )
        .where(
            *equals(ix_text, "account_id", "prop_id"),
            in_list(ix_text.c.value, "texts"),
            ix_text.c.full_value.is_(None),
        )
    )


_WITH_TEXT = Statement(
    with_texts(ix_text.c.value, records.c.id).order_by(
        records.c.created_at.desc(), records.c.id.desc()
    )
)


def read(connection: Connection, account_id: int, kind: Kind, ids: Sequence[int]) -> list[Stored]:
    """In the order of `ids`, each once, without missing ones."""
    once = list(dict.fromkeys(ids))
    if not once:
        return []
    # Text, since the column of links is.
    among, wanted = connection.in_list("id", "ids", once)
    rows = connection.rows(
        "select id, created_at, updated_at, version, cast(properties as text),"
        f" {associations.column(connection)} from records"
        f" where account_id = :account and kind = :kind and {among}",
        {"account": account_id, "kind": kind.code, **wanted},
    )
    found = {
        id: Stored(id, created_at, updated_at, version, properties, associations.links(text))
        for id, created_at, updated_at, version, properties, text in rows
    }
    return [found[id] for id in once if id in found]


def read_by(
    connection: Connection, account: Account, known: Catalogue, name: str, wanted: Sequence[str]
) -> list[Stored] | None:
    """In the order of `wanted`; None if `known` has no unique property of that name.

    A copy of a CRM may hold an email twice: then the oldest contact is meant, as for a lead.
    """
    by = known.get(name)
    if by is None:
        return None
    forms = [upserts.search_form(account, by, value) for value in wanted]
    if by.unique:
        keys = [unique_key(form) for form in forms]
        held = unique_values.holders(connection, account.id, [(by.prop_id, key) for key in keys])
        ids = [held.get((by.prop_id, key)) for key in keys]
    elif known.is_copy and known.kind is CONTACTS and name == "email":
        of = {"account_id": account.id, "prop_id": by.prop_id, "texts": sorted({*forms})}
        rows = connection.rows(_WITH_TEXT, of | {"kind": known.kind.code})
        # Of equal values the last row counts.
        oldest = {row.value: row.id for row in rows}
        ids = [oldest.get(form) for form in forms]
    else:
        return None
    return read(connection, account.id, known.kind, [id for id in ids if id is not None])
