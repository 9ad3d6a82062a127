"""Notes and tasks: an index for those in CRMs, which are deleted by age; merges store their ids."""

from __future__ import annotations

from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    op.execute("alter table timeline_entry drop column first_record_id")
    op.execute(
        "create index timeline_in_crm on timeline_entry (created_at) where connection_id <> 0"
    )
