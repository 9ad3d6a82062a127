"""The specification, rule by rule: the names of these tests read as its sections 2 to 9.

What it leaves open is decided elsewhere and tested there.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import flask
import pytest

from crmhub.accounts import keys
from crmhub.errors import Internal
from crmhub.hub import Hub
from crmhub.records.store import RecordStore
from tests.api.refusals import refused
from tests.clients import Client, needed, open_client

RESOURCES = ["contacts", "deals", "companies"]
SORTS = ["date_modified", "date_added", "createdAt", "updatedAt"]
each_resource = pytest.mark.parametrize("resource", RESOURCES)

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

CREATE_LEAD = "/chatbot/createLead/{generated}"
CREATE_DEAL = "/crm-api-interface/createDeal/{portal}"
CREATE_TICKET = "/crm-api-interface/createTicket/{portal}"
RANDOM_INT = "/crm-api-interface/getRandomInt"
LEAD = {
    "contactToken": "token-1",
    "name": "Ada King Lovelace",
    "email": "ada@example.com",
    "phone": "+12025550123",
}


def good(answer: Any, status: int = 200) -> Any:
    """Return the JSON of an answer with this status."""
    assert answer.status_code == status, answer.text
    assert answer.mimetype == "application/json"
    return answer.json


def create(client: Client, resource: str = "contacts", **body: Any) -> Any:
    body = {"properties": needed(resource), **body}
    return good(client.post(f"/{resource}", body), 201)


def search(client: Client, *filters: dict[str, Any], resource: str = "contacts") -> Any:
    return good(client.post(f"/{resource}/search", {"filters": list(filters)}))


def found(client: Client, *filters: dict[str, Any], resource: str = "contacts") -> set[int]:
    """Return the ids that a search finds."""
    page = search(client, *filters, resource=resource)
    assert page["total"] == len(page["results"])
    return {each["id"] for each in page["results"]}


def condition(property_name: str, operator: str, value: Any = None, **more: Any) -> dict[str, Any]:
    given = {} if value is None else {"value": value}
    return {"propertyName": property_name, "operator": operator, **given, **more}


def change(client: Client, resource: str, id: int) -> None:
    """Change a record after everything so far: its time has a later millisecond."""
    time.sleep(0.002)
    name = next(iter(needed(resource)))
    good(client.patch(f"/{resource}/{id}", {"properties": {name: "changed"}}))


def walk(client: Client, path: str, body: Any = None) -> Iterator[Any]:
    """Yield the pages of a list, or of a search with its body, by cursor.next."""
    cursor = ""
    while True:
        query = f"{path}{'&' if '?' in path else '?'}cursor={cursor}" if cursor else path
        page = good(client.get(query) if body is None else client.post(query, body))
        yield page
        if not page["hasMore"]:
            return
        cursor = page["cursor"]["next"]


# 2. Resources and their fields

# 2.1 Record


@each_resource
def test_2_1_a_record_has_a_numeric_id(client: Client, resource: str) -> None:
    id = create(client, resource)["id"]
    assert type(id) is int
    assert id > 0


@each_resource
def test_2_1_properties_map_names_to_values(client: Client, resource: str) -> None:
    properties = create(client, resource)["properties"]
    assert needed(resource).items() <= properties.items()
    assert all(isinstance(value, str) for value in properties.values())


@each_resource
def test_2_1_associations_hold_arrays_of_ids_of_deals_and_companies(
    client: Client, resource: str
) -> None:
    assert create(client, resource)["associations"] == {"deals": [], "companies": []}
    deal, company = client.make("deals"), client.make("companies")
    links = {"deals": [deal], "companies": [company]}
    assert create(client, resource, associations=links)["associations"] == links


@each_resource
def test_2_1_created_and_updated_are_utc_with_milliseconds(client: Client, resource: str) -> None:
    record = create(client, resource)
    for name in ("createdAt", "updatedAt"):
        assert _MOMENT.fullmatch(record[name])
        assert abs(datetime.now(UTC) - datetime.fromisoformat(record[name])) < timedelta(minutes=5)


@each_resource
def test_2_1_list_and_search_items_hold_id_and_properties(client: Client, resource: str) -> None:
    made = create(client, resource)
    item = {"id": made["id"], "properties": made["properties"]}
    assert good(client.get(f"/{resource}"))["results"] == [item]
    assert search(client, resource=resource)["results"] == [item]


# 2.2 List / search response


@each_resource
def test_2_2_a_page_holds_total_results_cursor_and_has_more(client: Client, resource: str) -> None:
    for page in (good(client.get(f"/{resource}")), search(client, resource=resource)):
        assert page == {
            "total": 0,
            "results": [],
            "cursor": {"next": "", "nextLink": ""},
            "hasMore": False,
        }


def test_2_2_total_counts_all_records_found_not_those_of_the_page(client: Client) -> None:
    for _ in range(3):
        client.make()
    client.make(firstname="Grace")
    page = good(client.get("/contacts?limit=2"))
    assert (page["total"], len(page["results"])) == (4, 2)
    assert search(client, condition("firstname", "EQ", "Ada"))["total"] == 3


def test_2_2_next_is_the_cursor_of_the_next_page_and_empty_when_there_is_none(
    client: Client,
) -> None:
    for _ in range(3):
        client.make()
    first, last = walk(client, "/contacts?limit=2")
    assert isinstance(first["cursor"]["next"], str)
    assert first["cursor"]["next"] != ""
    assert last["cursor"]["next"] == ""


def test_2_2_next_link_is_a_ready_made_query_string(client: Client) -> None:
    for _ in range(3):
        client.make()
    page = good(client.get("/contacts?limit=2"))
    assert page["cursor"]["nextLink"] == f"?cursor={page['cursor']['next']}"
    second = good(client.get(f"/contacts{page['cursor']['nextLink']}"))
    assert len(second["results"]) == 1
    assert not {each["id"] for each in second["results"]} & {each["id"] for each in page["results"]}


# 2.3 Error body


def test_2_3_an_error_holds_category_message_timestamp_and_status(client: Client) -> None:
    answer = client.get("/contacts/1")
    error = good(answer, 404)
    assert set(error) == {"category", "message", "timestamp", "status"}
    assert error["category"] == "NotFoundError"
    assert error["message"] == "There is no contact 1."
    assert datetime.fromisoformat(error["timestamp"]).utcoffset() == timedelta(0)


def test_2_3_status_is_always_the_text_error(client: Client) -> None:
    for answer in (client.get("/contacts/1"), client.get("/x"), client.post("/contacts", {})):
        assert answer.json["status"] == "error"  # type: ignore[index]


# 2.4 Filter object


@pytest.mark.parametrize("missing", ["propertyName", "operator"])
def test_2_4_a_filter_needs_property_name_and_operator(client: Client, missing: str) -> None:
    body = condition("firstname", "EQ", "Ada")
    del body[missing]
    assert missing in refused(client.post("/contacts/search", {"filters": [body]}), 400)


def test_2_4_operators_of_one_value_need_value(client: Client) -> None:
    for operator in ("EQ", "NEQ", "GT", "GTE", "LT", "LTE", "CONTAINS_TOKEN", "NOT_CONTAINS_TOKEN"):
        body = {"filters": [condition("firstname", operator)]}
        assert "value" in refused(client.post("/contacts/search", body), 400)


def test_2_4_operators_of_a_list_need_values(client: Client) -> None:
    for operator in ("IN", "NOT_IN"):
        body = {"filters": [condition("firstname", operator)]}
        assert "values" in refused(client.post("/contacts/search", body), 400)


# 3. States and transitions


@each_resource
def test_3_a_create_answers_201_and_the_created_record(client: Client, resource: str) -> None:
    record = create(client, resource)
    assert good(client.get(f"/{resource}/{record['id']}")) == record


# 4.1 Public API


@each_resource
def test_4_1_a_create_takes_properties_and_optional_associations(
    client: Client, resource: str
) -> None:
    company = client.make("companies")
    with_links = create(client, resource, associations={"companies": [company]})
    assert set(with_links) == {"id", "properties", "associations", "createdAt", "updatedAt"}
    assert with_links["associations"]["companies"] == [company]
    assert create(client, resource)["associations"]["companies"] == []


@each_resource
def test_4_1_a_search_takes_filters_and_the_query_parameters_of_lists(
    client: Client, resource: str
) -> None:
    ids = [client.make(resource) for _ in range(3)]
    query = "?limit=2&sort=createdAt&order=asc"
    pages = list(walk(client, f"/{resource}/search{query}", {"filters": []}))
    assert [[each["id"] for each in page["results"]] for page in pages] == [ids[:2], ids[2:]]


@each_resource
def test_4_1_a_batch_create_answers_201_and_the_created_records(
    client: Client, resource: str
) -> None:
    body = {"inputs": [{"properties": needed(resource)}] * 3}
    made = good(client.post(f"/{resource}/batch/create", body), 201)
    assert len({each["id"] for each in made}) == 3
    for record in made:
        assert good(client.get(f"/{resource}/{record['id']}")) == record


# 4.2 Pagination


def test_4_2_a_page_holds_20_records_unless_told(client: Client) -> None:
    body = {"inputs": [{"properties": needed("contacts")}] * 21}
    client.post("/contacts/batch/create", body)
    assert len(good(client.get("/contacts"))["results"]) == 20
    assert len(search(client)["results"]) == 20


def test_4_2_a_page_holds_at_most_100_records(client: Client) -> None:
    body = {"inputs": [{"properties": needed("contacts")}] * 100}
    client.post("/contacts/batch/create", body)
    client.make()
    for page in (
        good(client.get("/contacts?limit=100")),
        good(client.post("/contacts/search?limit=100", {"filters": []})),
    ):
        assert (len(page["results"]), page["hasMore"]) == (100, True)
    refused(client.get("/contacts?limit=101"), 400)
    refused(client.post("/contacts/search?limit=101", {"filters": []}), 400)


@each_resource
def test_4_2_following_the_cursor_until_has_more_is_false_meets_every_record_once(
    client: Client, resource: str
) -> None:
    body = {"inputs": [{"properties": needed(resource)}] * 25}
    made = {each["id"] for each in good(client.post(f"/{resource}/batch/create", body), 201)}
    for pages in (
        list(walk(client, f"/{resource}?limit=10")),
        list(walk(client, f"/{resource}/search?limit=10", {"filters": []})),
    ):
        assert [len(page["results"]) for page in pages] == [10, 10, 5]
        assert {each["id"] for page in pages for each in page["results"]} == made


# 4.3 Sorting


@each_resource
def test_4_3_lists_and_searches_sort_by_when_a_record_was_added_or_modified(
    client: Client, resource: str
) -> None:
    ids = [client.make(resource) for _ in range(3)]
    change(client, resource, ids[0])
    for sort, order in itertools.product(SORTS, ("asc", "desc")):
        by_time = ids if sort in ("date_added", "createdAt") else [*ids[1:], ids[0]]
        expected = by_time if order == "asc" else by_time[::-1]
        query = f"?sort={sort}&order={order}"
        for page in (
            good(client.get(f"/{resource}{query}")),
            good(client.post(f"/{resource}/search{query}", {"filters": []})),
        ):
            assert [each["id"] for each in page["results"]] == expected, query


def test_4_3_the_default_is_the_last_modified_first(client: Client) -> None:
    ids = [client.make() for _ in range(3)]
    change(client, "contacts", ids[1])
    for page in (good(client.get("/contacts")), search(client)):
        assert [each["id"] for each in page["results"]] == [ids[1], ids[2], ids[0]]


def test_4_3_no_other_values_are_allowed(client: Client) -> None:
    for query in ("sort=name", "order=up", "sort=", "order="):
        refused(client.get(f"/contacts?{query}"), 400)
        refused(client.post(f"/contacts/search?{query}", {"filters": []}), 400)


# 4.4 Search filters


@pytest.fixture
def people(client: Client) -> dict[str, int]:
    """Contacts by their first name; one has none."""
    return {
        "Ada": client.make(firstname="Ada", city="London"),
        "Adam": client.make(firstname="Adam", city="Berlin"),
        "Grace": client.make(firstname="Grace", city="New York"),
        "": client.make(firstname="", lastname="Nobody"),
    }


def test_4_4_each_operator_finds_what_it_means(client: Client, people: dict[str, int]) -> None:
    for given, names in (
        (condition("firstname", "EQ", "Ada"), {"Ada"}),
        (condition("firstname", "NEQ", "Ada"), {"Adam", "Grace", ""}),
        (condition("firstname", "GT", "Ada"), {"Adam", "Grace"}),
        (condition("firstname", "GTE", "Adam"), {"Adam", "Grace"}),
        (condition("firstname", "LT", "Adam"), {"Ada"}),
        (condition("firstname", "LTE", "Adam"), {"Ada", "Adam"}),
        (condition("firstname", "IN", values=["Ada", "Grace", "x"]), {"Ada", "Grace"}),
        (condition("firstname", "NOT_IN", values=["Ada", "Grace"]), {"Adam", ""}),
        (condition("firstname", "HAS_PROPERTY"), {"Ada", "Adam", "Grace"}),
        (condition("firstname", "NOT_HAS_PROPERTY"), {""}),
        (condition("firstname", "CONTAINS_TOKEN", "da"), {"Ada", "Adam"}),
        (condition("firstname", "NOT_CONTAINS_TOKEN", "da"), {"Grace", ""}),
    ):
        assert found(client, given) == {people[name] for name in names}, given


def test_4_4_each_operator_finds_what_it_means_of_numbers(client: Client) -> None:
    deals = {amount: client.make("deals", amount=amount) for amount in ("9", "10", "11", "")}
    for given, amounts in (
        (condition("amount", "EQ", "10"), {"10"}),
        (condition("amount", "NEQ", "10"), {"9", "11", ""}),
        (condition("amount", "GT", "9"), {"10", "11"}),
        (condition("amount", "GTE", "10"), {"10", "11"}),
        (condition("amount", "LT", "10"), {"9"}),
        (condition("amount", "LTE", "10"), {"9", "10"}),
        (condition("amount", "IN", values=["9", "11"]), {"9", "11"}),
        (condition("amount", "NOT_IN", values=["9", "11"]), {"10", ""}),
        (condition("amount", "HAS_PROPERTY"), {"9", "10", "11"}),
        (condition("amount", "NOT_HAS_PROPERTY"), {""}),
        (condition("amount", "CONTAINS_TOKEN", "1"), {"10", "11"}),
        (condition("amount", "NOT_CONTAINS_TOKEN", "1"), {"9", ""}),
    ):
        expected = {deals[amount] for amount in amounts}
        assert found(client, given, resource="deals") == expected, given


def test_4_4_there_are_no_other_operators(client: Client) -> None:
    for operator in ("OR", "LIKE", "eq", "", "BETWEEN"):
        body = {"filters": [condition("firstname", operator, "x")]}
        assert "NOT_CONTAINS_TOKEN" in refused(client.post("/contacts/search", body), 400)


def test_4_4_all_conditions_must_hold(client: Client, people: dict[str, int]) -> None:
    both = [condition("firstname", "CONTAINS_TOKEN", "Ada"), condition("city", "EQ", "Berlin")]
    assert found(client, *both) == {people["Adam"]}
    none = [condition("firstname", "EQ", "Ada"), condition("firstname", "EQ", "Adam")]
    assert found(client, *none) == set()


def test_4_4_without_conditions_all_records_are_found(
    client: Client, people: dict[str, int]
) -> None:
    assert found(client) == set(people.values())


def test_4_4_rule_1_neq_also_finds_records_whose_property_is_unfilled(client: Client) -> None:
    other, unfilled = client.make(city="Berlin"), client.make()
    client.make(city="London")
    assert found(client, condition("city", "NEQ", "London")) == {other, unfilled}


@pytest.fixture
def deals(client: Client) -> dict[str, int]:
    """Deals by the time they close, and by a day."""
    good(client.post("/properties/deals", {"name": "signed", "label": "S", "type": "date"}), 201)
    times = ["2026-01-30T23:59:59.999Z", "2026-01-31T00:00:00Z", "2026-01-31T18:30:00Z"]
    times += ["2026-02-01T00:00:00Z"]
    return {time: client.make("deals", closedate=time, signed=time[:10]) for time in times}


@pytest.mark.parametrize("name", ["closedate", "signed"])
@pytest.mark.parametrize(
    ("operator", "days"),
    [
        ("EQ", {"01-31"}),
        ("NEQ", {"01-30", "02-01"}),
        ("GT", {"02-01"}),
        ("GTE", {"01-31", "02-01"}),
        ("LT", {"01-30"}),
        ("LTE", {"01-30", "01-31"}),
    ],
)
def test_4_4_rule_2_of_dates_and_datetimes_the_date_alone_is_compared(
    client: Client, deals: dict[str, int], name: str, operator: str, days: set[str]
) -> None:
    expected = {id for when, id in deals.items() if when[5:10] in days}
    for hour in ("", " 09:00", " 23:59"):
        given = condition(name, operator, f"2026-01-31{hour}")
        assert found(client, given, resource="deals") == expected, given


def test_4_4_rule_2_a_date_of_another_format_is_refused(client: Client) -> None:
    days = ["31.01.2026", "01/31/2026", "2026-1-31", "2026-01-31T09:00:00Z", "yesterday"]
    for value in (*days, "2026-01-31 09:00:00"):
        body = {"filters": [condition("closedate", "EQ", value)]}
        assert "YYYY-MM-DD" in refused(client.post("/deals/search", body), 422), value


def test_4_4_rule_3_numbers_and_currencies_are_compared_as_numbers(client: Client) -> None:
    nine = client.make("deals", amount="9", hs_forecast_probability="0.9")
    ten = client.make("deals", amount="10.0", hs_forecast_probability="0.10")
    hundred = client.make("deals", amount="100", hs_forecast_probability="-1")
    for given, expected in (
        (condition("amount", "GT", "9"), {ten, hundred}),
        (condition("amount", "LTE", "10"), {nine, ten}),
        (condition("amount", "EQ", "10"), {ten}),
        (condition("amount", "IN", values=["9.00", "1e2"]), {nine, hundred}),
        (condition("hs_forecast_probability", "LT", "0.9"), {ten, hundred}),
        (condition("hs_forecast_probability", "EQ", "0.1"), {ten}),
    ):
        assert found(client, given, resource="deals") == expected, given


@pytest.mark.parametrize("operator", ["HAS_PROPERTY", "NOT_HAS_PROPERTY"])
def test_4_4_rule_4_operators_of_presence_take_no_value(client: Client, operator: str) -> None:
    for more in ({"value": "x"}, {"values": ["x"]}):
        body = {"filters": [condition("firstname", operator) | more]}
        refused(client.post("/contacts/search", body), 400)


def test_4_4_contains_token_matches_any_part_of_the_text(client: Client) -> None:
    id = client.make(company="Acme 100% Ltd")
    client.make(company="Other")
    for part in ("Acme", "cme 1", "100%", "acme", "LTD"):
        assert found(client, condition("company", "CONTAINS_TOKEN", part)) == {id}


# 4.5 Batch create


@each_resource
def test_4_5_each_item_has_properties_and_optional_associations(
    client: Client, resource: str
) -> None:
    deal = client.make("deals")
    items = [
        {"properties": needed(resource), "associations": {"deals": [deal], "companies": []}},
        {"properties": needed(resource)},
    ]
    made = good(client.post(f"/{resource}/batch/create", {"inputs": items}), 201)
    assert [each["associations"]["deals"] for each in made] == [[deal], []]


def test_4_5_an_item_needs_properties(client: Client) -> None:
    message = refused(client.post("/contacts/batch/create", {"inputs": [{}]}), 400)
    assert "inputs[0].properties" in message


@pytest.mark.parametrize(
    ("resource", "name"), [("contacts", "email"), ("deals", "dealname"), ("companies", "name")]
)
def test_4_5_the_rules_of_required_properties_apply_to_each_item(
    client: Client, resource: str, name: str
) -> None:
    alone = refused(client.post(f"/{resource}", {"properties": {}}), 422)
    items = [{"properties": needed(resource)}, {"properties": {}}]
    batch = refused(client.post(f"/{resource}/batch/create", {"inputs": items}), 422)
    assert name in alone
    assert batch == f"inputs[1].{alone}"


@each_resource
def test_4_5_success_is_201_with_the_records_in_order(client: Client, resource: str) -> None:
    name = next(iter(needed(resource)))
    items = [{"properties": {name: f"number {n}"}} for n in range(5)]
    made = good(client.post(f"/{resource}/batch/create", {"inputs": items}), 201)
    assert [each["properties"][name] for each in made] == [f"number {n}" for n in range(5)]


# 4.6 Webhook helpers


def test_4_6_create_lead_creates_a_contact(client: Client) -> None:
    answer = good(client.helper(CREATE_LEAD, LEAD))
    contact = good(client.get(f"/contacts/{answer['contactId']}"))
    assert contact["properties"] == {
        "firstname": "Ada",
        "lastname": "King Lovelace",
        "email": "ada@example.com",
        "phone": "+12025550123",
    }


def test_4_6_create_lead_updates_the_contact_it_knows(client: Client) -> None:
    first = good(client.helper(CREATE_LEAD, LEAD))
    again = good(client.helper(CREATE_LEAD, {**LEAD, "name": "Augusta", "contactToken": "t2"}))
    assert again["contactId"] == first["contactId"]
    assert good(client.get("/contacts"))["total"] == 1
    contact = good(client.get(f"/contacts/{first['contactId']}"))
    assert contact["properties"]["firstname"] == "Augusta"


@pytest.mark.parametrize("name", ["name", "email"])
def test_4_6_create_lead_wants_a_contact_with_name_and_email(client: Client, name: str) -> None:
    refused(client.helper(CREATE_LEAD, {**LEAD, name: ""}), 422)
    assert good(client.get("/contacts"))["total"] == 0


def test_4_6_create_lead_is_called_under_an_id_issued_for_the_account(client: Client) -> None:
    refused(client.helper("/chatbot/createLead/somebody-elses", LEAD), 404)


def test_4_6_get_properties_returns_stored_values(client: Client, other: Client) -> None:
    client.helper(CREATE_LEAD, LEAD)
    body = {"contactToken": LEAD["contactToken"], "props": ["email", "phone"]}
    answer = good(client.helper("/chatbot/getProperties", body, headers=proof(client)))
    assert (answer["email"], answer["phone"]) == (LEAD["email"], LEAD["phone"])


def test_4_6_properties_are_reached_without_an_account_in_path_or_header(client: Client) -> None:
    token = f"chat-{client.account.client_id}"
    client.helper(CREATE_LEAD, {**LEAD, "contactToken": token})
    body = {"contactToken": token, "props": {"city": "London"}}
    good(client.helper("/chatbot/setProperties", body))
    answer = good(client.helper("/chatbot/getProperties", {**body, "props": ["city"]}))
    assert answer["city"] == "London"


def test_4_6_set_properties_sets_them(client: Client) -> None:
    id = good(client.helper(CREATE_LEAD, LEAD))["contactId"]
    props = {"city": "London", "lifecyclestage": "customer"}
    body = {"contactToken": LEAD["contactToken"], "props": props}
    good(client.helper("/chatbot/setProperties", body, headers=proof(client)))
    contact = good(client.get(f"/contacts/{id}"))
    assert props.items() <= contact["properties"].items()


def test_4_6_set_properties_stores_the_internal_option_value_and_no_label(client: Client) -> None:
    id = good(client.helper(CREATE_LEAD, LEAD))["contactId"]
    for sent in ("Sales Qualified Lead", "salesqualifiedlead"):
        body = {"contactToken": LEAD["contactToken"], "props": {"lifecyclestage": sent}}
        answer = good(client.helper("/chatbot/setProperties", body, headers=proof(client)))
        assert answer["refused"] == ""
        properties = good(client.get(f"/contacts/{id}"))["properties"]
        assert properties["lifecyclestage"] == "salesqualifiedlead"
    body["props"] = {"lifecyclestage": "Sales"}
    answer = client.helper("/chatbot/setProperties", body, headers=proof(client))
    assert answer.status_code == 422


def test_4_6_get_type_identifies_the_active_workflow(client: Client) -> None:
    id = good(client.helper(CREATE_LEAD, LEAD))["contactId"]
    body = {"contactnumber": "+1 (202) 555-0123", "interval": 48, "lastChatInterval": 0}
    before = good(client.helper("/chatbot/getType/{generated}", body))
    assert client.put(f"/workflows/1234/enrolments/{id}").status_code == 204
    after = good(client.helper("/chatbot/getType/{generated}", body))
    assert (before["workflowId"], after["workflowId"]) == ("", "1234")


def test_4_6_get_random_int_returns_each_integer_between_min_and_max(client: Client) -> None:
    values = [good(client.helper(RANDOM_INT, {"min": 1, "max": 3}))["value"] for _ in range(60)]
    assert set(values) == {1, 2, 3}


def test_4_6_create_deal_creates_a_deal_for_the_contact(client: Client) -> None:
    contact = good(client.helper(CREATE_LEAD, LEAD))["contactId"]
    properties = {
        "dealname": "Ada's deal",
        "dealstage": "qualifiedtobuy",
        "pipeline": "default",
        "amount": "100",
        "my_own_property": "something",
    }
    body = {"contactId": contact, "properties": properties}
    id = good(client.helper(CREATE_DEAL, body))["dealId"]
    deal = good(client.get(f"/deals/{id}"))
    assert deal["properties"] == properties
    assert deal["associations"]["contacts"] == [int(contact)]


def test_4_6_create_ticket_creates_a_ticket_for_the_contact(client: Client) -> None:
    contact = good(client.helper(CREATE_LEAD, LEAD))["contactId"]
    properties = {
        "subject": "Help",
        "hs_pipeline_stage": "1",
        "hs_pipeline": "0",
        "hs_ticket_priority": "HIGH",
        "my_own_property": "something",
    }
    body = {"contactId": contact, "properties": properties}
    id = good(client.helper(CREATE_TICKET, body))["ticketId"]
    ticket = good(client.get(f"/tickets/{id}"))
    assert ticket["properties"] == properties
    assert ticket["associations"]["contacts"] == [int(contact)]


def proof(client: Client) -> dict[str, str]:
    """Return the header that names the account: these helpers carry it nowhere else."""
    return {"X-Webhook-Secret": client.ids.webhook_secret}


# 5. Authentication


def test_5_1_every_request_carries_the_key_in_service_apikey(
    client: Client, app: flask.Flask
) -> None:
    path = f"{client.base}/contacts"
    good(app.test_client().get(path, headers={"service-apikey": client.key}))


@pytest.mark.parametrize("headers", [{}, {"service-apikey": "wrong"}, {"service-apikey": ""}])
def test_5_3_without_a_valid_key_the_answer_is_401(
    client: Client, app: flask.Flask, headers: dict[str, str]
) -> None:
    for method, path in (("GET", "/contacts"), ("POST", "/contacts/batch/create")):
        answer = app.test_client().open(client.base + path, method=method, headers=headers)
        refused(answer, 401)
        assert answer.json["category"] == "UnauthorizedError"  # type: ignore[index]


# 7. Errors


def test_7_400_malformed_request_or_invalid_parameters(client: Client) -> None:
    for answer in (
        client.call("POST", "/contacts", data=b"{", content_type="application/json"),
        client.get("/contacts?limit=0"),
        client.post("/contacts", {"properties": "x"}),
    ):
        refused(answer, 400)
        assert answer.json["category"] == "BadRequestError"  # type: ignore[index]


def test_7_402_plan_limit_reached(app: flask.Flask) -> None:
    client = open_client(app, plan="free")
    body = {"inputs": [{"properties": needed("deals")}] * 100}
    good(client.post("/deals/batch/create", body), 201)
    answer = client.post("/deals", {"properties": needed("deals")})
    refused(answer, 402)
    assert answer.json["category"] == "LimitExceededError"  # type: ignore[index]


def test_7_403_no_permission_for_the_resource(client: Client, hub: Hub) -> None:
    issued = hub.database.transact(
        lambda tx: keys.create(tx, client.account.id, scopes=["deals:read"])
    )
    answer = client.get("/contacts", headers={"service-apikey": issued.api_key})
    refused(answer, 403)
    assert answer.json["category"] == "ForbiddenError"  # type: ignore[index]


@each_resource
def test_7_404_resource_not_found(client: Client, resource: str) -> None:
    answer = client.get(f"/{resource}/1")
    refused(answer, 404)
    assert answer.json["category"] == "NotFoundError"  # type: ignore[index]


def test_7_409_a_duplicate_record(client: Client) -> None:
    id = client.make(email="ada@example.com")
    answer = client.post("/contacts", {"properties": {"email": "ADA@example.com"}})
    assert refused(answer, 409).endswith(f"Existing ID: {id}")
    assert answer.json["category"] == "ConflictError"  # type: ignore[index]


def test_7_422_well_formed_with_semantic_errors(client: Client) -> None:
    for answer in (
        client.post("/contacts", {"properties": {"email": "no address"}}),
        client.post("/contacts", {"properties": {"nothing_known": "x", "firstname": "x"}}),
        client.post("/contacts", {"properties": {}}),
        client.post(
            "/contacts", {"properties": {"firstname": "x"}, "associations": {"deals": [1]}}
        ),
    ):
        refused(answer, 422)
        assert answer.json["category"] == "SemanticError"  # type: ignore[index]


def test_7_429_rate_limit_exceeded(app: flask.Flask) -> None:
    client = open_client(app, plan="free")
    answers = [client.get("/contacts") for _ in range(101)]
    refused(answers[-1], 429)
    assert answers[-1].json["category"] == "ManyRequestError"  # type: ignore[index]


def test_7_500_internal_server_error(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise Internal("Something of ours is broken.")

    monkeypatch.setattr(RecordStore, "page", fail)
    answer = client.get("/contacts")
    refused(answer, 500)
    assert answer.json["category"] == "InternalError"  # type: ignore[index]


# 8. Limits: see 4.2 for the size of pages, 7 for 402 and 429


# 9. Versioning


def test_9_the_version_is_carried_in_the_path(client: Client, app: flask.Flask) -> None:
    for version in ("", "/api", "/api/v2", "/v1", "/api/V1"):
        path = f"/{client.account.client_id}{version}/contacts"
        refused(app.test_client().get(path, headers={"service-apikey": client.key}), 404)
