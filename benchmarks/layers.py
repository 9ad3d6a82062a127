"""Measure what a request costs in each layer of a process, compared with a bare Flask view.

    python -m benchmarks.layers [--records 20000 | --use NAME]

The hub and the bare view run in this process, without sockets, so only their own work is measured.
The processor time is the minimum of several rounds, in microseconds; the numbers of function calls
(Python and C) do not depend on the machine and its load. A layer that waits for the database looks
more expensive than it is, since a processor that was idle runs the same code slower. `--use` takes
a database that `benchmarks.million --keep` has left.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import flask

from benchmarks import crowd, floor, served
from benchmarks.places import BENCHMARKS, Place, kept_place, parser, place
from benchmarks.wsgi import answer, environ_of
from crmhub.accounts import keys
from crmhub.app import create_app
from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.settings import Settings

_LAYERS = {
    "Flask": ("/flask/", "/werkzeug/", "/blinker/"),
    "database": ("/psycopg/", "/sqlalchemy/", "/crmhub/database/"),
    "schemas": ("/marshmallow/", "/flask_smorest/", "/crmhub/api/http/schemas.py"),
    "api": ("/crmhub/api/", "/crmhub/app.py"),
    "records": ("/crmhub/records/", "/crmhub/properties/"),
    "the rest": ("/",),
    "C": ("",),
}


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--rounds", type=int, default=9)
    command.add_argument("--requests", type=int, default=200, help="of each round")
    which = command.add_mutually_exclusive_group()
    which.add_argument("--records", type=int, default=20_000, help="of the account")
    which.add_argument("--use", default="", metavar="NAME", help="of a database that was kept")
    options = command.parse_args()
    with kept_place(options.use) if options.use else place(False) as here:
        if not options.use:
            crowd.build(here, crowd.Size(options.records, 0, 0))
        _measure(here, options)


def _measure(here: Place, options: argparse.Namespace) -> None:
    app = create_app(Settings.load(environ=here.environment, root=Path(here.folder)))
    hub: Hub = app.extensions["crmhub"]
    account = crowd.big_account(hub)
    if not options.use:
        with hub.database.reading() as connection:
            floor.make(connection)
            connection.run("vacuum analyze")
    key = hub.database.transact(lambda tx: keys.create(tx, account.id)).api_key
    name = f"layers-{uuid.uuid4().hex[:8]}"
    other, issued = open_account(hub, name=name, client_id=name, plan="unlimited", by=BENCHMARKS)
    base = f"/{account.client_id}/api/v1/contacts"
    print(f"{'':<33}{'us':>6}{'calls':>7}" + "".join(f"{layer:>10}" for layer in _LAYERS))
    with served.bare_table(here):
        os.environ |= {
            "BARE_DATABASE_URL": here.url,
            "BARE_ACCOUNT": str(account.id),
            "BARE_CURSOR": "c" * 100,
        }
        bare = served.bare()
        told = set[str]()
        for each in served.calls(hub, base, {"service-apikey": key}, other, issued.api_key):
            name = each.name.partition(" (")[0]
            if name in told:
                continue
            told.add(name)
            for side, of, make in (("", app, each.hub), (", bare", bare, each.bare)):
                _told(f"{name}{side}", of, make, options)
    hub.close()


def _told(
    name: str, app: flask.Flask, make: Callable[[int], bytes], options: argparse.Namespace
) -> None:
    spent = []
    for _ in range(options.rounds):
        sent = [environ_of(make(number)) for number in range(options.requests)]
        began = time.process_time()
        for each in sent:
            answer(app, each)
        spent.append((time.process_time() - began) / options.requests * 1e6)
    sent = [environ_of(make(number)) for number in range(options.requests)]
    profile = cProfile.Profile()
    profile.enable()
    for each in sent:
        answer(app, each)
    profile.disable()
    calls = Counter[str]()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, _), (_, times, *_) in stats.items():
        calls[_layer(file)] += times
    per = [round(calls[layer] / options.requests) for layer in _LAYERS]
    shown = "".join(f"{number:>10,}" for number in per)
    print(f"{name:<33}{min(spent):>6,.0f}{sum(per):>7,}{shown}")


def _layer(file: str) -> str:
    return next(layer for layer, parts in _LAYERS.items() if any(part in file for part in parts))


if __name__ == "__main__":
    main()
