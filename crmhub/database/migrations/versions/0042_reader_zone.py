"""The time zone of console users."""

from __future__ import annotations

from alembic import op

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    op.execute("alter table console_user add column time_zone text not null default ''")
