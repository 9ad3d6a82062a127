"""When the copy of a CRM last made progress, for the alert about one that makes none."""

from __future__ import annotations

from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    op.execute("alter table crm_copy add column progress_at bigint")
