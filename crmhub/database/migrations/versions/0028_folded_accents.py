"""The folded texts of values with letters outside ASCII, by the present rule of `values.fold`."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from crmhub.properties.values import fold

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_ROWS = 200
_KEY = "account_id, prop_id, value, record_id"
_BYTES = {"postgresql": "octet_length({})", "sqlite": "length(cast({} as blob))"}
_WHOLE = "coalesce(full_value, value)"
_SET = sa.text(
    "update ix_text set folded = :folded where account_id = :account_id and prop_id = :prop_id"
    " and value = :value and record_id = :record_id"
)


def upgrade() -> None:
    connection = op.get_bind()
    is_beyond_ascii = f"{_BYTES[connection.dialect.name].format(_WHOLE)} > length({_WHOLE})"
    after, rest = "true", dict[str, Any]()
    while True:
        rows = connection.execute(
            sa.text(
                f"select {_KEY}, {_WHOLE} as whole, folded from ix_text"
                f" where {is_beyond_ascii} and {after} order by {_KEY} limit {_ROWS}"
            ),
            rest,
        ).all()
        if not rows:
            return
        changed = [
            row._asdict() | {"folded": folded}
            for row in rows
            if (folded := _folded(row.value, row.whole)) != row.folded
        ]
        if changed:
            connection.execute(_SET, changed)
        names = _KEY.split(", ")
        rest = {name: getattr(rows[-1], name) for name in names}
        after = f"({_KEY}) > ({', '.join(f':{name}' for name in names)})"


def downgrade() -> None:
    """Leave the texts: former versions find most values by them."""


def _folded(value: str, whole: str) -> str | None:
    folded = fold(whole)
    return folded if folded != value else None
