"""Build a database of a million contacts.

One account has most of the contacts; many small accounts share the others. The values of a contact
depend only on its number, so two databases of the same size have the same content. The hub's own
code writes the contacts, in batches of 100, in as many processes as the machine has cores. Only the
times of creation and change are given; they are spread over two years.
"""

from __future__ import annotations

import os
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice

from sqlalchemy.engine import make_url

from benchmarks.places import BENCHMARKS, Place
from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.database.connection import Database
from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.properties import catalogue as catalogues
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import CONTACTS
from crmhub.properties.validation import check
from crmhub.records import documents, writing
from crmhub.records.ids import Ids
from crmhub.records.models import Change, NewRecord

BIG = "million"
_BATCH = 100
# One piece of work of a process: so many batches of the big account, or so many small accounts.
_BATCHES, _ACCOUNTS = 50, 10
_START = 1_700_000_000_000
_SPAN_MS = 2 * 365 * 86_400_000
_FIRST_DAY = date(2023, 1, 1)
_DAYS = 1000

_JOBS = ("Engineer", "Manager", "Nurse", "Teacher", "Baker", "Clerk", "Buyer", "Writer", "Pilot")
_RANKS = ("Junior", "Senior", "Lead", "Deputy", "Chief", "Assistant")


@dataclass(frozen=True, slots=True)
class Size:
    """The number of contacts in the big account, and the number of small accounts.

    `others` is the number of contacts of all small accounts together, `properties` the largest
    number of properties of a contact.
    """

    records: int
    others: int
    accounts: int
    properties: int = 12

    @property
    def each(self) -> int:
        """The number of contacts of a small account."""
        return self.others // self.accounts if self.accounts else 0


def contact(account: int, number: int, of: int) -> dict[str, str]:
    """Return the properties of contact `number` of the `of` contacts of an account.

    `lifecyclestage`, `hs_lead_status` and `closedate` depend on the order of creation, and `state`
    depends on `city`. All other values are independent.
    """
    chance = random.Random(account * 1_000_003 + number).random
    age = number / of
    properties = {
        "email": f"person{number}@company{number % 997}.example.com",
        "lastname": f"Last{int(chance() * 5000)}",
        "city": _city(chance()),
        "lifecyclestage": _stage(age, chance()),
        "hs_lead_status": "UNQUALIFIED" if age < 0.5 else "NEW",
        "hubspotscore": str(int(chance() * 10_000)),
        "notes_last_contacted": _day(chance()),
        "jobtitle": f"{_RANKS[int(chance() * 6)]} {_JOBS[int(chance() * 9)]}",
    }
    properties["state"] = _state(properties["city"], chance())
    if chance() < 0.7:
        properties["closedate"] = _day(min(1.0, max(0.0, age + (chance() - 0.5) / 20)))
    if chance() < 0.05:
        properties["total_revenue"] = str(int(10 ** (2 + 4 * chance())))
    if chance() < 0.02:
        properties["twitterhandle"] = f"person{number}"
    return properties


def _city(chance: float) -> str:
    if chance < 0.5:
        return "Berlin"
    return "Bremen" if chance < 0.52 else f"City {int((chance - 0.52) / 0.48 * 400)}"


def _state(city: str, chance: float) -> str:
    if city == "Berlin":
        return "Bavaria" if chance < 0.001 else "Brandenburg"
    return "Bavaria" if chance < 0.3 else f"State {int(chance * 14)}"


def _stage(age: float, chance: float) -> str:
    if age < 0.02:
        return "evangelist"
    if age >= 0.98:
        return "subscriber"
    return "lead" if chance < 0.5 else "customer"


def _day(share: float) -> str:
    return (_FIRST_DAY + timedelta(days=int(share * _DAYS))).isoformat()


def build(here: Place, size: Size) -> Account:
    """Open all accounts, write their contacts, and return the big one."""
    hub = here.hub()
    big, _ = open_account(hub, name=BIG, client_id=BIG, plan="unlimited", by=BENCHMARKS)
    hub.close()
    batches = range(0, size.records, _BATCH * _BATCHES)
    small = range(0, size.accounts, _ACCOUNTS)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        work = [pool.submit(_fill_big, here, big.id, first, size) for first in batches]
        work += [pool.submit(_fill_small, here, first, size) for first in small]
        for each in work:
            each.result()
    return big


def big_account(hub: Hub) -> Account:
    """Return the big account of a database that `build` filled."""
    with hub.database.reading() as connection:
        return accounts.load(connection, BIG, hub.plans)


def _fill_big(here: Place, account_id: int, first: int, size: Size) -> None:
    last = min(size.records, first + _BATCH * _BATCHES)
    _fill(here, account_id, range(first, last), size.records, size.properties)


def _fill_small(here: Place, first: int, size: Size) -> None:
    hub = here.hub()
    for number in range(first, min(size.accounts, first + _ACCOUNTS)):
        name = f"small-{number}"
        account, _ = open_account(hub, name=name, client_id=name, plan="unlimited", by=BENCHMARKS)
        _fill(here, account.id, range(size.each), size.each, size.properties)
    hub.close()


def _fill(here: Place, account_id: int, numbers: range, of: int, properties: int) -> None:
    url = make_url(here.url)
    if here.dialect == "postgresql":
        # A crash of the server would spoil the run anyway.
        url = url.update_query_dict({"options": "-csynchronous_commit=off"})
    database = Database(url.render_as_string(hide_password=False), pool_size=1)
    ids = Ids(database)
    with database.reading() as connection:
        catalogue = catalogues.load(connection, account_id, CONTACTS)
    for start in range(numbers.start, numbers.stop, _BATCH):
        batch = range(start, min(numbers.stop, start + _BATCH))
        contacts = [dict(islice(contact(account_id, n, of).items(), properties)) for n in batch]
        _write(database, ids, catalogue, batch, of, contacts)
    database.close()


def _write(
    database: Database,
    ids: Ids,
    catalogue: Catalogue,
    batch: range,
    of: int,
    contacts: list[dict[str, str]],
) -> None:
    """Write a batch of contacts; later, each twentieth of them is changed."""
    account = catalogue.account_id
    created = _START + _SPAN_MS * batch.start // of
    chance = random.Random(f"{account} {batch.start}").random
    changed = created + int((_START + _SPAN_MS - created) * chance())
    new = documents.finish(
        catalogue, [NewRecord(_checked(catalogue, contact)) for contact in contacts]
    )
    taken = ids.take(account, CONTACTS.code, len(batch))
    changes = [
        Change(id, {"notes_last_contacted": _day(chance())})
        for id, number in zip(taken, batch, strict=True)
        if number % 20 == 0
    ]
    database.transact(
        lambda tx: writing.create(tx, catalogue, new, ids=taken, now=created, quota=None)
    )
    database.transact(lambda tx: writing.update(tx, catalogue, changes, now=changed))


def _checked(catalogue: Catalogue, properties: dict[str, str]) -> dict[str, str]:
    clean, problems = check(catalogue, properties, region="")
    if problems:
        raise SystemExit(f"a contact of the benchmark is none: {problems[0]}")
    return clean
