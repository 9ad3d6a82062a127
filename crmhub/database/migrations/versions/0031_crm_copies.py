"""The copies of CRMs: what each holds, which records to read again, and what a comparison found."""

from __future__ import annotations

from alembic import op

revision = "0031"
down_revision = "0030"

_TABLES = """
create table crm_copy (
    account_id integer not null, connection_id integer not null, kind smallint not null,
    state text not null, since text not null, began_at bigint, complete_at bigint,
    synced_at bigint, defined_at bigint, defined text not null, loaded bigint not null,
    left_out bigint not null, compare_since text, compared_at bigint,
    differences bigint, failures integer not null, failure text not null, run_at bigint not null,
    lease {key}, primary key (account_id, connection_id, kind)
);
create index crm_copy_due on crm_copy (run_at);
create table crm_copy_hint (
    account_id integer not null, connection_id integer not null, kind smallint not null,
    crm_id {key} not null, told_at bigint not null,
    primary key (account_id, connection_id, kind, crm_id)
);
create table crm_copy_seen (
    account_id integer not null, connection_id integer not null, kind smallint not null,
    crm_id {key} not null, primary key (account_id, connection_id, kind, crm_id)
) {without_rowid};
"""


def upgrade() -> None:
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    words = {
        "key": 'text collate "C"' if is_postgresql else "text",
        "without_rowid": "" if is_postgresql else "without rowid",
    }
    for statement in _TABLES.format(**words).split(";"):
        if statement.strip():
            op.execute(statement)
