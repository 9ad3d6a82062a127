"""The database tables, their keys, and the indexes that queries need.

In a table that grows with the accounts, `account_id` comes first in each key, and no sequence is
shared, so that it can be distributed by account; see `ROUTING`. `MS` columns are ms since 1970;
`kind` is the code of a kind of record (properties/kinds.py).

Migrations create these tables; a test compares both. They alone hold autovacuum settings,
functions, and columns included in a primary key.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import DOUBLE_PRECISION, JSONB

metadata = sa.MetaData()

# Compared by code point on both databases, whatever their locale.
KEY_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
JSON = sa.Text().with_variant(JSONB(), "postgresql")
DOUBLE: sa.types.TypeEngine[float] = sa.REAL().with_variant(DOUBLE_PRECISION(), "postgresql")
ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MS = sa.BigInteger()


def _index(name: str, columns: str, *expressions: sa.TextClause, **options: Any) -> sa.Index:
    return sa.Index(name, *columns.split(), *expressions, **options)


def _partial(name: str, columns: str, rows: str, **options: Any) -> sa.Index:
    where = sa.text(rows)
    return _index(name, columns, postgresql_where=where, sqlite_where=where, **options)


def _user_id(**options: Any) -> sa.Column[str]:
    user = sa.ForeignKey("console_user.id", ondelete="CASCADE")
    return sa.Column("user_id", sa.Text, user, **options)


# --- Accounts and who is calling --------------------------------------------------------------

account = sa.Table(
    "account",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("client_id", KEY_TEXT, nullable=False, unique=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("plan", sa.Text, nullable=False),
    # JSON: how the account's helpers and writes behave (accounts/switches.py).
    sa.Column("switches", sa.Text, nullable=False),
    sa.Column("connection_id", sa.Integer, nullable=False),
    # Grows with each change of properties or pipelines: caches compare it.
    sa.Column("catalogue_version", sa.Integer, nullable=False),
    sa.Column("next_prop_id", sa.Integer, nullable=False),
    # Whether an operator has changed a pipeline: bots then add no stages.
    sa.Column("pipelines_edited", sa.Boolean, nullable=False),
    sa.Column("disabled_at", MS),
    sa.Column("created_at", MS, nullable=False),
    # JSON (accounts/event_routes.py); `catalogue_version` grows with each change.
    sa.Column("event_routes", sa.Text, nullable=False, server_default=""),
)
"""Accounts: each is a tenant with its plan, its switches and its current connection."""

connection = sa.Table(
    "connection",
    metadata,
    sa.Column("account_id", sa.Integer, sa.ForeignKey("account.id"), primary_key=True),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("adapter", sa.Text, nullable=False),
    # JSON, without secrets; `credentials` is sealed.
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("credentials", sa.Text, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    # JSON: what bots call a property or a value, and what the CRM calls it.
    sa.Column("field_map", sa.Text, nullable=False, server_default="{}"),
    # The account in the CRM, as it named itself when it was connected by OAuth; else "".
    sa.Column("crm_account", sa.Text, nullable=False, server_default=""),
    # `test_error` of the last connection test is '' if it passed.
    sa.Column("settings_at", MS),
    sa.Column("tested_at", MS),
    sa.Column("test_error", sa.Text),
)
"""Connections of accounts to a CRM; an account that changes its CRM gets a new connection."""

past_connection = sa.Table(
    "past_connection",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    sa.Column("left_at", MS, nullable=False),
    sa.Index("past_connection_left", "left_at"),
)
"""Connections that accounts have left, as long as their settings and credentials are kept."""

crm_definition = sa.Table(
    "crm_definition",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    sa.Column("name", KEY_TEXT, primary_key=True),
    # JSON, as `adapter.remembered` writes it.
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("loaded_at", MS, nullable=False),
    sa.Index("crm_definition_old", "loaded_at"),
)
"""What adapters have read of their CRMs and all processes use, such as property definitions."""

connect_request = sa.Table(
    "connect_request",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("id", KEY_TEXT, primary_key=True),
    # Sealed JSON: the CRM to connect, the person who asked for it, and the PKCE verifier.
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("expires_at", MS, nullable=False),
    sa.Column("used_at", MS),
    sa.Index("connect_request_expires", "expires_at"),
)
"""Requests to connect an account by OAuth: links for customers, and visits to the CRM's page."""

