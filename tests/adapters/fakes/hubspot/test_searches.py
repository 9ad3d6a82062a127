"""The fake's search: operators, groups, limits and the lag of its index."""

from __future__ import annotations

import pytest

from tests.adapters.fakes.hubspot.calls import Api


@pytest.mark.parametrize(
    ("name", "operator", "values", "found"),
    [
        ("email", "EQ", ["ADA@EXAMPLE.COM"], "a"),
        ("email", "IN", ["ada@example.com"], "a"),
        ("email", "IN", ["Ada@Example.com"], ""),
        ("email", "HAS_PROPERTY", [], "ab"),
        ("lifecyclestage", "EQ", ["lead"], "a"),
        ("lifecyclestage", "EQ", ["LEAD"], ""),
        ("lifecyclestage", "IN", ["lead", "customer"], "ab"),
        ("score", "GT", ["9"], "b"),
        ("score", "GTE", ["9"], "ab"),
        ("score", "LT", ["10"], "a"),
        ("score", "LTE", ["10"], "ab"),
        ("closedate", "GTE", ["2026-01-02"], "b"),
        ("closedate", "EQ", ["1767225600000"], "a"),
        ("hs_searchable_calculated_phone_number", "EQ", ["600111222"], "a"),
    ],
)
def test_each_operator(api: Api, name: str, operator: str, values: list[str], found: str) -> None:
    api.fake.define("contacts", "score", "number")
    a = api.fake.add_contact(
        email="ada@example.com",
        lifecyclestage="lead",
        score="9",
        phone="+34600111222",
        closedate="2026-01-01",
    )
    b = api.fake.add_contact(
        email="bob@example.org", lifecyclestage="customer", score="10", closedate="2026-01-02"
    )
    c = api.fake.add_contact(firstname="C")
    names = {a: "a", b: "b", c: "c"}
    ids = api.found("contacts", name, operator, *values)
    assert "".join(sorted(names[id_] for id_ in ids)) == found


def test_filters_of_a_group_all_hold_and_one_group_is_enough(api: Api) -> None:
    ids = [
        api.fake.add_contact(firstname=first, city=city)
        for first, city in (("Ada", "London"), ("Ada", "Paris"), ("Bob", "Rome"))
    ]
    eq = [
        {"propertyName": name, "operator": "EQ", "value": value}
        for name, value in (("firstname", "ada"), ("city", "london"), ("city", "rome"))
    ]
    groups = [{"filters": eq[:2]}, {"filters": eq[2:]}]
    found = api.search("contacts", filterGroups=groups).json()
    assert [one["id"] for one in found["results"]] == [ids[0], ids[2]]


def test_sorting_and_paging_by_offset(api: Api) -> None:
    ids = [api.fake.add("deals", {"amount": amount}) for amount in ("10", "9", "100")]
    first = api.search("deals", sorts=["-amount"], limit=2).json()
    assert [one["id"] for one in first["results"]] == [ids[2], ids[0]]
    assert (first["total"], first["paging"]["next"]["after"]) == (3, "2")
    second = api.search("deals", sorts=["-amount"], limit=2, after="2").json()
    assert [one["id"] for one in second["results"]] == [ids[1]]
    assert "paging" not in second


_ONE = {"propertyName": "email", "operator": "HAS_PROPERTY"}


@pytest.mark.parametrize(
    "more",
    [
        {"filterGroups": [{"filters": [_ONE]}] * 6},
        {"filterGroups": [{"filters": [_ONE] * 7}]},
        {"filterGroups": [{"filters": [_ONE] * 5}] * 4},
        {"limit": 201},
        {"limit": 200, "after": "9900"},
        {"after": "x"},
        {"sorts": [{"propertyName": "email", "direction": "DESCENDING"}]},
        {"sorts": ["nonsense"]},
        {"properties": ["x" * 3_000]},
        {"filterGroups": [{"filters": [{"propertyName": "email", "operator": "LIKE"}]}]},
        {"filterGroups": [{"filters": [{"propertyName": "email", "operator": "EQ"}]}]},
        {
            "filterGroups": [
                {"filters": [{"propertyName": "email", "operator": "IN", "value": "x"}]}
            ]
        },
    ],
)
def test_what_is_over_a_limit_or_unknown_is_refused(api: Api, more: dict[str, object]) -> None:
    answer = api.search("contacts", **more)
    assert answer.status_code == 400
    assert answer.json()["category"] == "VALIDATION_ERROR"


def test_an_unknown_property_is_named(api: Api) -> None:
    one = {"propertyName": "emial", "operator": "EQ", "value": "x"}
    answer = api.search("contacts", one)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["context"]["propertyName"] == ["emial"]


def test_every_field_of_the_body_is_needed(api: Api) -> None:
    answer = api.post("contacts/search", {"filterGroups": []})
    assert answer.status_code == 400
    assert "after, limit, properties, sorts" in answer.json()["message"]


def test_the_index_lags_behind_writes_and_reads_do_not(api: Api) -> None:
    api.post("/_control/settings", {"search_lag": 50})
    id_ = api.create("contacts", email="ada@example.com").json()["id"]
    assert api.get(f"contacts/{id_}").status_code == 200
    assert api.found("contacts", "email", "EQ", "ada@example.com") == []
    api.fake.index()
    api.update("contacts", id_, email="countess@example.com")
    assert api.found("contacts", "email", "EQ", "ada@example.com") == [id_]
    api.fake.index()
    assert api.found("contacts", "email", "EQ", "countess@example.com") == [id_]
