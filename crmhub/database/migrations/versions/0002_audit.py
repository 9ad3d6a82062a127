"""The audit log: the author and time of each change, with the values before and after it.

The table has no foreign key to the account, because an entry stays after its account is deleted.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit",
        # SQLite counts up by itself in a key of this type alone.
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(),
            primary_key=True,
        ),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("author_kind", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("author_id", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("object", sa.Text(), nullable=False),
        sa.Column("object_id", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Integer()),
        sa.Column("was", sa.Text(), nullable=False),
        sa.Column("became", sa.Text(), nullable=False),
        sqlite_autoincrement=True,
    )  # fmt: skip
    op.create_index("audit_account", "audit", ["account_id", "id"])


def downgrade() -> None:
    op.drop_table("audit")
