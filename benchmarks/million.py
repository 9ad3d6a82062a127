"""Search, list and totals at a million contacts, compared with a hand-made schema.

    python -m benchmarks.million [--records 1000000] [--keep NAME | --use NAME]

First the hub's own code writes the contacts. The same contacts are written into a typed table with
an index for each query: the floor. Then totals and pages of both are measured alternately in the
database, and the service and a bare Flask view over HTTP. The benchmark judges nothing: the aims
are printed beside the figures. With `--keep` the database stays under that name; `--use` measures
it again.
"""

from __future__ import annotations

import argparse
import time

from benchmarks import compared, crowd, floor, served
from benchmarks.places import Place, kept_place, parser, place
from crmhub.database.connection import Connection
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS

_TABLES = {
    "records": ("records",),
    "index tables": ("ix_text", "ix_num", "ix_date", "unique_value"),
    "floor": ("floor",),
}


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--records", type=int, default=1_000_000, help="of the big account")
    command.add_argument("--others", type=int, default=500_000, help="of all small ones together")
    command.add_argument("--accounts", type=int, default=1000, help="small ones")
    command.add_argument("--rounds", type=int, default=21, help="of each total and page, at most")
    command.add_argument("--seconds", type=float, default=2, help="for each of them, about")
    command.add_argument("--http-rounds", type=int, default=3)
    command.add_argument("--http-seconds", type=float, default=4, help="of each round; 0: no HTTP")
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--threads", type=int, default=16)
    command.add_argument("--connections", type=int, default=16)
    kept = command.add_mutually_exclusive_group()
    kept.add_argument("--keep", default="", metavar="NAME", help="of the database, which stays")
    kept.add_argument("--use", default="", metavar="NAME", help="of a database that was kept")
    options = command.parse_args()
    if not options.use:
        with place(False, keep=options.keep) as here:
            _build(here, crowd.Size(options.records, options.others, options.accounts))
            if not options.keep:
                _measure(here, options)
    if name := options.use or options.keep:
        with kept_place(name) as here:
            _measure(here, options)


def _build(here: Place, size: crowd.Size) -> None:
    began = time.perf_counter()
    crowd.build(here, size)
    seconds = time.perf_counter() - began
    contacts = size.records + size.each * size.accounts
    print(f"{contacts:,} contacts written in {seconds:,.0f} s ({contacts / seconds:,.0f}/s)")
    hub = here.hub()
    with hub.database.reading() as connection:
        began = time.perf_counter()
        floor.make(connection)
        print(f"floor made in {time.perf_counter() - began:,.0f} s")
        _check(connection)
    hub.close()


def _check(connection: Connection) -> None:
    """Count everything again: counters and index rows must agree with the records."""
    found = {
        "records": "select count(*) from records",
        "their counters": "select sum(n) from record_count",
        "floor": "select count(*) from floor",
        "values": "select count(*) from records, jsonb_object_keys(properties)",
        "index rows": "select (select count(*) from ix_text) + (select count(*) from ix_num)"
        " + (select count(*) from ix_date)",
    }
    counted = {name: int(connection.scalar(sql)) for name, sql in found.items()}
    records, counters, by_hand, values, rows = counted.values()
    if not (records == counters == by_hand and values == rows):
        raise SystemExit(f"what was written does not agree: {counted}")


def _measure(here: Place, options: argparse.Namespace) -> None:
    hub = here.hub()
    account = crowd.big_account(hub)
    with hub.database.reading() as connection:
        # The runs before this one have written, and what has just been written counts slowly.
        connection.run("vacuum analyze")
        _sizes(hub, connection)
        comparison = compared.Comparison(
            hub, connection, account, rounds=options.rounds, seconds=options.seconds
        )
        totals = comparison.totals()
        comparison.pages(totals)
    if options.http_seconds:
        served.compare(here, hub, account, options)
    hub.close()


def _sizes(hub: Hub, connection: Connection) -> None:
    mine = hub.records.counts(crowd.big_account(hub))[CONTACTS.code]
    everything = connection.scalar("select sum(n) from record_count")
    print(f"{mine:,} contacts of one account among {int(everything):,}")
    for name, tables in _TABLES.items():
        among, tables_named = connection.in_list("relname", "tables", tables)
        heap, indexes = connection.rows(
            "select sum(pg_table_size(oid)), sum(pg_indexes_size(oid)) from pg_class"
            f" where relkind = 'r' and {among}",
            tables_named,
        )[0]
        print(f"  {name:<14}{heap / 2**20:>8,.0f} MB, its indexes {indexes / 2**20:>8,.0f} MB")


if __name__ == "__main__":
    main()
