"""Why actions failed, by which they are grouped, and corrections of whole groups."""

from __future__ import annotations

import json
from importlib import import_module

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0038"

_TABLE = """
create table group_fix (
    account_id integer not null references account (id), id {key} not null, verb text not null,
    cause {key} not null, cause_text text not null, choice text not null, state text not null,
    total integer not null, changed integer not null, skipped integer not null,
    reasons text not null, "after" {key} not null, "until" {key} not null,
    author_kind text not null, author text not null, author_id text not null,
    lease {key}, lease_until bigint not null, created_at bigint not null,
    changed_at bigint not null, primary key (account_id, id)
)
"""
_INDEXES = """
create index action_cause on action (cause, account_id, state, finished_at, created_at, id)
    where cause is not null;
create index action_fix on action (fix, account_id, state) where fix is not null;
create index group_fix_due on group_fix (lease_until) where state in ('queued', 'running');
create index group_fix_id on group_fix (id);
create index group_fix_old on group_fix (changed_at)
"""
_BATCH = 1_000
# By the index of actions with a reason, which is in the order of their ids.
_FAILED = sa.text("""
select a.account_id, a.id, a.kind, a.reason, a.request, a.state, c.adapter,
    (select t.outcome from action_try t where t.account_id = a.account_id and t.action_id = a.id
     order by t.number desc limit 1) as word
from action a join connection c on c.account_id = a.account_id and c.id = a.connection_id
where a.reason <> '' and a.id > :after order by a.id limit :batch
""")
_SET = sa.text(
    "update action set cause = :cause, cause_text = :cause_text"
    " where account_id = :account_id and id = :id"
)
# A blocked action has the cause of the lead that blocks it.
_BLOCKED = """
update action set (cause, cause_text) = (
    select b.cause, b.cause_text from action b
    where b.account_id = action.account_id and b.id = action.behind
) where state = 'parked' and behind is not null
"""


def upgrade() -> None:
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    key = 'text collate "C"' if is_postgresql else "text"
    for column in (f"cause {key}", "cause_text text", f"fix {key}"):
        op.execute(f"alter table action add column {column}")
    op.execute(_TABLE.format(key=key))
    _find_causes()
    for index in _INDEXES.split(";"):
        op.execute(index)


def _find_causes() -> None:
    # By name, since the database stands below the queue. The keys must equal those of later
    # outcomes.
    cause_of = import_module("crmhub.queue.causes").cause_of
    db, after = op.get_bind(), ""
    while rows := db.execute(_FAILED, {"after": after, "batch": _BATCH}).all():
        after = rows[-1].id
        found = []
        for row in rows:
            if row.state not in ("running", "queued", "dead") or not row.word:
                continue
            request = json.loads(row.request)
            cause = cause_of(row.adapter, row.kind, row.word, row.reason, request)
            if cause is not None:
                ids = {"account_id": row.account_id, "id": row.id}
                found.append(ids | {"cause": cause.key, "cause_text": cause.to_text()})
        if found:
            db.execute(_SET, found)
    op.execute(_BLOCKED)
