"""The reasons of assignments, in a form that can be translated."""

from __future__ import annotations

from alembic import op

revision = "0048"
down_revision = "0047"


def upgrade() -> None:
    op.execute("alter table team_assignment add column text text not null default ''")
