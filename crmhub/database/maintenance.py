"""Maintenance of PostgreSQL's tables, which a worker runs now and then."""

from __future__ import annotations

from crmhub.database.connection import Database


def vacuum(database: Database) -> None:
    """Vacuum PostgreSQL's changed tables, and analyze those that grew by a tenth.

    Autovacuum does so once a minute at most, and not at all where it is off. Until then the planner
    takes a growing table for empty, may choose an index that leads through all rows of an account,
    and looks up in the table, row by row, what it counts or sorts on an index alone: a new row
    spoils its whole page for that, and may go to any page from which a row was deleted. The table's
    own settings of autovacuum say how much change is worth a vacuum.
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
            " where schemaname = current_schema()) as tables"
            " where grown or n_dead_tup > 200 + n_live_tup * dead"
            " or n_ins_since_vacuum > 200 + n_live_tup * inserted"
        )
        for name, grown in changed:
            # To give back pages at the end would hold up who reads the table.
            options = f"analyze {grown}, skip_locked, truncate false"
            connection.run(f'vacuum ({options}) "{name}"')


def _own_setting(name: str) -> str:
    """Return the SQL of a table's own setting; null where the server's applies."""
    return (
        "(select cast(option_value as float) from pg_options_to_table(reloptions)"
        f" where option_name = '{name}')"
    )
