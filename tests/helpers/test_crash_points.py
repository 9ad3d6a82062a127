"""A lead is neither lost nor twice, nor half there, wherever a process dies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import flask
import pytest

from adapters.fakes.hubspot import FakeHubSpot, Options
from crmhub.app import create_app
from crmhub.database.connection import Connection
from crmhub.helpers.actions import action_of
from crmhub.hub import Hub
from crmhub.operators.actions import action_queries, retry_action
from crmhub.operators.actions.correct_action import correct
from crmhub.operators.crm import set_crm
from crmhub.operators.erasure import erase_person
from crmhub.queue import accepting, claiming
from crmhub.queue.models import Accepted, Entry
from tests.adapters.hubspot.hubspot_crm import OAUTH, TOKEN
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_TICKET,
    SET_PROPERTIES,
    known,
    lead,
    switch,
)
from tests.clients import TESTS, Client, open_client
from tests.databases import new_settings
from tests.depth import ALL, thorough
from tests.fakes import connect
from tests.own_databases import KINDS as DATABASES
from tests.own_databases import own_database
from tests.queue.crashes import End, ends
from tests.queue.working import change, end_leases, rows, states, try_due

pytestmark = pytest.mark.crash
# More than anything takes that is tried until it is done.
_PASSES = 12
PHONE = "+12025550100"
KINDS = {"createDeal": "deals", "createTicket": "tickets"}


@dataclass
class Place:
    """An account with a HubSpot-like CRM, which need not be the account's, and its queue."""

    app: flask.Flask
    client: Client
    fake: FakeHubSpot

    @property
    def hub(self) -> Hub:
        """That of this process."""
        hub: Hub = self.app.extensions["crmhub"]
        return hub

    def records(self, kind: str) -> dict[str, tuple[Mapping[str, str], list[str]]]:
        """Return properties and contacts of all that either CRM holds."""
        listed = self.client.get(f"/{kind}?limit=100&include=associations").json["results"]  # type: ignore[index]
        own = {
            str(one["id"]): (
                one["properties"],
                [*map(str, one["associations"].get("contacts", []))],
            )
            for one in listed
        }
        return own | {
            id: (properties, self.fake.linked(kind, id, "contacts") if kind != "contacts" else [])
            for id, properties in self.fake.records(kind).items()
        }

    def queue(self, kind: str, **request: Any) -> Accepted:
        """Accept an action that nobody tries."""
        action = action_of(kind, request)
        account = self.client.account
        return accepting.accept(
            self.hub.database,
            account,
            lambda tx: action.enter(tx, account, action.mapped(account)),
            lease_s=5,
            now=False,
        )

    def queue_lead(self, name: str) -> str:
        """Queue the lead of somebody with this first name; return the hub's id of them."""
        said = {"contact_token": name, "name": f"{name} Lee", "email": f"{name.lower()}@x.org"}
        return self.queue("createLead", **said, phone="").hub_id

    def work(self) -> None:
        """Let a worker try once what is due."""
        try_due(self.hub, self.client)

    def work_off(self) -> None:
        """Let the leases of the dead end, and workers try until nothing is unfinished."""
        for _ in range(_PASSES):
            change(self.hub, self.client, "expires_at = 0", "lease")
            end_leases(self.hub, self.client)
            self.work()
            if not {"running", "queued"} & set(states(self.hub, self.client)):
                return
        raise AssertionError(rows(self.hub, self.client, "kind, state, reason"))


Step = Callable[[Place], Any]


@dataclass(frozen=True)
class Scene:
    """What is done, after what; `journal` is how many actions are in the journal then.

    `crms` are those that the account may have, with `marks` one that keeps the hub's marks.
    `renews` says that a lease of the whole connection is held meanwhile, `again` that whoever
    had no answer does it again.
    """

    act: Step
    prepare: Step = lambda place: None
    crms: tuple[str, ...] = ("local", "hubspot")
    journal: int = 1
    marks: bool = False
    renews: bool = False
    again: bool = False


def answered(place: Place, path: str, body: Mapping[str, Any]) -> None:
    answer = place.client.helper(path, body)
    assert answer.status_code in (200, 202), answer.text


def new_lead(place: Place) -> None:
    assert lead(place.client, phone=PHONE).status_code in (200, 202)


def by_phone(place: Place) -> None:
    assert lead(place.client, email=None, phone=PHONE).status_code in (200, 202)


def by_phone_alone(place: Place) -> None:
    switch(place.app, place.client, lead_requires="email_or_phone")


def somebody(place: Place) -> None:
    known(place.client, name="Anna Leigh", phone="+12025550177")


def a_deal(place: Place) -> None:
    bound = rows(place.hub, place.client, "hub_id", "binding")[0][0]
    properties = {"dealname": "A deal", "amount": "17"}
    answered(place, CREATE_DEAL, {"contactId": bound, "properties": properties})


