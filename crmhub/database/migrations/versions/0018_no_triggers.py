"""The hub itself records which records have changed; the triggers are removed.

A database that distributes tables by account allows no triggers on them. A process of the former
version, which may run on for a moment, records no changes. So the row with account 0, kind 0 and id
0 contains the time of this upgrade, and a worker records the changes since that time
(records/redating.py).
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_INDEXES = ("ix_text", "ix_num", "ix_date")
_TRIGGERS = {"records_changed": "records"} | {f"{table}_undated": table for table in _INDEXES}
_BEHIND = "insert into index_behind (account_id, kind, id, updated_at)"
_LATEST = "on conflict (account_id, kind, id) do update set updated_at = excluded.updated_at;"


def upgrade() -> None:
    if _on_postgresql():
        _lock()
    for name, table in _TRIGGERS.items():
        op.execute(f"drop trigger {name}" + (f" on {table}" if _on_postgresql() else ""))
        if _on_postgresql():
            op.execute(f"drop function {name}")
    op.execute(
        sa.text(f"{_BEHIND} values (0, 0, 0, :now)").bindparams(now=time.time_ns() // 1_000_000)
    )


def downgrade() -> None:
    if _on_postgresql():
        _lock()
    op.execute("delete from index_behind where account_id = 0 and kind = 0 and id = 0")
    _create(
        "records_changed",
        "after update of updated_at on records for each row"
        " when (old.updated_at <> new.updated_at)",
        f"{_BEHIND} values (new.account_id, new.kind, new.id, new.updated_at) {_LATEST}",
    )
    for table in _INDEXES:
        _create(
            f"{table}_undated",
            f"after insert on {table} for each row when (new.updated_at = 0)",
            f"{_BEHIND} select r.account_id, r.kind, r.id, r.updated_at from property_def as p"
            " join records as r on r.account_id = p.account_id and r.kind = p.kind"
            " where p.account_id = new.account_id and p.prop_id = new.prop_id"
            f" and r.id = new.record_id {_LATEST}",
        )


def _lock() -> None:
    """Lock all tables at once; locking one after the other could cause a deadlock."""
    op.execute(
        "do $$ begin"
        " perform set_config('lock_timeout', '500ms', true);"
        " for n in 1..120 loop begin"
        f" lock table records, {', '.join(_INDEXES)} in access exclusive mode;"
        " perform set_config('lock_timeout', '0', true);"
        " return;"
        " exception when lock_not_available or deadlock_detected then perform pg_sleep(0.05);"
        " end; end loop;"
        " raise exception 'the tables of records are in use all the time; stop the service';"
        " end $$"
    )


def _create(name: str, when: str, note: str) -> None:
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
