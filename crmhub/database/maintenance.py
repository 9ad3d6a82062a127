from __future__ import annotations

from crmhub.database.connection import Database


def vacuum(database: Database) -> None:
    """Vacuum changed PostgreSQL tables; analyze those that have changed by a tenth.

    Autovacuum does so at most once a minute, or is off. Until then PostgreSQL takes a growing table
    for empty, and cannot count or sort with an index alone. Does nothing on SQLite, and for tables
    of other owners.
    """
    if database.dialect != "postgresql":
        return
    with database.reading() as connection:
        changed = connection.rows(
            "select relname, grown from (select s.relname, n_live_tup, n_dead_tup,"
            " n_ins_since_vacuum, n_mod_since_analyze > 200"
            " and n_mod_since_analyze > n_live_tup / 10 as grown,"
            f" {_own_setting('autovacuum_vacuum_scale_factor')} as dead,"
            f" {_own_setting('autovacuum_vacuum_insert_scale_factor')} as inserted"
            " from pg_stat_user_tables as s join pg_class as c on c.oid = s.relid"
            " where schemaname = current_schema() and pg_has_role(c.relowner, 'usage')) as tables"
            " where grown or n_dead_tup > 200 + n_live_tup * dead"
            " or n_ins_since_vacuum > 200 + n_live_tup * inserted"
        )
        for name, grown in changed:
            # Truncating would block readers of the table.
            options = f"analyze {grown}, skip_locked, truncate false"
            connection.run(f'vacuum ({options}) "{name}"')


def _own_setting(name: str) -> str:
    return (
        "(select cast(option_value as float) from pg_options_to_table(reloptions)"
        f" where option_name = '{name}')"
    )
