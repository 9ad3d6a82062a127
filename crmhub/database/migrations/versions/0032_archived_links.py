"""Links of archived records, and the order in which archived records are listed."""

from __future__ import annotations

from alembic import op

revision = "0032"
down_revision = "0031"

_STATEMENTS = """
create table archived_association (
    account_id integer not null, from_kind smallint not null, from_id bigint not null,
    to_kind smallint not null, to_id bigint not null,
    primary key (account_id, from_kind, from_id, to_kind, to_id)
) {without_rowid};
create index archived_created on archived_record (account_id, kind, created_at, id, archived_at);
create index archived_updated on archived_record (account_id, kind, updated_at, id, archived_at)
"""


def upgrade() -> None:
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    statements = _STATEMENTS.format(without_rowid="without rowid" if on_sqlite else "")
    for statement in statements.split(";"):
        op.execute(statement)
