"""The time at which each value of a contact was accepted.

With these times, a retry overwrites no newer value with an older one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # JSON: property name to milliseconds since 1970.
    op.add_column("binding", sa.Column("accepted", sa.Text()))


def downgrade() -> None:
    op.drop_column("binding", "accepted")
