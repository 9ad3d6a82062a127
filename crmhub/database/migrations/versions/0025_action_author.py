"""The author of an action: the API key or the command with which an agent made it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("action", sa.Column("author", sa.Text()))


def downgrade() -> None:
    op.drop_column("action", "author")
