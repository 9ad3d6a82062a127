"""Check that the copy of a CRM is the CRM, after writers on all sides, lost webhooks and kills.

    python -m benchmarks.copy [--crm hubspot|odoo] [--sqlite] [--contacts 20000] [--deals 4000]
                              [--changes 2000] [--writers 8] [--kills 10]

It starts a HubSpot-like or an Odoo-like CRM and `crmhub serve` with its worker, and loads the copy.
Then writers change records in the CRM, bots send leads and deals through the hub, and programs
create and change contacts by the public API, while server processes and worker are killed with
SIGKILL. Of HubSpot's webhooks one in ten is lost and one in ten comes twice, all in random order;
Odoo has none. When the writers have ended and three minutes' pulls are over, copy and CRM are
compared record by record. It ends with 1 if they differ, if anything that a bot or program was
promised is missing or there twice, if the hub's own write came back from the CRM as an event, or
if the hub saw fewer than 95 of 100 new contacts within 90 s.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import requests

from adapters.fakes.answers import Refused
from adapters.fakes.hubspot import fake as hubspot
from adapters.fakes.odoo import fake as odoo
from adapters.hubspot import HubSpotAdapter
from benchmarks.bots import Bots, p, until_empty
from benchmarks.faults import killing
from benchmarks.places import BENCHMARKS, NO_LIMIT, TOKEN, Place, parser, place
from crmhub.crm.watching import webhook_address
from crmhub.errors import Unavailable
from crmhub.operators.accounts.change_account import change
from crmhub.operators.crm import copy_crm
from crmhub.operators.crm.copy_crm import CopyState

Fake = hubspot.FakeHubSpot | odoo.FakeOdoo

SECRETS = {"access_token": TOKEN, "webhook_secret": "the-secret-of-the-app"}
"""The credentials of the HubSpot-like CRM."""
_PATIENCE_S = 3_600.0
# The first may end a walk through HubSpot's deleted records, and the next ones are a whole one.
_PULLS = 3
_MEASURED, _SEEN_WITHIN_S = 40, 90.0


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--crm", choices=("hubspot", "odoo"), default="hubspot")
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--contacts", type=int, default=20_000)
    command.add_argument("--deals", type=int, default=4_000)
    command.add_argument("--changes", type=int, default=2_000)
    command.add_argument("--writers", type=int, default=8)
    command.add_argument("--kills", type=int, default=10)
    options = command.parse_args()
    fake = fake_of(options.crm)
    fake.start()
    try:
        with place(options.sqlite) as here:
            sys.exit(0 if _run(here, fake, options) else 1)
    finally:
        fake.stop()


def fake_of(crm: str) -> Fake:
    if crm == "odoo":
        return odoo.FakeOdoo(odoo.Options(version=19, api_key=TOKEN))
    return hubspot.FakeHubSpot(
        hubspot.Options(
            token=TOKEN,
            limit=NO_LIMIT,
            search_limit="none",
            client_secret=SECRETS["webhook_secret"],
            search_lag=0.5,
        )
    )


def _run(here: Place, fake: Fake, options: argparse.Namespace) -> bool:
    if options.crm == "odoo":
        ids = here.account(str(fake.url), adapter="odoo", secrets={"api_key": TOKEN})
    else:
        ids = here.account(str(fake.url), secrets=SECRETS)
    writers = Writers(fake)
    writers.fill(options.contacts, options.deals)
    if options.crm == "hubspot":
        # Otherwise what was filled in last counts as changed during the load, and is read again.
        time.sleep(HubSpotAdapter.search_lag_s)
    with here.server(workers=2, threads=16) as service:
        base = "http://{}:{}".format(*service.address)
        hub = here.hub()
        account = hub.load_account("benchmark")
        change(hub, "benchmark", {"mirror": True}, by=BENCHMARKS)
        began = time.monotonic()
        wait_for_load(here)
        took = time.monotonic() - began
        records = options.contacts + options.deals
        print(f"loaded {records} records in {took:.0f} s, {records / took:.0f}/s", flush=True)
        writers.hooks = base + webhook_address(hub, account).partition("SERVICE")[2]
        hub.close()
        writers.bots, writers.api = Bots(service.address, ids), Api(base, ids.api_key)
        writers.api.subscribe()
        began = time.monotonic()
        with killing(service, options.kills), ThreadPoolExecutor(options.writers) as pool:
            for one in [pool.submit(writers.write, n) for n in range(options.changes)]:
                one.result()
        took = time.monotonic() - began
        print(
            f"{options.changes} changes in {took:.0f} s, {options.changes / took:.1f}/s", flush=True
        )
        until_empty(here.url, hurry=True)
        late = writers.times()
        for _ in range(_PULLS):
            wait_for_pull(here)
        if options.crm == "odoo":
            # Odoo tells no deletions.
            _compare(here)
        return _judge(here, writers, late)


def _person(n: int) -> dict[str, str]:
    return {"email": f"p{n}@example.com", "firstname": "Ann", "lastname": f"Lee {n}"}


@dataclass
class Writers:
    """All who change records: people in the CRM, bots, and programs by the public API."""

    fake: Fake
    people: list[str] = field(default_factory=list)
    """The contacts that people and programs change, by the CRM's ids."""
    promised: list[str] = field(default_factory=list)
    """The emails of contacts that the hub has promised to bots and programs."""
    hooks: str = ""
    bots: Any = None
    api: Any = None

    def fill(self, contacts: int, deals: int) -> None:
        """Create the contacts and deals that are there before the copy begins."""
        self.people = [self._add(_person(n)) for n in range(contacts)]
        title, amount = self._names("deals")
        for n in range(deals):
            deal: dict[str, Any] = {title: f"Deal {n}", amount: str(n)}
            if isinstance(self.fake, odoo.FakeOdoo):
                deal |= {amount: float(n), "type": "opportunity"}
            self.fake.add("deals", deal, contacts=[self.people[n]])
        if isinstance(self.fake, odoo.FakeOdoo):
            self._make_older()

    def _make_older(self) -> None:
        """Date what is there back: real records were changed before the copy begins."""
        made_at = datetime.now(UTC) - timedelta(hours=1)
        for kind in ("contacts", "deals"):
            for record in self.fake.stored(kind).values():
                record.properties["write_date"] = f"{made_at:%Y-%m-%d %H:%M:%S.%f}"
                record.updated_at = round(made_at.timestamp() * 1000)
                record.index()

    def _names(self, kind: str) -> tuple[str, ...]:
        is_odoo = isinstance(self.fake, odoo.FakeOdoo)
        if kind == "contacts":
            return ("email", "name", "city") if is_odoo else ("email", "lastname", "city")
        return ("name", "expected_revenue") if is_odoo else ("dealname", "amount")

    def _add(self, properties: dict[str, str]) -> str:
        if isinstance(self.fake, odoo.FakeOdoo):
            first, last = properties["firstname"], properties["lastname"]
            named = {"name": f"{first} {last}", "email": properties["email"]}
            return self.fake.add("contacts", named)
        return self.fake.add_contact(**properties)

    def write(self, n: int) -> None:
        """Make one change at random."""
        ways = ("change", "create", "lead", "api create", "api change", "archive", "merge")
        way = random.choices(ways, (40, 10, 20, 10, 10, 6, 4))[0]
        if way == "lead":
            self._lead(n)
        elif way.startswith("api"):
            self._call(n, way)
        else:
            self._change(n, way)

    def _lead(self, n: int) -> None:
        email = f"bot{n}@example.com"
        told = self.bots.create_lead(f"chat-{n}", name=f"Bo {n}", email=email)
        if told.accepted and n % 2:
            self.bots.create_deal(told.contact_id, dealname=f"Bot's deal {n}")
        if told.accepted:
            self.promised.append(email)

    def _call(self, n: int, way: str) -> None:
        if way == "api create":
            email = f"api{n}@example.com"
            sent = {"properties": {"email": email, "firstname": "Cy", "lastname": f"Lee {n}"}}
            status = self.api.write("POST", "/contacts", sent, key=f"create {n}")
            if status in (201, 202):
                self.promised.append(email)
            return
        id = self.api.hub_id(random.choice(self.people))
        if id:
            sent = {"properties": {"city": f"Program's town {n}"}}
            self.api.write("PATCH", f"/contacts/{id}", sent)

    def _change(self, n: int, way: str) -> None:
        if way == "create":
            self._hook(self._add(_person(1_000_000 + n)), "creation")
            return
        id, fake = random.choice(self.people), self.fake
        # Another writer may have archived or merged it.
        with suppress(Refused):
            if way == "change":
                fake.set("contacts", id, city=f"Town {n}")
                self._hook(id, "propertyChange")
            elif way == "archive" or isinstance(fake, odoo.FakeOdoo):
                fake.delete("contacts", id)
                self._hook(id, "deletion")
            else:
                self._hook(fake.merge("contacts", random.choice(self.people), id), "merge")

    def _hook(self, id: str, what: str) -> None:
        """Send HubSpot's webhook: one in ten is lost, and one in ten comes twice."""
        if isinstance(self.fake, odoo.FakeOdoo):
            return
        sent = [{"objectId": int(id), "subscriptionType": f"contact.{what}"}]
        for _ in range(random.choices((0, 1, 2), (1, 8, 1))[0]):
            time.sleep(random.uniform(0, 0.2))
            self._post(self.fake, sent)

    def _post(self, fake: hubspot.FakeHubSpot, sent: list[dict[str, Any]]) -> None:
        body = json.dumps(sent).encode()
        # A killed server process answers nothing.
        with suppress(requests.RequestException):
            headers = fake.webhook_headers(self.hooks, body)
            requests.post(self.hooks, data=body, headers=headers, timeout=10)

    def times(self) -> list[float]:
        """Return after how many seconds each of 40 new contacts was seen, by webhook or asking."""
        # Seen by asking, they come at all moments between two pulls.
        together = 1 if isinstance(self.fake, hubspot.FakeHubSpot) else _MEASURED
        with ThreadPoolExecutor(together) as pool:
            return list(pool.map(self._time, range(_MEASURED)))

    def _time(self, n: int) -> float:
        by_webhook = isinstance(self.fake, hubspot.FakeHubSpot)
        time.sleep(0 if by_webhook else random.uniform(0, 60))
        id = self._add(_person(2_000_000 + n))
        began = time.monotonic()
        if isinstance(self.fake, hubspot.FakeHubSpot):
            self._post(self.fake, [{"objectId": int(id), "subscriptionType": "contact.creation"}])
        while not self.api.hub_id(id) and time.monotonic() - began < 2 * _SEEN_WITHIN_S:
            time.sleep(0.05 if by_webhook else 0.5)
        return time.monotonic() - began

    def stored(self, kind: str) -> dict[str, list[str]]:
        """Return what the CRM holds under `_names`, by its ids, as texts."""
        found = {}
        for id, one in self.fake.records(kind).items():
            if isinstance(self.fake, odoo.FakeOdoo) and not self._is_of(kind, one):
                continue
            found[id] = [_text(one.get(name)) for name in self._names(kind)]
        return found

    def _is_of(self, kind: str, record: dict[str, Any]) -> bool:
        """Return whether a record of a model of Odoo's is one of this kind."""
        return kind != "contacts" or not record.get("is_company")


