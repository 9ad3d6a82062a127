"""The phones of bindings in the form that is the same for all notations of a number."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from crmhub.adapter.phones import identity_of

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_ROWS = 500
# Of the numbers in E.164, only the Argentine ones have two forms.
_PHONES = sa.text(
    "select distinct account_id, phone from binding"
    " where (phone, account_id) > (:phone, :account_id)"
    " and (phone like '+54%' or phone not like '+%')"
    f" order by phone, account_id limit {_ROWS}"
)
_SET = sa.text(
    "update binding set phone = :identity where account_id = :account_id and phone = :phone"
)


def upgrade() -> None:
    connection, last = op.get_bind(), {"phone": "", "account_id": 0}
    while rows := connection.execute(_PHONES, last).all():
        changed = [
            row._asdict() | {"identity": identity}
            for row in rows
            if (identity := identity_of(row.phone)) != row.phone
        ]
        if changed:
            connection.execute(_SET, changed)
        last = rows[-1]._asdict()


def downgrade() -> None:
    """Leave the phones: former versions find most by them."""
