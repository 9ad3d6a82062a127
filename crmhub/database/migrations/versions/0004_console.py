"""The users of the console and their sessions.

Of a password only a slow hash is stored, and of a session only a digest.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "console_user",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("email", sa.Text(), nullable=False, unique=True),
        sa.Column("password", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("disabled_at", sa.BigInteger()),
        sa.Column("last_sign_in_at", sa.BigInteger()),
    )
    op.create_table(
        "console_session",
        sa.Column("digest", sa.Text(), primary_key=True),
        sa.Column(
            "user_id", sa.Text(), sa.ForeignKey("console_user.id", ondelete="CASCADE"),
            nullable=False, index=True,
        ),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.BigInteger(), nullable=False),
    )  # fmt: skip


def downgrade() -> None:
    op.drop_table("console_session")
    op.drop_table("console_user")
