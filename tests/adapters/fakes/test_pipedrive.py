"""The fake Pipedrive refuses what Pipedrive refuses, and is as late and as limited as it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from adapters.fakes.pipedrive import FakePipedrive, Options
from adapters.fakes.pipedrive.catalogue import key_of

EMAILS = [{"value": "ann@x.org", "primary": True, "label": "work"}]
KEY = {name: key_of("persons", name) for name in ("Interest", "Topics", "Score", "Budget", "Job")}
Call = Callable[..., requests.Response]


@pytest.fixture
def fake() -> Iterator[FakePipedrive]:
    with FakePipedrive(Options(limit="none", search_limit="none")) as fake:
        yield fake


@pytest.fixture
def call(fake: FakePipedrive) -> Iterator[Call]:
    with calling(fake) as call:
        yield call


class calling:
    """Calls of a fake with its API token, or with other headers."""

    def __init__(self, fake: FakePipedrive) -> None:
        self._fake = fake
        self._session = requests.Session()

    def __enter__(self) -> Call:
        return self._call

    def __exit__(self, *exc: object) -> None:
        self._session.close()

    def _call(self, method: str, path: str, json: Any = None, **more: Any) -> requests.Response:
        headers = more.pop("headers", {"x-api-token": self._fake.options.token})
        url = f"{self._fake.url}/api/{path}"
        return self._session.request(method, url, json=json, headers=headers, timeout=10, **more)


def custom(name: str, value: Any) -> dict[str, Any]:
    return {"name": "Ann", "custom_fields": {KEY[name]: value}}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": 7},
        {"name": "x" * 256},
        {"name": "Ann", "nonsense": 1},
        {"name": "Ann", "email": "ann@x.org"},
        {"name": "Ann", "first_name": "Ann"},
        {"name": "Ann", "owner_id": "7301"},
        {"name": "Ann", "emails": "ann@x.org"},
        {"name": "Ann", "emails": [{"value": ""}]},
        {"name": "Ann", "emails": [{"value": "a@x.org", "kind": "work"}]},
        {"name": "Ann", "emails": [*EMAILS, *EMAILS]},
        {"name": "Ann", KEY["Job"]: "Cook"},
        {"name": "Ann", "custom_fields": {"0" * 40: "x"}},
        custom("Score", "1"),
        custom("Score", True),
        custom("Interest", "High"),
        custom("Interest", 1),
        custom("Topics", []),
        custom("Budget", 5),
        custom("Budget", {"value": 5}),
        custom("Budget", {"value": "5", "currency": "EUR"}),
        custom("Job", "x" * 256),
    ],
)
def test_a_person_of_a_wrong_form_is_refused_whole(
    fake: FakePipedrive, call: Call, body: dict[str, Any]
) -> None:
    answer = call("POST", "v2/persons", body)
    assert (answer.status_code, answer.json()["success"]) == (400, False)
    assert fake.records("contacts") == {}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "Ann", "job_title": "Cook"}, 403),
        ({"name": "Ann", "custom_fields": "x"}, 500),
    ],
)
def test_some_forms_are_refused_otherwise(call: Call, body: dict[str, Any], status: int) -> None:
    assert call("POST", "v2/persons", body).status_code == status


@pytest.mark.parametrize(
    "body",
    [
        {"title": ""},
        {"title": "T", "value": "5"},
        {"title": "T", "currency": "euro"},
        {"title": "T", "stage_id": 99},
        {"title": "T", "pipeline_id": 99},
        {"title": "T", "pipeline_id": 1, "stage_id": 4},
        {"title": "T", "lost_reason": "x"},
        {"title": "T", "expected_close_date": "24.12.2026"},
    ],
)
def test_a_deal_of_a_wrong_form_is_refused(call: Call, body: dict[str, Any]) -> None:
    assert call("POST", "v2/deals", body).status_code == 400


def test_the_plan_limits_open_deals(fake: FakePipedrive, call: Call) -> None:
    fake.options.most_deals = 1
    assert call("POST", "v2/deals", {"title": "T"}).status_code == 200
    answer = call("POST", "v2/deals", {"title": "T"})
    assert (answer.status_code, answer.json()["code"]) == (403, "feature_capping_deals_limit")


def test_a_change_replaces_lists_whole_and_keeps_other_fields(
    fake: FakePipedrive, call: Call
) -> None:
    id = fake.add("contacts", {"name": "Ann", "emails": EMAILS, **custom("Score", 1)})
    call("PATCH", f"v2/persons/{id}", {"emails": [{"value": "b@x.org"}]})
    person = call("GET", f"v2/persons/{id}").json()["data"]
    assert person["emails"] == [{"value": "b@x.org", "primary": True, "label": "work"}]
    assert person["custom_fields"] == {KEY["Score"]: 1}
    call("PATCH", f"v2/persons/{id}", {"custom_fields": {KEY["Score"]: None}})
    assert call("GET", f"v2/persons/{id}").json()["data"]["custom_fields"] == {}


@pytest.mark.parametrize(
    "query",
    [
        "limit=501",
        "limit=x",
        "cursor=x",
        "nonsense=1",
        "sort_by=name",
        "updated_since=2026-11-26T10:00:00.500Z",
        f"ids={','.join(map(str, range(101)))}",
        f"custom_fields={','.join('a' * 16)}",
    ],
)
def test_a_list_is_refused_for_a_wrong_parameter(call: Call, query: str) -> None:
    assert call("GET", f"v2/persons?{query}").status_code == 400


def test_a_list_comes_in_pages_and_leaves_out_the_deleted(fake: FakePipedrive, call: Call) -> None:
    ids = [fake.add("contacts", {"name": f"Ann {i}"}) for i in range(5)]
    fake.delete("contacts", ids[1])
    listed, cursor = [], ""
    while cursor is not None:
        page = call("GET", f"v2/persons?limit=2{cursor and f'&cursor={cursor}'}").json()
        listed += [str(person["id"]) for person in page["data"]]
        cursor = page["additional_data"]["next_cursor"]
    assert listed == [ids[0], *ids[2:]]


def test_a_cursor_names_the_last_record_so_that_no_change_shifts_a_page(
    fake: FakePipedrive, call: Call
) -> None:
    ids = [int(fake.add("deals", {"title": f"Deal {i}"})) for i in range(4)]
    first = call("GET", "v2/deals?limit=2").json()
    fake.delete("deals", str(ids[0]))
    rest = {"limit": 2, "cursor": first["additional_data"]["next_cursor"]}
    assert [one["id"] for one in call("GET", "v2/deals", params=rest).json()["data"]] == ids[2:]
    assert call("GET", "v2/deals?sort_by=add_time", params=rest).status_code == 400


def test_deleted_deals_are_listed_on_demand(fake: FakePipedrive, call: Call) -> None:
    ids = [int(fake.add("deals", {"title": f"Deal {i}"})) for i in range(2)]
    assert call("DELETE", f"v2/deals/{ids[0]}").json()["data"] == {"id": ids[0]}
    listed = call("GET", "v2/deals?status=open,deleted").json()["data"]
    assert {one["id"]: one["is_deleted"] for one in listed} == {ids[0]: True, ids[1]: False}
    assert [one["id"] for one in call("GET", "v2/deals?status=won").json()["data"]] == []
    assert call("GET", "v2/deals?status=gone").status_code == 400
    assert call("GET", "v2/persons?status=deleted").status_code == 400


def test_organizations_are_records_of_their_own(fake: FakePipedrive, call: Call) -> None:
    body = {"name": "Acme", "address": {"value": "1 Road"}, "industry": 11}
    id = call("POST", "v2/organizations", body).json()["data"]["id"]
    assert call("GET", f"v2/organizations/{id}").json()["data"]["address"] == {"value": "1 Road"}
    for wrong in ({}, {"name": "A", "industry": 1}, {"name": "A", "address": "1 Road"}):
        assert call("POST", "v2/organizations", wrong).status_code == 400
    fields = call("GET", "v2/organizationFields").json()["data"]
    assert {"name", "employee_count"} <= {one["field_code"] for one in fields}


def test_a_deleted_person_is_flagged_or_gone(fake: FakePipedrive, call: Call) -> None:
    id = fake.add("contacts", {"name": "Ann"})
    fake.delete("contacts", id)
    assert call("GET", f"v2/persons/{id}").json()["data"]["is_deleted"] is True
    assert call("PATCH", f"v2/persons/{id}", {"name": "Bo"}).status_code == 404
    fake.options.deleted = "gone"
    assert call("GET", f"v2/persons/{id}").status_code == 404


def hits(call: Call, term: str, of: str = "email", exact: str = "true") -> list[int]:
    answer = call(
        "GET", "v2/persons/search", params={"term": term, "fields": of, "exact_match": exact}
    )
    return [row["item"]["id"] for row in answer.json()["data"]["items"]]


def test_the_search_is_late_for_new_changed_and_deleted_people(
    fake: FakePipedrive, call: Call
) -> None:
    old = fake.add("contacts", {"name": "Ann", "emails": EMAILS})
    fake.search_lag = 3600.0
    call("POST", "v2/persons", {"name": "Bo", "emails": [{"value": "bo@x.org"}]})
    call("PATCH", f"v2/persons/{old}", {"emails": [{"value": "new@x.org"}]})
    fake.delete("contacts", old)
    assert [hits(call, f"{one}@x.org") for one in ("ann", "new", "bo")] == [[int(old)], [], []]
    fake.search_lag = 0.0
    assert [hits(call, f"{one}@x.org") for one in ("ann", "new", "bo")] == [[], [], [2]]


@pytest.mark.parametrize(
    ("how", "exact", "part"), [("digits", [1, 1, 0], [1, 1, 1]), ("text", [1, 0, 0], [1, 0, 0])]
)
def test_the_search_compares_phones_by_digits_or_by_text(
    fake: FakePipedrive, call: Call, how: Any, exact: list[int], part: list[int]
) -> None:
    fake.options.phone_search = how
    fake.add("contacts", {"name": "Ann", "phones": [{"value": "+49 1512 345"}]})
    terms = ("+49 1512 345", "+491512345", "1512345")
    assert [len(hits(call, term, "phone")) for term in terms] == exact
    assert [len(hits(call, term, "phone", "false")) for term in terms] == part


# Credentials and limits.


def test_credentials_are_checked(fake: FakePipedrive, call: Call) -> None:
    for headers in (
        {},
        {"x-api-token": "wrong"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {fake.options.token}"},
    ):
        answer = call("GET", "v1/users/me", headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized access")


def test_a_token_of_an_app_has_scopes_and_ends(fake: FakePipedrive, call: Call) -> None:
    with fake.lock:
        headers = {"Authorization": f"Bearer {fake.tokens.issue()}"}
    fake.tokens.scopes = frozenset({"base"})
    assert call("GET", "v1/users/me", headers=headers).status_code == 200
    answer = call("GET", "v2/persons", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (403, "Scope and URL mismatch")
    fake.expire_tokens()
    assert call("GET", "v1/users/me", headers=headers).status_code == 401


@pytest.mark.parametrize(
    ("client", "form", "status"),
    [
        (("fake-client-id", "fake-client-secret"), {}, 200),
        (("fake-client-id", "wrong"), {}, 401),
        (None, {}, 401),
        (None, {"client_id": "fake-client-id", "client_secret": "fake-client-secret"}, 400),
        (("fake-client-id", "fake-client-secret"), {"refresh_token": "wrong"}, 400),
    ],
)
def test_tokens_are_for_a_client_that_uses_basic(
    fake: FakePipedrive, client: tuple[str, str] | None, form: dict[str, str], status: int
) -> None:
    grant = {"grant_type": "refresh_token", "refresh_token": "fake-refresh-token", **form}
    answer = requests.post(f"{fake.url}/oauth/token", data=grant, auth=client, timeout=10)
    assert answer.status_code == status
    if status == 200:
        assert answer.json()["refresh_token"] == "fake-refresh-token"
        assert answer.json()["api_domain"] == fake.url


def test_calls_cost_tokens_until_the_day_has_none() -> None:
    with FakePipedrive(Options(daily_tokens=31)) as fake, calling(fake) as call:
        assert call("GET", "v2/persons/search?term=ann").status_code == 200
        left = call("GET", "v2/persons").headers["x-daily-ratelimit-token-remaining"]
        assert (left, fake.windows["daily_tokens"].spent) == ("1", 30)
        answer = call("GET", "v2/persons")
        assert answer.status_code == 429
        assert answer.headers["x-daily-ratelimit-token-remaining"] == "0"


def test_who_goes_on_after_refusals_is_blocked_by_a_page() -> None:
    with FakePipedrive(Options(limit="1/60s")) as fake, calling(fake) as call:
        answers = [call("GET", "v1/users/me") for _ in range(25)]
        assert [one.status_code for one in answers[:2]] == [200, 429]
        assert answers[1].headers["x-ratelimit-limit"] == "1"
        assert answers[-1].status_code == 403
        assert answers[-1].headers["Content-Type"].startswith("text/html")


def test_paths_of_former_versions_are_unknown(call: Call) -> None:
    assert [call("GET", path).status_code for path in ("v1/persons", "v1/deals", "v3/x")] == [
        404
    ] * 3
