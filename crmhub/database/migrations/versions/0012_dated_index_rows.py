"""The index tables also contain the time of change, by which searches sort their results.

If a record has changed since its index rows were written, `index_behind` lists the record until a
worker has updated the rows. At this migration, all existing records are in that state: updating
millions of rows here would keep the service down for a long time.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_TABLES = ("ix_text", "ix_num", "ix_date")
_BEHIND = "insert into index_behind (account_id, kind, id, updated_at)"
_LATEST = "on conflict (account_id, kind, id) do update set updated_at = excluded.updated_at;"
# Triggers, since a change that the database does not know of puts a record on the wrong page; and a
# former version, which dates no rows, may run on while this one begins.
_CHANGED = (
    "after update of updated_at on records for each row when (old.updated_at <> new.updated_at)"
)
_NOTE_CHANGED = f"{_BEHIND} values (new.account_id, new.kind, new.id, new.updated_at) {_LATEST}"
_UNDATED = "after insert on {} for each row when (new.updated_at = 0)"
_NOTE_UNDATED = (
    f"{_BEHIND} select r.account_id, r.kind, r.id, r.updated_at from property_def as p"
    " join records as r on r.account_id = p.account_id and r.kind = p.kind"
    " where p.account_id = new.account_id and p.prop_id = new.prop_id and r.id = new.record_id"
    f" {_LATEST}"
)


def upgrade() -> None:
    if _on_postgresql():
        _lock()
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
    if _on_postgresql():
        # Nothing stays in it for long, and what is gone is in the way of all who look.
        op.execute("alter table index_behind set (autovacuum_vacuum_scale_factor = 0.1)")
        # A search looks each match up here. PostgreSQL would plan to read an empty table in whole,
        # and keep to that for as long as few come in: so it has some rows of no account.
        op.execute("insert into index_behind select 0, 0, n, 0 from generate_series(1, 1000) as n")
    _trigger("records_changed", _CHANGED, _NOTE_CHANGED)
    for table in _TABLES:
        _trigger(f"{table}_undated", _UNDATED.format(table), _NOTE_UNDATED)


def downgrade() -> None:
    for table, name in (("records", "records_changed"), *((t, f"{t}_undated") for t in _TABLES)):
        op.execute(f"drop trigger {name}" + (f" on {table}" if _on_postgresql() else ""))
        if _on_postgresql():
            op.execute(f"drop function {name}")
    op.drop_table("index_behind")
    for table in _TABLES:
        _key(table, "")
        op.drop_column(table, "updated_at")


def _lock() -> None:
    """Lock all tables at once; locking one after the other could cause a deadlock."""
    op.execute(
        "do $$ begin"
        " perform set_config('lock_timeout', '500ms', true);"
        " for n in 1..120 loop begin"
        f" lock table records, {', '.join(_TABLES)} in access exclusive mode;"
        " perform set_config('lock_timeout', '0', true);"
        " return;"
        " exception when lock_not_available or deadlock_detected then perform pg_sleep(0.05);"
        " end; end loop;"
        " raise exception 'the tables of records are in use all the time; stop the service';"
        " end $$"
    )


def _trigger(name: str, when: str, note: str) -> None:
    if not _on_postgresql():
        op.execute(f"create trigger {name} {when} begin {note} end")
        return
    op.execute(
        f"create function {name}() returns trigger language plpgsql as"
        f" $$ begin {note} return null; end $$"
    )
    op.execute(f"create trigger {name} {when} execute function {name}()")


def _on_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _key(table: str, beside: str) -> None:
    # SQLite's tables are their key's index, and hold all columns there.
    if _on_postgresql():
        op.execute(
            f"alter table {table} drop constraint {table}_pkey, add primary key"
            f" (account_id, prop_id, value, record_id) {beside}"
        )
