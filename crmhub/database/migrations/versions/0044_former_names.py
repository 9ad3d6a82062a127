"""The former names of teams."""

from __future__ import annotations

from alembic import op

revision = "0044"
down_revision = "0042"


def upgrade() -> None:
    op.execute("alter table team add column former_names text not null default '[]'")
