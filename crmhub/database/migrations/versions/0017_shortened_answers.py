"""Whether a stored response for an Idempotency-Key lacks values, which are then read again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "idempotency",
        sa.Column("shortened", sa.Boolean(), nullable=False, server_default=sa.false()),
    )


def downgrade() -> None:
    # A former version would answer without the values.
    op.execute("delete from idempotency where shortened")
    op.drop_column("idempotency", "shortened")
