"""Saved views: filters that console users have named."""

from __future__ import annotations

from alembic import op

revision = "0045"
down_revision = "0044"


def upgrade() -> None:
    op.execute("""
create table saved_view (
  id text not null primary key,
  user_id text not null,
  page text not null, name text not null, query text not null, shared boolean not null,
  unique (user_id, page, name),
  foreign key (user_id) references console_user (id) on delete cascade
)
""")
