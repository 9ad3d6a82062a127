"""Runs the migrations in one transaction, one process at a time."""

from __future__ import annotations

import sqlalchemy
from alembic import context

from crmhub.database.drivers import ACCOUNT_SETTING, ALL_ACCOUNTS

# Any number, equal in all processes.
_LOCK = 0x63726D68


def _run() -> None:
    url = context.config.attributes["url"]
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
    if engine.dialect.name == "sqlite":
        # The sqlite3 module would begin too late: DDL must be inside, and others must wait.
        @sqlalchemy.event.listens_for(engine, "connect")
        def _autocommit(driver: sqlalchemy.engine.interfaces.DBAPIConnection, _: object) -> None:
            driver.isolation_level = None
            driver.execute("PRAGMA busy_timeout = 60000")
            driver.execute("PRAGMA journal_mode = WAL")

        @sqlalchemy.event.listens_for(engine, "begin")
        def _begin(connection: sqlalchemy.Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            # Row-level security holds for the owner of the tables as well.
            connection.exec_driver_sql(f"SET LOCAL {ACCOUNT_SETTING} = '{ALL_ACCOUNTS}'")
            # Citus: after a statement has changed shards over several connections of a node, the
            # transaction could not alter tables. PostgreSQL without Citus ignores the setting.
            connection.exec_driver_sql("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
        context.configure(connection=connection, transactional_ddl=True)
        context.run_migrations()
    engine.dispose()


_run()
