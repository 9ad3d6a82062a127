"""Calls at once, from hubs of their own as processes have them, end as if one followed another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from crmhub.crm.connection import connect
from crmhub.database.connection import Connection
from crmhub.helpers.contact_properties import set_properties
from crmhub.helpers.create_lead import create_lead
from crmhub.hub import Hub
from crmhub.identity import resolution
from crmhub.settings import Settings
from tests.clients import Client

At = Callable[[Callable[[Hub, int], object]], None]


@pytest.fixture
def at_once(settings: Settings) -> Iterator[At]:
    """Run a function 24 times on four hubs at once."""
    hubs = [Hub.open(settings) for _ in range(4)]

    def run(work: Callable[[Hub, int], object]) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: work(hubs[i % 4], i), range(24)))

    yield run
    for hub in hubs:
        hub.close()


def test_one_conversation_about_several_people_waits_for_itself(
    at_once: At, hub: Hub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PostgreSQL takes a second to notice a deadlock: here the first one fails.
    monkeypatch.setattr("crmhub.database.connection._DEADLOCK_TRIES", 1)

    def bind(own: Hub, i: int) -> None:
        def work(tx: Connection) -> None:
            email, crm_id = f"e{i % 3}@x.org", str(i % 3)
            resolved = resolution.resolve_binding(
                tx, client.account, token="t", email=email, phone=""
            )
            resolution.set_contact(
                tx, client.account, resolved.binding.hub_id, crm_id=crm_id, values={}
            )

        own.database.transact(work)

    at_once(bind)
    with hub.database.reading() as connection:
        rows = connection.rows(
            "select crm_id, contact_token from binding where account_id = :id",
            {"id": client.account.id},
        )
    assert sorted(crm_id for crm_id, _ in rows) == ["0", "1", "2"]
    assert sorted(str(token) for _, token in rows) == ["None", "None", "t"]


@pytest.mark.parametrize("known", ["email", "phone"])
def test_several_conversations_about_one_person_know_that(
    at_once: At, hub: Hub, client: Client, known: str
) -> None:
    they = {"email": "", "phone": "", known: "ann@x.org" if known == "email" else "+12025550100"}

    def meet(own: Hub, i: int) -> None:
        own.database.transact(
            lambda tx: resolution.resolve_binding(tx, client.account, token=f"t{i}", **they)
        )

    at_once(meet)
    with hub.database.reading() as connection:
        persons = connection.rows(
            "select person, count(*) from binding where account_id = :id group by person",
            {"id": client.account.id},
        )
    assert [count for _, count in persons] == [24]


def test_no_lead_is_lost_while_others_define_properties(at_once: At, client: Client) -> None:
    def call(own: Hub, i: int) -> None:
        create_lead(
            own,
            client.account,
            contact_token=f"t{i}",
            name="Ann Lee",
            email=f"e{i % 6}@x.org",
            phone="",
        )
        properties = {f"new_{i}": "1"}
        set_properties(own, client.account, contact_token=f"t{i}", properties=properties)

    at_once(call)
    listed = client.get("/contacts?limit=100").json
    assert listed["total"] == 6  # type: ignore[index]
    stored = [name for each in listed["results"] for name in each["properties"]]  # type: ignore[index]
    assert {name for name in stored if name.startswith("new_")} == {f"new_{i}" for i in range(24)}


def test_a_contact_keeps_its_deals_while_it_is_updated(at_once: At, client: Client) -> None:
    contact_id = str(client.make(email="ann@x.org"))

    def call(own: Hub, i: int) -> None:
        adapter = connect(own, client.account)
        if i % 2:
            adapter.update_contact(contact_id, {"city": f"City {i}"})
        else:
            stage = {"dealstage": f"stage_{i % 8}"}
            adapter.create_for_contact("deals", contact_id, {"dealname": "A deal", **stage})

    at_once(call)
    linked = client.get(f"/contacts/{contact_id}").json
    assert len(linked["associations"]["deals"]) == 12  # type: ignore[index]
