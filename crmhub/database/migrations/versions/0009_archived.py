"""An index of the times of archiving, by which a worker deletes records archived 90 days ago."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("archived_record_at", "archived_record", ["archived_at"])


def downgrade() -> None:
    op.drop_index("archived_record_at", "archived_record")
