"""Times of searches that people type: parts of words, and three filters, over HTTP.

    python -m benchmarks.searches [--records 1000000] [--sqlite] [--keep NAME | --use NAME]

The contacts are those of `benchmarks.million`. The queries are drawn by chance, the same in each
run: a part of three letters or more of some contact's text, or three filters on different
properties. One caller asks them one after the other, each for its total and first page in the order
of change. The times are those that the caller sees, grouped by the number of matches. Only an
answer other than 200 ends the run with 1; the aims are printed beside the figures. On SQLite it
also tells what the index of texts costs: time, disk, and creates with and without it.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import requests
from sqlalchemy.engine import make_url

from benchmarks import crowd
from benchmarks.places import BENCHMARKS, Place, Service, kept_place, parser, place
from crmhub.accounts import keys
from crmhub.database import part_indexes
from crmhub.operators.accounts.open_account import open_account
from crmhub.properties.kinds import CONTACTS
from crmhub.records import text_parts
from crmhub.records.models import NewRecord

Filters = list[dict[str, Any]]

_PARTS = ("email", "lastname", "city", "jobtitle")
_EQUAL = ("city", "state", "lifecyclestage", "hs_lead_status", "jobtitle", "lastname")
_COMPARED = ("hubspotscore", "closedate", "notes_last_contacted")
# Most matches of a group, and the aim for 95 % of its times in ms.
_PART_GROUPS = ((10_000, 100), (500_000, 400), (sys.maxsize, 0))
_THREE_GROUPS = ((sys.maxsize, 300),)
_CREATES = 1500


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--records", type=int, default=1_000_000)
    command.add_argument("--queries", type=int, default=200, help="of either form")
    command.add_argument("--sqlite", action="store_true")
    kept = command.add_mutually_exclusive_group()
    kept.add_argument("--keep", default="", metavar="NAME", help="of the database, which stays")
    kept.add_argument("--use", default="", metavar="NAME", help="of a database that was kept")
    options = command.parse_args()
    if options.sqlite and (options.keep or options.use):
        command.error("only a database of PostgreSQL is kept")
    if options.use:
        with kept_place(options.use) as here:
            refused = _measure(here, options)
    else:
        with place(options.sqlite, keep=options.keep) as here:
            began = time.perf_counter()
            crowd.build(here, crowd.Size(options.records, 0, 0))
            print(f"{options.records:,} contacts written in {time.perf_counter() - began:,.0f} s")
            refused = _measure(here, options)
    sys.exit(refused)


def _measure(here: Place, options: argparse.Namespace) -> int:
    hub = here.hub()
    account = crowd.big_account(hub)
    if here.dialect == "postgresql":
        with hub.database.reading() as connection:
            connection.run("vacuum analyze")
    else:
        before, began = _size(here), time.perf_counter()
        text_parts.fill(hub.database, seconds=math.inf)
        print(
            f"index of texts: filled in {time.perf_counter() - began:,.0f} s,"
            f" {before:,.0f} MB before and {_size(here):,.0f} MB with it"
        )
    key = hub.database.transact(lambda tx: keys.create(tx, account.id)).api_key
    hub.close()
    chance = random.Random(1)
    with here.server(workers=2, threads=4) as service:
        ask = _Caller(service, f"/{account.client_id}/api/v1/contacts/search", key)
        records = ask.total([])
        for name, groups, one in (
            ("part of a text", _PART_GROUPS, _part),
            ("three filters", _THREE_GROUPS, _three),
        ):
            asked = [ask.timed(one(chance, records)) for _ in range(options.queries)]
            for line in _grouped(name, asked, groups):
                print(line)
    if here.dialect == "sqlite":
        _compare_creates()
    print(f"not answered with 200: {ask.refused}")
    return int(ask.refused > 0)


def _size(here: Place) -> float:
    """In MB, with the log."""
    path = Path(make_url(here.url).database or "")
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / 1e6


def _compare_creates() -> None:
    """Create contacts one by one in two small databases in turn, with and without the index."""
    names = ("with the index", "without")
    times: dict[str, list[float]] = {name: [] for name in names}
    with ExitStack() as stack:
        hubs = {name: stack.enter_context(place(True)).hub() for name in names}
        for hub in hubs.values():
            open_account(hub, name="small", client_id="small", plan="unlimited", by=BENCHMARKS)
        part_indexes.drop(hubs["without"].database)
        for number in range(2 * _CREATES):
            name = names[number % 2]
            hub = hubs[name]
            account = hub.load_account("small")
            new = NewRecord(crowd.contact(0, number, 2 * _CREATES), {}, "")
            began = time.perf_counter()
            with hub.database.for_account(account.id):
                hub.records.create(account, CONTACTS, [new])
            times[name].append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        text_parts.fill(hubs["with the index"].database, seconds=math.inf)
        later = (time.perf_counter() - began) * 1000 / _CREATES
        for hub in hubs.values():
            hub.close()
    shown = ", ".join(f"{name} {statistics.median(each):.2f} ms" for name, each in times.items())
    print(f"a create without HTTP, p50: {shown}; {later:.3f} ms of the worker later")


class _Caller:
    def __init__(self, service: Service, path: str, key: str) -> None:
        host, port = service.address
        self._url = f"http://{host}:{port}{path}"
        self._session = requests.Session()
        self._session.headers["service-apikey"] = key
        self.refused = 0

    def total(self, filters: Filters) -> int:
        answer = self._session.post(self._url, json={"filters": filters, "limit": 20}, timeout=60)
        if answer.status_code != 200:
            self.refused += 1
            if self.refused == 1:
                print(f"{answer.status_code} {filters}: {answer.text[:200]}")
            return 0
        return int(answer.json()["total"])

    def timed(self, filters: Filters) -> tuple[int, float]:
        """Return the total and the time in ms."""
        began = time.perf_counter()
        total = self.total(filters)
        return total, (time.perf_counter() - began) * 1000


def _filter(name: str, operator: str, value: str) -> dict[str, Any]:
    return {"propertyName": name, "operator": operator, "value": value}


def _part(chance: random.Random, records: int) -> Filters:
    name = chance.choice(_PARTS)
    text = crowd.contact(0, chance.randrange(records), records)[name]
    length = chance.randint(3, min(8, len(text)))
    first = chance.randint(0, len(text) - length)
    # A blank at either end of a value is no part of it.
    part = text[first : first + length].strip()
    return [_filter(name, "CONTAINS_TOKEN", part)] if len(part) > 2 else _part(chance, records)


def _three(chance: random.Random, records: int) -> Filters:
    contact = crowd.contact(0, chance.randrange(records), records)
    names = [name for name in (*_EQUAL, *_COMPARED) if name in contact]
    return [
        _filter(
            name,
            chance.choice(("EQ", "EQ", "NEQ") if name in _EQUAL else ("GTE", "LTE")),
            contact[name],
        )
        for name in chance.sample(names, 3)
    ]


def _grouped(
    name: str, asked: list[tuple[int, float]], groups: tuple[tuple[int, int], ...]
) -> Iterator[str]:
    least = 0
    for most, aim in groups:
        times = [spent for total, spent in asked if least <= total <= most]
        if len(times) > 1:
            span = f"{least:,} or more" if most == sys.maxsize else f"{least:,} to {most:,}"
            p95 = statistics.quantiles(times, n=20)[-1]
            yield (
                f"{name}, {span} matches: {len(times)} queries,"
                f" p50 {statistics.median(times):.1f}, p95 {p95:.1f}, max {max(times):.1f} ms"
                + (f" (aim: p95 ≤ {aim})" if aim else "")
            )
        least = most + 1


if __name__ == "__main__":
    main()
