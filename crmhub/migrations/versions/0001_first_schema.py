"""The first schema: accounts, records with their index tables, bindings, enrolments.

`account_id` comes first in every key of the tables that grow, every statement on them touches
one account, and no sequence is shared between accounts, so they can be distributed by it. The
few that find an account (`account`, `api_key`, `webhook_id`, `binding` by token) are the
exceptions. Times are milliseconds since 1970 in UTC. `kind` is the number of a resource
(records/kinds.py).
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import DOUBLE_PRECISION, JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Compared by code point on both databases, whatever their locale.
EXACT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
JSON = sa.Text().with_variant(JSONB(), "postgresql")
DOUBLE: sa.types.TypeEngine[float] = sa.REAL().with_variant(DOUBLE_PRECISION(), "postgresql")
ID = sa.BigInteger()
MS = sa.BigInteger()


def _account() -> sa.Column[int]:
    return sa.Column("account_id", sa.Integer(), nullable=False)


def _kind(name: str = "kind") -> sa.Column[int]:
    return sa.Column(name, sa.SmallInteger(), nullable=False)


def upgrade() -> None:
    _accounts()
    _catalogue()
    _records()
    _index_tables()
    _helpers()


def _accounts() -> None:
    op.create_table(
        "account",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("client_id", EXACT, nullable=False, unique=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("switches", sa.Text(), nullable=False),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("catalogue_version", sa.Integer(), nullable=False),
        sa.Column("next_prop_id", sa.Integer(), nullable=False),
        sa.Column("pipelines_edited", sa.Boolean(), nullable=False),
        sa.Column("disabled_at", MS),
        sa.Column("created_at", MS, nullable=False),
    )
    op.create_table(
        "connection",
        _account(),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("adapter", sa.Text(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("credentials", sa.Text(), nullable=False),
        sa.Column("created_at", MS, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "id"),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"]),
    )
    op.create_table(
        "api_key",
        sa.Column("digest", EXACT, primary_key=True),
        _account(),
        sa.Column("id", EXACT, nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("created_at", MS, nullable=False),
        sa.Column("expires_at", MS),
        sa.Column("revoked_at", MS),
        sa.Column("last_used_at", MS),
        sa.UniqueConstraint("account_id", "id"),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"]),
    )
    op.create_table(
        "webhook_id",
        sa.Column("value", EXACT, primary_key=True),
        _account(),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("created_at", MS, nullable=False),
        sa.Column("expires_at", MS),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"]),
    )
    op.create_index("webhook_id_account", "webhook_id", ["account_id", "purpose"])


def _catalogue() -> None:
    op.create_table(
        "property_def",
        _account(),
        sa.Column("prop_id", sa.Integer(), nullable=False),
        _kind(),
        sa.Column("name", EXACT, nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("required", sa.Boolean(), nullable=False),
        sa.Column("is_unique", sa.Boolean(), nullable=False),
        sa.Column("read_only", sa.Boolean(), nullable=False),
        sa.Column("built_in", sa.Boolean(), nullable=False),
        sa.Column("any_case", sa.Boolean(), nullable=False),
        sa.Column("options_from", sa.Text(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "prop_id"),
        sa.UniqueConstraint("account_id", "kind", "name"),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"]),
    )
    op.create_table(
        "pipeline",
        _account(),
        _kind(),
        sa.Column("id", EXACT, nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("stages", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "kind", "id"),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"]),
    )


def _records() -> None:
    op.create_table(
        "records",
        _account(),
        _kind(),
        sa.Column("id", ID, nullable=False),
        sa.Column("created_at", MS, nullable=False),
        sa.Column("updated_at", MS, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("properties", JSON, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "kind", "id"),
    )
    op.create_index("records_updated", "records", ["account_id", "kind", "updated_at", "id"])
    op.create_index("records_created", "records", ["account_id", "kind", "created_at", "id"])
    op.create_table(
        "archived_record",
        _account(),
        _kind(),
        sa.Column("id", ID, nullable=False),
        sa.Column("archived_at", MS, nullable=False),
        sa.Column("created_at", MS, nullable=False),
        sa.Column("updated_at", MS, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("properties", JSON, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "kind", "id"),
    )
    op.create_table(
        "association",
        _account(),
        _kind("from_kind"),
        sa.Column("from_id", ID, nullable=False),
        _kind("to_kind"),
        sa.Column("to_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "from_kind", "from_id", "to_kind", "to_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "record_count",
        _account(),
        _kind(),
        sa.Column("shard", sa.SmallInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "kind", "shard"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "id_block",
        _account(),
        _kind(),
        sa.Column("next_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "kind"),
        sqlite_with_rowid=False,
    )


def _index_tables() -> None:
    """One row per indexed value; the whole row is the key, so counts read the index alone.

    `ix_text.value` holds the first 255 characters. `full_value` is set where there are more,
    `folded` where the case-folded whole differs from the value: both beside the key.
    """
    beside_key: dict[str, tuple[Any, list[sa.Column[str]]]] = {
        "ix_text": (EXACT, [sa.Column("full_value", EXACT), sa.Column("folded", EXACT)]),
        "ix_num": (DOUBLE, []),
        "ix_date": (sa.Integer(), []),
    }
    for table, (value_type, columns) in beside_key.items():
        op.create_table(
            table,
            _account(),
            sa.Column("prop_id", sa.Integer(), nullable=False),
            sa.Column("value", value_type, nullable=False),
            sa.Column("record_id", ID, nullable=False),
            *columns,
            sa.PrimaryKeyConstraint("account_id", "prop_id", "value", "record_id"),
            sqlite_with_rowid=False,
        )
    op.create_table(
        "unique_value",
        _account(),
        sa.Column("prop_id", sa.Integer(), nullable=False),
        sa.Column("value", EXACT, nullable=False),
        sa.Column("record_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "prop_id", "value"),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name == "postgresql":
        # Index-only counts need a fresh visibility map: vacuum after 1 % instead of 20 %.
        for table in ("records", "ix_text", "ix_num", "ix_date"):
            op.execute(
                f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.01,"
                " autovacuum_vacuum_insert_scale_factor = 0.01,"
                " autovacuum_analyze_scale_factor = 0.02)"
            )


def _helpers() -> None:
    op.create_table(
        "binding",
        _account(),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("hub_id", EXACT, nullable=False),
        sa.Column("contact_token", EXACT),
        sa.Column("crm_id", EXACT),
        sa.Column("email", EXACT),
        sa.Column("phone", EXACT),
        sa.Column("last_chat_at", MS),
        sa.Column("last_values", sa.Text()),
        sa.Column("created_at", MS, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "connection_id", "hub_id"),
        sa.UniqueConstraint("account_id", "connection_id", "contact_token"),
    )
    op.create_index("binding_crm_id", "binding", ["account_id", "connection_id", "crm_id"])
    op.create_index("binding_email", "binding", ["account_id", "connection_id", "email"])
    op.create_index("binding_phone", "binding", ["account_id", "connection_id", "phone"])
    # Finds the account of a bare token (the one lookup that crosses accounts).
    op.create_index("binding_token", "binding", ["contact_token", "account_id"])
    op.create_table(
        "enrolment",
        _account(),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("contact_id", EXACT, nullable=False),
        sa.Column("workflow_id", EXACT, nullable=False),
        sa.Column("enrolled_at", MS, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "connection_id", "contact_id", "workflow_id"),
    )


def downgrade() -> None:
    raise NotImplementedError("this is the first schema: drop the database instead")
