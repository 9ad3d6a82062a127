"""The adapter of the hub's own records, on a real store."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from crmhub.actions.connecting import connect
from crmhub.actions.hub import Hub
from crmhub.adapter import Adapter, Conflict, Lead, NotFound, Rejected
from crmhub.settings import Settings
from tests.clients import Client


@pytest.fixture
def local(hub: Hub, client: Client) -> Adapter:
    return connect(hub, client.account)


def test_what_is_created_is_found_at_once(local: Adapter) -> None:
    saved = local.create_contact({"email": "ann@x.org", "phone": "+12025550100"})
    assert saved.outcome == "created"
    for found in (
        local.find_contact(email="ann@x.org", names=["phone"]),
        local.find_contact(phone="+12025550100", names=["phone"]),
        local.get_contact(saved.id, ["phone"]),
    ):
        assert found is not None
        assert (found.id, found.properties) == (saved.id, {"phone": "+12025550100"})


def test_the_whole_value_is_looked_for(local: Adapter) -> None:
    local.create_contact({"email": "joann@x.org", "phone": "+120255501000"})
    assert local.find_contact(email="ann@x.org") is None
    assert local.find_contact(phone="+12025550100") is None


def test_the_oldest_of_several_with_a_phone_is_found(local: Adapter, client: Client) -> None:
    oldest, _ = (client.make(phone="+12025550100") for _ in range(2))
    found = local.find_contact(phone="+12025550100")
    assert found is not None
    assert found.id == str(oldest)


def test_a_mobile_phone_is_a_phone_too(local: Adapter, client: Client) -> None:
    id = client.make(mobilephone="+12025550100")
    found = local.find_contact(phone="+12025550100")
    assert found is not None
    assert found.id == str(id)


def test_unknown_names_are_left_out_and_empty_ones_are_not(local: Adapter) -> None:
    saved = local.create_contact({"email": "ann@x.org"})
    contact = local.get_contact(saved.id, ["email", "city", "shoe_size"])
    assert contact.properties == {"email": "ann@x.org", "city": ""}


@pytest.mark.parametrize(
    "id", ["1", "0", "-1", "1.0", "abc", "", "٣", "9007199254740993", "9" * 400, "1 "]
)
def test_an_id_that_is_none_of_a_contact_is_not_found(local: Adapter, id: str) -> None:
    with pytest.raises(NotFound):
        local.get_contact(id, [])
    with pytest.raises(NotFound):
        local.update_contact(id, {"city": "Rome"})
    with pytest.raises(NotFound):
        local.create_for_contact("deals", id, {"dealname": "A deal"})


def test_an_id_is_taken_only_as_it_was_given_out(local: Adapter) -> None:
    saved = local.create_contact({"email": "ann@x.org"})
    with pytest.raises(NotFound):
        local.get_contact(f"0{saved.id}", [])


def test_an_archived_contact_is_not_found(local: Adapter, client: Client) -> None:
    id = client.make(email="ann@x.org", phone="+12025550100")
    client.delete(f"/contacts/{id}")
    assert local.find_contact(email="ann@x.org") is None
    assert local.find_contact(phone="+12025550100") is None
    with pytest.raises(NotFound):
        local.get_contact(str(id), [])


def test_another_accounts_contact_is_not_found(local: Adapter, other: Client) -> None:
    id = other.make(email="ann@x.org")
    assert local.find_contact(email="ann@x.org") is None
    with pytest.raises(NotFound):
        local.get_contact(str(id), [])


def test_a_second_contact_of_an_email_or_a_phone_is_a_conflict_that_names_the_first(
    local: Adapter,
) -> None:
    first = local.create_contact({"email": "ann@x.org", "phone": "+12025550100"})
    with pytest.raises(Conflict) as by_email:
        local.create_contact({"email": "ann@x.org"})
    with pytest.raises(Conflict) as by_phone:
        local.create_contact({"phone": "+12025550100"})
    assert (by_email.value.existing_id, by_email.value.name) == (first.id, "email")
    assert (by_phone.value.existing_id, by_phone.value.name) == (first.id, "phone")


def test_every_property_at_fault_is_named(local: Adapter) -> None:
    with pytest.raises(Rejected) as caught:
        local.create_contact({"email": "no email", "lifecyclestage": "Nobody", "Bad Name": "1"})
    assert {problem.name for problem in caught.value.problems} == {
        "email",
        "lifecyclestage",
        "Bad Name",
    }


def test_an_unknown_property_is_defined_as_text(local: Adapter, client: Client) -> None:
    saved = local.create_contact({"email": "ann@x.org", "shoe_size": "38"})
    assert local.get_contact(saved.id, ["shoe_size"]).properties == {"shoe_size": "38"}
    found = client.post(
        "/contacts/search",
        {"filters": [{"propertyName": "shoe_size", "operator": "EQ", "value": "38"}]},
    )
    assert found.json["total"] == 1  # type: ignore[index]


def test_more_properties_than_there_is_room_for_are_named(local: Adapter) -> None:
    many = {f"p{i}": "1" for i in range(1001)}
    with pytest.raises(Rejected) as caught:
        local.create_contact({"email": "ann@x.org", **many})
    assert {problem.name for problem in caught.value.problems} == set(many)


def test_an_update_changes_what_is_named_and_clears_what_is_blank(local: Adapter) -> None:
    saved = local.create_contact({"email": "ann@x.org", "city": "Rome", "zip": "1"})
    assert local.update_contact(saved.id, {"city": "", "zip": "2"}).outcome == "updated"
    contact = local.get_contact(saved.id, ["email", "city", "zip"])
    assert contact.properties == {"email": "ann@x.org", "city": "", "zip": "2"}


def test_an_update_that_changes_nothing_says_so(local: Adapter) -> None:
    saved = local.create_contact({"email": "ann@x.org"})
    assert local.update_contact(saved.id, {"email": "ANN@x.org"}).outcome == "unchanged"


def test_a_deal_is_linked_to_its_contact_from_both_ends(local: Adapter, client: Client) -> None:
    contact = local.create_contact({"email": "ann@x.org"})
    deal = local.create_for_contact("deals", contact.id, {"dealname": "A deal"})
    record = client.get(f"/contacts/{contact.id}").json
    assert record["associations"]["deals"] == [int(deal.id)]  # type: ignore[index]


def test_a_deal_that_is_refused_leaves_nothing(local: Adapter, client: Client) -> None:
    contact = local.create_contact({"email": "ann@x.org"})
    with pytest.raises(Rejected):
        local.create_for_contact("deals", contact.id, {"amount": "1"})
    assert client.get("/deals").json["total"] == 0  # type: ignore[index]


def _at_once(settings: Settings, work: Callable[[Hub, int], object], times: int = 12) -> None:
    """Run `work` from hubs of their own, as different processes have."""
    hubs = [Hub.open(settings) for _ in range(4)]
    try:
        with ThreadPoolExecutor(times) as pool:
            list(pool.map(lambda i: work(hubs[i % 4], i), range(times)))
    finally:
        for hub in hubs:
            hub.close()


@pytest.mark.parametrize("by", ["email", "phone"])
def test_many_leads_of_one_person_at_once_make_one_contact(
    settings: Settings, client: Client, by: str
) -> None:
    value = {"email": "ann@x.org", "phone": "+12025550100"}[by]

    def upsert(hub: Hub, i: int) -> None:
        lead = Lead({by: value, "city": f"City {i}"}, **{by: value})  # type: ignore[arg-type]
        connect(hub, client.account).upsert_contact(lead)

    _at_once(settings, upsert)
    assert client.get("/contacts").json["total"] == 1  # type: ignore[index]
