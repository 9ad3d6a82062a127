"""The first schema: accounts, records with their index tables, bindings, enrolments.

In a table that grows with the accounts, `account_id` is the first column of each key, and no
sequence is shared between accounts. So the tables can be distributed by account. The tables that
find an account (`account`, `api_key`, `webhook_id`, and `binding` by its token) are the exceptions.
Times are milliseconds since 1970 in UTC. `kind` is the code of a kind of record
(properties/kinds.py).
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
    _answers()
    _helpers()
    _rotation()
    _calls_to_crms()
    _journal()


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
    # The operator's own, bound to no account.
    op.create_table(
        "admin_token",
        sa.Column("digest", EXACT, primary_key=True),
        sa.Column("id", EXACT, nullable=False, unique=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("created_at", MS, nullable=False),
        sa.Column("expires_at", MS),
        sa.Column("revoked_at", MS),
        sa.Column("last_used_at", MS),
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
        # What a search sorts by, so that ids are sorted without a look at the documents.
        sa.PrimaryKeyConstraint(
            "account_id", "kind", "id", postgresql_include=["created_at", "updated_at"]
        ),
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
    """Create the index tables, which have one row for each indexed value.

    The whole row is the key, so that PostgreSQL can count with the index alone. `ix_text.value`
    contains the first 255 characters of a text. `full_value` contains the whole text if it is
    longer, and `folded` the case-folded text if it differs from the text.
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
        # Index-only counts need a fresh visibility map, and a changed value spoils it for the
        # whole page: of 200,000 values counted in 39 ms, 45 ms after 400 changes, 66 after 2,000,
        # 126 after 12,000 (1 % of the table's rows, as each contact has several), 196 after
        # 40,000. What is inserted spoils as much where it fills the room of rows that are gone.
        for table, dead in (("records", 0.01), *((name, 0.002) for name in beside_key)):
            op.execute(
                f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = {dead},"
                " autovacuum_vacuum_insert_scale_factor = 0.01,"
                " autovacuum_analyze_scale_factor = 0.02)"
            )


