"""A CRM in memory that does what a test tells it, and the accounts that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint

import flask

from adapters.fakes.hubspot.fake import FakeHubSpot
from crmhub.adapter import (
    Adapter,
    AdapterError,
    Conflict,
    Contact,
    ContactWrite,
    Linked,
    NotFound,
    Problem,
    Rejected,
    Saved,
    Setting,
    Written,
)
from crmhub.adapter.registry import Registry
from crmhub.crm.stored_connections import configure
from crmhub.hub import Hub
from crmhub.secrets import BASE36, token
from tests.clients import Client, open_client

KNOWN = ("email", "phone", "firstname", "lastname", "city", "dealname", "dealstage", "subject")


@dataclass
class FakeCrm:
    """What a fake CRM holds. Every write and every read raises `failure` when there is one."""

    failure: AdapterError | None = None
    contacts: dict[str, dict[str, str]] = field(default_factory=dict)
    linked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    required: tuple[str, ...] = ()
    # Emails that only a failed create tells of, like an index that lags behind.
    hidden: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    # What happens while a call is under way, before it takes effect; it is given the call's name.
    during: Callable[[str], object] | None = None
    marks: list[str] = field(default_factory=list)


CRMS: dict[str, FakeCrm] = {}


class FakeAdapter(Adapter):
    """Talks to the FakeCrm that its setting `crm` names."""

    title = "Fake"
    settings = (
        Setting("crm", "Which of the fake CRMs", required=True),
        Setting("access_token", "Any secret", secret=True),
    )
    record_pages = True
    # What it does not answer it has not written, either.
    under_way_s = 0.0

    def _crm(self, call: str) -> FakeCrm:
        crm = CRMS[self.context.settings["crm"]]
        crm.calls.append(call)
        if crm.during is not None:
            crm.during(call)
        if crm.failure is not None:
            raise crm.failure
        return crm

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        crm = self._crm("find_contact")
        for contact_id, stored in crm.contacts.items():
            found = stored.get("email") == email if email else stored.get("phone") == phone
            if found and email not in crm.hidden:
                return self._contact(contact_id, stored, names)
        return None

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        crm = self._crm("get_contact")
        if contact_id not in crm.contacts:
            raise NotFound(f"there is no contact {contact_id}")
        return self._contact(contact_id, crm.contacts[contact_id], names)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        crm = self._crm("create_contact")
        self._check(crm, properties)
        for contact_id, stored in crm.contacts.items():
            if properties.get("email") and stored.get("email") == properties["email"]:
                raise Conflict("it exists", existing_id=contact_id, name="email")
        contact_id = f"c-{len(crm.contacts) + 1}"
        crm.contacts[contact_id] = dict(properties)
        return Saved(contact_id, "created", self._page(contact_id))

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        crm = self._crm("update_contact")
        if contact_id not in crm.contacts:
            raise NotFound(f"there is no contact {contact_id}")
        self._check(crm, properties)
        crm.contacts[contact_id].update(properties)
        return Saved(contact_id, "updated", self._page(contact_id))

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        crm = self._crm("create_for_contact")
        if contact_id not in crm.contacts:
            raise NotFound(f"there is no contact {contact_id}")
        self._check(crm, properties)
        crm.linked.append((kind, contact_id, dict(properties)))
        crm.marks.append(mark)
        return Saved(f"{kind}-{len(crm.linked)}", "created", self._page(kind))

    def active_workflow(self, contact_id: str, *, since_ms: int) -> str:
        self._crm("active_workflow")
        return "w-of-the-crm"

    def _check(self, crm: FakeCrm, properties: Mapping[str, str]) -> None:
        """Complain about the first problem only, as some CRMs do."""
        for name in crm.required:
            if not properties.get(name):
                raise Rejected([Problem(name, "it is required")])
        for name in properties:
            if name not in KNOWN:
                raise Rejected([Problem(name, "no such property")])

    def _contact(self, contact_id: str, stored: Mapping[str, str], names: Sequence[str]) -> Contact:
        known = {name: stored.get(name, "") for name in names if name in KNOWN}
        return Contact(contact_id, known, self._page(contact_id))

    def _page(self, what: str) -> str:
        return f"https://crm.example.test/{what}"


class BatchingAdapter(FakeAdapter):
    """Takes leads together."""

    batch_size = 10

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        self._crm("find_contacts")
        found = {each: self.find_contact(email=each, names=names) for each in emails}
        found |= {each: self.find_contact(phone=each, names=names) for each in phones}
        return {each: one for each, one in found.items() if one is not None}

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        self._crm("write_contacts")
        return [None] * len(writes)


class CheckableAdapter(FakeAdapter):
    """Can test its connection."""

    def check(self) -> None:
        self._crm("check")


class LockingAdapter(FakeAdapter):
    """Lets one contact of a phone be made at a time."""

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        with self.context.lease(f"phone {properties['phone']}", 30):
            return super().create_contact(properties, mark=mark)


class LateAdapter(FakeAdapter):
    """A CRM that may carry a write out a minute late, without unique emails or marks."""

    under_way_s = 60.0

    def find_marked(
        self, kind: Written, contact_id: str, mark: str, *, sent: Mapping[str, str], since_ms: int
    ) -> Saved | None:
        crm = self._crm("find_marked")
        if kind == "contacts":
            made = [id for id, one in crm.contacts.items() if one.get("email") == sent["email"]]
        else:
            wanted = (kind, contact_id, dict(sent))
            made = [f"{kind}-{i}" for i, one in enumerate(crm.linked, 1) if one == wanted]
        return Saved(made[0], "created") if made else None


class LateBatchingAdapter(LateAdapter, BatchingAdapter):
    """The same, where leads are taken together."""


FAKE = EntryPoint("fake", "tests.fakes:FakeAdapter", "crmhub.adapters")
BATCHING = EntryPoint("batching", "tests.fakes:BatchingAdapter", "crmhub.adapters")
CHECKABLE = EntryPoint("checkable", "tests.fakes:CheckableAdapter", "crmhub.adapters")
LOCKING = EntryPoint("locking", "tests.fakes:LockingAdapter", "crmhub.adapters")
LATE = EntryPoint("late", "tests.fakes:LateAdapter", "crmhub.adapters")
LATE_BATCHING = EntryPoint("late_batching", "tests.fakes:LateBatchingAdapter", "crmhub.adapters")
BROKEN = EntryPoint("broken", "tests.no_such_module:Adapter", "crmhub.adapters")


@contextmanager
def adapters(app: flask.Flask, *points: EntryPoint) -> Iterator[None]:
    """Let the app know these adapters beside the installed ones."""
    hub: Hub = app.extensions["crmhub"]
    installed = hub.registry
    app.extensions["crmhub"] = replace(hub, registry=Registry([*installed.entry_points, *points]))
    try:
        yield
    finally:
        app.extensions["crmhub"] = hub


def fake_client(app: flask.Flask, adapter: str = "fake") -> tuple[Client, FakeCrm]:
    """Return a caller of an account that uses a fake CRM, and that CRM."""
    client = open_client(app)
    name = token(40, BASE36)
    connect(app, client, adapter, crm=name)
    return client, CRMS.setdefault(name, FakeCrm())


def hubspot_client(app: flask.Flask, fake: FakeHubSpot) -> Client:
    """Return a caller of an account that uses this CRM over real HTTP."""
    client = open_client(app)
    connect(app, client, "hubspot", {"access_token": fake.token}, base_url=fake.url)
    return client


def connect(
    app: flask.Flask,
    client: Client,
    adapter: str,
    credentials: Mapping[str, str] | None = None,
    **settings: str,
) -> None:
    """Give the client's account another CRM."""
    hub: Hub = app.extensions["crmhub"]
    client.account = hub.database.transact(
        lambda tx: configure(
            tx,
            client.account.id,
            name=adapter,
            adapter=hub.registry.load(adapter),
            settings=settings,
            credentials=credentials or {},
            vault=hub.vault,
            plans=hub.plans,
        )
    )
    hub.directory.forget(client.account.id)
