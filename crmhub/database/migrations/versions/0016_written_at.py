"""The time until which the last attempt of an action may have sent a write in doubt."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("action", sa.Column("written_at", sa.BigInteger()))
    # Nobody has noted it so far. Where that lies ahead, a claim takes its own moment instead.
    op.execute(
        "update action set written_at = run_at where doubt_since is not null"
        " and state in ('queued', 'dead', 'parked')"
    )


def downgrade() -> None:
    op.drop_column("action", "written_at")
