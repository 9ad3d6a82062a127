"""Whether a console user has hidden the checklist of first steps."""

from __future__ import annotations

from alembic import op

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    op.execute(
        "alter table console_user add column hides_first_steps boolean not null default false"
    )
