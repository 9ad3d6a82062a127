"""The index of the action ids also contains the helper, so that lists of one helper use it."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A helper that nobody calls was looked for in every row. It is written once, as the id is.
    _index(["id", "kind"])


def downgrade() -> None:
    _index(["id"])


def _index(columns: list[str]) -> None:
    op.drop_index("action_id", "action")
    op.create_index("action_id", "action", columns)
