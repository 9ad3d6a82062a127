"""Property definitions and pipelines of the CRMs, which all processes of the hub share."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_KEY_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "crm_definition",
        sa.Column("account_id", sa.Integer(), primary_key=True),
        sa.Column("connection_id", sa.Integer(), primary_key=True),
        sa.Column("name", _KEY_TEXT, primary_key=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("loaded_at", sa.BigInteger(), nullable=False),
    )
    op.create_index("crm_definition_old", "crm_definition", ["loaded_at"])


def downgrade() -> None:
    op.drop_table("crm_definition")
