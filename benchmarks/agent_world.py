"""The records that the tasks of `benchmarks.agent_tasks` are about, in the hub or in a CRM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.accounts.accounts import Account
from crmhub.database.connection import now_ms
from crmhub.database.rows import set_where
from crmhub.database.tables import action
from crmhub.helpers.attempts import Action
from crmhub.helpers.create_lead import CreateLead
from crmhub.helpers.create_linked import CreateDeal
from crmhub.hub import Hub
from crmhub.properties.kinds import KINDS
from crmhub.queue import accepting
from crmhub.queue.models import new_id
from crmhub.records import linking
from crmhub.records.models import NewRecord
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query

DAY_MS = 86_400_000
STAGES = (
    "appointmentscheduled",
    "qualifiedtobuy",
    "presentationscheduled",
    "decisionmakerboughtin",
    "contractsent",
    "closedwon",
    "closedlost",
)
_FIRST = ("Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Iris", "Jon")
_LAST = ("Silva", "Stone", "Berg", "Costa")
_CITIES = ("Berlin", "Rome", "Lisbon", "Oslo", "Paris")


@dataclass(frozen=True, slots=True)
class Item:
    """A record; `links` are the keys of others, such as `companies/Acme`."""

    kind: str
    name: str
    properties: Mapping[str, str]
    links: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.name}"


def items() -> list[Item]:
    """Return companies, 40 contacts, 30 deals and 8 tickets, each after those it is linked to."""
    made = [
        Item("companies", name, {"name": name, "city": city} | ({"domain": host} if host else {}))
        for name, city, host in (
            ("Acme", "Berlin", "acme.com"),
            ("Globex", "Rome", "globex.com"),
            ("Initech", "Oslo", "initech.com"),
            ("Umbrella", "Paris", ""),
        )
    ]
    companies = [one.name for one in made]
    for n in range(40):
        first, last = _FIRST[n % 10], _LAST[n // 10]
        company = companies[n % 4]
        values = {
            "firstname": first,
            "lastname": last,
            "email": f"{first}.{last}@mail{n % 3}.com".lower(),
            "company": company,
            "city": _CITIES[n % 5],
            "lifecyclestage": ("lead", "customer", "subscriber")[n % 3],
        }
        if n % 4 != 0 or n % 8 == 0:
            values["phone"] = f"+4930901820{n:02d}"
        made.append(Item("contacts", f"{first} {last}", values, (f"companies/{company}",)))
    people = [one for one in made if one.kind == "contacts"]
    for n in range(30):
        person = people[n]
        values = {
            "dealname": f"Order {n + 1} of {person.name}",
            "amount": str(n * 1000 + 500),
            "pipeline": "default",
            "dealstage": STAGES[n % 7],
            "closedate": f"2026-{n % 6 + 7:02d}-15",
        }
        made.append(Item("deals", f"Order {n + 1}", values, (person.key, *person.links)))
    for n in range(8):
        values = {
            "subject": f"Question {n + 1}",
            "content": "The invoice is wrong" if n % 2 else "It does not start",
            "hs_pipeline": "0",
            "hs_pipeline_stage": str(n % 4 + 1),
            "hs_ticket_priority": ("LOW", "MEDIUM", "HIGH", "URGENT")[n // 2],
        }
        made.append(Item("tickets", f"Question {n + 1}", values, (people[n].key,)))
    return made


class Crm(Protocol):
    """The CRM of an account, as its own users see it."""

    def add(self, item: Item, ids: Mapping[str, str]) -> str: ...

    def now(self, kind: str) -> dict[str, dict[str, str]]: ...

    def linked(self, kind: str, id: str, to: str) -> list[str]: ...


@dataclass(slots=True)
class World:
    """`ids`: the ids of all items in the CRM, by their keys."""

    crm: Crm
    items: list[Item] = field(default_factory=items)
    ids: dict[str, str] = field(default_factory=dict)

    def fill(self) -> None:
        """Create all records."""
        for one in self.items:
            self.ids[one.key] = self.crm.add(one, self.ids)

    def of(self, kind: str, **values: str) -> list[Item]:
        """Return the items of a kind that have these values."""
        return [
            one
            for one in self.items
            if one.kind == kind
            and all(one.properties.get(name, "") == value for name, value in values.items())
        ]

    def ids_of(self, found: list[Item]) -> set[str]:
        """Return the ids of items."""
        return {self.ids[one.key] for one in found}

    def values(self, key: str) -> dict[str, str]:
        """Return the present properties of an item."""
        return self.crm.now(key.partition("/")[0])[self.ids[key]]

    def are_linked(self, key: str, other: str) -> bool:
        """Return whether two items are linked now."""
        kind, to = key.partition("/")[0], other.partition("/")[0]
        return self.ids[other] in self.crm.linked(kind, self.ids[key], to)


@dataclass(slots=True)
class OwnRecords:
    """An account whose records are the hub's own."""

    hub: Hub
    account: Account

    def add(self, item: Item, ids: Mapping[str, str]) -> str:
        """Create a record with its links."""
        kind, records = KINDS[item.kind], self.hub.records
        [record] = records.create(self.account, kind, [NewRecord(item.properties)])
        for key in item.links:
            to = KINDS[key.partition("/")[0]]
            linking.link(records, self.account, kind, record.id, to, int(ids[key]))
        return str(record.id)

    def now(self, kind: str) -> dict[str, dict[str, str]]:
        """Return the properties of all records of a kind, by id."""
        page = self.hub.records.page(self.account, KINDS[kind], PageRequest(Query(limit=100)))
        ids = [one.id for one in page.records]
        found = self.hub.records.read(self.account, KINDS[kind], ids)
        return {str(one.id): one.properties for one in found}

    def linked(self, kind: str, id: str, to: str) -> list[str]:
        """Return the ids of linked records."""
        links = self.hub.records.stored(self.account, KINDS[kind], [int(id)])[0].associations
        return [str(one) for one in links.get(to, ())]