def _text(value: Any) -> str:
    if value in (None, False):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class Api:
    """A program that writes by the public API, and sees the copy."""

    def __init__(self, base: str, key: str) -> None:
        self._base = f"{base}/benchmark/api/v1"
        self._headers = {"service-apikey": key}

    def _send(self, method: str, path: str, **options: Any) -> requests.Response | None:
        headers = self._headers | options.pop("headers", {})
        try:
            return requests.request(
                method, self._base + path, headers=headers, timeout=30, **options
            )
        except requests.RequestException:
            return None

    def subscribe(self) -> None:
        """Have events recorded, to an address that takes none."""
        body = {"url": "http://127.0.0.1:9/", "types": ["contact.*"]}
        answer = self._send("POST", "/events/subscriptions", json=body)
        if answer is None or answer.status_code != 201:
            raise Unavailable(f"No subscription: {answer and answer.text}")

    def write(self, method: str, path: str, body: Any, *, key: str = "") -> int:
        """Write until there is an answer that stands; return its status."""
        headers = {"Idempotency-Key": key} if key else {}
        while True:
            answer = self._send(method, path, json=body, headers=headers)
            if answer is not None and answer.status_code != 503:
                return answer.status_code
            time.sleep(0.2)

    def hub_id(self, crm_id: str) -> int:
        """Return the hub's id of a contact; 0 if the copy does not have it."""
        answer = self._send("GET", f"/contacts/{crm_id}?idProperty=crm_id")
        found = answer.json() if answer is not None and answer.status_code == 200 else {}
        return int(found.get("id", 0))

    def records(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return all records by the CRM's id."""
        found: dict[str, dict[str, Any]] = {}
        link = "?limit=100&sort=createdAt"
        while link:
            answer = self._send("GET", f"/{kind}{link}")
            if answer is None or answer.status_code != 200:
                raise Unavailable(f"The list of {kind} ends: {answer and answer.text}")
            page = answer.json()
            found |= {one["properties"]["crm_id"]: one["properties"] for one in page["results"]}
            link = page["cursor"]["nextLink"]
        return found


def _wait(here: Place, done: Callable[[list[CopyState]], bool]) -> None:
    hub, until = here.hub(), time.monotonic() + _PATIENCE_S
    account = hub.load_account("benchmark")
    while not done(found := copy_crm.states(hub, account)):
        if time.monotonic() > until:
            raise Unavailable(f"The copy is not complete: {found}")
        time.sleep(0.5)
    hub.close()


def wait_for_load(here: Place) -> None:
    """Wait until the CRM's records are in the copy."""
    _wait(here, lambda states: all(one.is_complete or one.state == "absent" for one in states))


def wait_for_pull(here: Place) -> None:
    """Wait until each kind has been pulled twice since now: the CRM's search lags."""
    now_ms = time.time() * 1000
    _wait(
        here,
        lambda states: all(
            one.state == "absent" or (one.synced_at or 0) > now_ms + 5_000 for one in states
        ),
    )


def _compare(here: Place) -> None:
    """Compare all ids, and wait until what differs has been read."""
    began, hub = time.time() * 1000, here.hub()
    copy_crm.compare(hub, hub.load_account("benchmark"), by=BENCHMARKS)
    hub.close()
    _wait(
        here,
        lambda states: all(
            one.state == "absent" or (one.compared_at or 0) > began for one in states
        ),
    )
    wait_for_pull(here)


def _judge(here: Place, writers: Writers, late: list[float]) -> bool:
    differences = Counter[str]()
    held = Counter[str]()
    for kind in ("contacts", "deals"):
        theirs, ours = writers.stored(kind), writers.api.records(kind)
        names = ("email", "lastname", "city") if kind == "contacts" else ("dealname", "amount")
        differences[f"{kind} that only the CRM has"] += len(theirs.keys() - ours.keys())
        differences[f"{kind} that only the copy has"] += len(ours.keys() - theirs.keys())
        for id in sorted(theirs.keys() ^ ours.keys())[:10]:
            print(kind, id, theirs.get(id) or ours[id])
        for id in theirs.keys() & ours.keys():
            shown = [ours[id].get(name, "") for name in names]
            if kind == "contacts" and isinstance(writers.fake, odoo.FakeOdoo):
                shown[1] = " ".join(filter(None, (ours[id].get("firstname", ""), shown[1])))
            if shown != theirs[id]:
                differences[f"{kind} with other values"] += 1
                print(kind, id, theirs[id], shown)
        if kind == "contacts":
            held.update(email for email, *_ in theirs.values())
    promised = writers.promised
    differences["promised contacts lost"] += sum(held[email] == 0 for email in promised)
    differences["promised contacts twice"] += sum(held[email] > 1 for email in promised)
    differences["echoes"] += _echoes(here, set(promised))
    for what, n in sorted(differences.items()):
        print(f"{what}: {n}")
    print(f"{len(promised)} contacts promised by the hub")
    how = "by asking each minute" if isinstance(writers.fake, odoo.FakeOdoo) else "after a webhook"
    print(f"seen {how}: p50 {p(50, late):.1f} s, p95 {p(95, late):.1f} s, max {max(late):.1f} s")
    return not any(differences.values()) and p(95, late) <= _SEEN_WITHIN_S


def _echoes(here: Place, emails: set[str]) -> int:
    """Return how many further events there are of contacts that only the hub has written."""
    hub = here.hub()
    with hub.database.across_accounts(), hub.database.reading() as db:
        rows = db.rows("select type, data from event")
    hub.close()
    told = Counter(
        email
        for type_, data in rows
        if type_.startswith("contact.")
        and (email := json.loads(data)["properties"].get("email", "")) in emails
    )
    for type_, data in rows:
        one = json.loads(data)
        if told[one["properties"].get("email", "")] > 1:
            print(type_, one["source"], one["properties"].get("email"), one["changed"])
    return sum(n - 1 for n in told.values())


if __name__ == "__main__":
    main()
