"""Archived records are listed in the order in which they were archived."""

from __future__ import annotations

from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    op.execute(
        "create index archived_moment on archived_record (account_id, kind, archived_at, id)"
    )
