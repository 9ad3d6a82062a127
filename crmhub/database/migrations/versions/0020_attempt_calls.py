"""The HTTP calls of an attempt, and the last connection test of a connection."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("action_try", sa.Column("calls", sa.Text()))
    op.add_column("connection", sa.Column("settings_at", sa.BigInteger()))
    op.add_column("connection", sa.Column("tested_at", sa.BigInteger()))
    op.add_column("connection", sa.Column("test_error", sa.Text()))


def downgrade() -> None:
    op.drop_column("connection", "test_error")
    op.drop_column("connection", "tested_at")
    op.drop_column("connection", "settings_at")
    op.drop_column("action_try", "calls")
