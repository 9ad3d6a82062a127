"""An index of finished actions with all columns that the console's charts need."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_FINISHED = sa.text("finished_at is not null")


def upgrade() -> None:
    # Instead of the index on finished_at alone, so that a writer has no more indexes to see to:
    # an entry takes 50 bytes and not 27. Of 200,000 actions 30 days are read in 140 ms on
    # PostgreSQL and 260 on SQLite, from the table it was 230 and 830.
    _index(["finished_at", "created_at", "state", "account_id"])


def downgrade() -> None:
    _index(["finished_at"])


def _index(columns: list[str]) -> None:
    op.drop_index("action_finished", "action")
    op.create_index(
        "action_finished", "action", columns, sqlite_where=_FINISHED, postgresql_where=_FINISHED
    )
