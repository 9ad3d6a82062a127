"""The notes and tasks of records."""

from __future__ import annotations

from alembic import op

revision = "0037"
down_revision = "0036"

_TABLE = """
create table timeline_entry (
    account_id integer not null, id bigint not null, connection_id integer not null,
    kind smallint not null, record_id {key} not null, first_record_id {key} not null,
    type text not null, text text not null, author text not null, properties text not null,
    at bigint not null, crm_id {key} not null, mark {key}, created_at bigint not null,
    primary key (account_id, id)
)
"""


def upgrade() -> None:
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    op.execute(_TABLE.format(key='text collate "C"' if is_postgresql else "text"))
    op.execute(
        "create index timeline_of_record on timeline_entry"
        " (account_id, connection_id, kind, record_id, at, id)"
    )
    op.execute(
        "create unique index timeline_mark on timeline_entry (account_id, mark)"
        " where mark is not null"
    )