@dataclass(slots=True)
class HubSpotRecords:
    """An account of the HubSpot-like CRM."""

    fake: FakeHubSpot

    def add(self, item: Item, ids: Mapping[str, str]) -> str:
        """Create a record with its links."""
        id = self.fake.add(item.kind, item.properties)
        with self.fake.lock:
            record = self.fake.load(item.kind, id)
            for key in item.links:
                self.fake.portal.link(record, self.fake.load(key.partition("/")[0], ids[key]))
        return id

    def now(self, kind: str) -> dict[str, dict[str, str]]:
        """Return the properties of all records of a kind, by id."""
        return self.fake.records(kind)

    def linked(self, kind: str, id: str, to: str) -> list[str]:
        """Return the ids of linked records."""
        return self.fake.linked(kind, id, to)


FAILED_NAME, FAILED_DEAL = "Otto Failed", "Order of Otto"


def plant_failures(hub: Hub, account: Account) -> dict[str, str]:
    """Store a lead that failed yesterday, a deal that it blocks, and a refused lead of today."""
    reason = "lifecyclestage: no such option"
    failed = CreateLead("", FAILED_NAME, "otto@failed.com", "")
    lead, contact = _accept(hub, account, failed)
    deal, _ = _accept(hub, account, CreateDeal(contact, {"dealname": FAILED_DEAL}))
    refused, _ = _accept(hub, account, CreateLead("", "Rita Refused", "rita@refused.com", ""))
    yesterday = new_id(now_ms() - DAY_MS)
    _set(hub, account, lead, id=yesterday, state="dead", reason=reason)
    _set(hub, account, deal, state="parked", behind=yesterday, reason="its lead failed")
    _set(hub, account, refused, state="refused", reason="email: this domain does not exist")
    return {"lead": yesterday, "deal": deal, "refused": refused}


def _accept(hub: Hub, account: Account, what: Action) -> tuple[str, str]:
    accepted = accepting.accept(
        hub.database,
        account,
        lambda tx: what.enter(tx, account, what.mapped(account)),
        lease_s=0,
        now=False,
        wait_s=3600,
    )
    return accepted.action_id, accepted.hub_id


def _set(hub: Hub, account: Account, action_id: str, **values: str | int) -> None:
    if "id" in values:
        values["created_at"] = now_ms() - DAY_MS
    key = {"account_id": account.id, "id": action_id}
    hub.database.transact(lambda tx: set_where(tx, action, key, finished_at=now_ms(), **values))
