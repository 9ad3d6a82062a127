"""The active alerts, and the messages that are sent to operators.

`outage.cause` distinguishes a CRM that refuses the credentials from an unavailable CRM. `alert`
contains the active alerts; `told_of` is the time of the newest event in the last message. A row of
`outbox` is a message that is not delivered yet.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("outage", sa.Column("cause", sa.Text(), nullable=False, server_default="away"))
    op.create_table(
        "alert",
        sa.Column("account_id", sa.Integer(), sa.ForeignKey("account.id"), nullable=False),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("told_of", sa.BigInteger(), nullable=False),
        sa.Column("told_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "connection_id", "kind"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("run_at", sa.BigInteger(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("outbox")
    op.drop_table("alert")
    op.drop_column("outage", "cause")
