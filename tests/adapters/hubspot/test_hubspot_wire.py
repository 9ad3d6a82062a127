"""What HubSpot's adapter sends, to the letter, in each version of the API."""

from __future__ import annotations

from typing import Any

import pytest

from crmhub.adapter import Kind, Linked, NotFound, Unavailable
from crmhub.adapter.batch_upserts import upsert_contacts
from crmhub.adapter.matching import Lead
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.hubspot.hubspot_crm import VERSIONS
from tests.adapters.hubspot.hubspot_wire import TOKEN, Wire, record, wire
from tests.adapters.leads import person
from tests.loops import for_each

each_version = for_each("version", VERSIONS)


def objects(version: str, rest: str) -> str:
    return f"/crm/v3/objects/{rest}" if version == "v3" else f"/crm/objects/{version}/{rest}"


def area(version: str, name: str, rest: str = "") -> str:
    path = f"/crm/v3/{name}" if version == "v3" else f"/crm/{name}/{version}"
    return f"{path}/{rest}" if rest else path


@each_version
def test_a_contact_is_read_by_its_email(version: str) -> None:
    with wire(api_version=version) as it:
        it.give(200, record(email="ann+1@x.org", firstname="Ann"))
        found = it.adapter.find_contact(email="ann+1@x.org", names=["firstname", "city"])
        path = objects(version, "contacts/ann%2B1%40x.org")
        assert it.sent == [f"GET {path}?idProperty=email&properties=firstname,city"]
        assert it.headers()["Authorization"] == f"Bearer {TOKEN}"
        assert found is not None
        assert (found.id, found.properties) == ("7", {"firstname": "Ann"})


@each_version
def test_a_contact_is_created_with_an_empty_list_of_associations(version: str) -> None:
    with wire(api_version=version) as it:
        saved = it.give(201, record()).adapter.create_contact({"email": "a@x.org", "city": ""})
        assert it.sent == [f"POST {objects(version, 'contacts')}"]
        assert it.body() == {"properties": {"email": "a@x.org"}, "associations": []}
        assert it.headers()["Content-Type"] == "application/json"
        assert (saved.id, saved.outcome, saved.url[-6:]) == ("7", "created", "/0-1/7")


@each_version
def test_a_contact_is_changed_by_its_id_and_cleared_by_nothing(version: str) -> None:
    with wire(api_version=version) as it:
        it.give(200, record()).adapter.update_contact("7", {"city": "", "zip": "1"})
        assert it.sent == [f"PATCH {objects(version, 'contacts/7')}"]
        assert it.body() == {"properties": {"city": "", "zip": "1"}}


@each_version
@for_each(
    ("kind", "title", "type_id", "pipeline", "stage"),
    [
        ("deals", "dealname", 3, "pipeline", "dealstage"),
        ("tickets", "subject", 16, "hs_pipeline", "hs_pipeline_stage"),
    ],
)
def test_a_record_is_created_with_its_link_to_the_contact(
    version: str, kind: Linked, title: str, type_id: int, pipeline: str, stage: str
) -> None:
    with wire(api_version=version) as it:
        it.give(200, {"results": [{"name": title, "type": "string"}]})
        it.give(
            200, {"results": [{"id": "p", "label": "P", "stages": [{"id": "s", "label": "S"}]}]}
        )
        it.give(201, record())
        it.adapter.create_for_contact(kind, "7", {title: "A title"})
        assert it.sent == [
            f"GET {area(version, 'properties', kind)}",
            f"GET {area(version, 'pipelines', kind)}",
            f"POST {objects(version, kind)}",
        ]
        link = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": type_id}
        assert it.body() == {
            "properties": {title: "A title", pipeline: "p", stage: "s"},
            "associations": [{"to": {"id": "7"}, "types": [link]}],
        }


