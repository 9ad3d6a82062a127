"""Event subscriptions of accounts, the events, and their deliveries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

# Compared by code point on both databases, whatever their locale.
_EXACT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_QUEUED = sa.text("state = 'queued'")
_FINISHED = sa.text("finished_at is not null")
_KEPT_SMALL = (
    "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,"
    " autovacuum_analyze_scale_factor = 0.05"
)


def upgrade() -> None:
    op.add_column(
        "account", sa.Column("event_routes", sa.Text(), nullable=False, server_default="")
    )
    op.create_table(
        "event_subscription",
        sa.Column("account_id", sa.Integer(), sa.ForeignKey("account.id"), nullable=False),
        sa.Column("id", _EXACT, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("types", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("state", _EXACT, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("failing_since", sa.BigInteger()),
        sa.Column("paused_until", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "id"),
    )
    op.create_table(
        "event",
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("id", _EXACT, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("subject", _EXACT, nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "id"),
    )
    op.create_index("event_subject", "event", ["account_id", "subject"])
    op.create_index("event_created", "event", ["created_at"])
    op.create_table(
        "event_delivery",
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("event_id", _EXACT, nullable=False),
        sa.Column("subscription_id", _EXACT, nullable=False),
        sa.Column("subject", _EXACT, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("state", _EXACT, nullable=False),
        sa.Column("run_at", sa.BigInteger(), nullable=False),
        sa.Column("lease", sa.Text()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("give_up_at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("account_id", "event_id", "subscription_id"),
    )
    of_subscription = ["account_id", "subscription_id"]
    op.create_index(
        "event_delivery_due",
        "event_delivery",
        [*of_subscription, "run_at"],
        sqlite_where=_QUEUED,
        postgresql_where=_QUEUED,
    )
    op.create_index(
        "event_delivery_order",
        "event_delivery",
        [*of_subscription, "subject", "position", "event_id"],
        sqlite_where=_QUEUED,
        postgresql_where=_QUEUED,
    )
    op.create_index("event_delivery_listed", "event_delivery", [*of_subscription, "created_at"])
    op.create_index(
        "event_delivery_finished",
        "event_delivery",
        ["finished_at"],
        sqlite_where=_FINISHED,
        postgresql_where=_FINISHED,
    )
    if op.get_bind().dialect.name == "postgresql":
        for table in ("event", "event_delivery"):
            op.execute(f"alter table {table} set ({_KEPT_SMALL})")


def downgrade() -> None:
    for table in ("event_delivery", "event", "event_subscription"):
        op.drop_table(table)
    op.drop_column("account", "event_routes")
