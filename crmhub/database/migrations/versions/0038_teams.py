"""Teams of owners, their members, and the owners chosen for contacts."""

from __future__ import annotations

from alembic import op

revision = "0038"
down_revision = "0037"

_TABLES = """
create table team (
  account_id integer not null, name {key} not null, position integer not null,
  rotation text not null, days_off text not null, fallback text, last_owner_id {key},
  primary key (account_id, name)){without_rowid};
create table team_member (
  account_id integer not null, team {key} not null, owner_id {key} not null,
  position integer not null, name text not null, email text not null, weight integer not null,
  hours text not null, time_zone text not null, days_off text not null, away_until bigint,
  open_deals integer, leads_per_day integer, credit bigint not null, drawn bigint not null,
  problem text not null, primary key (account_id, team, owner_id)){without_rowid};
create table team_assignment (
  account_id integer not null, action_id {key} not null, team {key} not null,
  owner_id {key} not null, name text not null, email text not null, place integer not null,
  reason text not null, kept boolean not null, confirmed boolean not null, deal_id {key},
  shares text not null, refused text not null, chosen_at bigint not null,
  primary key (account_id, action_id)){without_rowid};
create index team_assignment_owner on team_assignment (account_id, owner_id, chosen_at)
"""


def upgrade() -> None:
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    key = 'text collate "C"' if is_postgresql else "text"
    without_rowid = "" if is_postgresql else " without rowid"
    for statement in _TABLES.format(key=key, without_rowid=without_rowid).split(";"):
        op.execute(statement)