def _answers() -> None:
    """Create the table of the responses to requests that have the header Idempotency-Key."""
    op.create_table(
        "idempotency",
        _account(),
        sa.Column("key", EXACT, nullable=False),
        sa.Column("fingerprint", EXACT, nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", MS, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "key"),
    )
    op.create_index("idempotency_created", "idempotency", ["created_at"])


def _helpers() -> None:
    op.create_table(
        "binding",
        _account(),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("hub_id", EXACT, nullable=False),
        sa.Column("person", EXACT, nullable=False),
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
    # The connection last: operators look for a phone in all of them.
    op.create_index("binding_phone", "binding", ["account_id", "phone", "connection_id"])
    op.create_index("binding_person", "binding", ["account_id", "connection_id", "person"])
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


def _rotation() -> None:
    """Create the tables of the helper getRandomInt: its ranges, and the numbers that contacts keep.

    `draws` counts the draws from a range. `draws` and the seed determine the number of each draw.
    `draws` is reset to 0 when the strategy changes. The table stores only a hash of a contact's id.
    """
    op.create_table(
        "rotation",
        _account(),
        sa.Column("smallest", sa.BigInteger(), nullable=False),
        sa.Column("largest", sa.BigInteger(), nullable=False),
        sa.Column("strategy", EXACT, nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("draws", sa.BigInteger(), nullable=False),
        sa.Column("used_at", MS, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "smallest", "largest"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "kept_number",
        _account(),
        sa.Column("contact", EXACT, nullable=False),
        sa.Column("smallest", sa.BigInteger(), nullable=False),
        sa.Column("largest", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.Column("used_at", MS, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "contact", "smallest", "largest"),
        sqlite_with_rowid=False,
    )
    op.create_index("kept_number_used", "kept_number", ["account_id", "used_at"])


def _calls_to_crms() -> None:
    """Create the tables by which processes coordinate their calls to a CRM."""
    op.create_table(
        "lease",
        _account(),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("key", EXACT, nullable=False),
        sa.Column("token", EXACT, nullable=False),
        sa.Column("expires_at", MS, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "connection_id", "key"),
        sqlite_with_rowid=False,
    )
    # Written at each call and worthless after a crash: without PostgreSQL's log it costs no fsync.
    postgresql = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "budget",
        _account(),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("lane", EXACT, nullable=False),
        sa.Column("tat", DOUBLE, nullable=False),
        sa.Column("burst", sa.Integer(), nullable=False),
        sa.Column("step", DOUBLE, nullable=False),
        sa.Column("paused_until", DOUBLE, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "connection_id", "lane"),
        sqlite_with_rowid=False,
        prefixes=["UNLOGGED"] if postgresql else [],
    )


def _journal() -> None:
    """Create the journal: one row for each action that a helper accepted, and one for each attempt.

    `run_at` is the time at which the next attempt is due or, during an attempt, at which its lease
    ends. `doubt_since` is the start of the first attempt whose write may or may not have happened.
    `request` contains the call of the bot, and `mapped` the properties that the last attempt passed
    to the adapter.
    """
    op.create_table(
        "action",
        _account(),
        sa.Column("id", EXACT, nullable=False),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("person", EXACT, nullable=False),
        sa.Column("hub_id", EXACT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("mapped", sa.Text()),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("run_at", MS, nullable=False),
        sa.Column("lease", EXACT),
        sa.Column("give_up_at", MS, nullable=False),
        sa.Column("doubt_since", MS),
        sa.Column("behind", EXACT),
        sa.Column("identity", EXACT),
        sa.Column("idempotency_key", EXACT),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("result", sa.Text()),
        sa.Column("created_at", MS, nullable=False),
        sa.Column("finished_at", MS),
        sa.PrimaryKeyConstraint("account_id", "id"),
        sa.UniqueConstraint("account_id", "idempotency_key"),
    )
    unfinished = sa.text("state in ('running', 'queued')")
    for name, columns, only in (
        # The state and the age are there for whoever counts what waits.
        (
            "action_due",
            ["account_id", "connection_id", "run_at", "state", "created_at"],
            unfinished,
        ),
        ("action_stuck", ["state", "created_at"], sa.text("state in ('dead', 'parked')")),
        ("action_turn", ["account_id", "person", "id"], unfinished),
        ("action_person", ["account_id", "person", "created_at"], None),
        ("action_identity", ["account_id", "identity"], sa.text("identity is not null")),
        # Ids sort by time: lists of all accounts, and the one lookup without an account. Within an
        # account the primary key does.
        ("action_id", ["id"], None),
        # What operators look for among much that is done.
        ("action_stopped", ["state", "id"], sa.text("state in ('refused', 'dead', 'parked')")),
        ("action_reason", ["id"], sa.text("reason <> ''")),
        ("action_finished", ["finished_at"], sa.text("finished_at is not null")),
    ):
        op.create_index(name, "action", columns, sqlite_where=only, postgresql_where=only)
    if op.get_bind().dialect.name == "postgresql":
        # What is due is looked for past the entries of what was due: with 240,000 actions 0.9 ms
        # after 40,000 more were done, 0.06 after 4,000.
        op.execute("ALTER TABLE action SET (autovacuum_vacuum_scale_factor = 0.02)")
    op.create_table(
        "action_try",
        _account(),
        sa.Column("action_id", EXACT, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("began_at", MS, nullable=False),
        sa.Column("ms", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("correlation_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "action_id", "number"),
    )
    op.create_table(
        "outage",
        _account(),
        sa.Column("connection_id", sa.Integer(), nullable=False),
        sa.Column("since", MS, nullable=False),
        sa.Column("until", MS, nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "connection_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "mark",
        _account(),
        sa.Column("mark", EXACT, nullable=False),
        _kind(),
        sa.Column("record_id", ID, nullable=False),
        sa.Column("created_at", MS, nullable=False),
        sa.PrimaryKeyConstraint("account_id", "mark"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    raise NotImplementedError("this is the first schema: drop the database instead")
