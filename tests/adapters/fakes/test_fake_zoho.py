"""The fake Zoho CRM is as strict as Zoho: COQL, ignored names, rows with errors, tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from adapters.fakes.zoho import FakeZoho, Options


class Api:
    """Calls the fake with a token of its own."""

    def __init__(self, fake: FakeZoho) -> None:
        self.fake = fake
        self.token = self.fresh_token().json()["access_token"]

    def fresh_token(self, **form: str) -> requests.Response:
        tokens = self.fake.tokens
        usual = {
            "grant_type": "refresh_token",
            "client_id": tokens.client_id,
            "client_secret": tokens.client_secret,
            "refresh_token": tokens.refresh_token,
        }
        return requests.post(f"{self.fake.url}/oauth/v2/token", {**usual, **form}, timeout=30)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        scheme: str = "Zoho-oauthtoken",
        **more: str,
    ) -> Any:
        headers = {"Authorization": f"{scheme} {self.token}", **more}
        url = f"{self.fake.url}/crm/v8/{path}"
        return requests.request(method, url, json=body, headers=headers, timeout=30)

    def coql(self, query: str) -> requests.Response:
        answer: requests.Response = self.call("POST", "coql", {"select_query": query})
        return answer


@pytest.fixture
def api() -> Iterator[Api]:
    with FakeZoho(Options(unique_email=True)) as fake:
        yield Api(fake)


def test_wrong_and_unknown_names_are_ignored(api: Api) -> None:
    row = {"Last_Name": "Lovelace", "first_name": "Ada", "Nothing": 1, "Created_Time": "x"}
    answer = api.call("POST", "Contacts", {"data": [row]})
    assert (answer.status_code, answer.json()["data"][0]["code"]) == (201, "SUCCESS")
    [record] = api.fake.records("contacts").values()
    assert record.keys() == {"Owner", "Last_Name"}


@pytest.mark.parametrize(
    ("values", "code", "name"),
    [
        ({"Last_Name": None}, "MANDATORY_NOT_FOUND", "Last_Name"),
        ({"Email": "none"}, "INVALID_DATA", "Email"),
        ({"Email_Opt_Out": "true"}, "INVALID_DATA", "Email_Opt_Out"),
        ({"Visits": "1"}, "INVALID_DATA", "Visits"),
        ({"Ledger_Number": 1}, "INVALID_DATA", "Ledger_Number"),
        ({"Interests": "news"}, "INVALID_DATA", "Interests"),
        ({"Status": "nobody"}, "INVALID_DATA", "Status"),
        ({"Date_of_Birth": "25.11.2026"}, "INVALID_DATA", "Date_of_Birth"),
        ({"Last_Visit": "2026-11-25T09:30:00.000Z"}, "INVALID_DATA", "Last_Visit"),
        ({"Account_Name": "Acme"}, "INVALID_DATA", "Account_Name"),
        ({"Account_Name": {"id": "1"}}, "INVALID_DATA", "id"),
        ({"Title": "x" * 101}, "INVALID_DATA", "Title"),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    api: Api, values: dict[str, Any], code: str, name: str
) -> None:
    answer = api.call("POST", "Contacts", {"data": [{"Last_Name": "Lovelace", **values}]})
    [row] = answer.json()["data"]
    assert (answer.status_code, row["code"], row["details"]["api_name"]) == (400, code, name)
    assert not api.fake.records("contacts")


def test_rows_are_answered_in_order(api: Api) -> None:
    rows = [{"Last_Name": "A", "Email": "a@b.org"}, {"Email": "a@b.org"}, {"Last_Name": "C"}]
    answer = api.call("POST", "Contacts", {"data": rows})
    first, second, third = answer.json()["data"]
    assert answer.status_code == 207
    assert (first["status"], third["status"]) == ("success", "success")
    codes = [one["code"] for one in second["details"]["errors"]]
    assert (second["code"], codes) == (
        "MULTIPLE_OR_MULTI_ERRORS",
        ["MANDATORY_NOT_FOUND", "DUPLICATE_DATA"],
    )
    holder = second["details"]["errors"][1]["details"]["duplicate_record"]
    assert (holder["id"], holder["module"]["api_name"]) == (first["details"]["id"], "Contacts")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("select id from Contacts", "SYNTAX_ERROR"),
        ("select id from Contacts where Email = 'a\\b'", "SYNTAX_ERROR"),
        ("select id from Contacts where Email = 'o'hara@b.org'", "SYNTAX_ERROR"),
        ("select id from Contacts where id = '1' or id = '2' or id = '3'", "SYNTAX_ERROR"),
        ("select id, email from Contacts where id = '1'", "INVALID_QUERY"),
        ("select id from contacts where id = '1'", "INVALID_QUERY"),
        ("select id from Contacts where Description = 'x'", "INVALID_QUERY"),
        ("select id, id from Contacts where id = '1'", "DUPLICATE_DATA"),
        (f"select id from Contacts where id in ({', '.join(['1'] * 51)})", "LIMIT_EXCEEDED"),
        (f"select {', '.join(['id'] * 51)} from Contacts where id = '1'", "LIMIT_EXCEEDED"),
        ("select id from Contacts where id = '1' limit 2001", "LIMIT_EXCEEDED"),
    ],
)
def test_a_wrong_query_is_refused(api: Api, query: str, code: str) -> None:
    answer = api.coql(query)
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_a_query_finds_what_was_just_written_and_pages(api: Api) -> None:
    nothing = api.coql("select id from Contacts where Email = 'o''hara@b.org'")
    assert (nothing.status_code, nothing.content) == (204, b"")
    for number in range(3):
        row = {"Last_Name": "O'Hara", "Email": f"o'hara{number}@b.org"}
        api.call("POST", "Contacts", {"data": [row]})
    query = "select id, Email from Contacts where (Email is not null and Last_Name = 'o''hara')"
    answer = api.coql(f"{query} order by id desc limit 2").json()
    assert [one["Email"] for one in answer["data"]] == ["o'hara2@b.org", "o'hara1@b.org"]
    assert answer["info"] == {"count": 2, "more_records": True}
    rest = api.coql(f"{query} order by id desc limit 2 offset 2").json()
    assert [one["Email"] for one in rest["data"]] == ["o'hara0@b.org"]


def test_a_query_compares_ids_and_times(api: Api) -> None:
    ids = [api.fake.add("contacts", {"Last_Name": f"Lee {i}"}) for i in range(3)]
    after = f"(Modified_Time >= '2026-01-01T00:00:00+00:00' and id > '{ids[0]}')"
    rows = api.coql(f"select id from Contacts where {after}").json()["data"]
    assert [row["id"] for row in rows] == ids[1:]
    later = "Modified_Time > '2999-01-01T00:00:00+00:00'"
    assert api.coql(f"select id from Contacts where {later}").status_code == 204


def test_deleted_records_are_listed_since_a_time(api: Api) -> None:
    id = api.fake.add("contacts", {"Last_Name": "Lee"})
    assert api.call("GET", "Contacts/deleted?type=all").status_code == 204
    [row] = api.call("DELETE", f"Contacts/{id}").json()["data"]
    assert (row["status"], row["details"]) == ("success", {"id": id})
    assert api.call("DELETE", f"Contacts/{id}").status_code == 400
    since = {"If-Modified-Since": "2026-01-01T00:00:00+00:00"}
    [deleted] = api.call("GET", "Contacts/deleted", **since).json()["data"]
    assert (deleted["id"], deleted["type"]) == (id, "recycle")
    future = {"If-Modified-Since": "2999-01-01T00:00:00+00:00"}
    assert api.call("GET", "Contacts/deleted", **future).status_code == 304
    assert api.call("GET", "Contacts/deleted?nonsense=1").status_code == 400


def test_a_search_is_late_and_matches_parts(api: Api) -> None:
    api.fake.search_lag = 3600.0
    api.call("POST", "Contacts", {"data": [{"Last_Name": "L", "Email": "joann@b.org"}]})
    assert api.call("GET", "Contacts/search?email=ann@b.org").status_code == 204
    api.fake.index()
    assert len(api.call("GET", "Contacts/search?email=ann@b.org").json()["data"]) == 1


def test_a_stage_must_be_of_the_pipeline_and_the_pipeline_of_the_layout(api: Api) -> None:
    def code(**values: Any) -> str:
        row = {"Deal_Name": "Engine", "Stage": "Qualification", **values}
        return str(api.call("POST", "Deals", {"data": [row]}).json()["data"][0]["code"])

    assert code() == "SUCCESS"
    assert code(Stage="Signed") == "MAPPING_MISMATCH"
    assert code(Pipeline="Partners (Partners)", Stage="Signed") == "MAPPING_MISMATCH"
    layout = {"id": "5725767000000000103"}
    assert code(Pipeline="Partners (Partners)", Stage="Signed", Layout=layout) == "SUCCESS"


def test_tokens_are_refused_in_zohos_way(api: Api) -> None:
    answer = api.fresh_token(client_secret="x")
    assert (answer.status_code, answer.json()) == (200, {"error": "invalid_client"})
    answer = api.fresh_token(refresh_token="x")
    assert (answer.status_code, answer.json()) == (200, {"error": "invalid_code"})
    assert "refresh_token" not in api.fresh_token().json()
    for _ in range(6):
        api.fresh_token()
    refused = api.fresh_token()
    assert (refused.status_code, refused.json()["error"]) == (400, "Access Denied")
    bearer = api.call("GET", "users", scheme="Bearer")
    assert (bearer.status_code, bearer.json()["code"]) == (401, "AUTHENTICATION_FAILURE")
    api.fake.expire_tokens()
    assert api.call("GET", "users").json()["code"] == "INVALID_TOKEN"


def test_credits_are_counted_by_rows_and_shown_from_half_on(api: Api) -> None:
    api.fake.credits.change(10, 86_400.0)
    rows = [{"Last_Name": f"L {number}"} for number in range(40)]
    first = api.call("POST", "Contacts", {"data": rows})
    assert (api.fake.credits.spent, "X-API-CREDITS-REMAINING" in first.headers) == (4, False)
    assert api.call("POST", "Contacts", {"data": rows}).headers["X-API-CREDITS-REMAINING"] == "2"
    refused = api.call("POST", "Contacts", {"data": rows})
    assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_REQUESTS")
