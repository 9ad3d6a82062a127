"""Check that the copy of a CRM is the CRM, after writers on all sides, lost webhooks and kills.

    python -m benchmarks.copy [--sqlite] [--contacts 20000] [--deals 4000] [--changes 2000]
                              [--writers 8] [--kills 10]

It starts a HubSpot-like CRM and `crmhub serve` with its worker, and loads the copy. Then writers
create, change, archive and merge records in the CRM, and bots send leads and deals through the hub,
while server processes and worker are killed with SIGKILL. Of the CRM's webhooks one in ten is lost
and one in ten comes twice, all in random order. When the writers have ended and a minute's pull is
over, copy and CRM are compared record by record. It ends with 1 if they differ, or if anything that
a bot was promised is missing or there twice.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import requests

from adapters.fakes.hubspot.fake import FakeHubSpot, Options
from benchmarks.bots import Bots, p, until_empty
from benchmarks.faults import killing
from benchmarks.places import BENCHMARKS, TOKEN, Place, parser, place
from crmhub.crm.watching import webhook_address
from crmhub.errors import Unavailable
from crmhub.operators.accounts.change_account import change
from crmhub.operators.crm import copy_crm
from crmhub.operators.crm.copy_crm import CopyState

_SECRET = "the-secret-of-the-app"
_NAMES = {"contacts": ("email", "firstname", "lastname", "city"), "deals": ("dealname", "amount")}
_PATIENCE_S = 600.0


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--contacts", type=int, default=20_000)
    command.add_argument("--deals", type=int, default=4_000)
    command.add_argument("--changes", type=int, default=2_000)
    command.add_argument("--writers", type=int, default=8)
    command.add_argument("--kills", type=int, default=10)
    options = command.parse_args()
    fake = FakeHubSpot(
        Options(
            token=TOKEN,
            limit="none",
            search_limit="none",
            client_secret=_SECRET,
            search_lag=0.5,
        )
    )
    fake.start()
    try:
        with place(options.sqlite) as here:
            sys.exit(0 if _run(here, fake, options) else 1)
    finally:
        fake.stop()


def _run(here: Place, fake: FakeHubSpot, options: argparse.Namespace) -> bool:
    ids = here.account(str(fake.url), secrets={"webhook_secret": _SECRET})
    people = [fake.add_contact(**_person(n)) for n in range(options.contacts)]
    for n in range(options.deals):
        fake.add("deals", {"dealname": f"Deal {n}", "amount": str(n)}, contacts=[people[n]])
    with here.server(workers=2, threads=16) as service:
        base = "http://{}:{}".format(*service.address)
        hub = here.hub()
        account = hub.load_account("benchmark")
        change(hub, "benchmark", {"mirror": True}, by=BENCHMARKS)
        began = time.monotonic()
        _wait(here, lambda states: all(one.is_complete or one.state == "absent" for one in states))
        took = time.monotonic() - began
        records = options.contacts + options.deals
        print(f"loaded {records} records in {took:.0f} s, {records / took:.0f}/s")
        hooks = base + webhook_address(hub, account).partition("SERVICE")[2]
        hub.close()
        bots, seen = Bots(service.address, ids), _Seen(base, ids.api_key)
        with killing(service, options.kills), ThreadPoolExecutor(options.writers) as pool:
            written = [
                pool.submit(_write, fake, bots, hooks, people, n) for n in range(options.changes)
            ]
            emails = [email for one in written if (email := one.result())]
        until_empty(here.url, hurry=True)
        late = seen.times(fake, hooks)
        _wait_for_pull(here)
        return _judge(fake, seen, emails, late)


def _person(n: int) -> dict[str, str]:
    return {"email": f"p{n}@example.com", "firstname": "Ann", "lastname": f"Lee {n}"}


def _write(fake: FakeHubSpot, bots: Bots, hooks: str, people: list[str], n: int) -> str:
    """Make one change in the CRM, or send a lead; return the lead's email if it was accepted."""
    way = random.choices(("change", "create", "lead", "archive", "merge"), (60, 10, 20, 6, 4))[0]
    if way == "lead":
        email = f"bot{n}@example.com"
        told = bots.create_lead(f"chat-{n}", name=f"Bo {n}", email=email)
        if told.accepted and n % 2:
            bots.create_deal(told.contact_id, dealname=f"Bot's deal {n}")
        return email if told.accepted else ""
    if way == "create":
        _hook(fake, hooks, fake.add_contact(**_person(1_000_000 + n)), "creation")
        return ""
    id = random.choice(people)
    # Another writer may have archived or merged it.
    with suppress(Exception):
        if way == "change":
            with fake.lock:
                fake.update(fake.load("contacts", id), {"city": f"Town {n}"})
            _hook(fake, hooks, id, "propertyChange")
        elif way == "archive":
            fake.archive("contacts", id)
            _hook(fake, hooks, id, "deletion")
        else:
            _hook(fake, hooks, fake.merge("contacts", random.choice(people), id), "merge")
    return ""


