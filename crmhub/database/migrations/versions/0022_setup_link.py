"""The one-time link by which a console user is created; only the digest of its token is stored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "console_setup_link",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("first_only", sa.Boolean(), nullable=False),
        sa.Column("issued_by", sa.Text(), nullable=False),
        sa.Column("ends_at", sa.BigInteger(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("console_setup_link")
