"""HubSpot's own client library works with the fake, and finds in its answers what it expects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from hubspot import HubSpot
from hubspot.crm import contacts, deals, tickets
from hubspot.crm.contacts.exceptions import ApiException

from adapters.fakes.hubspot import FakeHubSpot

# The library has no way to close its connections: it leaves them to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(autouse=True, scope="module")
def _connections_end_with_these_tests() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture
def crm(fake: FakeHubSpot) -> Any:
    return HubSpot(access_token=fake.token, host=fake.url).crm


def _contact(**values: str) -> contacts.SimplePublicObjectInputForCreate:
    return contacts.SimplePublicObjectInputForCreate(properties=values, associations=[])


def test_a_contact_is_made_read_and_changed(fake: FakeHubSpot, crm: Any) -> None:
    api = crm.contacts.basic_api
    made = api.create(_contact(email="ada@example.com", firstname="Ada"))
    change = contacts.SimplePublicObjectInput(properties={"city": "London"})
    api.update("ada@example.com", change, id_property="email")
    read = api.get_by_id("ada@example.com", id_property="email", properties=["city", "zip"])
    assert (read.id, read.properties["city"], read.properties["zip"]) == (made.id, "London", None)
    api.archive(made.id)
    assert not fake.contacts


def test_a_known_address_is_a_conflict(fake: FakeHubSpot, crm: Any) -> None:
    id_ = fake.add_contact(email="ada@example.com")
    with pytest.raises(ApiException) as caught:
        crm.contacts.basic_api.create(_contact(email="ada@example.com"))
    assert caught.value.status == 409
    assert f"Existing ID: {id_}" in caught.value.body


def test_all_contacts_are_read_page_by_page(fake: FakeHubSpot, crm: Any) -> None:
    ids = [fake.add_contact(firstname=str(number)) for number in range(120)]
    assert [one.id for one in crm.contacts.get_all()] == ids


def test_a_search(fake: FakeHubSpot, crm: Any) -> None:
    fake.add_contact(email="bob@example.com")
    id_ = fake.add_contact(email="ada@example.com")
    by_email = contacts.Filter(property_name="email", operator="EQ", value="ada@example.com")
    asked = contacts.PublicObjectSearchRequest(
        filter_groups=[contacts.FilterGroup(filters=[by_email])],
        sorts=["-createdate"],
        properties=["email"],
        limit=1,
        after="0",
    )
    found = crm.contacts.search_api.do_search(asked)
    assert (found.total, found.results[0].id) == (1, id_)


def test_batches(fake: FakeHubSpot, crm: Any) -> None:
    api, inputs = crm.contacts.batch_api, [_contact(email=f"{name}@example.com") for name in "ab"]
    made = api.create(contacts.BatchInputSimplePublicObjectBatchInputForCreate(inputs=inputs))
    ids = [contacts.SimplePublicObjectId(id=one.id) for one in made.results]
    wanted = contacts.BatchReadInputSimplePublicObjectId(
        inputs=ids, properties=["email"], properties_with_history=[]
    )
    assert len(api.read(wanted).results) == 2
    changes = [
        contacts.SimplePublicObjectBatchInput(id=one.id, properties={"city": "Rome"}) for one in ids
    ]
    changed = api.update(contacts.BatchInputSimplePublicObjectBatchInput(inputs=changes))
    assert changed.status == "COMPLETE"
    assert {one["city"] for one in fake.contacts.values()} == {"Rome"}


@pytest.mark.parametrize(
    ("kind", "module", "type_id", "values"),
    [
        ("deals", deals, 3, {"dealname": "Engine", "dealstage": "contractsent"}),
        ("tickets", tickets, 16, {"subject": "?", "hs_pipeline_stage": "1"}),
    ],
)
def test_a_deal_or_ticket_with_its_contact(
    fake: FakeHubSpot, crm: Any, kind: str, module: Any, type_id: int, values: dict[str, str]
) -> None:
    contact = fake.add_contact(firstname="Ada")
    spec = module.AssociationSpec("HUBSPOT_DEFINED", type_id)
    linked = module.PublicAssociationsForObject(types=[spec], to=module.PublicObjectId(contact))
    api = getattr(crm, kind).basic_api
    made = api.create(
        module.SimplePublicObjectInputForCreate(properties=values, associations=[linked])
    )
    found = crm.associations.v4.basic_api.get_page("contacts", contact, kind).results
    assert [str(one.to_object_id) for one in found] == [made.id]


def test_properties_and_pipelines(crm: Any) -> None:
    assert "dealname" in [one.name for one in crm.properties.core_api.get_all("deals").results]
    listed = crm.pipelines.pipelines_api.get_all("deals").results
    assert [one.id for one in listed] == ["default"]


def test_owners(crm: Any) -> None:
    found = crm.owners.owners_api.get_page(email="lise@example.com").results
    assert [(one.id, one.user_id, one.type) for one in found] == [("60158084", 9586517, "PERSON")]


def test_a_refresh(fake: FakeHubSpot) -> None:
    tokens = HubSpot(host=fake.url).oauth.tokens_api.create(
        grant_type="refresh_token",
        client_id="fake-client-id",
        client_secret="fake-client-secret",
        refresh_token="fake-refresh-token",
    )
    crm: Any = HubSpot(access_token=tokens.access_token, host=fake.url).crm
    assert crm.contacts.basic_api.get_page().results == []
