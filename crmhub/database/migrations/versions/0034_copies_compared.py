"""The share of a copy, doubts of its comparison, and archived records by crm_id."""

from __future__ import annotations

from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    key_text = "text" if on_sqlite else 'text collate "C"'
    numbers = [f"{name} bigint" for name in ("total", "missing", "accepted")]
    for column in (f"compare_after {key_text}", *numbers):
        op.execute(f"alter table crm_copy add column {column}")
    op.execute(
        "create index archived_crm_id on archived_record"
        " (account_id, kind, (properties ->> 'crm_id'))"
    )
