"""The specification, rule by rule: each test is named after the section it holds the hub to."""

from __future__ import annotations

import re
from typing import Any

import flask
import pytest

from crmhub.accounts.plans import Plan, Rate
from tests.clients import Client, needed, open_client

RESOURCES = ["contacts", "deals", "companies"]
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
resources = pytest.mark.parametrize("resource", RESOURCES)


def names(client: Client, *filters: Any, resource: str = "contacts", **query: Any) -> list[str]:
    """Search, oldest first, and return the `firstname` of what is found."""
    asked = {"sort": "createdAt", "order": "asc", **query}
    answer = client.post(f"/{resource}/search", {"filters": list(filters)}, query_string=asked)
    assert answer.status_code == 200, answer.text
    return [each["properties"].get("firstname", "") for each in answer.get_json()["results"]]


def condition(name: str, operator: str, value: Any = None) -> dict[str, Any]:
    """Return a filter; a list becomes its `values`."""
    shown: dict[str, Any] = {"propertyName": name, "operator": operator}
    if isinstance(value, list):
        shown["values"] = value
    elif value is not None:
        shown["value"] = value
    return shown


def define(client: Client, name: str, type: str) -> None:
    answer = client.post("/properties/contacts", {"name": name, "type": type})
    assert answer.status_code == 201, answer.text


def refused(answer: Any, status: int, category: str) -> None:
    """Hold an answer to the error body of 2.3 with this status and category."""
    assert answer.status_code == status, answer.text
    body = answer.get_json()
    assert set(body) == {"category", "message", "timestamp", "status"}
    assert body["category"] == category
    assert body["status"] == "error"
    assert body["message"]
    assert MOMENT.fullmatch(body["timestamp"])


# 2. Resources and their fields


@resources
def test_2_1_a_record_has_id_properties_associations_and_times(
    client: Client, resource: str
) -> None:
    record = client.post(f"/{resource}", {"properties": needed(resource)}).get_json()

    assert set(record) == {"id", "properties", "associations", "createdAt", "updatedAt"}
    assert isinstance(record["id"], int)
    assert needed(resource).items() <= record["properties"].items()
    assert record["associations"] == {"deals": [], "companies": []}
    assert MOMENT.fullmatch(record["createdAt"])
    assert MOMENT.fullmatch(record["updatedAt"])


def test_2_1_associations_are_arrays_of_record_ids(client: Client) -> None:
    deal, company = client.make("deals"), client.make("companies")

    record = client.post(
        "/contacts",
        {
            "properties": {"firstname": "Ada", "email": "ada@example.com"},
            "associations": {"deals": [deal], "companies": [company]},
        },
    ).get_json()

    assert record["associations"] == {"deals": [deal], "companies": [company]}


@resources
def test_2_1_list_and_search_items_have_id_and_properties(client: Client, resource: str) -> None:
    id = client.make(resource)

    for page in (client.get(f"/{resource}"), client.post(f"/{resource}/search", {"filters": []})):
        (item,) = page.get_json()["results"]
        assert set(item) == {"id", "properties"}
        assert item["id"] == id


@resources
def test_2_2_a_page_has_total_results_cursor_and_has_more(client: Client, resource: str) -> None:
    for _ in range(3):
        client.make(resource)

    page = client.get(f"/{resource}?limit=2").get_json()

    assert set(page) == {"total", "results", "cursor", "hasMore"}
    assert page["total"] == 3
    assert len(page["results"]) == 2
    assert page["hasMore"] is True
    assert page["cursor"]["nextLink"] == f"?cursor={page['cursor']['next']}"


def test_2_2_the_cursor_is_empty_when_there_is_no_next_page(client: Client) -> None:
    client.make()

    page = client.get("/contacts").get_json()

    assert page["cursor"]["next"] == ""
    assert page["hasMore"] is False


def test_2_3_an_error_has_category_message_timestamp_and_status(client: Client) -> None:
    refused(client.get("/contacts?limit=no"), 400, "BadRequestError")


