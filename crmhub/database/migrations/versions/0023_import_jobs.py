"""Imports of CSV files that the console starts and a worker runs, with the uploaded files."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

# Compared by code point on both databases, whatever their locale.
_EXACT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_DUE = sa.text("state in ('queued', 'running')")


def upgrade() -> None:
    op.create_table(
        "import_job",
        sa.Column("account_id", sa.Integer(), sa.ForeignKey("account.id"), nullable=False),
        sa.Column("id", _EXACT, nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("file_name", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("updated", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("author_kind", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("author_id", sa.Text(), nullable=False),
        sa.Column("lease", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "id"),
    )
    op.create_index(
        "import_job_due",
        "import_job",
        ["changed_at"],
        sqlite_where=_DUE,
        postgresql_where=_DUE,
    )
    op.create_index("import_job_old", "import_job", ["changed_at"])
    op.create_table(
        "import_part",
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("job_id", _EXACT, nullable=False),
        sa.Column("role", _EXACT, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "job_id", "role", "number"),
    )


def downgrade() -> None:
    op.drop_table("import_part")
    op.drop_table("import_job")
