"""The language of console users."""

from __future__ import annotations

from alembic import op

revision = "0047"
down_revision = "0046"


def upgrade() -> None:
    op.execute("alter table console_user add column language text not null default ''")
