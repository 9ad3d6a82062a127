"""What an account's former CRMs keep for 30 days, and requests to connect a CRM by OAuth.

The former connections of today count as left at the time of this upgrade.
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_KEY_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_FORMER = """
insert into past_connection (account_id, connection_id, left_at)
select c.account_id, c.id, :now from connection c join account a on a.id = c.account_id
where c.id <> a.connection_id
and (c.settings <> '{}' or c.credentials <> '' or c.field_map <> '{}')
"""


def upgrade() -> None:
    op.add_column(
        "connection", sa.Column("crm_account", sa.Text(), nullable=False, server_default="")
    )
    op.create_table(
        "past_connection",
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("left_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "connection_id"),
    )
    op.create_index("past_connection_left", "past_connection", ["left_at"])
    op.execute(sa.text(_FORMER).bindparams(now=time.time_ns() // 1_000_000))
    op.create_table(
        "connect_request",
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("id", _KEY_TEXT, nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("account_id", "id"),
    )
    op.create_index("connect_request_expires", "connect_request", ["expires_at"])


def downgrade() -> None:
    op.drop_table("connect_request")
    op.drop_table("past_connection")
    op.drop_column("connection", "crm_account")
