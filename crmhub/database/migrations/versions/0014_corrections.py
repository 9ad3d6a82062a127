"""Corrections of actions; actions that no longer wait for a failed action are queued.

`action.versions` contains the requests before each correction, with the time and author of the
correction. `action.corrected` contains the time at which each value was corrected. Before this
version, a failed action blocked all later actions of its contact. From now on it blocks only
actions whose contact does not exist yet, until a lead creates the contact.
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_CORRECTED = sa.text("versions is not null")
_BLOCKED = sa.text("behind is not null")
_KEPT_MS = 7 * 86_400_000
# All others wait for a lead that is dead, and so has created no contact.
_FREE = """update action set state = 'queued', run_at = :now, give_up_at = :give_up, tries = 0,
    finished_at = null, behind = null, reason = ''
    where state = 'parked' and state in ('dead', 'parked') and (
        kind = 'createLead'
        or hub_id not like 'hub-%'
        or exists (select 1 from binding b where b.account_id = action.account_id
            and b.connection_id = action.connection_id and b.hub_id = action.hub_id
            and b.crm_id is not null)
        or not exists (select 1 from action d where d.account_id = action.account_id
            and d.id = action.behind and d.state in ('dead', 'parked')
            and d.kind = 'createLead'))"""


def upgrade() -> None:
    op.add_column("action", sa.Column("versions", sa.Text()))
    op.add_column("action", sa.Column("corrected", sa.Text()))
    # An erasure looks in all of them for the person's values.
    op.create_index(
        "action_corrected",
        "action",
        ["account_id"],
        sqlite_where=_CORRECTED,
        postgresql_where=_CORRECTED,
    )
    # Pages, retries and discards look for what an action blocks; few are blocked.
    op.create_index(
        "action_behind", "action", ["behind"], sqlite_where=_BLOCKED, postgresql_where=_BLOCKED
    )
    _index_stopped("'refused', 'dead', 'parked', 'discarded'")
    now = time.time_ns() // 1_000_000
    op.execute(sa.text(_FREE).bindparams(now=now, give_up=now + _KEPT_MS))


def downgrade() -> None:
    op.execute("update action set state = 'refused' where state = 'discarded'")
    _index_stopped("'refused', 'dead', 'parked'")
    op.drop_index("action_behind", "action")
    op.drop_index("action_corrected", "action")
    op.drop_column("action", "corrected")
    op.drop_column("action", "versions")


def _index_stopped(states: str) -> None:
    stopped = sa.text(f"state in ({states})")
    op.drop_index("action_stopped", "action")
    op.create_index(
        "action_stopped",
        "action",
        ["state", "id"],
        sqlite_where=stopped,
        postgresql_where=stopped,
    )
