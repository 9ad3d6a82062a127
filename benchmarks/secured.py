"""Measure what row-level security (`crmhub db secure`) adds to a request.

    python -m benchmarks.secured [--records 200000 | --use NAME]

One process answers the same requests three times in turns: the hub with a role to which row-level
security does not apply, the hub with the role of the service to which it does, and a bare Flask
view. There are no sockets. Each figure is the least time of a request in several rounds. "In turns"
changes the account of the connection with each request.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import flask
from sqlalchemy.engine import make_url

from benchmarks import crowd, floor, served
from benchmarks.load import request
from benchmarks.places import BENCHMARKS, Place, administer, kept_place, parser, place
from benchmarks.wsgi import answer, environ_of
from crmhub.accounts import keys
from crmhub.app import create_app
from crmhub.database import row_security
from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.settings import Settings

Make = Callable[[int], bytes]


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--rounds", type=int, default=15)
    command.add_argument("--requests", type=int, default=50, help="of each round")
    which = command.add_mutually_exclusive_group()
    which.add_argument("--records", type=int, default=200_000, help="of the account")
    which.add_argument("--use", default="", metavar="NAME", help="of a database that was kept")
    options = command.parse_args()
    with kept_place(options.use) if options.use else place(False) as here:
        if not options.use:
            crowd.build(here, crowd.Size(options.records, 0, 0))
        with _role(here) as secured:
            _measure(here, secured, options)


@contextmanager
def _role(here: Place) -> Iterator[Place]:
    """Secure the database, and give it with the role of the service; undo both at the end."""
    role = f"crmhub_benchmark_{uuid.uuid4().hex[:8]}"
    hub = here.hub()
    row_security.secure(hub.database, role)
    try:
        yield replace(here, url=make_url(here.url).set(username=role).render_as_string(False))
    finally:
        row_security.release(hub.database)
        hub.close()
        administer(here.url, f"drop owned by {role}")
        administer(here.url, f"drop role {role}")


def _measure(here: Place, secured: Place, options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        apps = []
        for each in (here, secured):
            app = create_app(Settings.load(environ=each.environment, root=Path(each.folder)))
            stack.callback(app.extensions["crmhub"].close)
            apps.append(app)
        hub: Hub = apps[0].extensions["crmhub"]
        account = crowd.big_account(hub)
        if not options.use:
            with hub.database.reading() as connection:
                floor.make(connection)
                connection.run("vacuum analyze")
        key = hub.database.transact(lambda tx: keys.create(tx, account.id)).api_key
        name = f"secured-{uuid.uuid4().hex[:8]}"
        other, issued = open_account(
            hub, name=name, client_id=name, plan="unlimited", by=BENCHMARKS
        )
        base, headers = f"/{account.client_id}/api/v1/contacts", {"service-apikey": key}
        others = f"/{name}/api/v1/contacts", {"service-apikey": issued.api_key}
        stack.enter_context(served.bare_table(here))
        os.environ |= {
            "BARE_DATABASE_URL": here.url,
            "BARE_ACCOUNT": str(account.id),
            "BARE_CURSOR": "c" * 100,
        }
        bare = served.bare()
        print(f"{'':<34}{'bare us':>9}{'off us':>9}{'on us':>9}{'off':>7}{'on':>7}{'on/off':>8}")
        for call in served.calls(hub, base, headers, other, issued.api_key):
            _compare(call.name, options, *((app, call.hub) for app in apps), (bare, call.bare))
        contains = {"propertyName": "lastname", "operator": "CONTAINS_TOKEN", "value": "son"}
        body = json.dumps({"filters": [contains]}).encode()

        def search(_: int) -> bytes:
            return request("POST", f"{base}/search", headers, body)

        def in_turns(number: int) -> bytes:
            return request("GET", *((base, headers) if number % 2 else others))

        for title, make in (("CONTAINS_TOKEN", search), ("list, two accounts in turns", in_turns)):
            _compare(title, options, *((app, make) for app in apps))


def _compare(title: str, options: argparse.Namespace, *sides: tuple[flask.Flask, Make]) -> None:
    best = [float("inf")] * len(sides)
    for number in range(options.rounds):
        for side, (app, make) in enumerate(sides):
            sent = [
                environ_of(make(number * options.requests + n)) for n in range(options.requests)
            ]
            began = time.perf_counter()
            for each in sent:
                answer(app, each)
            took = (time.perf_counter() - began) / options.requests * 1e6
            best[side] = min(best[side], took)
    off, on, *of_bare = best
    figures = f"{of_bare[0]:>9,.0f}" if of_bare else " " * 9
    figures += f"{off:>9,.0f}{on:>9,.0f}"
    figures += f"{of_bare[0] / off:>7.2f}{of_bare[0] / on:>7.2f}" if of_bare else " " * 14
    print(f"{title:<34}{figures}{on / off:>8.2f}")


if __name__ == "__main__":
    main()
