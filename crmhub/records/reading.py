"""Reads records by their ids, or by the values of a unique property."""

from __future__ import annotations

from collections.abc import Sequence

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind
from crmhub.records import associations, unique_values, upserts
from crmhub.records.index import unique_key
from crmhub.records.models import Stored


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
    """In the order of `wanted`; None if `known` has no unique property of that name."""
    unique = known.get(name)
    if unique is None or not unique.unique:
        return None
    forms = [upserts.search_form(account, unique, value) for value in wanted]
    keys = [(unique.prop_id, unique_key(form)) for form in forms]
    held = unique_values.holders(connection, account.id, keys)
    ids = [held.get(key) for key in keys]
    return read(connection, account.id, known.kind, [id for id in ids if id is not None])
