from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crmhub.accounts.field_maps import WHOLE_NAME
from crmhub.database.connection import Connection
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, in_list
from crmhub.database.tables import binding

Key = tuple[int, int, str]
"""Account id, connection id, and the contact's id in the hub or in the CRM."""

_b = binding.c


def _with_id(column: sa.ColumnElement[Any]) -> sa.Select[Any]:
    return sa.select(
        _b.account_id,
        _b.connection_id,
        column.label("contact"),
        _b.email,
        _b.phone,
        _b.last_values,
        sa.func.coalesce(_b.last_chat_at, _b.created_at).label("at"),
    ).where(
        in_list(_b.account_id, "account_ids"),
        in_list(_b.connection_id, "connection_ids"),
        in_list(column, "contacts"),
    )


_OF_CONTACTS = Statement(
    sa.union_all(_with_id(_b.hub_id), _with_id(_b.crm_id)).order_by(sa.literal_column("at"))
)


@dataclass(frozen=True, slots=True)
class ContactName:
    name: str = ""
    email: str = ""
    phone: str = ""

    @property
    def title(self) -> str:
        return self.name or self.email or self.phone

    @property
    def detail(self) -> str:
        other = self.email or self.phone
        return "" if other == self.title else other

    @property
    def in_words(self) -> str:
        return ", ".join(filter(None, (self.title, self.detail)))


def name_in(values: Mapping[str, str]) -> str:
    parts = (values.get("firstname"), values.get("lastname"))
    return " ".join(filter(None, parts)) or values.get(WHOLE_NAME) or ""


def names_of(db: Connection, keys: Iterable[Key]) -> dict[Key, ContactName]:
    wanted = set(keys)
    if not wanted:
        return {}
    accounts, connections, contacts = zip(*wanted, strict=True)
    rows = rows_of_several(
        db,
        _OF_CONTACTS,
        {
            "account_ids": sorted(set(accounts)),
            "connection_ids": sorted(set(connections)),
            "contacts": sorted(set(contacts)),
        },
    )
    # The newest binding of a contact comes last, and counts.
    return {
        key: named
        for row in rows
        if (key := (row.account_id, row.connection_id, row.contact)) in wanted
        and (named := _name_of(row)).title
    }


def _name_of(row: Any) -> ContactName:
    values = json.loads(row.last_values or "{}")
    return ContactName(
        name_in(values),
        values.get("email") or row.email or "",
        values.get("phone") or row.phone or "",
    )