@each_version
def test_a_search_holds_all_that_the_published_files_demand(version: str) -> None:
    with wire(api_version=version) as it:
        it.give(200, {"total": 0, "results": []}).adapter.find_contact(phone="+4915112345678")
        assert it.sent == [f"POST {objects(version, 'contacts/search')}"]
        body = it.body()
        assert body.keys() == {"filterGroups", "properties", "sorts", "limit", "after"}
        assert (body["sorts"], body["after"]) == (["createdate"], "0")
        filters = [one for group in body["filterGroups"] for one in group["filters"]]
        assert {one["operator"] for one in filters} == {"IN"}
        typed = next(one["values"] for one in filters if one["propertyName"] == "phone")
        assert {"+4915112345678", "004915112345678", "015112345678"} <= set(typed)
        name = "hs_searchable_calculated_phone_number"
        assert {"propertyName": name, "operator": "IN", "values": ["15112345678"]} in filters


@each_version
def test_leads_in_bulk_are_read_changed_and_created_together(version: str) -> None:
    with wire(api_version=version) as it:
        it.give(207, {"results": [record("7", email="a@x.org", city="Rome")]})
        it.give(200, {"results": [record("7") | {"objectWriteTraceId": "0"}]})
        it.give(201, {"results": [record("8") | {"objectWriteTraceId": "1"}]})
        leads = [person(email=f"{name}@x.org", city="Oslo") for name in "ab"]
        outcomes = upsert_contacts(it.adapter, leads)
        ways = ("read", "update", "create")
        assert it.sent == [f"POST {objects(version, f'contacts/batch/{way}')}" for way in ways]
        assert it.body(0).keys() == {"inputs", "properties", "propertiesWithHistory", "idProperty"}
        assert it.body(0)["inputs"] == [{"id": "a@x.org"}, {"id": "b@x.org"}]
        changed = {"id": "7", "properties": {"city": "Oslo"}, "objectWriteTraceId": "0"}
        assert it.body(1) == {"inputs": [changed]}
        made: dict[str, Any] = {"email": "b@x.org", "city": "Oslo"}
        created = {"properties": made, "associations": [], "objectWriteTraceId": "1"}
        assert it.body(2) == {"inputs": [created]}
        assert [getattr(one, "outcome", one) for one in outcomes] == ["updated", "created"]


@each_version
@for_each("kind", ["contacts", "deals", "companies", "tickets"])
def test_definitions_are_read_once(version: str, kind: Kind) -> None:
    with wire(api_version=version) as it:
        for _ in range(3):
            it.give(200, {"results": []})
        it.give(200, {"requiredProperties": []})
        assert it.adapter.describe(kind) == it.adapter.describe(kind) == []
        path = area(version, "properties", kind)
        levels = ("", "?dataSensitivity=sensitive", "?dataSensitivity=highly_sensitive")
        schema = f"GET /crm-object-schemas/{version}/schemas/{kind}"
        assert it.sent == [*(f"GET {path}{level}" for level in levels), schema]


@each_version
def test_owners_are_read_to_the_last_page(version: str) -> None:
    with wire(api_version=version) as it:
        it.give(200, {"results": [{"id": "1"}], "paging": {"next": {"after": "1"}}})
        it.give(200, {"results": [{"id": 2, "email": "b@x.org", "firstName": "B"}]})
        assert [(one.id, one.email, one.name) for one in it.adapter.owners()] == [
            ("1", "", ""),
            ("2", "b@x.org", "B"),
        ]
        path = area(version, "owners")
        assert it.sent == [f"GET {path}?limit=500", f"GET {path}?after=1&limit=500"]


