"""A PostgreSQL function that locks an account's catalogue within a statement that writes.

SQLite needs no such function, because it has a single writer at a time.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    # A statement sees what was committed before it began. In here the version is read by another
    # one, which begins once the lock is held: it sees the changes that were waited for.
    op.execute(
        "create function catalogue_held(locks int, of_account int) returns int"
        " language plpgsql volatile as $$ begin"
        " perform pg_advisory_xact_lock_shared(locks, of_account);"
        " return (select catalogue_version from account where id = of_account);"
        " end $$"
    )


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("drop function catalogue_held(int, int)")