def a_ticket(place: Place) -> None:
    bound = rows(place.hub, place.client, "hub_id", "binding")[0][0]
    answered(place, CREATE_TICKET, {"contactId": bound, "properties": {"subject": "A ticket"}})


def values(place: Place) -> None:
    said = {"contactToken": "t", "props": {"city": "Rome", "phone": "", "firstname": "Bea"}}
    answered(place, SET_PROPERTIES, said)


def some_queued(place: Place) -> None:
    place.queue_lead("Bob")
    hub_id = place.queue_lead("Cora")
    place.queue("setProperties", contact_token="Cora", properties={"city": "Rome"})
    place.queue("createDeal", contact_id=hub_id, properties={"dealname": "Of Cora"})


def delivery(place: Place) -> None:
    for _ in range(3):
        place.work()
    assert set(states(place.hub, place.client)) == {"done"}


def emails(place: Place) -> set[str]:
    return {values.get("email", "") for values, _ in place.records("contacts").values()}


PERSON = ("email", "phone", "firstname", "lastname", "city")


def people(place: Place) -> list[list[str]]:
    """Return who is in the CRM by what it was told here, which names everybody."""
    found = [one for one, _ in place.records("contacts").values() if one.get("firstname")]
    return sorted([one.get(name, "") for name in PERSON] for one in found)


def said(accepted: list[tuple[str, Any]]) -> list[list[str]]:
    """Return who should be, by what the journal has accepted."""
    found: dict[str, dict[str, str]] = {}
    for kind, request in accepted:
        if kind == "createLead":
            first, _, last = request["name"].partition(" ")
            values = {"firstname": first, "lastname": last, **request}
            person = found.setdefault(request["contact_token"], {})
            person |= {name: values[name] for name in PERSON if values.get(name)}
        elif kind == "setProperties":
            found[request["contact_token"]] |= request["properties"]
    return sorted([one.get(name, "") for name in PERSON] for one in found.values())


def a_deal_that_is_not_written_down(place: Place) -> None:
    """Let a process die behind its call to the CRM, and its lease end."""
    somebody(place)
    a_deal(place)
    change(
        place.hub,
        place.client,
        "state = 'running', lease = 'x', doubt_since = created_at - 1, result = null,"
        " finished_at = null where kind = 'createDeal'",
    )


def with_an_old_token(place: Place) -> None:
    connect_to(place, {"access_token": "", **OAUTH})
    somebody(place)
    place.fake.expire_tokens()


def connect_to(place: Place, credentials: Mapping[str, str]) -> None:
    connect(place.app, place.client, "hubspot", credentials, base_url=place.fake.url)


def change_of_crm(place: Place) -> None:
    crm = set_crm.Crm("hubspot", {"base_url": place.fake.url}, TOKEN)
    client_id = place.client.account.client_id
    set_crm.set_crm(place.hub, client_id, crm, by=TESTS, test=True, queued="move")


def erasing(place: Place) -> None:
    person, _ = erase_person.find(place.hub, place.client.account, "cora@x.org")
    if person is not None:
        erase_person.erase(place.hub, place.client.account, person, by=TESTS)


def some_dead(place: Place) -> None:
    some_queued(place)
    change(place.hub, place.client, "state = 'dead', finished_at = 1")


def retry(place: Place) -> None:
    retry_action.retry(
        place.hub.database, action_queries.Wanted(account=place.client.account), by=TESTS
    )


def correction(place: Place) -> None:
    for id, state, request in rows(place.hub, place.client, "id, state, request"):
        said = json.loads(request)
        if state == "dead" and said.get("name") == "Cora Lee":
            correct(place.hub, id, {"name": "Cora Poe", "email": "poe@x.org"}, by=TESTS)
    retry(place)


SCENES = {
    "a new lead": Scene(new_lead),
    "a lead that is known": Scene(new_lead, somebody, journal=2),
    "a lead that the CRM has": Scene(
        new_lead, lambda place: place.fake.add_contact(email="ann@x.org"), ("hubspot",)
    ),
    "a lead by phone": Scene(by_phone, by_phone_alone),
    "a deal": Scene(a_deal, somebody, journal=2),
    "a deal with a mark": Scene(a_deal, somebody, ("hubspot",), journal=2, marks=True),
    "a ticket": Scene(a_ticket, somebody, ("local",), journal=2),
    "a deal in doubt": Scene(delivery, a_deal_that_is_not_written_down, journal=2),
    "properties": Scene(values, somebody, journal=2),
    "what is queued": Scene(delivery, some_queued, journal=4),
    "a renewal": Scene(new_lead, with_an_old_token, ("hubspot",), journal=2, renews=True),
    "another CRM": Scene(change_of_crm, some_queued, ("local",), journal=4, again=True),
    "an erasure": Scene(erasing, some_queued, journal=1, again=True),
    "a retry": Scene(retry, some_dead, journal=4, again=True),
    "a correction": Scene(correction, some_dead, journal=4, again=True),
}


