"""The field map of each connection, in the format of `crmhub.accounts.field_maps`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # With a default, so that processes of the former version go on opening accounts meanwhile.
    column = sa.Column("field_map", sa.Text(), nullable=False, server_default="{}")
    op.add_column("connection", column)


def downgrade() -> None:
    op.drop_column("connection", "field_map")
