"""The API key to which an event subscription belongs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("event_subscription", sa.Column("key_id", sa.Text()))


def downgrade() -> None:
    op.drop_column("event_subscription", "key_id")
