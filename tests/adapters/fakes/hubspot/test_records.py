"""The fake's records: what HubSpot takes, what it refuses, what it answers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from adapters.fakes.hubspot import FakeHubSpot
from tests.adapters.fakes.hubspot.calls import Api, codes, link

_PATHS = (
    "/crm/objects/2026-09/contacts",
    "/crm/objects/2026-03/contacts",
    "/crm/v3/objects/contacts",
)


@pytest.mark.parametrize("path", _PATHS)
def test_every_version_has_the_same_records(api: Api, path: str) -> None:
    id_ = api.fake.add_contact(email="ada@example.com")
    answer = api.get(f"{path}/{id_}")
    assert answer.json()["properties"]["email"] == "ada@example.com"
    assert ("url" in answer.json()) == ("v3" not in path)


def test_a_type_id_names_an_object_too(api: Api) -> None:
    id_ = api.create("0-3", dealname="Engine").json()["id"]
    assert api.get(f"deals/{id_}").json()["properties"]["dealname"] == "Engine"


def test_unset_properties_are_null_and_undefined_ones_are_left_out(api: Api) -> None:
    id_ = api.fake.add_contact(email="ada@example.com")
    properties = api.get(f"contacts/{id_}", properties="city,nonsense").json()["properties"]
    assert properties["city"] is None
    assert "nonsense" not in properties


def test_a_secondary_address_finds_and_blocks_too(api: Api) -> None:
    first, second = (api.fake.add_contact(email=f"{one}@example.com") for one in "ab")
    body = {"primaryObjectId": first, "objectIdToMerge": second}
    merged = api.post("contacts/merge", body).json()["id"]
    assert merged not in (first, second)
    assert api.get("contacts/b%40example.com", idProperty="email").json()["id"] == merged
    assert f"Existing ID: {merged}" in api.create("contacts", email="b@example.com").text
    assert api.get(f"contacts/{second}").json()["id"] == merged


def test_the_address_of_an_archived_contact_is_free_again(api: Api) -> None:
    id_ = api.fake.add_contact(email="ada@example.com")
    assert api("DELETE", f"contacts/{id_}").status_code == 204
    assert api.create("contacts", email="ada@example.com").status_code == 201
    assert api.get(f"contacts/{id_}").status_code == 404


def test_a_contact_needs_an_address_or_a_name(api: Api) -> None:
    answer = api.create("contacts", phone="+34600111222")
    assert answer.status_code == 400
    assert answer.json()["context"]["properties"] == ["email", "firstname", "lastname"]


def test_a_ticket_needs_subject_and_stage_and_gets_a_pipeline(api: Api) -> None:
    answer = api.create("tickets", content="?")
    assert codes(answer) == [
        ("MISSING_REQUIRED_PROPERTY", "hs_pipeline_stage"),
        ("MISSING_REQUIRED_PROPERTY", "subject"),
    ]
    made = api.create("tickets", subject="?", hs_pipeline_stage="1")
    assert made.json()["properties"]["hs_pipeline"] == "0"


@pytest.mark.parametrize(
    "body",
    [
        {"properties": {"email": "a@b.co"}},
        {"properties": {"email": "a@b.co"}, "associations": [], "extra": 1},
        {"properties": {"annualrevenue": 5}, "associations": []},
        {"properties": {"email": None}, "associations": []},
        {"properties": [], "associations": []},
        [],
    ],
)
def test_a_body_outside_the_reference_is_refused(api: Api, body: object) -> None:
    answer = api.post("contacts", body)
    assert answer.status_code == 400
    assert answer.json()["category"] == "VALIDATION_ERROR"
    assert not api.fake.contacts


@pytest.mark.parametrize(
    ("kind", "name", "value", "code"),
    [
        ("contacts", "emial", "a@b.co", "PROPERTY_DOESNT_EXIST"),
        ("contacts", "email", "a@b", "INVALID_EMAIL"),
        ("contacts", "hs_lead_status", "In Progress", "INVALID_OPTION"),
        ("contacts", "lifecyclestage", "LEAD", "INVALID_OPTION"),
        ("contacts", "createdate", "2026-01-01", "READ_ONLY_VALUE"),
        ("contacts", "hubspot_owner_id", "9586504", "INVALID_OPTION"),
        ("contacts", "hubspot_owner_id", "60158113", "INVALID_OPTION"),
        ("deals", "amount", "1,000.00", "INVALID_INTEGER"),
        ("deals", "closedate", "tomorrow", "INVALID_LONG"),
        ("deals", "closedate", "1767225600", "INVALID_LONG"),
        ("deals", "dealstage", "Closed Won", "INVALID_OPTION"),
        ("deals", "pipeline", "Sales Pipeline", "INVALID_OPTION"),
        ("tickets", "hs_ticket_priority", "low", "INVALID_OPTION"),
        ("tickets", "hs_pipeline_stage", "closedwon", "INVALID_OPTION"),
        ("deals", "due", "1767222000000", "INVALID_DATE"),
        ("deals", "urgent", "yes", "INVALID_OPTION"),
    ],
)
def test_a_wrong_value_is_refused_with_its_code(
    api: Api, kind: str, name: str, value: str, code: str
) -> None:
    api.fake.define("deals", "due", "date")
    api.fake.define("deals", "urgent", "bool")
    needed = {"contacts": {"firstname": "A"}, "tickets": {"subject": "?", "hs_pipeline_stage": "1"}}
    answer = api.create(kind, **{**needed.get(kind, {}), name: value})
    assert answer.status_code == 400
    assert codes(answer) == [(code, name)]
    assert answer.json()["message"].startswith('Property values were not valid: [{"isValid": false')


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("amount", "1234.50", "1234.50"),
        ("closedate", "1767225600000", "2026-01-01T00:00:00.000Z"),
        ("closedate", "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.000Z"),
        ("due", "2026-01-01", "2026-01-01"),
        ("due", "1767225600000", "2026-01-01"),
        ("hubspot_owner_id", "41629779", "41629779"),
        ("colours", "red;blue;red", "red;blue"),
        ("urgent", "true", "true"),
    ],
)
def test_values_are_stored_as_strings_of_one_form(
    api: Api, name: str, value: str, stored: str
) -> None:
    api.fake.define("deals", "due", "date")
    api.fake.define("deals", "urgent", "bool")
    options = (("red", "Red"), ("blue", "Blue"))
    api.fake.define("deals", "colours", "enumeration", field_type="checkbox", options=options)
    answer = api.create("deals", **{"dealname": "Engine", name: value})
    assert answer.json()["properties"][name] == stored


def test_all_wrong_values_are_named_at_once(api: Api) -> None:
    answer = api.create("contacts", email="a", emial="b", lifecyclestage="c")
    assert len(codes(answer)) == 3


def test_the_life_cycle_goes_back_only_when_cleared_first(api: Api) -> None:
    id_ = api.fake.add_contact(email="ada@example.com", lifecyclestage="customer")
    assert api.update("contacts", id_, lifecyclestage="lead").status_code == 200
    assert api.fake.contacts[id_]["lifecyclestage"] == "customer"
    api.update("contacts", id_, lifecyclestage="")
    api.update("contacts", id_, lifecyclestage="lead")
    assert api.fake.contacts[id_]["lifecyclestage"] == "lead"


def test_a_unique_property_finds_its_record_and_takes_a_value_once(api: Api) -> None:
    api.fake.define("deals", "crmhub_mark", unique=True)
    id_ = api.create("deals", dealname="x", crmhub_mark="m1").json()["id"]
    assert api.get("deals/m1", idProperty="crmhub_mark").json()["id"] == id_
    answer = api.create("deals", dealname="y", crmhub_mark="m1")
    assert codes(answer) == [("CONFLICTING_UNIQUE_VALUE", "crmhub_mark")]
    assert f"{id_} already has that value" in answer.json()["errors"][0]["message"]


def test_a_property_that_is_not_unique_finds_nothing(api: Api) -> None:
    assert api.get("deals/x", idProperty="dealname").status_code == 400


def test_the_accounts_own_rules_name_what_is_missing(api: Api) -> None:
    api.fake.require("contacts", "phone", "company")
    answer = api.create("contacts", email="ada@example.com", company="Engines")
    assert codes(answer) == [("MISSING_REQUIRED_PROPERTY", "phone")]


def test_phones_are_searchable_without_their_country(api: Api) -> None:
    id_ = api.fake.add_contact(firstname="A", phone="+34 600 11 12 22", mobilephone="020 7946-0018")
    held = api.fake.contacts[id_]
    assert held["hs_searchable_calculated_phone_number"] == "600111222"
    assert held["hs_searchable_calculated_mobile_number"] == "2079460018"


def test_an_unknown_numeric_id_is_not_found_without_a_category(api: Api) -> None:
    answer = api.get("contacts/999")
    assert answer.status_code == 404
    assert answer.json()["message"] == "resource not found"
    assert "category" not in answer.json()
    assert api.get("contacts/who").json()["category"] == "OBJECT_NOT_FOUND"


@pytest.mark.parametrize("query", ["limit=101", "limit=0", "limit=x", "after=x"])
def test_a_wrong_parameter_of_a_list_is_refused(api: Api, query: str) -> None:
    assert api.get(f"contacts?{query}").status_code == 400


@pytest.mark.parametrize("type_id", [4, 16, 279, 999])
def test_a_type_of_another_direction_or_object_is_refused(api: Api, type_id: int) -> None:
    contact = api.fake.add_contact(firstname="Ada")
    answer = api.create("deals", [link(contact, type_id)], dealname="Engine")
    assert answer.status_code == 400
    assert answer.json()["context"]["INVALID_OBJECT_IDS"] == [contact]
    assert not api.fake.deals


def test_the_target_of_an_association_must_be_of_its_kind(api: Api) -> None:
    deal = api.fake.add("deals", {"dealname": "x"})
    answer = api.create("deals", [link(deal, 3)], dealname="Engine")
    assert answer.json()["context"]["INVALID_OBJECT_IDS"] == [deal]


def test_a_merge_keeps_what_either_was_linked_with(fake: FakeHubSpot, api: Api) -> None:
    first, second = fake.add_contact(firstname="A"), fake.add_contact(lastname="B")
    deal = fake.add("deals", {"dealname": "x"}, contacts=[second])
    body = {"primaryObjectId": first, "objectIdToMerge": second}
    merged = api.post("contacts/merge", body).json()["id"]
    assert fake.linked("contacts", merged, "deals") == [deal]
    assert {"firstname": "A", "lastname": "B"}.items() <= fake.contacts[merged].items()


def test_of_calls_side_by_side_with_one_address_one_makes_the_contact(fake: FakeHubSpot) -> None:
    def create(_: int) -> int:
        api = Api(fake)
        status = api.create("contacts", email="ada@example.com").status_code
        api.session.close()
        return status

    with ThreadPoolExecutor(20) as pool:
        statuses = sorted(pool.map(create, range(60)))
    assert statuses == [201] + [409] * 59
    assert len(fake.contacts) == 1


def test_archived_records_are_listed_by_id_with_the_time_when_they_were_archived(api: Api) -> None:
    first, second, third = (api.fake.add_contact(email=f"{one}@example.com") for one in "abc")
    for one in (second, first):
        api("DELETE", f"contacts/{one}")
    page = api.get("contacts", archived="true", limit="1").json()
    assert [(one["id"], one["archived"]) for one in page["results"]] == [(first, True)]
    rest = api.get("contacts", archived="true", after=page["paging"]["next"]["after"]).json()
    assert [one["id"] for one in rest["results"]] == [second]
    assert rest["results"][0]["archivedAt"] > rest["results"][0]["createdAt"]
    assert [one["id"] for one in api.get("contacts").json()["results"]] == [third]


def test_a_list_shows_the_first_links_and_a_batch_all_of_them(api: Api) -> None:
    one, other = (api.fake.add_contact(email=f"{one}@example.com") for one in "ab")
    deals = [api.fake.add("deals", {"dealname": "x"}, contacts=[one]) for _ in range(501)]
    full, empty = api.get("contacts", associations="deals,companies").json()["results"]
    assert "associations" not in empty
    links = full["associations"].pop("deals")
    assert full["associations"] == {}
    assert [*dict.fromkeys(link["id"] for link in links["results"])] == deals[:100]
    assert links["paging"]["next"]["after"] == deals[99]
    path, asked = (
        "/crm/associations/2026-09/contacts/deals/batch/read",
        [{"id": one}, {"id": other}],
    )
    answer = api.post(path, {"inputs": asked})
    assert answer.status_code == 207
    [error], [found] = answer.json()["errors"], answer.json()["results"]
    assert error["subCategory"] == "crm.associations.NO_ASSOCIATIONS_FOUND"
    assert [link["toObjectId"] for link in found["to"]] == deals[:500]
    rest = api.post(path, {"inputs": [{"id": one, "after": found["paging"]["next"]["after"]}]})
    assert [link["toObjectId"] for link in rest.json()["results"][0]["to"]] == deals[500:]


def test_an_unknown_parameter_is_refused(api: Api) -> None:
    assert api.get("contacts", since="2026-01-01").status_code == 400
    assert api.get("contacts", archived="yes").status_code == 400
    assert api("DELETE", "contacts/1?archived=true").status_code == 400
