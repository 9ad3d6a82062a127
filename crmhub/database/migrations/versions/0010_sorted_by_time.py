"""The index by time of creation also contains the time of change, and the other way round.

So PostgreSQL can find the records of a range of one time, and sort them by the other time, without
reading the table.
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_INDEXES = {
    "records_created": ("created_at", "updated_at"),
    "records_updated": ("updated_at", "created_at"),
}


def upgrade() -> None:
    # With such an index SQLite, which has no statistics, would read through all of it instead of
    # looking a few ids up.
    if op.get_bind().dialect.name == "sqlite":
        return
    for name, (sort, beside) in _INDEXES.items():
        op.drop_index(name, "records")
        columns = ["account_id", "kind", sort, "id"]
        op.create_index(name, "records", columns, postgresql_include=[beside])


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        return
    for name, (sort, _) in _INDEXES.items():
        op.drop_index(name, "records")
        op.create_index(name, "records", ["account_id", "kind", sort, "id"])
