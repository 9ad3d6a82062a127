"""Comparisons of copies doubt a CRM that lacks too much; archived records are found by crm_id."""

from __future__ import annotations

from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    key_text = "text" if on_sqlite else 'text collate "C"'
    for column in (f"compare_after {key_text}", "missing bigint", "accepted bigint"):
        op.execute(f"alter table crm_copy add column {column}")
    op.execute(
        "create index archived_crm_id on archived_record"
        " (account_id, kind, (properties ->> 'crm_id'))"
    )
