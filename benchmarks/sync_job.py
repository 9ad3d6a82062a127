"""Check that a sync job by the Python client holds what the hub has, after changes and kills.

    PYTHONPATH=clients/python python -m benchmarks.sync_job [--copied] [--sqlite] [--minutes 10]
                                                            [--contacts 500] [--writers 4]

It starts `crmhub serve` with its worker and a sync job, a process that stores what
`contacts.changes` tells and its bookmark in a file. Writers create, change and delete contacts: of
a local account, or with `--copied` those of `benchmarks.copy`, on all sides of a HubSpot-like CRM.
The job and processes of the service are killed with SIGKILL all the time. When the writers have
ended, the file and the hub's list are compared. It ends with 1 if they differ.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from benchmarks import copy
from benchmarks.bots import Bots, judged, until_empty
from benchmarks.faults import killing
from benchmarks.places import BENCHMARKS, Place, Service, parser, place
from crmhub.crm.watching import webhook_address
from crmhub.operators.accounts.change_account import change
from crmhub_client import Bookmark, Hub, HubClientError

_NAME, _CAUGHT_UP_S = "benchmark", 300.0
_TABLES = """
create table if not exists contact (id integer primary key, properties text);
create table if not exists bookmark (one integer primary key, text text)
"""


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--copied", action="store_true")
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--minutes", type=float, default=10)
    command.add_argument("--contacts", type=int, default=500)
    command.add_argument("--writers", type=int, default=4)
    command.add_argument("--job", nargs=3, metavar=("URL", "KEY", "FILE"), help="run the job")
    options = command.parse_args()
    if options.job:
        _sync(*options.job)
        return
    with place(options.sqlite) as here:
        sys.exit(0 if (_run_copied if options.copied else _run_local)(here, options) else 1)


def _sync(url: str, key: str, file: str) -> None:
    """Store what changes until the process is killed."""
    store = sqlite3.connect(file)
    store.executescript(_TABLES)
    [text] = store.execute("select text from bookmark").fetchone() or [""]
    bookmark = Bookmark(text)
    with Hub(url, _NAME, key) as hub:
        for contact in hub.contacts.changes(bookmark, every=1):
            if contact.archived_at:
                store.execute("delete from contact where id = ?", [contact.id])
            else:
                row = [contact.id, json.dumps(contact.properties, sort_keys=True)]
                store.execute("insert or replace into contact values (?, ?)", row)
            store.execute("insert or replace into bookmark values (1, ?)", [bookmark.text])
            store.commit()


def _run_local(here: Place, options: argparse.Namespace) -> bool:
    key = here.account("", plan="unlimited").api_key
    with here.server(workers=2, threads=16) as service, _hub(service, key) as hub:
        first = [{"email": f"p{n}@example.com", "lastname": "Lee"} for n in range(options.contacts)]
        ids = [one.id for one in hub.contacts.create_many(first).results]

        def write(n: int) -> None:
            way = random.choices(("create", "change", "archive"), (30, 50, 20))[0]
            # Another writer may have archived it; an answer may be lost with its process.
            with suppress(HubClientError, IndexError):
                if way == "create":
                    ids.append(hub.contacts.create({"email": f"new{n}@example.com"}).id)
                elif way == "change":
                    hub.contacts.update(random.choice(ids), {"city": f"Town {n}"})
                else:
                    hub.contacts.archive(ids.pop(random.randrange(len(ids))))

        with _job(here, service, key, write, options) as file:
            return _judge(hub, file)


def _run_copied(here: Place, options: argparse.Namespace) -> bool:
    fake = copy.fake_of("hubspot")
    fake.start()
    try:
        ids = here.account(str(fake.url), secrets=copy.SECRETS)
        writers = copy.Writers(fake)
        writers.fill(options.contacts, 0)
        with here.server(workers=2, threads=16) as service, _hub(service, ids.api_key) as hub:
            base, ours = "http://{}:{}".format(*service.address), here.hub()
            address = webhook_address(ours, ours.load_account(_NAME)).partition("SERVICE")[2]
            change(ours, _NAME, {"mirror": True}, by=BENCHMARKS)
            ours.close()
            copy.wait_for_load(here)
            writers.hooks = base + address
            writers.bots, writers.api = Bots(service.address, ids), copy.Api(base, ids.api_key)
            with _job(here, service, ids.api_key, writers.write, options) as file:
                until_empty(here.url, hurry=True)
                copy.wait_for_pull(here)
                return _judge(hub, file)
    finally:
        fake.stop()


@contextmanager
def _hub(service: Service, key: str) -> Iterator[Hub]:
    with Hub("http://{}:{}".format(*service.address), _NAME, key) as hub:
        yield hub


@contextmanager
def _job(
    here: Place,
    service: Service,
    key: str,
    write: Callable[[int], None],
    options: argparse.Namespace,
) -> Iterator[Path]:
    """Write until the time is over, while the job and the service's processes are killed.

    Yield the file of the job, which goes on until the block ends.
    """
    file, numbers, kills = Path(here.folder, "job.db"), count(), 0
    url, ends_at = "http://{}:{}".format(*service.address), time.monotonic() + options.minutes * 60
    command = [sys.executable, "-m", "benchmarks.sync_job", "--job", url, key, str(file)]

    def write_on() -> None:
        while time.monotonic() < ends_at:
            write(next(numbers))

    job = subprocess.Popen(command)
    try:
        with ThreadPoolExecutor(options.writers) as pool:
            writing = [pool.submit(write_on) for _ in range(options.writers)]
            while time.monotonic() < ends_at:
                # The job and the worker must come to work between two kills.
                time.sleep(random.uniform(10, 20))
                with killing(service, 2):
                    job.kill()
                job.wait()
                job, kills = subprocess.Popen(command), kills + 1
            for one in writing:
                one.result()
        print(f"{next(numbers)} changes, {kills} kills of the job, {2 * kills} of the service")
        yield file
    finally:
        job.kill()
        job.wait()


def _judge(hub: Hub, file: Path) -> bool:
    """Wait until the job has caught up, and print what differs."""
    until = time.monotonic() + _CAUGHT_UP_S
    while True:
        theirs = {one.id: dict(one.properties) for one in hub.contacts.all()}
        with sqlite3.connect(file) as store:
            rows = store.execute("select id, properties from contact").fetchall()
        ours = {id: json.loads(properties) for id, properties in rows}
        if ours == theirs or time.monotonic() > until:
            break
        time.sleep(1)
    both = ours.keys() & theirs.keys()
    print(f"{len(theirs)} contacts in the hub, {len(ours)} in the job's file")
    return judged(
        {
            "contacts that only the hub has": len(theirs.keys() - ours.keys()),
            "contacts that only the job has": len(ours.keys() - theirs.keys()),
            "contacts that differ": sum(ours[id] != theirs[id] for id in both),
        }
    )


if __name__ == "__main__":
    main()
