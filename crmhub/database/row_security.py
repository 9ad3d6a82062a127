"""Row-level security: PostgreSQL itself shows each transaction only the rows of one account.

It is a second wall: every statement names its account already. Without an account
(`Database.for_account`), statements on protected tables fail. Superusers bypass it, and an owner
can switch it off, so the service connects with a role that owns nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crmhub.database.connection import Connection, Database
from crmhub.database.distribution import DISTRIBUTED, read_distribution
from crmhub.database.drivers import ACCOUNT_SETTING, ALL_ACCOUNTS
from crmhub.errors import BadRequest

PROTECTED = DISTRIBUTED
"""The tables under row-level security: all that hold data of accounts.

The tables by which a request finds its account are not protected.
"""
_POLICY = "crmhub_account"
# Evaluated once for each statement. An unset account is "", so the statement fails.
_ACCOUNT = f"(select cast(current_setting('{ACCOUNT_SETTING}') as bigint))"
_CONDITION = f"account_id = {_ACCOUNT} or {_ACCOUNT} = {ALL_ACCOUNTS}"


@dataclass(frozen=True, slots=True)
class RowSecurity:
    """`is_active` for this process's role."""

    is_active: bool
    unprotected: Sequence[str]


def read_row_security(database: Database) -> RowSecurity | None:
    """None if no table has it."""
    if database.dialect != "postgresql":
        return None
    with database.reading() as db:
        unprotected = _unprotected(db)
        if len(unprotected) == len(PROTECTED):
            return None
        return RowSecurity(db.scalar("select row_security_active('records')"), unprotected)


def secure(database: Database, role: str) -> list[str]:
    """Return the newly protected tables.

    `role` is the service's role, created without a password if missing. The caller must own the
    tables. Raises BadRequest on SQLite and Citus, and for a superuser, an owner of tables, or a
    role with BYPASSRLS.
    """
    if database.dialect != "postgresql":
        raise BadRequest("SQLite has no row-level security; it needs PostgreSQL.")
    if read_distribution(database) is not None:
        raise BadRequest("Citus does not pass the account on to its nodes; use one or the other.")
    return database.transact(lambda tx: _secure(tx, role))


def secure_new_tables(database: Database) -> None:
    """Protect the tables that a migration has added, if the other tables are protected."""
    found = read_row_security(database)
    if found is not None and found.unprotected:
        database.transact(lambda tx: _protect(tx, found.unprotected))


def release(database: Database) -> list[str]:
    """Return the tables' names."""
    found = read_row_security(database)
    if found is None:
        return []
    names = [name for name in PROTECTED if name not in found.unprotected]

    def remove(tx: Connection) -> None:
        for name in names:
            tx.run(f"drop policy if exists {_POLICY} on {name}")
            tx.run(f"alter table {name} no force row level security, disable row level security")

    database.transact(remove)
    return names


def _secure(tx: Connection, role: str) -> list[str]:
    quoted = tx.scalar("select quote_ident(:role)", {"role": role})
    found = tx.row(
        "select rolsuper or rolbypassrls, rolcanlogin from pg_roles where rolname = :role",
        {"role": role},
    )
    if found is None:
        tx.run(f"create role {quoted} login nosuperuser nocreatedb nocreaterole nobypassrls")
    elif found[0]:
        raise BadRequest(f"{role} is a superuser or has BYPASSRLS, so nothing would hold it back.")
    elif not found[1]:
        raise BadRequest(f"{role} may not log in; run ALTER ROLE {quoted} LOGIN.")
    if tx.scalar(
        "select count(*) from pg_class where relnamespace = current_schema()::regnamespace"
        " and relkind = 'r' and pg_has_role(:role, relowner, 'member')",
        {"role": role},
    ):
        raise BadRequest(f"{role} owns the tables, and could switch the protection off.")
    schema = tx.scalar("select quote_ident(current_schema())")
    tx.run(f"grant usage on schema {schema} to {quoted}")
    for objects, rights in (
        ("tables", "select, insert, update, delete"),
        ("sequences", "usage, select"),
        ("functions", "execute"),
    ):
        tx.run(f"grant {rights} on all {objects} in schema {schema} to {quoted}")
        tx.run(
            f"alter default privileges in schema {schema} grant {rights} on {objects} to {quoted}"
        )
    names = _unprotected(tx)
    _protect(tx, names)
    return names


def _protect(tx: Connection, names: Sequence[str]) -> None:
    for name in names:
        tx.run(f"drop policy if exists {_POLICY} on {name}")
        tx.run(f"create policy {_POLICY} on {name} using ({_CONDITION}) with check ({_CONDITION})")
        tx.run(f"alter table {name} enable row level security, force row level security")


def _unprotected(db: Connection) -> list[str]:
    rows = db.rows(
        "select relname from pg_class as c where relnamespace = current_schema()::regnamespace"
        " and relrowsecurity and relforcerowsecurity and exists"
        " (select from pg_policy where polrelid = c.oid and polname = :policy)",
        {"policy": _POLICY},
    )
    protected = {name for (name,) in rows}
    return [name for name in PROTECTED if name not in protected]
