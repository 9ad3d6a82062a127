"""The API key to which an event subscription belongs, and since when queued actions wait."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_COLUMNS = ("account_id", "connection_id", "run_at", "state", "created_at")


def upgrade() -> None:
    op.add_column("event_subscription", sa.Column("key_id", sa.Text()))
    op.add_column("action", sa.Column("queued_at", sa.BigInteger()))
    _index_due(*_COLUMNS, "queued_at")


def downgrade() -> None:
    _index_due(*_COLUMNS)
    op.drop_column("action", "queued_at")
    op.drop_column("event_subscription", "key_id")


def _index_due(*columns: str) -> None:
    op.drop_index("action_due", "action")
    unfinished = sa.text("state in ('running', 'queued')")
    op.create_index(
        "action_due",
        "action",
        [*columns],
        postgresql_where=unfinished,
        sqlite_where=unfinished,
    )
