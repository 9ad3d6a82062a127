"""The webhooks that the hub sets up in CRMs: until when they last, and why an attempt failed."""

from __future__ import annotations

from alembic import op

revision = "0035"
down_revision = "0034"

_TABLE = """
create table crm_watch (
    account_id integer not null, connection_id integer not null, state text not null,
    base text not null, set_at bigint, until bigint, failures integer not null,
    failure text not null, run_at bigint not null, lease {key},
    primary key (account_id, connection_id)
)
"""
# A worker deletes the rows of adapters that cannot set webhooks up.
_OF_COPIES = """
insert into crm_watch (account_id, connection_id, state, base, failures, failure, run_at)
select account_id, connection_id, 'on', '', 0, '', min(run_at) from crm_copy
where state <> 'ending' group by account_id, connection_id
"""


def upgrade() -> None:
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    op.execute(_TABLE.format(key='text collate "C"' if is_postgresql else "text"))
    op.execute("create index crm_watch_due on crm_watch (run_at)")
    op.execute(_OF_COPIES)