@pytest.mark.parametrize("missing", ["propertyName", "operator"])
def test_2_4_a_filter_needs_a_property_name_and_an_operator(client: Client, missing: str) -> None:
    one = condition("email", "EQ", "a@example.com")
    del one[missing]

    refused(client.post("/contacts/search", {"filters": [one]}), 400, "BadRequestError")


def test_2_4_a_single_value_operator_takes_value_and_a_list_operator_values(
    client: Client,
) -> None:
    swapped = [condition("email", "EQ", ["a@example.com"]), condition("email", "IN", "a@b.co")]
    for one in swapped:
        refused(client.post("/contacts/search", {"filters": [one]}), 400, "BadRequestError")


# 3. States and transitions


@resources
def test_3_a_create_answers_201_and_the_created_record(client: Client, resource: str) -> None:
    answer = client.post(f"/{resource}", {"properties": needed(resource)})

    assert answer.status_code == 201
    id = answer.get_json()["id"]
    assert client.get(f"/{resource}/{id}").get_json() == answer.get_json()


# 4.1 and 4.5: endpoints and batches


@resources
def test_4_1_list_answers_200_with_the_list_structure(client: Client, resource: str) -> None:
    answer = client.get(f"/{resource}")

    assert answer.status_code == 200
    assert answer.get_json() == {
        "total": 0,
        "results": [],
        "cursor": {"next": "", "nextLink": ""},
        "hasMore": False,
    }


@resources
def test_4_1_search_takes_filters_and_the_query_parameters_of_lists(
    client: Client, resource: str
) -> None:
    client.make(resource)
    client.make(resource)

    page = client.post(
        f"/{resource}/search?limit=1&sort=createdAt&order=asc", {"filters": []}
    ).get_json()

    assert page["total"] == 2
    assert len(page["results"]) == 1


@resources
def test_4_5_batch_create_answers_201_and_an_array_of_the_created_records(
    client: Client, resource: str
) -> None:
    inputs = [{"properties": needed(resource)} for _ in range(3)]

    answer = client.post(f"/{resource}/batch/create", {"inputs": inputs})

    assert answer.status_code == 201
    assert isinstance(answer.get_json(), list)
    assert client.get(f"/{resource}").get_json()["total"] == 3
    for record in answer.get_json():
        assert client.get(f"/{resource}/{record['id']}").get_json() == record


def test_4_5_an_item_may_bring_associations(client: Client) -> None:
    contact, company = client.make(), client.make("companies")

    (deal,) = client.post(
        "/deals/batch/create",
        {
            "inputs": [
                {
                    "properties": {"dealname": "Big"},
                    "associations": {"companies": [company], "deals": []},
                }
            ]
        },
    ).get_json()

    assert deal["associations"] == {"deals": [], "companies": [company]}
    assert client.get(f"/contacts/{contact}").get_json()["associations"]["deals"] == []


def test_4_5_an_item_needs_properties(client: Client) -> None:
    answer = client.post("/contacts/batch/create", {"inputs": [{"associations": {}}]})

    refused(answer, 400, "BadRequestError")
    assert "inputs[0].properties" in answer.get_json()["message"]


@pytest.mark.parametrize("resource", ["deals", "companies"])
def test_4_5_required_properties_apply_to_each_item(client: Client, resource: str) -> None:
    inputs = [{"properties": needed(resource)}, {"properties": {}}]

    answer = client.post(f"/{resource}/batch/create", {"inputs": inputs})

    refused(answer, 422, "SemanticError")
    assert "inputs[1]" in answer.get_json()["message"]
    assert client.get(f"/{resource}").get_json()["total"] == 0


# 4.2 Pagination


def test_4_2_a_page_holds_20_records_by_default_and_100_at_most(client: Client) -> None:
    inputs = [{"properties": {"firstname": str(n)}} for n in range(100)]
    client.post("/contacts/batch/create", {"inputs": inputs})
    client.make()

    assert len(client.get("/contacts").get_json()["results"]) == 20
    assert len(client.get("/contacts?limit=100").get_json()["results"]) == 100
    refused(client.get("/contacts?limit=101"), 400, "BadRequestError")