@for_each(
    ("version", "path"),
    [
        ("2026-09", "/crm/objects/2026-09/contacts/7/associations/deals"),
        ("2026-03", "/crm/objects/2026-03/contacts/7/associations/deals"),
        ("v3", "/crm/v4/objects/contacts/7/associations/deals"),
    ],
)
def test_what_is_linked_is_read_to_the_last_page(version: str, path: str) -> None:
    with wire(api_version=version) as it:
        it.give(404, {"message": "no such property"})
        it.give(200, {"results": [{"name": "dealname", "type": "string"}]})
        it.give(200, {"results": [{"toObjectId": 1}], "paging": {"next": {"after": "1"}}})
        it.give(200, {"results": [{"toObjectId": "2"}, {"toObjectId": 1}]})
        it.give(200, {"results": [record("1", dealname="B"), record("2", dealname="A")]})
        found = it.adapter.find_marked("deals", "7", "m", sent={"dealname": "A"}, since_ms=0)
        assert it.sent[2:4] == [f"GET {path}?limit=500", f"GET {path}?after=1&limit=500"]
        assert it.body()["inputs"] == [{"id": "1"}, {"id": "2"}]
        assert found is not None
        assert found.id == "2"


@each_version
def test_a_record_is_looked_up_by_a_unique_mark(version: str) -> None:
    with wire(api_version=version) as it:
        it.give(200, {"name": "crmhub_mark", "type": "string", "hasUniqueValue": True})
        it.give(200, record("9"))
        found = it.adapter.find_marked("tickets", "7", "crmhub-1", sent={}, since_ms=0)
        assert it.sent == [
            f"GET {area(version, 'properties', 'tickets/crmhub_mark')}",
            f"GET {objects(version, 'tickets/crmhub-1')}?idProperty=crmhub_mark",
        ]
        assert found is not None
        assert found.id == "9"


@each_version
def test_where_a_record_shows_no_page_the_account_tells_it_once(version: str) -> None:
    bare = {"id": "7", "properties": {}}
    with wire(api_version=version) as it:
        it.give(200, bare).give(200, {"portalId": 1, "uiDomain": "app-eu1.hubspot.com"})
        it.give(200, bare)
        urls = [it.adapter.update_contact("7", {"city": "Rome"}).url for _ in range(2)]
        assert urls == ["https://app-eu1.hubspot.com/contacts/1/record/0-1/7"] * 2
        assert it.sent[1] == f"GET /account-info/{version}/details"
        assert len(it.sent) == 3


@for_each(
    ("status", "account"),
    [(500, {}), (200, {"portalId": 1}), (200, {"uiDomain": "app.hubspot.com"})],
)
def test_a_page_that_nobody_can_tell_fails_nothing(status: int, account: dict[str, Any]) -> None:
    with wire() as it:
        it.give(200, {"id": "7", "properties": {}}).give(status, account)
        saved = it.adapter.update_contact("7", {"city": "Rome"})
        assert (saved.id, saved.outcome, saved.url) == ("7", "updated", "")


def test_a_long_list_of_names_goes_into_a_body() -> None:
    names = [f"property_number_{i}" for i in range(200)]
    with wire() as it:
        it.give(200, {"results": [record(property_number_1="x")]})
        found = it.adapter.get_contact("7", names)
        assert it.sent == ["POST /crm/objects/2026-09/contacts/batch/read"]
        assert it.body()["properties"] == names
        assert found.properties == {"property_number_1": "x"}


def test_an_address_that_is_too_long_is_answered_by_a_read_in_a_body() -> None:
    # HubSpot answers 414 for contacts of more than 250 merged ones, too.
    with wire() as it:
        it.give(414, {"message": "URI Too Long"}).give(200, {"results": [record(city="Rome")]})
        assert it.adapter.get_contact("7", ["city"]).properties == {"city": "Rome"}
        assert it.sent[1] == "POST /crm/objects/2026-09/contacts/batch/read"


def test_a_merged_contact_comes_under_its_new_id() -> None:
    with wire() as it:
        assert it.give(200, record("99")).adapter.get_contact("7", []).id == "99"


