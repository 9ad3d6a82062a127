"""Beside each indexed value, when its record was changed, so that what is found is sorted by it.

Where a record was changed since its row was written it stands in `index_behind`, until a worker
has dated its rows anew. All that were there before do: a migration that dated millions of rows
would keep the service shut for as long.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_TABLES = ("ix_text", "ix_num", "ix_date")
_NOTED = (
    "insert into index_behind (account_id, kind, id, updated_at)"
    " values (new.account_id, new.kind, new.id, new.updated_at)"
    " on conflict (account_id, kind, id) do update set updated_at = excluded.updated_at;"
)
_TRIGGER = (
    "create trigger records_changed after update of updated_at on records"
    " for each row when (old.updated_at <> new.updated_at)"
)


def upgrade() -> None:
    for table in _TABLES:
        dated = sa.Column("updated_at", sa.BigInteger(), nullable=False, server_default="0")
        op.add_column(table, dated)
        _key(table, "include (updated_at)")
    op.create_table(
        "index_behind",
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "kind", "id"),
        sqlite_with_rowid=False,
    )
    op.execute("insert into index_behind select account_id, kind, id, updated_at from records")
    # A trigger, since a change that it does not know of puts a record on the wrong page; and a
    # former version may run on while this one begins.
    if not _on_postgresql():
        op.execute(f"{_TRIGGER} begin {_NOTED} end")
        return
    for table in _TABLES:
        # What a former version creates by then is dated as of that moment.
        now = "(extract(epoch from clock_timestamp()) * 1000)::bigint"
        op.execute(f"alter table {table} alter column updated_at set default {now}")
    # Nothing stays in it for long, and what is gone is in the way of all who look.
    op.execute("alter table index_behind set (autovacuum_vacuum_scale_factor = 0.1)")
    # A search looks each match up here. PostgreSQL would plan to read an empty table in whole, and
    # keep to that for as long as few come in: so it has some rows of no account.
    op.execute("insert into index_behind select 0, 0, n, 0 from generate_series(1, 1000) as n")
    op.execute(
        "create function note_index_behind() returns trigger language plpgsql as"
        f" $$ begin {_NOTED} return null; end $$"
    )
    op.execute(f"{_TRIGGER} execute function note_index_behind()")


def downgrade() -> None:
    op.execute("drop trigger records_changed" + (" on records" if _on_postgresql() else ""))
    if _on_postgresql():
        op.execute("drop function note_index_behind")
    op.drop_table("index_behind")
    for table in _TABLES:
        _key(table, "")
        op.drop_column(table, "updated_at")


def _on_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _key(table: str, beside: str) -> None:
    # SQLite's tables are their key's index, and hold all columns there.
    if _on_postgresql():
        op.execute(
            f"alter table {table} drop constraint {table}_pkey, add primary key"
            f" (account_id, prop_id, value, record_id) {beside}"
        )