@pytest.mark.parametrize("search", [False, True])
def test_4_2_following_the_cursor_until_has_more_is_false_returns_each_record_once(
    client: Client, search: bool
) -> None:
    ids = {client.make(firstname=str(n)) for n in range(7)}
    found: list[int] = []
    query = "?limit=3"
    while True:
        answer = (
            client.post(f"/contacts/search{query}", {"filters": []})
            if search
            else client.get(f"/contacts{query}")
        )
        page = answer.get_json()
        found += [each["id"] for each in page["results"]]
        if not page["hasMore"]:
            break
        query = f"?cursor={page['cursor']['next']}"

    assert len(found) == 7
    assert set(found) == ids


# 4.3 Sorting


@pytest.mark.parametrize("sort", ["date_modified", "date_added", "createdAt", "updatedAt"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_4_3_sorts_by_when_records_were_added_or_modified(
    client: Client, sort: str, order: str
) -> None:
    first, second = client.make(firstname="first"), client.make(firstname="second")
    client.patch(f"/contacts/{first}", {"properties": {"firstname": "first, changed"}})
    page = client.get(f"/contacts?sort={sort}&order={order}").get_json()

    by_change = sort in ("date_modified", "updatedAt")
    rising = [second, first] if by_change else [first, second]
    expected = rising if order == "asc" else rising[::-1]
    assert [each["id"] for each in page["results"]] == expected


def test_4_3_sorts_by_date_modified_descending_by_default(client: Client) -> None:
    first, second = client.make(), client.make()
    client.patch(f"/contacts/{first}", {"properties": {"lastname": "Changed"}})

    results = client.get("/contacts").get_json()["results"]

    assert [each["id"] for each in results] == [first, second]


@pytest.mark.parametrize("query", ["sort=name", "order=up"])
def test_4_3_other_values_are_refused(client: Client, query: str) -> None:
    refused(client.get(f"/contacts?{query}"), 400, "BadRequestError")


# 4.4 Search filters


@pytest.fixture
def people(client: Client) -> Client:
    """Four contacts: Ada, Bob and Cleo with an age and a city, Dan with neither."""
    define(client, "age", "number")
    for name, age, city in [("Ada", "9", "Paris"), ("Bob", "10", "Bari"), ("Cleo", "11", "Rome")]:
        client.make(firstname=name, age=age, city=city)
    client.make(firstname="Dan")
    return client


@pytest.mark.parametrize(
    ("operator", "value", "found"),
    [
        ("EQ", "10", ["Bob"]),
        ("NEQ", "10", ["Ada", "Cleo", "Dan"]),
        ("GT", "9", ["Bob", "Cleo"]),
        ("GTE", "10", ["Bob", "Cleo"]),
        ("LT", "10", ["Ada"]),
        ("LTE", "10", ["Ada", "Bob"]),
        ("IN", ["9", "11"], ["Ada", "Cleo"]),
        ("NOT_IN", ["9", "11"], ["Bob", "Dan"]),
        ("HAS_PROPERTY", None, ["Ada", "Bob", "Cleo"]),
        ("NOT_HAS_PROPERTY", None, ["Dan"]),
    ],
)
def test_4_4_each_operator_on_a_number(
    people: Client, operator: str, value: Any, found: list[str]
) -> None:
    assert names(people, condition("age", operator, value)) == found


def test_4_4_contains_token_matches_a_part(people: Client) -> None:
    assert names(people, condition("city", "CONTAINS_TOKEN", "ari")) == ["Ada", "Bob"]


def test_4_4_not_contains_token_returns_the_others(people: Client) -> None:
    assert names(people, condition("city", "NOT_CONTAINS_TOKEN", "ari")) == ["Cleo", "Dan"]


def test_4_4_all_conditions_are_combined_with_and(people: Client) -> None:
    both = [condition("age", "GT", "9"), condition("city", "CONTAINS_TOKEN", "ari")]

    assert names(people, *both) == ["Bob"]


def test_4_4_an_unknown_operator_is_refused(client: Client) -> None:
    answer = client.post("/contacts/search", {"filters": [condition("email", "OR", "x")]})

    refused(answer, 400, "BadRequestError")


def test_4_4_rule_1_neq_also_returns_records_whose_property_is_null(people: Client) -> None:
    assert "Dan" in names(people, condition("city", "NEQ", "Rome"))


@pytest.mark.parametrize("type", ["date", "datetime"])
def test_4_4_rule_2_only_the_date_part_is_compared(client: Client, type: str) -> None:
    define(client, "seen", type)
    for name, seen in [("early", "2026-01-01T00:00:00Z"), ("late", "2026-01-01T23:59:59Z")]:
        client.make(firstname=name, seen=seen)
    client.make(firstname="next", seen="2026-01-02T00:00:00Z")

    for value in ("2026-01-01", "2026-01-01 12:30"):
        assert names(client, condition("seen", "EQ", value)) == ["early", "late"]
        assert names(client, condition("seen", "GT", value)) == ["next"]
    assert names(client, condition("seen", "LTE", "2026-01-01")) == ["early", "late"]


def test_4_4_rule_2_a_date_is_formatted_with_or_without_hours_and_minutes(client: Client) -> None:
    define(client, "seen", "datetime")
    for value in ("01/02/2026", "2026-1-1", "2026-01-01T00:00:00Z", "2026-01-01 12:30:00"):
        wrong = condition("seen", "EQ", value)
        refused(client.post("/contacts/search", {"filters": [wrong]}), 422, "SemanticError")


@pytest.mark.parametrize("type", ["number", "currency"])
def test_4_4_rule_3_numbers_compare_as_numbers(client: Client, type: str) -> None:
    define(client, "worth", type)
    for name, worth in [("nine", "9"), ("ten", "10.0"), ("hundred", "1e2")]:
        client.make(firstname=name, worth=worth)

    assert names(client, condition("worth", "GT", "9")) == ["ten", "hundred"]
    assert names(client, condition("worth", "EQ", "10")) == ["ten"]


@pytest.mark.parametrize("operator", ["HAS_PROPERTY", "NOT_HAS_PROPERTY"])
def test_4_4_rule_4_the_property_operators_take_no_value(client: Client, operator: str) -> None:
    for value in ("x", ["x"]):
        one = condition("email", operator, value)
        refused(client.post("/contacts/search", {"filters": [one]}), 400, "BadRequestError")


# 4.6 Webhook helpers


def lead(client: Client, token: str = "chat-1", **fields: str) -> Any:
    body = {"contactToken": token, "name": "Ada Lovelace", "email": "ada@example.com", **fields}
    return client.helper("/chatbot/createLead/{generated}", body)


def test_4_6_create_lead_creates_a_contact(client: Client) -> None:
    answer = lead(client, phone="+12025550143")

    assert answer.status_code == 200
    assert answer.get_json()["status"] == "created"
    contact = client.get(f"/contacts/{answer.get_json()['contactId']}").get_json()
    assert contact["properties"] == {
        "firstname": "Ada",
        "lastname": "Lovelace",
        "email": "ada@example.com",
        "phone": "+12025550143",
    }


def test_4_6_create_lead_updates_the_contact_there_is(client: Client) -> None:
    first = lead(client).get_json()

    second = lead(client, "chat-2", name="Augusta King").get_json()

    assert (second["status"], second["contactId"]) == ("updated", first["contactId"])
    assert client.get("/contacts").get_json()["total"] == 1


@pytest.mark.parametrize("field", ["name", "email"])
def test_4_6_create_lead_needs_name_and_email(client: Client, field: str) -> None:
    refused(lead(client, **{field: " "}), 422, "SemanticError")


def test_4_6_get_properties_returns_the_stored_values(client: Client) -> None:
    lead(client)

    answer = client.helper(
        "/chatbot/getProperties/{generated}",
        {"contactToken": "chat-1", "props": ["firstname", "email", "city"]},
    ).get_json()

    assert (answer["firstname"], answer["email"]) == ("Ada", "ada@example.com")
    assert answer["city"] == ""


def test_4_6_set_properties_sets_values(client: Client) -> None:
    contact = lead(client).get_json()["contactId"]

    answer = client.helper(
        "/chatbot/setProperties/{generated}",
        {"contactToken": "chat-1", "props": {"city": "London", "lifecyclestage": "customer"}},
    )

    assert answer.get_json()["status"] == "updated"
    stored = client.get(f"/contacts/{contact}").get_json()["properties"]
    assert (stored["city"], stored["lifecyclestage"]) == ("London", "customer")


def test_4_6_set_properties_takes_the_internal_option_value_not_the_label(client: Client) -> None:
    lead(client)

    answer = client.helper(
        "/chatbot/setProperties/{generated}",
        {"contactToken": "chat-1", "props": {"city": "London", "hs_lead_status": "In Progress"}},
    ).get_json()

    assert answer["refused"] == "hs_lead_status"
    assert "IN_PROGRESS" in answer["message"]


@pytest.mark.parametrize("helper", ["getProperties", "setProperties"])
def test_4_6_properties_are_reached_without_an_account_in_the_path(
    client: Client, helper: str
) -> None:
    token = f"chat-{client.account.client_id}"
    lead(client, token)

    props: Any = ["firstname"] if helper == "getProperties" else {"firstname": "Augusta"}
    answer = client.helper(f"/chatbot/{helper}", {"contactToken": token, "props": props})

    assert answer.status_code == 200


def test_4_6_get_type_gives_the_workflow_id_of_the_active_workflow(client: Client) -> None:
    contact = lead(client, phone="+12025550143").get_json()["contactId"]
    asked = {"contactnumber": "+1 202-555-0143", "interval": 48, "lastChatInterval": 0}

    before = client.helper("/chatbot/getType/{generated}", asked).get_json()
    client.put(f"/workflows/nurture-7/enrolments/{contact}")
    after = client.helper("/chatbot/getType/{generated}", asked).get_json()

    assert (before["workflowId"], after["workflowId"]) == ("", "nurture-7")


def test_4_6_get_random_int_returns_every_integer_between_min_and_max(client: Client) -> None:
    values = {
        client.helper("/crm-api-interface/getRandomInt", {"min": 1, "max": 3}).get_json()["value"]
        for _ in range(100)
    }

    assert values == {1, 2, 3}


def test_4_6_create_deal_creates_a_deal_for_the_contact(client: Client) -> None:
    contact = client.make()

    answer = client.helper(
        "/crm-api-interface/createDeal/{portal}",
        {
            "contactId": str(contact),
            "properties": {
                "dealname": "Engine",
                "dealstage": "qualifiedtobuy",
                "pipeline": "default",
                "amount": "1000",
            },
        },
    ).get_json()

    deal = client.get(f"/deals/{answer['dealId']}").get_json()
    assert deal["properties"] == {
        "dealname": "Engine",
        "dealstage": "qualifiedtobuy",
        "pipeline": "default",
        "amount": "1000",
    }
    assert deal["associations"]["contacts"] == [contact]


def test_4_6_create_ticket_creates_a_ticket_for_the_contact(client: Client) -> None:
    contact = client.make()

    answer = client.helper(
        "/crm-api-interface/createTicket/{portal}",
        {
            "contactId": str(contact),
            "properties": {
                "subject": "Smoke",
                "hs_pipeline_stage": "2",
                "hs_pipeline": "0",
                "hs_ticket_priority": "HIGH",
            },
        },
    ).get_json()

    ticket = client.get(f"/tickets/{answer['ticketId']}").get_json()
    assert ticket["properties"]["hs_ticket_priority"] == "HIGH"
    assert ticket["associations"]["contacts"] == [contact]


@pytest.mark.parametrize("helper", ["createDeal", "createTicket"])
def test_4_6_any_additional_property_is_taken_by_internal_name(client: Client, helper: str) -> None:
    name = {"createDeal": {"dealname": "D"}, "createTicket": {"subject": "T"}}[helper]

    answer = client.helper(
        f"/crm-api-interface/{helper}/{{portal}}",
        {"contactId": str(client.make()), "properties": {**name, "bot_campaign": "spring"}},
    ).get_json()

    assert (answer["status"], answer["refused"]) == ("created", "")
    kind, id = ("deals", "dealId") if helper == "createDeal" else ("tickets", "ticketId")
    stored = client.get(f"/{kind}/{answer[id]}").get_json()["properties"]
    assert stored["bot_campaign"] == "spring"


# 5. Authentication


def test_5_every_request_carries_the_account_api_key(client: Client) -> None:
    assert client.get("/contacts").status_code == 200
    assert client.get("/contacts", headers={"service-apikey": ""}).status_code == 401


@pytest.mark.parametrize("key", ["", "wrong", "crmhub_" + "0" * 36])
def test_5_a_missing_or_invalid_key_is_401_with_the_error_body(client: Client, key: str) -> None:
    refused(client.get("/contacts", headers={"service-apikey": key}), 401, "UnauthorizedError")


# 7. Errors and 8. Limits


def test_7_malformed_requests_are_400(client: Client) -> None:
    refused(
        client.call("POST", "/contacts", data=b"{", content_type="application/json"),
        400,
        "BadRequestError",
    )


def test_7_a_reached_plan_limit_is_402_and_nothing_is_written(app: flask.Flask) -> None:
    client = open_client(app, plan="free")
    inputs = [{"properties": {"name": str(n)}} for n in range(100)]
    assert client.post("/companies/batch/create", {"inputs": inputs}).status_code == 201

    refused(
        client.post("/companies", {"properties": {"name": "One more"}}), 402, "LimitExceededError"
    )
    assert client.get("/companies").get_json()["total"] == 100


def test_7_a_key_without_permission_is_403(client: Client, app: flask.Flask) -> None:
    from crmhub.accounts import keys

    hub = app.extensions["crmhub"]
    issued = hub.database.transact(
        lambda tx: keys.create(tx, client.account.id, scopes=["deals:read"])
    )
    client.key = issued.api_key

    refused(client.get("/contacts"), 403, "ForbiddenError")


def test_7_what_does_not_exist_is_404(client: Client) -> None:
    refused(client.get("/contacts/1"), 404, "NotFoundError")
    refused(client.get("/nothing"), 404, "NotFoundError")


def test_7_a_duplicate_record_is_409(client: Client) -> None:
    client.make(email="ada@example.com")

    answer = client.post("/contacts", {"properties": {"email": "ADA@example.com"}})

    refused(answer, 409, "ConflictError")


def test_7_semantic_errors_are_422(client: Client) -> None:
    answer = client.post("/contacts", {"properties": {"firstname": "A", "nickname": "B"}})

    refused(answer, 422, "SemanticError")


def test_8_an_exceeded_rate_limit_is_429(
    client: Client, app: flask.Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = app.extensions["crmhub"].directory
    slow = dict(directory._plans) | {"unlimited": Plan("unlimited", Rate(3, 60))}
    monkeypatch.setattr(directory, "_plans", slow)
    directory.forget(client.account.id)

    answers = [client.get("/contacts") for _ in range(4)]

    assert [answer.status_code for answer in answers[:1]] == [200]
    refused(answers[-1], 429, "ManyRequestError")
    assert int(answers[-1].headers["Retry-After"]) >= 1
    directory.forget(client.account.id)


# 9. Versioning


def test_9_the_version_is_carried_in_the_path(client: Client) -> None:
    client.base = client.base.replace("/v1", "/v2")

    refused(client.get("/contacts"), 404, "NotFoundError")