@for_each("id", ["", "..", "7/associations/deals", "7?x", "٧", "a@x.org", "7 ", "-7"])
def test_an_id_leads_to_no_other_path(id: str) -> None:
    with wire() as it:
        for call in (
            lambda: it.adapter.get_contact(id, []),
            lambda: it.adapter.update_contact(id, {"city": "Rome"}),
            lambda: it.adapter.create_for_contact("deals", id, {"dealname": "A"}),
        ):
            with pytest.raises(NotFound):
                call()
        assert it.sent == []


@for_each("email", ["a/../b@x.org", "a\\b@x.org", "..", "a\n@x.org"])
def test_an_email_leads_to_no_other_path(email: str) -> None:
    with wire() as it:
        assert it.adapter.find_contact(email=email) is None
        assert it.sent == []


@for_each(
    "body",
    ["[]", "null", '"x"', "{}", '{"id": null}', '{"id": true}', '{"id": "7", "properties": []}'],
)
def test_an_answer_of_another_shape_is_no_contact(body: str) -> None:
    with wire() as it, pytest.raises(Unavailable):
        it.give(200, body).adapter.get_contact("7", ["city"])


def test_values_of_other_types_become_text() -> None:
    with wire() as it:
        answer: dict[str, Any] = {"id": 7, "properties": {"age": 3, "vip": True, "city": None}}
        it.give(200, answer)
        contact = it.adapter.get_contact("7", ["age", "vip", "city", "unknown"])
        assert contact.id == "7"
        assert contact.properties == {"age": "3", "vip": "True", "city": ""}


def _quiet(it: Wire) -> list[str]:
    return [one for one in it.sent if "/search" in one]


@each_version
def test_a_lead_with_an_email_is_never_searched_for(version: str) -> None:
    with wire(api_version=version) as it:
        it.give(404, {"message": "resource not found"}).give(201, record())
        assert upsert_contact(it.adapter, person(email="a@x.org")).outcome == "created"
        assert _quiet(it) == []
        assert len(it.sent) == 2


def test_stages_come_as_hubspot_shows_them() -> None:
    """Of two in one place its published files say: by their label."""
    with wire() as it:
        shown = {"d": ("Won", 2), "c": ("beta", 1), "b": ("Alpha", 1), "a": ("New", 0)}
        stages = [
            {"id": id, "label": label, "displayOrder": at} for id, (label, at) in shown.items()
        ]
        it.give(200, {"results": [{"id": "p", "label": "P", "displayOrder": 0, "stages": stages}]})
        [pipeline] = it.adapter.pipelines("deals")
        assert [stage.value for stage in pipeline.stages] == ["a", "b", "c", "d"]


def test_an_option_without_a_place_comes_after_those_that_have_one() -> None:
    with wire() as it:
        values = {"own": -1, "lead": 0, "customer": 1}
        options = [{"value": v, "label": v, "displayOrder": at} for v, at in values.items()]
        stage = {"name": "lifecyclestage", "type": "enumeration", "options": options}
        it.give(200, {"results": [stage]})
        it.give(200, {"results": []}).give(200, {"results": []})
        it.give(200, {"requiredProperties": []})
        it.give(200, record(email="ann@x.org", lifecyclestage="customer"))
        it.give(200, record(email="ann@x.org", lifecyclestage="own"))
        mine = {"email": "ann@x.org", "lifecyclestage": "own"}
        [described] = it.adapter.describe("contacts")
        assert [option.value for option in described.options] == ["lead", "customer", "own"]
        saved = upsert_contact(it.adapter, Lead(mine, email="ann@x.org"))
        assert (saved.outcome, saved.refused) == ("updated", ())


def test_a_cursor_that_leads_nowhere_new_ends_the_list() -> None:
    with wire() as it:
        page = {"results": [{"id": "1"}], "paging": {"next": {"after": "1"}}}
        for _ in range(5):
            it.give(200, page)
        assert len(it.adapter.owners()) == 2
        assert len(it.sent) == 2
