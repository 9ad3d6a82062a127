from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.adapter.phones import identity_of
from crmhub.database import tables
from crmhub.database.advisory_locks import hold_all
from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, param
from crmhub.identity import merged_contacts
from crmhub.identity.bindings import (
    IS_BINDING,
    LONGEST,
    LOOKUP_COLUMNS,
    of_hub_id,
)
from crmhub.identity.resolution import (
    OTHER,
    OTHERS_HERE,
    keep_values,
    person_now,
    updating,
)

_b = tables.binding.c
_SET_SAID = {
    name: updating(**{column.name: param("said")}) for name, column in LOOKUP_COLUMNS.items()
}


def _person_alike() -> Statement:
    neither = sa.and_(OTHER.c.email.is_(None), _b.email.is_(None))
    # Not one query with OR: SQLite would read all bindings of the connection.
    found = sa.union_all(
        *(
            sa.select(OTHER.c.person, OTHER.c.created_at, OTHER.c.hub_id)
            .select_from(tables.binding)
            .join(OTHER, sa.and_(OTHERS_HERE, OTHER.c.hub_id != _b.hub_id, is_alike))
            .where(IS_BINDING)
            for is_alike in (
                OTHER.c.email == _b.email,
                sa.and_(neither, OTHER.c.phone == _b.phone),
            )
        )
    ).subquery("found")
    oldest = sa.select(found.c.person).order_by(found.c.created_at, found.c.hub_id).limit(1)
    return Statement(oldest)


_PERSON_ALIKE = _person_alike()


def correct(
    tx: Connection,
    account: Account,
    hub_id: str,
    *,
    said: Mapping[str, str],
    values: Mapping[str, str],
) -> None:
    """Store corrected properties (`values`) and "email" and "phone" (`said`); "" deletes one.

    Another binding with the same email, or without emails the same phone, gets the same person, so
    that their actions run in order.
    """
    said = {n: (identity_of(text) if n == "phone" else text)[:LONGEST] for n, text in said.items()}
    hold_all(tx, [(account.id, account.connection.id, *one) for one in said.items() if one[1]])
    binding = of_hub_id(tx, account, hub_id)
    if binding is None:
        return
    person = person_now(tx, account, binding)
    keep_values(tx, account, binding, values)
    here = account.connection_key | {"hub_id": hub_id}
    for name, text in said.items():
        tx.run(_SET_SAID[name], here | {"said": text or None})
    if not said:
        return
    other: str | None = tx.scalar(_PERSON_ALIKE, here)
    if other and other != person:
        merged_contacts.merge_persons(tx, account, {person}, other)