@contextmanager
def opened(app: flask.Flask, crm: str, *, marks: bool) -> Iterator[Place]:
    with FakeHubSpot(Options(limit="100000/10s", search_limit="none", marks=marks)) as fake:
        place = Place(app, open_client(app), fake)
        if crm == "hubspot":
            connect_to(place, TOKEN)
        yield place


def walk(app: flask.Flask, crm: str, scene: Scene) -> int:
    """Let processes die everywhere in a scene; return at how many places."""
    with ExitStack() as places:

        def prepare() -> Callable[[], Any]:
            places.close()
            place = places.enter_context(opened(app, crm, marks=scene.marks))
            scene.prepare(place)
            here.append(place)
            return lambda: scene.act(place)

        here: list[Place] = []
        for end in ends(app, prepare):
            judge(here[-1], scene, end)
    return len(here) - 1


def judge(place: Place, scene: Scene, end: End) -> None:
    """Assert that all is well in the end, wherever a process died."""
    at = f"dead {end.died}" if end.died else "answered"
    if scene.renews:
        change(place.hub, place.client, "expires_at = 0", "lease")
    if end.died and scene.again:
        scene.act(place)
    place.queue_lead("Zoe")
    place.work()
    assert "zoe@x.org" in emails(place), f"{at}: others are held up"
    place.work_off()
    kept = rows(place.hub, place.client, "kind, state, request, result")
    assert {state for _, state, *_ in kept} == {"done"}, at
    assert end.died or len(kept) == scene.journal + 1, f"{at}: lost"
    assert people(place) == said([(kind, json.loads(told)) for kind, _, told, _ in kept]), at
    for kind, name in KINDS.items():
        made = {id: contacts for id, (_, contacts) in place.records(name).items()}
        results = [json.loads(result) for one, *_, result in kept if one == kind]
        assert made == {one["record_id"]: [one["contact_id"]] for one in results}, at


@pytest.fixture(scope="module")
def app_on(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], flask.Flask]]:
    """Returns the app on a database of this kind, to which no other test has a connection."""
    with ExitStack() as opened:

        @cache
        def app_on(kind: str) -> flask.Flask:
            directory = tmp_path_factory.mktemp("crashes")
            app = create_app(
                new_settings(opened.enter_context(own_database(kind, directory)), directory)
            )
            hub: Hub = app.extensions["crmhub"]
            # So that it has no thread that writes when keys were used.
            hub.directory.close()
            opened.callback(hub.close)
            return app

        yield app_on


@pytest.fixture
def app(app_on: Callable[[str], flask.Flask], database: str) -> flask.Flask:
    return app_on(database)


@pytest.fixture(autouse=True)
def _nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the CRM allow any number of searches."""
    monkeypatch.setattr("adapters.hubspot.HubSpotAdapter.limits", ())


# A scene with two CRMs meets one of them on each database, in turn; others meet theirs on both.
WALKS = [
    (database, crm, name)
    for n, (name, scene) in enumerate(SCENES.items())
    for i, crm in enumerate(scene.crms)
    for j, database in enumerate(DATABASES)
    if ALL or len(scene.crms) == 1 or (i + j + n) % 2 == 0
]


@pytest.mark.parametrize(("database", "crm", "name"), WALKS)
def test_whatever_was_accepted_is_there_once_and_whole(
    app: flask.Flask, crm: str, name: str
) -> None:
    assert walk(app, crm, SCENES[name])


# The walk itself.


class Answered(Exception):
    """The caller has the answer, and nothing of it is committed."""


@thorough
@pytest.mark.parametrize("database", DATABASES)
def test_an_answer_before_the_commit_is_noticed(app: flask.Flask) -> None:
    def too_early(place: Place) -> None:
        def work(tx: Connection) -> None:
            new_lead(place)
            raise Answered

        with suppress(Answered):
            place.hub.database.transact(work)

    with pytest.raises(AssertionError, match="answered: lost"):
        walk(app, "local", Scene(too_early))


@thorough
@pytest.mark.parametrize("database", DATABASES)
def test_a_forgotten_doubt_is_noticed(app: flask.Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    entry_of = claiming._entry

    def forgotten(*row: Any) -> Entry:
        return replace(entry_of(*row), doubt_since=0)

    monkeypatch.setattr(claiming, "_entry", forgotten)
    with pytest.raises(AssertionError, match="dead behind POST /crm/objects/2026-09/deals"):
        walk(app, "hubspot", SCENES["a deal"])
