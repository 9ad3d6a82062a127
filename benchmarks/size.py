"""Measure the bytes of a contact in PostgreSQL's tables and indexes, and in its log.

    python -m benchmarks.size [--records 200000] [--properties 7] [--at 1e6,1e8,1e9]

The benchmark starts its own PostgreSQL server, so that no other program writes to the log (WAL),
and fills a database with the hub's own code. It needs PostgreSQL 15 or newer. The sizes for
`--at` records are the measured bytes per contact times the number of records.
"""

from __future__ import annotations

import time
from itertools import islice

from benchmarks import crowd
from benchmarks.floor import cases
from benchmarks.places import cluster, parser, place
from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS
from crmhub.records.models import NewRecord
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query

_TOTALS = ("everything", "city, 1 in 2", "city, 1 in 50", "score, half")
_SIZES = """
    select relname, reltuples, pg_table_size(oid), pg_indexes_size(oid) from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace
    order by pg_total_relation_size(oid) desc
"""
_PAGES_READ = """
    select sum(heap_blks_hit + heap_blks_read), sum(idx_blks_hit + idx_blks_read)
    from pg_statio_user_tables
"""
_VISIBLE = """
    select sum(relallvisible) >= 0.99 * sum(relpages) from pg_class
    where relname in ('ix_text', 'ix_num', 'ix_date')
"""
_TRIES = 60
_PAGE = 8192
_ALONE = 2000


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--records", type=int, default=200_000)
    command.add_argument("--others", type=int, default=0, help="of all small accounts together")
    command.add_argument("--accounts", type=int, default=0, help="small ones")
    command.add_argument("--properties", type=int, default=7, help="of a contact, at most")
    command.add_argument("--at", default="1e6,1e8,1e9", help="numbers of records to compute")
    options = command.parse_args()
    size = crowd.Size(options.records, options.others, options.accounts, options.properties)
    with cluster() as server, place(False, server.url) as here:
        hub = here.hub()
        before, began = _log_position(hub), time.perf_counter()
        account = crowd.build(here, size)
        took, written = time.perf_counter() - began, _log_position(hub) - before
        with hub.database.reading() as connection:
            _vacuum(connection)
            contacts = int(connection.scalar("select sum(n) from record_count"))
            print(f"{contacts:,} contacts, written at {contacts / took:,.0f}/s")
            total = _print_sizes(connection, contacts)
        for records in map(float, options.at.split(",")):
            print(f"{records:>16,.0f} records: {records * total / 1e9:>9,.1f} GB")
        _print_totals(hub, account)
        alone = _log_of_single_writes(hub, account, options.properties)
        print(f"log (WAL) per contact: {written / contacts:,.0f} bytes in batches of 100,")
        print(f"    {alone:,.0f} bytes when created alone")
        hub.close()


def _vacuum(connection: Connection) -> None:
    """Vacuum until totals can be counted in the indexes alone, without the tables."""
    for _ in range(_TRIES):
        connection.run("vacuum analyze")
        # An autovacuum that began before the last write keeps rows from being visible to all.
        if connection.scalar(_VISIBLE):
            return
        time.sleep(1)
    print("not every page of the index tables is visible to all: totals read the tables too")


def _log_position(hub: Hub) -> int:
    """Return the number of bytes that the server has written to its log."""
    with hub.database.reading() as connection:
        return int(connection.scalar("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"))


def _log_of_single_writes(hub: Hub, account: Account, properties: int) -> float:
    before = _log_position(hub)
    for number in range(_ALONE):
        new = dict(islice(crowd.contact(0, number, _ALONE).items(), properties))
        new["email"] = f"alone{number}@example.com"
        hub.records.create(account, CONTACTS, [NewRecord(new)])
    return (_log_position(hub) - before) / _ALONE


def _print_sizes(connection: Connection, contacts: int) -> float:
    """Print the bytes per contact of each table; return their sum."""
    print(f"{'bytes per contact':<20}{'rows':>8}{'table':>9}{'indexes':>9}{'both':>9}")
    together = [0.0, 0.0]
    for name, rows, table, indexes in connection.rows(_SIZES):
        of_each = (table / contacts, indexes / contacts)
        together = [sum(pair) for pair in zip(together, of_each, strict=True)]
        if sum(of_each) >= 1:
            _print_row(name, f"{rows / contacts:.2f}", *of_each)
    _print_row("all tables", "", *together)
    return sum(together)


def _print_row(name: str, rows: str, table: float, indexes: float) -> None:
    print(f"{name:<20}{rows:>8}{table:>9,.0f}{indexes:>9,.0f}{table + indexes:>9,.0f}")


def _print_totals(hub: Hub, account: Account) -> None:
    """Print how much of the tables and their indexes a total and its first page read."""
    heads = ("matches", "table", "indexes", "per match")
    print(f"{'total and first page':<20}" + "".join(f"{head:>12}" for head in heads))
    for case in cases():
        if case.name not in _TOTALS:
            continue
        request = PageRequest(Query(case.filters))
        # The first request also reads the definitions of the properties.
        hub.records.page(account, CONTACTS, request)
        before = _pages_read(hub)
        found = hub.records.page(account, CONTACTS, request)
        table, indexes = (
            (now - then) * _PAGE for now, then in zip(_pages_read(hub), before, strict=True)
        )
        print(
            f"{case.name:<20}{found.total:>12,}{table / 1e6:>9,.1f} MB{indexes / 1e6:>9,.1f} MB"
            f"{(table + indexes) / found.total:>10,.1f} B"
        )


def _pages_read(hub: Hub) -> tuple[int, int]:
    """Return the numbers of pages of tables and of indexes that the server has read so far."""
    # The pool lends the connection that was used last, whose counts are published here.
    with hub.database.reading() as connection:
        connection.scalar("select pg_stat_force_next_flush()")
        table, indexes = connection.rows(_PAGES_READ)[0]
        return int(table), int(indexes)


if __name__ == "__main__":
    main()
