"""Roles, accounts, one-time links and second factors of console users; names of API keys.

Until now every console user could do everything, so existing users become owners. `hub_process`
lists the running processes for the console.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_KEY_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _user_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("role", sa.Text(), nullable=False, server_default="owner"),
        sa.Column("accounts", sa.Text()),
        sa.Column("invited_until", sa.BigInteger()),
        sa.Column("totp", sa.Text(), nullable=False, server_default=""),
        sa.Column("totp_step", sa.BigInteger(), nullable=False, server_default="0"),
    ]


def upgrade() -> None:
    for column in _user_columns():
        op.add_column("console_user", column)
    op.add_column("api_key", sa.Column("name", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "console_link",
        sa.Column("digest", _KEY_TEXT, primary_key=True),
        sa.Column(
            "user_id", sa.Text(), sa.ForeignKey("console_user.id", ondelete="CASCADE"),
            nullable=False, index=True,
        ),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("ends_at", sa.BigInteger(), nullable=False),
    )  # fmt: skip
    op.create_table(
        "console_recovery_code",
        sa.Column(
            "user_id", sa.Text(), sa.ForeignKey("console_user.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("digest", _KEY_TEXT, primary_key=True),
    )  # fmt: skip
    op.create_table(
        "hub_process",
        sa.Column("id", _KEY_TEXT, primary_key=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("hub_process")
    op.drop_table("console_recovery_code")
    op.drop_table("console_link")
    op.drop_column("api_key", "name")
    for column in reversed(_user_columns()):
        op.drop_column("console_user", column.name)