api_key = sa.Table(
    "api_key",
    metadata,
    sa.Column("digest", KEY_TEXT, primary_key=True),
    sa.Column("account_id", sa.Integer, sa.ForeignKey("account.id"), nullable=False),
    sa.Column("id", KEY_TEXT, nullable=False),
    sa.Column("hint", sa.Text, nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("expires_at", MS),
    sa.Column("revoked_at", MS),
    sa.Column("last_used_at", MS),
    sa.Column("name", sa.Text, nullable=False, server_default=""),
    sa.UniqueConstraint("account_id", "id"),
)
"""Keys of the public API; only the digest of a key is stored."""

admin_token = sa.Table(
    "admin_token",
    metadata,
    sa.Column("digest", KEY_TEXT, primary_key=True),
    sa.Column("id", KEY_TEXT, nullable=False, unique=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("hint", sa.Text, nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("expires_at", MS),
    sa.Column("revoked_at", MS),
    sa.Column("last_used_at", MS),
)
"""Tokens of the admin API, which belong to operators and to no account."""

webhook_id = sa.Table(
    "webhook_id",
    metadata,
    sa.Column("value", KEY_TEXT, primary_key=True),
    sa.Column("account_id", sa.Integer, sa.ForeignKey("account.id"), nullable=False),
    sa.Column("purpose", sa.Text, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("expires_at", MS),
    sa.Index("webhook_id_account", "account_id", "purpose"),
)
"""Identifiers of accounts in the URLs of the chatbot helpers, and their webhook secrets."""

console_user = sa.Table(
    "console_user",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("email", sa.Text, nullable=False, unique=True),
    sa.Column("password", sa.Text, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("disabled_at", MS),
    sa.Column("last_sign_in_at", MS),
    # A role of accounts/roles.py.
    sa.Column("role", sa.Text, nullable=False, server_default="owner"),
    # JSON list of the ids of the user's accounts; null: all accounts.
    sa.Column("accounts", sa.Text),
    # Until when an invited user may join; null once they have joined.
    sa.Column("invited_until", MS),
    # The sealed secret of the second factor, "" without one, and the last accepted time step.
    sa.Column("totp", sa.Text, nullable=False, server_default=""),
    sa.Column("totp_step", MS, nullable=False, server_default="0"),
    # An IANA name; "" for the browser's.
    sa.Column("time_zone", sa.Text, nullable=False, server_default=""),
    # Whether the user has hidden the checklist of the overview.
    sa.Column("hides_first_steps", sa.Boolean, nullable=False, server_default=sa.false()),
    # "en", "es" or "pt"; "" for the browser's.
    sa.Column("language", sa.Text, nullable=False, server_default=""),
)
"""People who may sign in to the console; `password` is "" for a user without a password."""

console_session = sa.Table(
    "console_session",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    _user_id(nullable=False),
    sa.Column("seen_at", MS, nullable=False),
    sa.Column("ends_at", MS, nullable=False),
    sa.Index("ix_console_session_user_id", "user_id"),
)
"""Sessions of signed-in console users; only the digest of the cookie is stored."""

saved_view = sa.Table(
    "saved_view",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    _user_id(nullable=False),
    # The list of the console that the filter belongs to: activity or audit.
    sa.Column("page", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    # The filter, as in a URL.
    sa.Column("query", sa.Text, nullable=False),
    sa.Column("shared", sa.Boolean, nullable=False),
    sa.UniqueConstraint("user_id", "page", "name"),
)
"""Filters that console users have named, for themselves or shared with all."""

console_setup_link = sa.Table(
    "console_setup_link",
    metadata,
    # Always 1: the row's lock lets only one caller use the link.
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("digest", sa.Text, nullable=False),
    # Whether the link works only while there is no console user.
    sa.Column("first_only", sa.Boolean, nullable=False),
    sa.Column("issued_by", sa.Text, nullable=False),
    sa.Column("ends_at", MS, nullable=False),
)
"""The one-time link by which a console user is created; only the digest of its token is stored."""

console_link = sa.Table(
    "console_link",
    metadata,
    sa.Column("digest", KEY_TEXT, primary_key=True),
    _user_id(nullable=False),
    sa.Column("purpose", sa.Text, nullable=False),
    sa.Column("ends_at", MS, nullable=False),
    sa.Index("ix_console_link_user_id", "user_id"),
)
"""One-time links by which a console user sets a password; only the digest is stored."""

console_recovery_code = sa.Table(
    "console_recovery_code",
    metadata,
    _user_id(primary_key=True),
    sa.Column("digest", KEY_TEXT, primary_key=True),
)
"""Unused recovery codes of second factors; only the digest of a code is stored."""

hub_process = sa.Table(
    "hub_process",
    metadata,
    sa.Column("id", KEY_TEXT, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("started_at", MS, nullable=False),
    sa.Column("seen_at", MS, nullable=False),
)
"""The running processes of the hub; each stores that it is alive every half minute."""

key_fingerprint = sa.Table(
    "key_fingerprint",
    metadata,
    # secret_key, or `key` and the id of an encryption key.
    sa.Column("name", KEY_TEXT, primary_key=True),
    sa.Column("fingerprint", sa.Text, nullable=False),
    # The folder in which development has made the secret, "" for one that is given.
    sa.Column("made_in", sa.Text, nullable=False),
)
"""The secrets with which this database is used; the secrets themselves are not stored."""

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", ROW_NUMBER, sa.Identity(always=False), primary_key=True),
    sa.Column("at", MS, nullable=False),
    sa.Column("author_kind", sa.Text, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("author_id", sa.Text, nullable=False),
    sa.Column("verb", sa.Text, nullable=False),
    sa.Column("object", sa.Text, nullable=False),
    sa.Column("object_id", sa.Text, nullable=False),
    sa.Column("account_id", sa.Integer),
    sa.Column("was", sa.Text, nullable=False),
    sa.Column("became", sa.Text, nullable=False),
    sa.Index("audit_account", "account_id", "id"),
)
"""Changes that operators made, with the values before (`was`) and after (`became`).

`account_id` is null if the changed object belongs to no account.
"""

# --- What records may hold --------------------------------------------------------------------

property_def = sa.Table(
    "property_def",
    metadata,
    sa.Column("account_id", sa.Integer, sa.ForeignKey("account.id"), primary_key=True),
    sa.Column("prop_id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.SmallInteger, nullable=False),
    sa.Column("name", KEY_TEXT, nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("required", sa.Boolean, nullable=False),
    sa.Column("is_unique", sa.Boolean, nullable=False),
    sa.Column("read_only", sa.Boolean, nullable=False),
    sa.Column("built_in", sa.Boolean, nullable=False),
    sa.Column("any_case", sa.Boolean, nullable=False),
    # The object whose pipelines are the options, '' for none.
    sa.Column("options_from", sa.Text, nullable=False),
    sa.Column("options", sa.Text, nullable=False),
    sa.UniqueConstraint("account_id", "kind", "name"),
)
"""Definitions of the properties of an account's records."""

pipeline = sa.Table(
    "pipeline",
    metadata,
    sa.Column("account_id", sa.Integer, sa.ForeignKey("account.id"), primary_key=True),
    sa.Column("kind", sa.SmallInteger, primary_key=True),
    sa.Column("id", KEY_TEXT, primary_key=True),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("stages", sa.Text, nullable=False),
)
"""Pipelines of deals or tickets; `stages` contains the stages in order, as JSON."""

# --- Records ----------------------------------------------------------------------------------

records = sa.Table(
    "records",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.SmallInteger, primary_key=True),
    sa.Column("id", sa.BigInteger, primary_key=True),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("updated_at", MS, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    # JSON: the text of each value by the property's name; empty values are left out.
    sa.Column("properties", JSON, nullable=False),
    _index("records_created", "account_id kind created_at id", postgresql_include=["updated_at"]),
    _index("records_updated", "account_id kind updated_at id", postgresql_include=["created_at"]),
)
"""Records (contacts, deals, companies, tickets) that are not archived."""

archived_record = sa.Table(
    "archived_record",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.SmallInteger, primary_key=True),
    sa.Column("id", sa.BigInteger, primary_key=True),
    sa.Column("archived_at", MS, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("updated_at", MS, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("properties", JSON, nullable=False),
    sa.Index("archived_record_at", "archived_at"),
    _index("archived_created", "account_id kind created_at id archived_at"),
    _index("archived_updated", "account_id kind updated_at id archived_at"),
    _index("archived_moment", "account_id kind archived_at id"),
    # A record that the CRM has restored is the archived one again.
    _index("archived_crm_id", "account_id kind", sa.text("(properties ->> 'crm_id')")),
)
"""Archived records, which are deleted permanently after 90 days."""


def _links(name: str) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("account_id", sa.Integer, primary_key=True),
        sa.Column("from_kind", sa.SmallInteger, primary_key=True),
        sa.Column("from_id", sa.BigInteger, primary_key=True),
        sa.Column("to_kind", sa.SmallInteger, primary_key=True),
        sa.Column("to_id", sa.BigInteger, primary_key=True),
        sqlite_with_rowid=False,
    )


association = _links("association")
"""Links between two records; each link is stored as two rows, one in each direction."""

archived_association = _links("archived_association")
"""Former links of archived records, for their restoration; each is stored as two rows."""

unique_value = sa.Table(
    "unique_value",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("prop_id", sa.Integer, primary_key=True),
    sa.Column("value", KEY_TEXT, primary_key=True),
    sa.Column("record_id", sa.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""Values of unique properties, with the ids of the records that have them.

The table's key makes the insertion of a second equal value fail.
"""

record_count = sa.Table(
    "record_count",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.SmallInteger, primary_key=True),
    sa.Column("shard", sa.SmallInteger, primary_key=True),
    sa.Column("n", sa.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""Numbers of unarchived records of each account and kind.

The number of an account and kind is the sum of its rows, which differ in `shard`.
"""

crm_copy = sa.Table(
    "crm_copy",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.SmallInteger, primary_key=True),
    # loading, following or ending (crm/copies.py).
    sa.Column("state", sa.Text, nullable=False),
    # Where the next pull goes on, a text of the adapter's own; "" for the beginning.
    sa.Column("since", sa.Text, nullable=False),
    # When the walk through the CRM's records, or through its changes, began that is under way.
    sa.Column("began_at", MS),
    # When the first load was complete, and up to when the copy has the CRM's changes.
    sa.Column("complete_at", MS),
    sa.Column("synced_at", MS),
    # When the CRM's definitions were read, and of which properties (a digest).
    sa.Column("defined_at", MS),
    sa.Column("defined", sa.Text, nullable=False),
    # Records read by this load, of about so many in the CRM, if it tells.
    sa.Column("loaded", sa.BigInteger, nullable=False),
    sa.Column("total", sa.BigInteger),
    # Values that the hub cannot hold.
    sa.Column("left_out", sa.BigInteger, nullable=False),
    # A comparison of all ids that is under way, and the result of the last one.
    sa.Column("compare_since", sa.Text),
    # Once all pages are read: the last id of the copy alone whose record will be read again.
    sa.Column("compare_after", KEY_TEXT),
    sa.Column("compared_at", MS),
    sa.Column("differences", sa.BigInteger),
    # Records that the CRM seemed to lack, too many to believe; how many an operator believes.
    sa.Column("missing", sa.BigInteger),
    sa.Column("accepted", sa.BigInteger),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("failure", sa.Text, nullable=False),
    # When the next pull is due; of one that is under way, when its lease ends.
    sa.Column("run_at", MS, nullable=False),
    sa.Column("lease", KEY_TEXT),
    # When a page was last stored.
    sa.Column("progress_at", MS),
    sa.Index("crm_copy_due", "run_at"),
)
"""The copy of the CRM's records of one kind: what it holds, and what is to be done next."""

crm_copy_hint = sa.Table(
    "crm_copy_hint",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.SmallInteger, primary_key=True),
    sa.Column("crm_id", KEY_TEXT, primary_key=True),
    sa.Column("told_at", MS, nullable=False),
)
"""Records that have changed in the CRM, or may have: each is read from the CRM once."""

crm_copy_seen = sa.Table(
    "crm_copy_seen",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.SmallInteger, primary_key=True),
    sa.Column("crm_id", KEY_TEXT, primary_key=True),
    sqlite_with_rowid=False,
)
"""The ids that the comparison under way has found in the CRM."""

crm_watch = sa.Table(
    "crm_watch",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    # on or ending (crm/watching.py).
    sa.Column("state", sa.Text, nullable=False),
    # The hub's public address when they were set up.
    sa.Column("base", sa.Text, nullable=False),
    sa.Column("set_at", MS),
    sa.Column("until", MS),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("failure", sa.Text, nullable=False),
    # When the next attempt is due; of one that is under way, when its lease ends.
    sa.Column("run_at", MS, nullable=False),
    sa.Column("lease", KEY_TEXT),
    sa.Index("crm_watch_due", "run_at"),
)
"""The webhooks of a connection that the hub sets up in the CRM, renews and removes."""

id_block = sa.Table(
    "id_block",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.SmallInteger, primary_key=True),
    sa.Column("next_id", sa.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""The next free record id of each account and kind, from which processes reserve blocks."""

mark = sa.Table(
    "mark",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("mark", KEY_TEXT, primary_key=True),
    sa.Column("kind", sa.SmallInteger, nullable=False),
    sa.Column("record_id", sa.BigInteger, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    sqlite_with_rowid=False,
)
"""Marks (unique texts) of the writes that created records.

A repeated write with the same mark creates no second record.
"""

timeline_entry = sa.Table(
    "timeline_entry",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("id", sa.BigInteger, primary_key=True),
    # 0 for a record of the hub, else the connection whose CRM has the record.
    sa.Column("connection_id", sa.Integer, nullable=False),
    sa.Column("kind", sa.SmallInteger, nullable=False),
    sa.Column("record_id", KEY_TEXT, nullable=False),
    # note, transcript or task
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    # JSON: those of a task.
    sa.Column("properties", sa.Text, nullable=False),
    sa.Column("at", MS, nullable=False),
    sa.Column("crm_id", KEY_TEXT, nullable=False),
    sa.Column("mark", KEY_TEXT),
    sa.Column("created_at", MS, nullable=False),
    _index("timeline_of_record", "account_id connection_id kind record_id at id"),
    _partial("timeline_mark", "account_id mark", "mark is not null", unique=True),
    _partial("timeline_in_crm", "created_at", "connection_id <> 0"),
)
"""Notes and tasks of records (records/timeline.py)."""

idempotency = sa.Table(
    "idempotency",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("key", KEY_TEXT, primary_key=True),
    # Of the request: another request under the same key is refused.
    sa.Column("fingerprint", KEY_TEXT, nullable=False),
    sa.Column("status", sa.SmallInteger, nullable=False),
    sa.Column("headers", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    # Whether `body` holds the ids alone, since the answer was too long to keep.
    sa.Column("shortened", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index("idempotency_created", "created_at"),
)
"""Responses to requests that have the header Idempotency-Key; they are stored for a day."""

csv_import = sa.Table(
    "csv_import",
    metadata,
    sa.Column("account_id", sa.Integer, sa.ForeignKey("account.id"), primary_key=True),
    sa.Column("kind", sa.SmallInteger, primary_key=True),
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("choices", sa.Text, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("lines", sa.BigInteger, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("updated", sa.BigInteger, nullable=False),
    sa.Column("refused", sa.BigInteger, nullable=False),
    sa.Column("refused_bytes", sa.BigInteger, nullable=False),
    sa.Column("changed_at", MS, nullable=False),
    sa.Column("ended_at", MS),
)
"""Imports of CSV files, with the progress of each import."""

import_job = sa.Table(
    "import_job",
    metadata,
    sa.Column("account_id", sa.Integer, sa.ForeignKey("account.id"), primary_key=True),
    sa.Column("id", KEY_TEXT, primary_key=True),
    sa.Column("kind", sa.SmallInteger, nullable=False),
    sa.Column("file_name", sa.Text, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    # JSON: the encoding, the delimiter and the options of the import.
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("dry_run", sa.Boolean, nullable=False),
    sa.Column("total", sa.BigInteger, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("updated", sa.BigInteger, nullable=False),
    sa.Column("refused", sa.BigInteger, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("author_kind", sa.Text, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("author_id", sa.Text, nullable=False),
    # The worker that runs the import, and until when no other worker may.
    sa.Column("lease", sa.Text, nullable=False),
    sa.Column("lease_until", MS, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("changed_at", MS, nullable=False),
    _partial("import_job_due", "changed_at", "state in ('queued', 'running')"),
    sa.Index("import_job_old", "changed_at"),
)
"""Imports that the console starts and a worker runs; `csv_import` has their exact progress."""

import_part = sa.Table(
    "import_part",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("job_id", KEY_TEXT, primary_key=True),
    # "file" for the uploaded file, "refused" for the refused rows, "seen" for values of a dry run.
    sa.Column("role", KEY_TEXT, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
"""The uploaded files and the refused rows of imports, in parts."""

# --- What search reads ------------------------------------------------------------------------

ix_text = sa.Table(
    "ix_text",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("prop_id", sa.Integer, primary_key=True),
    # The first 255 characters; `full_value` is the whole text where it is longer.
    sa.Column("value", KEY_TEXT, primary_key=True),
    sa.Column("record_id", sa.BigInteger, primary_key=True),
    sa.Column("full_value", KEY_TEXT),
    # Case-folded text for CONTAINS, where it differs from the text.
    sa.Column("folded", KEY_TEXT),
    sa.Column("updated_at", MS, nullable=False, server_default="0"),
    sqlite_with_rowid=False,
)
"""Index of the text values of records, for searches."""

ix_num = sa.Table(
    "ix_num",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("prop_id", sa.Integer, primary_key=True),
    sa.Column("value", DOUBLE, primary_key=True),
    sa.Column("record_id", sa.BigInteger, primary_key=True),
    sa.Column("updated_at", MS, nullable=False, server_default="0"),
    sqlite_with_rowid=False,
)
"""Index of the number values of records, for searches."""

ix_date = sa.Table(
    "ix_date",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("prop_id", sa.Integer, primary_key=True),
    sa.Column("value", sa.Integer, primary_key=True),
    sa.Column("record_id", sa.BigInteger, primary_key=True),
    sa.Column("updated_at", MS, nullable=False, server_default="0"),
    sqlite_with_rowid=False,
)
"""Index of the date values of records, for searches; a date is stored as `date.toordinal`."""

index_behind = sa.Table(
    "index_behind",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.SmallInteger, primary_key=True),
    sa.Column("id", sa.BigInteger, primary_key=True),
    sa.Column("updated_at", MS, nullable=False),
    sqlite_with_rowid=False,
)
"""Records whose index rows version 0.1.0 has not dated yet; later versions date them at once."""

# --- Helpers ----------------------------------------------------------------------------------

binding = sa.Table(
    "binding",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    # The id that bots get while the CRM has none.
    sa.Column("hub_id", KEY_TEXT, primary_key=True),
    # Actions with the same person run in the order of their acceptance.
    sa.Column("person", KEY_TEXT, nullable=False),
    sa.Column("contact_token", KEY_TEXT),
    # The contact's id in the CRM, empty until it is known.
    sa.Column("crm_id", KEY_TEXT),
    sa.Column("email", KEY_TEXT),
    sa.Column("phone", KEY_TEXT),
    sa.Column("last_chat_at", MS),
    # JSON: the values last sent, or read from the CRM.
    sa.Column("last_values", sa.Text),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("accepted", sa.Text),
    sa.UniqueConstraint("account_id", "connection_id", "contact_token"),
    sa.Index("binding_crm_id", "account_id", "connection_id", "crm_id"),
    sa.Index("binding_email", "account_id", "connection_id", "email"),
    sa.Index("binding_person", "account_id", "connection_id", "person"),
    sa.Index("binding_phone", "account_id", "phone", "connection_id"),
    sa.Index("binding_token", "contact_token", "account_id"),
)
"""Contacts of conversations (`contactToken`) on a connection, with the data that bots sent."""

possible_duplicate = sa.Table(
    "possible_duplicate",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    sa.Column("one", KEY_TEXT, primary_key=True),
    sa.Column("other", KEY_TEXT, primary_key=True),
    # The names of the properties that both contacts share, joined by commas.
    sa.Column("shares", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("found_at", MS, nullable=False),
    sa.Column("decided_at", MS),
    sa.Column("decided_by", sa.Text, nullable=False, server_default=""),
    sa.Column("kept_id", KEY_TEXT),
    sa.Column("merged_id", KEY_TEXT),
    sa.Column("email", KEY_TEXT),
    # JSON: what an unmerge puts back.
    sa.Column("undo", sa.Text),
    _partial("possible_duplicate_email", "account_id connection_id email", "email is not null"),
    _partial(
        "possible_duplicate_kept_id", "account_id connection_id kept_id", "kept_id is not null"
    ),
    _index("possible_duplicate_listed", "account_id connection_id state found_at one other"),
    _partial(
        "possible_duplicate_merged_id",
        "account_id connection_id merged_id",
        "merged_id is not null",
    ),
    sa.Index("possible_duplicate_other", "account_id", "connection_id", "other"),
    _partial("possible_duplicate_undo", "decided_at", "undo is not null"),
)
"""Pairs of contacts that may be the same human being, with the operator's decision."""

enrolment = sa.Table(
    "enrolment",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    sa.Column("contact_id", KEY_TEXT, primary_key=True),
    sa.Column("workflow_id", KEY_TEXT, primary_key=True),
    sa.Column("enrolled_at", MS, nullable=False),
)
"""Enrolments of contacts in workflows, for CRMs that do not report them."""

rotation = sa.Table(
    "rotation",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("smallest", sa.BigInteger, primary_key=True),
    sa.Column("largest", sa.BigInteger, primary_key=True),
    sa.Column("strategy", KEY_TEXT, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("draws", sa.BigInteger, nullable=False),
    sa.Column("used_at", MS, nullable=False),
    sqlite_with_rowid=False,
)
"""Ranges of numbers from which the helper getRandomInt draws, with the number of draws."""

kept_number = sa.Table(
    "kept_number",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("contact", KEY_TEXT, primary_key=True),
    sa.Column("smallest", sa.BigInteger, primary_key=True),
    sa.Column("largest", sa.BigInteger, primary_key=True),
    sa.Column("value", sa.BigInteger, nullable=False),
    sa.Column("used_at", MS, nullable=False),
    sa.Index("kept_number_used", "account_id", "used_at"),
    sqlite_with_rowid=False,
)
"""Numbers that the helper getRandomInt assigned to contacts; a contact keeps its number."""

team = sa.Table(
    "team",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("name", KEY_TEXT, primary_key=True),
    # The first team of an account is its default.
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("rotation", sa.Text, nullable=False),
    # JSON: dates; and who takes over while nobody can: id, name and email, or null.
    sa.Column("days_off", sa.Text, nullable=False),
    sa.Column("fallback", sa.Text),
    sa.Column("last_owner_id", KEY_TEXT),
    # JSON: names that calls may go on sending, the latest first.
    sa.Column("former_names", sa.Text, nullable=False, server_default="[]"),
    sqlite_with_rowid=False,
)
"""Teams of owners, from which the helper assignOwner chooses."""

team_member = sa.Table(
    "team_member",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("team", KEY_TEXT, primary_key=True),
    sa.Column("owner_id", KEY_TEXT, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("weight", sa.Integer, nullable=False),
    # As teams/hours.py reads them; "" for always.
    sa.Column("hours", sa.Text, nullable=False),
    sa.Column("time_zone", sa.Text, nullable=False),
    # JSON: dates.
    sa.Column("days_off", sa.Text, nullable=False),
    sa.Column("away_until", MS),
    sa.Column("open_deals", sa.Integer),
    sa.Column("leads_per_day", sa.Integer),
    # By how many assignments, in parts of teams/rotation.py, the member's share is ahead.
    sa.Column("credit", sa.BigInteger, nullable=False),
    sa.Column("drawn", sa.BigInteger, nullable=False),
    # Why the CRM refused the owner; "" if it did not.
    sa.Column("problem", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)
"""The members of teams."""

team_assignment = sa.Table(
    "team_assignment",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("action_id", KEY_TEXT, primary_key=True),
    sa.Column("team", KEY_TEXT, nullable=False),
    sa.Column("owner_id", KEY_TEXT, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("email", sa.Text, nullable=False),
    # The place in the team, from 1; 0 for a fallback that is no member.
    sa.Column("place", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    # JSON: the reason as it can be translated; "" of older assignments.
    sa.Column("text", sa.Text, nullable=False, server_default=""),
    # Whether the contact had this owner before.
    sa.Column("kept", sa.Boolean, nullable=False),
    # Whether the CRM had told the contact's present owner.
    sa.Column("confirmed", sa.Boolean, nullable=False),
    sa.Column("deal_id", KEY_TEXT),
    # JSON: the shares counted for the draw, by owner id, and the owners that the CRM refused.
    sa.Column("shares", sa.Text, nullable=False),
    sa.Column("refused", sa.Text, nullable=False),
    sa.Column("chosen_at", MS, nullable=False),
    sa.Index("team_assignment_owner", "account_id", "owner_id", "chosen_at"),
    sqlite_with_rowid=False,
)
"""The owners that assignOwner has chosen; deleted with their actions."""

# --- The journal and calls to CRMs ------------------------------------------------------------

action = sa.Table(
    "action",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("id", KEY_TEXT, primary_key=True),
    sa.Column("connection_id", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("person", KEY_TEXT, nullable=False),
    sa.Column("hub_id", KEY_TEXT, nullable=False),
    # running, queued, done, refused, dead, parked or discarded (journal/models.py).
    sa.Column("state", sa.Text, nullable=False),
    # JSON: the call as it was accepted; `mapped` is what the CRM was sent.
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("mapped", sa.Text),
    sa.Column("tries", sa.Integer, nullable=False),
    # When the next attempt is due; of a running action, when its lease ends.
    sa.Column("run_at", MS, nullable=False),
    # Held by whoever attempts it; recording an outcome must bring it back.
    sa.Column("lease", KEY_TEXT),
    sa.Column("give_up_at", MS, nullable=False),
    # When the first attempt began whose write may or may not have happened.
    sa.Column("doubt_since", MS),
    # The failed action that blocks this one.
    sa.Column("behind", KEY_TEXT),
    # Equal for an equal action of the same contact.
    sa.Column("identity", KEY_TEXT),
    sa.Column("idempotency_key", KEY_TEXT),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("result", sa.Text),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("finished_at", MS),
    # JSON: earlier requests, before operators corrected values.
    sa.Column("versions", sa.Text),
    # JSON: when each value was corrected.
    sa.Column("corrected", sa.Text),
    # Until when a write in doubt may have been sent.
    sa.Column("written_at", MS),
    # The id of the API key with which an agent made the call; null for a bot's call.
    sa.Column("author", sa.Text),
    # When it was queued again, by a retry or since it is blocked no more.
    sa.Column("queued_at", MS),
    # Of a failed, blocked or retried action: the key of its cause, equal for the actions of a
    # group, and JSON that says what it is (queue/causes.py).
    sa.Column("cause", KEY_TEXT),
    sa.Column("cause_text", sa.Text),
    # The correction, retry or discard of a whole group that changed it last.
    sa.Column("fix", KEY_TEXT),
    sa.UniqueConstraint("account_id", "idempotency_key"),
    _partial("action_behind", "behind", "behind is not null"),
    _partial(
        "action_cause",
        "cause account_id state finished_at created_at id",
        "cause is not null",
    ),
    _partial("action_corrected", "account_id", "versions is not null"),
    _partial(
        "action_due",
        "account_id connection_id run_at state created_at queued_at",
        "state in ('running', 'queued')",
    ),
    _partial(
        "action_finished", "finished_at created_at state account_id", "finished_at is not null"
    ),
    _partial("action_fix", "fix account_id state", "fix is not null"),
    sa.Index("action_id", "id", "kind"),
    _partial("action_identity", "account_id identity", "identity is not null"),
    sa.Index("action_person", "account_id", "person", "created_at"),
    _partial("action_reason", "id", "reason <> ''"),
    _partial("action_stopped", "state id", "state in ('refused', 'dead', 'parked', 'discarded')"),
    _partial("action_stuck", "state created_at", "state in ('dead', 'parked')"),
    _partial("action_turn", "account_id person id", "state in ('running', 'queued')"),
)
"""Actions that helpers accepted to perform in the CRM, with their state (the journal)."""

action_try = sa.Table(
    "action_try",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("action_id", KEY_TEXT, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("began_at", MS, nullable=False),
    sa.Column("ms", sa.Integer, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("correlation_id", sa.Text, nullable=False),
    # JSON: the HTTP calls of the attempt (adapter/calls.py), without bodies and query values.
    sa.Column("calls", sa.Text),
)
"""Attempts to perform an action, with their outcomes."""

group_fix = sa.Table(
    "group_fix",
    metadata,
    sa.Column("account_id", sa.Integer, sa.ForeignKey("account.id"), primary_key=True),
    # The same in each account that the group has actions of.
    sa.Column("id", KEY_TEXT, primary_key=True),
    # correct, retry or discard.
    sa.Column("verb", sa.Text, nullable=False),
    sa.Column("cause", KEY_TEXT, nullable=False),
    sa.Column("cause_text", sa.Text, nullable=False),
    # JSON: the property and its new values, or a reason; {} once it has ended.
    sa.Column("choice", sa.Text, nullable=False),
    # queued, running, done or stopped.
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("changed", sa.Integer, nullable=False),
    sa.Column("skipped", sa.Integer, nullable=False),
    # JSON: why actions were skipped, with their numbers.
    sa.Column("reasons", sa.Text, nullable=False),
    # The last action that was looked at, and the last one that is.
    sa.Column("after", KEY_TEXT, nullable=False),
    sa.Column("until", KEY_TEXT, nullable=False),
    sa.Column("author_kind", sa.Text, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("author_id", sa.Text, nullable=False),
    # The process that works on it, and until when no other one may.
    sa.Column("lease", KEY_TEXT),
    sa.Column("lease_until", MS, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("changed_at", MS, nullable=False),
    _partial("group_fix_due", "lease_until", "state in ('queued', 'running')"),
    sa.Index("group_fix_id", "id"),
    sa.Index("group_fix_old", "changed_at"),
)
"""Corrections, retries and discards of whole groups of actions, each in one row per account."""

outage = sa.Table(
    "outage",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    sa.Column("since", MS, nullable=False),
    sa.Column("until", MS, nullable=False),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    # credentials where the CRM refuses them, else away.
    sa.Column("cause", sa.Text, nullable=False, server_default="away"),
    sqlite_with_rowid=False,
)
"""Connections whose circuit breaker is open, or that must pause their calls to the CRM."""

lease = sa.Table(
    "lease",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    sa.Column("key", KEY_TEXT, primary_key=True),
    sa.Column("token", KEY_TEXT, nullable=False),
    sa.Column("expires_at", MS, nullable=False),
    sqlite_with_rowid=False,
)
"""Leases: locks that expire. A process holds a lease while it calls a CRM."""

budget = sa.Table(
    "budget",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    sa.Column("lane", KEY_TEXT, primary_key=True),
    sa.Column("tat", DOUBLE, nullable=False),
    sa.Column("burst", sa.Integer, nullable=False),
    sa.Column("step", DOUBLE, nullable=False),
    sa.Column("paused_until", DOUBLE, nullable=False),
    sqlite_with_rowid=False,
)
"""Rate limits of calls to a CRM, by connection and lane (a generic cell rate algorithm).

`tat` is the theoretical arrival time of the next call.
"""

alert = sa.Table(
    "alert",
    metadata,
    sa.Column("account_id", sa.Integer, sa.ForeignKey("account.id"), primary_key=True),
    sa.Column("connection_id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("since", MS, nullable=False),
    sa.Column("told_of", sa.BigInteger, nullable=False),
    sa.Column("told_at", MS, nullable=False),
)
"""Active alerts; `told_of` is the time of the newest event in the last message to operators."""

event_subscription = sa.Table(
    "event_subscription",
    metadata,
    sa.Column("account_id", sa.Integer, sa.ForeignKey("account.id"), primary_key=True),
    sa.Column("id", KEY_TEXT, primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    # Names of event types, separated by blanks.
    sa.Column("types", sa.Text, nullable=False),
    # Sealed.
    sa.Column("secret", sa.Text, nullable=False),
    sa.Column("state", KEY_TEXT, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    # Calls that have failed since the last success, and since when.
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("failing_since", MS),
    sa.Column("paused_until", MS, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("changed_at", MS, nullable=False),
    # The API key with which it ends; none if an operator made it.
    sa.Column("key_id", sa.Text),
)
"""Subscriptions of accounts to events, each with the address that the events are sent to."""

event = sa.Table(
    "event",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("id", KEY_TEXT, primary_key=True),
    sa.Column("type", sa.Text, nullable=False),
    # What it happened to, such as "contacts:17": events of one subject are delivered in order.
    sa.Column("subject", KEY_TEXT, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    sa.Index("event_subject", "account_id", "subject"),
    sa.Index("event_created", "created_at"),
)
"""Events that at least one subscription gets."""

_QUEUED_DELIVERY = "state = 'queued'"
event_delivery = sa.Table(
    "event_delivery",
    metadata,
    sa.Column("account_id", sa.Integer, primary_key=True),
    sa.Column("event_id", KEY_TEXT, primary_key=True),
    sa.Column("subscription_id", KEY_TEXT, primary_key=True),
    sa.Column("subject", KEY_TEXT, nullable=False),
    # The order of the deliveries of one subject.
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("state", KEY_TEXT, nullable=False),
    # When it is due, or when its lease ends.
    sa.Column("run_at", MS, nullable=False),
    sa.Column("lease", sa.Text),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("give_up_at", MS, nullable=False),
    sa.Column("status", sa.Integer),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("finished_at", MS),
    _partial("event_delivery_due", "account_id subscription_id run_at", _QUEUED_DELIVERY),
    _partial(
        "event_delivery_order",
        "account_id subscription_id subject position event_id",
        _QUEUED_DELIVERY,
    ),
    sa.Index("event_delivery_listed", "account_id", "subscription_id", "created_at"),
    _partial("event_delivery_finished", "finished_at", "finished_at is not null"),
)
"""Deliveries of events: `queued` until the subscription's address has accepted the event."""

outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("created_at", MS, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("run_at", MS, nullable=False),
)
"""Not used any more, since alerts are events of account 0; the next migration may drop it."""

ROUTING = frozenset(
    table.name
    for table in (
        account,
        api_key,
        admin_token,
        webhook_id,
        console_user,
        console_session,
        console_setup_link,
        console_link,
        console_recovery_code,
        saved_view,
    )
)
"""The tables by which a request finds its account, or the operator who sent it, and that
operator's own."""
