"""Fingerprints of the secrets with which a database is used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_KEY_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "key_fingerprint",
        sa.Column("name", _KEY_TEXT, primary_key=True),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("made_in", sa.Text(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("key_fingerprint")
