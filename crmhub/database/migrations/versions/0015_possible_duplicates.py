"""Pairs of contacts that may be the same human being, and the decision about each pair.

`one` is the smaller of the two ids, compared by code point. After a merge, `kept_id` is the contact
that stays, even if it is later merged into another contact; `merged_id` is the contact that was
merged into it. `email` is the email address that the merge removed. `undo` contains the data that
an unmerge needs, as JSON.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_TABLE = "possible_duplicate"
# Compared by code point on both databases, whatever their locale.
_EXACT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        _TABLE,
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("one", _EXACT, nullable=False),
        sa.Column("other", _EXACT, nullable=False),
        sa.Column("shares", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("found_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger()),
        sa.Column("decided_by", sa.Text(), nullable=False, server_default=""),
        sa.Column("kept_id", _EXACT),
        sa.Column("merged_id", _EXACT),
        sa.Column("email", _EXACT),
        sa.Column("undo", sa.Text()),
        sa.PrimaryKeyConstraint("account_id", "connection_id", "one", "other"),
    )
    _index("listed", ["state", "found_at", "one", "other"])
    # The primary key finds a contact that is the first of its pair.
    _index("other", ["other"])
    for column in ("kept_id", "merged_id", "email"):
        _index(column, [column], only=f"{column} is not null")
    undo = sa.text("undo is not null")
    op.create_index(
        f"{_TABLE}_undo", _TABLE, ["decided_at"], sqlite_where=undo, postgresql_where=undo
    )


def downgrade() -> None:
    op.drop_table(_TABLE)


def _index(name: str, columns: list[str], *, only: str = "") -> None:
    where = sa.text(only) if only else None
    op.create_index(
        f"{_TABLE}_{name}",
        _TABLE,
        ["account_id", "connection_id", *columns],
        sqlite_where=where,
        postgresql_where=where,
    )
