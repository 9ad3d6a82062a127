"""Distribution of a PostgreSQL database by account, over the nodes of Citus.

The tables of accounts are distributed by `account_id` and lie together: all rows of an account are
on one node. The tables that find an account are reference tables, copied to each node. All others
stay on the coordinator, to which every process of the hub connects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.database.connection import Connection, Database
from crmhub.database.tables import metadata
from crmhub.errors import BadRequest

REFERENCE = ("account", "api_key", "webhook_id")
"""The tables that each node has a copy of: they find an account."""
LOCAL = (
    "admin_token",
    "alembic_version",
    "alert",
    "audit",
    "console_session",
    "console_user",
    "outbox",
)
"""The tables that only the coordinator has: an operator's, and small ones of all accounts."""
DISTRIBUTED = tuple(
    table.name
    for table in metadata.sorted_tables
    if table.name not in REFERENCE and table.name not in LOCAL
)
"""The tables that are distributed by `account_id`."""