def _hook(fake: FakeHubSpot, hooks: str, id: str, what: str) -> None:
    """Send the CRM's webhook: one in ten is lost, and one in ten comes twice."""
    body = json.dumps([{"objectId": int(id), "subscriptionType": f"contact.{what}"}]).encode()
    for _ in range(random.choices((0, 1, 2), (1, 8, 1))[0]):
        time.sleep(random.uniform(0, 0.2))
        # A killed server process answers nothing.
        with suppress(requests.RequestException):
            headers = fake.webhook_headers(hooks, body)
            requests.post(hooks, data=body, headers=headers, timeout=10)


class _Seen:
    """What the public API shows of the copy."""

    def __init__(self, base: str, key: str) -> None:
        self._base = f"{base}/benchmark/api/v1"
        self._session = requests.Session()
        self._session.headers["service-apikey"] = key

    def records(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return all records by the CRM's id."""
        found: dict[str, dict[str, Any]] = {}
        link = "?limit=100&include=associations&sort=createdAt"
        while link:
            page = self._session.get(f"{self._base}/{kind}{link}", timeout=30).json()
            for one in page["results"]:
                found[one["properties"]["crm_id"]] = one
            link = page["cursor"]["nextLink"]
        return found

    def times(self, fake: FakeHubSpot, hooks: str) -> list[float]:
        """Return after how many seconds each of 40 changes was seen, which a webhook told."""
        late = []
        for n in range(40):
            id = fake.add_contact(**_person(2_000_000 + n))
            body = json.dumps([{"objectId": int(id), "subscriptionType": "contact.creation"}])
            headers = fake.webhook_headers(hooks, body.encode())
            began = time.monotonic()
            requests.post(hooks, data=body, headers=headers, timeout=10)
            url = f"{self._base}/contacts/{id}?idProperty=crm_id"
            while self._session.get(url, timeout=10).status_code != 200:
                if time.monotonic() - began > 90:
                    break
                time.sleep(0.05)
            late.append(time.monotonic() - began)
        return late


def _states(here: Place) -> list[CopyState]:
    hub = here.hub()
    try:
        return copy_crm.states(hub, hub.load_account("benchmark"))
    finally:
        hub.close()


def _wait(here: Place, done: Any) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not done(found := _states(here)):
        if time.monotonic() > until:
            raise Unavailable(f"The copy is not complete: {found}")
        time.sleep(0.5)


def _wait_for_pull(here: Place) -> None:
    """Wait until each kind has been pulled twice since now: the CRM's search lags."""
    now_ms = time.time() * 1000
    _wait(
        here,
        lambda states: all(
            one.state == "absent" or (one.synced_at or 0) > now_ms + 5_000 for one in states
        ),
    )


def _judge(fake: FakeHubSpot, seen: _Seen, emails: list[str], late: list[float]) -> bool:
    differences = Counter[str]()
    for kind, names in _NAMES.items():
        theirs, ours = fake.records(kind), seen.records(kind)
        differences[f"{kind} that only the CRM has"] += len(theirs.keys() - ours.keys())
        differences[f"{kind} that only the copy has"] += len(ours.keys() - theirs.keys())
        for id in sorted(theirs.keys() ^ ours.keys())[:10]:
            print(kind, id, theirs.get(id) or ours[id])
        for id in theirs.keys() & ours.keys():
            held = ours[id]["properties"]
            wrong = [name for name in names if (theirs[id].get(name) or "") != held.get(name, "")]
            differences[f"{kind} with other values"] += bool(wrong)
            if wrong:
                print(kind, id, {name: (theirs[id].get(name), held.get(name)) for name in wrong})
    held = Counter(one.get("email") for one in fake.records("contacts").values())
    differences["leads lost"] += sum(held[email] == 0 for email in emails)
    differences["leads twice"] += sum(held[email] > 1 for email in emails)
    for what, n in sorted(differences.items()):
        print(f"{what}: {n}")
    print(f"seen after a webhook: p50 {p(50, late):.1f} s, p95 {p(95, late):.1f} s")
    return not any(differences.values())


if __name__ == "__main__":
    main()
