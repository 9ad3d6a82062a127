"""The filter language through the front door: what is taken, what is refused."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from crmhub.records.search import conditions
from tests.api.refusals import refused
from tests.catalogue_properties import define
from tests.clients import Client
from tests.pages import walk
from tests.records.search.made_up import OPERATORS


def found(client: Client, *filters: Any, resource: str = "contacts") -> set[int]:
    """Return the ids a search finds."""
    body = {"filters": list(filters)}
    return {each["id"] for each in walk(client, f"/{resource}/search", body, limit=100)}


def where(name: str, operator: str, value: Any = None, values: Any = None) -> Any:
    """Return a filter; None leaves the key out."""
    filter = {"propertyName": name, "operator": operator, "value": value, "values": values}
    return {key: each for key, each in filter.items() if each is not None}


def refusal(client: Client, filter: Any, *statuses: int) -> str:
    """Return why a search with one filter is refused."""
    return refused(client.post("/contacts/search", {"filters": [filter]}), *statuses)


# --- what is found ---------------------------------------------------------------------------


def test_a_changed_record_is_found_by_its_new_value_only(client: Client) -> None:
    id = client.make(city="Rome")
    client.patch(f"/contacts/{id}", {"properties": {"city": "Oslo"}})
    assert found(client, where("city", "EQ", "Rome")) == set()
    assert found(client, where("city", "EQ", "Oslo")) == {id}
    client.patch(f"/contacts/{id}", {"properties": {"city": ""}})
    assert found(client, where("city", "NOT_HAS_PROPERTY")) == {id}


def test_fifty_negations_at_once_are_answered(client: Client) -> None:
    kept = client.make(city="Kept")
    for n in range(3):
        client.make(city=f"City {n}")
    filters = [where("city", "NEQ", f"City {n}") for n in range(50)]
    assert found(client, *filters) == {kept}


@pytest.mark.parametrize("name", ["city", "hubspotscore", "closedate", "createdAt", "id"])
@pytest.mark.parametrize("operator", ["IN", "NOT_IN"])
def test_fifty_filters_of_500_values_are_answered(client: Client, name: str, operator: str) -> None:
    id = client.make(city="5", hubspotscore="5", closedate="1990-01-05")
    days = [f"{1990 + n // 300}-{n // 25 % 12 + 1:02}-{n % 25 + 1:02}" for n in range(500)]
    values = days if name in ("closedate", "createdAt") else [str(n) for n in range(500)]
    filters = [where(name, operator, values=values)] * 50
    holds = name in ("city", "hubspotscore", "closedate")
    assert found(client, *filters) == ({id} if holds == (operator == "IN") else set())


def test_a_value_of_4000_characters_is_compared_whole(client: Client) -> None:
    ends = {end: client.make(message="x" * 3999 + end) for end in ("a", "b")}
    assert found(client, where("message", "EQ", "x" * 3999 + "b")) == {ends["b"]}
    assert found(client, where("message", "GT", "x" * 3999 + "a")) == {ends["b"]}
    assert found(client, where("message", "CONTAINS_TOKEN", "X" * 199 + "A")) == {ends["a"]}


@pytest.mark.parametrize(
    "part", ["needle", "A longer needle", "A much longer needle", "-%-_-" * 40]
)
def test_a_part_of_any_length_is_found_in_short_and_long_texts(client: Client, part: str) -> None:
    holding = {client.make(message=f"{filler}{part.upper()}!") for filler in ("", "a" * 9000)}
    others = {client.make(message=f"{filler}{part[:-1]}!") for filler in ("", "a" * 9000)}
    assert found(client, where("message", "CONTAINS_TOKEN", part)) == holding
    assert found(client, where("message", "NOT_CONTAINS_TOKEN", part)) == others


def test_many_values_are_looked_for_among_many_options_without_delay(
    client: Client,
) -> None:
    define(client, "contacts", "town", "enumeration", options=[f"t{n}" for n in range(4900)])
    last = client.make(town="t4899")
    others = [f"t{n}" for n in range(499)]
    unknown = [f"no town {n}" for n in range(500)]
    began = time.thread_time()
    assert found(client, *[where("town", "IN", values=["t4899", *others])] * 50) == {last}
    filters = [where("town", "IN", values=unknown)] * 50
    assert client.post("/contacts/search", {"filters": filters}).status_code == 422
    assert time.thread_time() - began < 5


def test_a_long_part_is_looked_for_in_long_texts_without_delay(client: Client) -> None:
    # The worst there is: each place of the text begins like the part, and never ends like it.
    for letter in "aß":
        for _ in range(5):
            client.make(message=letter * 65_536)
    began = time.perf_counter()
    for part in ("a" * 199 + "b", "b" + "A" * 199, "ß" * 199 + "b", "a" * 16 + "b"):
        assert found(client, where("message", "CONTAINS_TOKEN", part)) == set()
    assert time.perf_counter() - began < 30
    assert len(found(client, where("message", "CONTAINS_TOKEN", "S" * 200))) == 5


def test_a_json_number_or_boolean_is_read_as_its_text(client: Client) -> None:
    id = client.make(hubspotscore="1000", hs_email_optout="true", city="12")
    for filter in (
        where("hubspotscore", "EQ", 1000),
        where("hubspotscore", "LT", 1000.5),
        where("hs_email_optout", "EQ", True),
        where("city", "EQ", 12),
        where("city", "IN", values=[11, 12]),
        where("city", "CONTAINS_TOKEN", 2),
    ):
        assert found(client, filter) == {id}, filter
    answer = client.call(
        "POST",
        "/contacts/search",
        data=b'{"filters":[{"propertyName":"hubspotscore","operator":"EQ","value":1e3}]}',
        content_type="application/json",
    )
    assert [each["id"] for each in answer.get_json()["results"]] == [id]


def test_null_counts_as_absent(client: Client) -> None:
    id = client.make(city="Rome")
    for filter in (
        {"propertyName": "city", "operator": "EQ", "value": "Rome", "values": None},
        {"propertyName": "city", "operator": "IN", "value": None, "values": ["Rome"]},
        {"propertyName": "city", "operator": "HAS_PROPERTY", "value": None, "values": None},
    ):
        assert found(client, filter) == {id}, filter


def test_eq_and_in_bring_values_into_the_form_they_are_stored_in(client: Client) -> None:
    id = client.make(
        email="Ada@Example.com",
        phone="+49 30 123456",
        hs_buying_role="CHAMPION;BLOCKER",
        hs_email_optout="TRUE",
        hubspotscore="007",
        website=" example.com ",
    )
    for name, value in {
        "email": " ADA@EXAMPLE.COM ",
        "phone": "+49 (30) 12-34-56",
        "hs_buying_role": " CHAMPION ; BLOCKER;CHAMPION",
        "hs_email_optout": "True",
        "hubspotscore": "+7.0",
        "website": "example.com ",
    }.items():
        assert found(client, where(name, "EQ", value)) == {id}, name
        assert found(client, where(name, "IN", values=[value])) == {id}, name
        assert found(client, where(name, "NEQ", value)) == set(), name


def test_a_value_no_record_can_have_is_no_fault_of_a_text_filter(client: Client) -> None:
    id = client.make(email="ada@example.com", phone="+4930123456")
    for name, value in {"email": "ada", "phone": "none", "website": "?"}.items():
        assert found(client, where(name, "EQ", value)) == set(), name
        assert found(client, where(name, "NEQ", value)) == {id}, name


def test_a_filter_by_no_option_names_the_option_to_send(client: Client) -> None:
    client.make(lifecyclestage="lead", hs_buying_role="CHAMPION")
    for kind, name, value, right in (
        ("contacts", "lifecyclestage", "Lead", "lead"),
        ("contacts", "lifecyclestage", "Marketing qualified lead", "marketingqualifiedlead"),
        ("contacts", "lifecyclestage", "nothing", "subscriber"),
        ("contacts", "hs_buying_role", "Champion", "CHAMPION"),
        ("contacts", "hs_buying_role", "CHAMPION;boss", "BLOCKER"),
        ("contacts", "hs_email_optout", "yes", "true"),
        ("deals", "dealstage", "Closed Won", "closedwon"),
        ("deals", "pipeline", "sales", "default"),
        ("tickets", "hs_pipeline_stage", "Closed", "4"),
    ):
        for operator, sent in (
            ("EQ", {"value": value}),
            ("NEQ", {"value": value}),
            ("IN", {"values": [right, value]}),
            ("NOT_IN", {"values": [right, value]}),
        ):
            filters = [{"propertyName": name, "operator": operator, **sent}]
            answer = client.post(f"/{kind}/search", {"filters": filters})
            message = refused(answer, 422)
            place = "values[1]" if "values" in sent else "value"
            assert f"filters[0].{place}: " in message
            assert f'"{right}"' in message, (name, message)


def test_a_record_with_several_options_is_found_by_each_of_them(client: Client) -> None:
    roles = ("CHAMPION", "BLOCKER;CHAMPION", "BUDGET_HOLDER", "DECISION_MAKER;BUDGET_HOLDER", "")
    champion, both, holder, two, none = (client.make(hs_buying_role=role) for role in roles)
    everybody = {champion, both, holder, two, none}
    for values, ids in (
        (["CHAMPION"], {champion, both}),
        (["BLOCKER", "DECISION_MAKER"], {both, two}),
        (["BUDGET_HOLDER", "CHAMPION"], everybody - {none}),
        (["INFLUENCER"], set()),
    ):
        assert found(client, where("hs_buying_role", "IN", values=values)) == ids
        assert found(client, where("hs_buying_role", "NOT_IN", values=values)) == everybody - ids
        each = [found(client, where("hs_buying_role", "EQ", value)) for value in values]
        assert set().union(*each) == ids
    both_filters = [where("hs_buying_role", "EQ", role) for role in ("CHAMPION", "BLOCKER")]
    assert found(client, *both_filters) == {both}
    assert found(client, where("hs_buying_role", "NEQ", "CHAMPION"), both_filters[1]) == set()


def test_records_of_many_different_sets_of_options_are_found(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "_FEW_SETS", 1)
    options = ["a" * 200, "b" * 200, "é", "a"]
    define(client, "contacts", "tags", "multi_enumeration", options=options)
    sets = [";".join(options[:2]), options[1], ";".join(options[2:]), options[3]]
    ids = [client.make(tags=chosen, city=f"c{n}") for n, chosen in enumerate(sets)]
    for option in options:
        having = {id for id, chosen in zip(ids, sets, strict=True) if option in chosen.split(";")}
        assert found(client, where("tags", "EQ", option)) == having
        assert found(client, where("tags", "NEQ", option)) == {*ids} - having
        assert found(client, where("tags", "EQ", option), where("city", "EQ", "c0")) == (
            having & {ids[0]}
        )


def test_contains_compares_accents_and_the_letter_i_as_people_read_them(client: Client) -> None:
    for n, (stored, part) in enumerate(
        (
            ("Ma\u0301laga", "m\u00e1laga"),
            ("M\u00c1LAGA", "ma\u0301l"),
            ("Vie\u0323\u0302t Nam", "vi\u1ec7t"),
            ("\u1112\u1161\u11ab", "\ud55c"),
            ("\u0130stanbul", "istanbul"),
            ("istanbul", "\u0130STANBUL"),
            ("DI\u015eARI", "d\u0131\u015far\u0131"),
            ("Stra\u00dfe", "STRASSE"),
            ("x" * 300 + "e\u0301", "x\u00c9"),
        )
    ):
        id = client.make(city=stored, state=f"s{n}")
        own = where("state", "EQ", f"s{n}")
        assert found(client, own, where("city", "CONTAINS_TOKEN", part)) == {id}, stored
        assert found(client, own, where("city", "NOT_CONTAINS_TOKEN", part)) == set(), stored
        assert client.get(f"/contacts/{id}").get_json()["properties"]["city"] == stored
    assert found(client, where("city", "CONTAINS_TOKEN", "malaga")) == set()


def test_a_text_of_accents_alone_is_searched(client: Client) -> None:
    id = client.make(message="a" + "\u0345\u0301\u0323\u0327\u0338" * 13_107)
    assert found(client, where("message", "CONTAINS_TOKEN", "b")) == set()
    assert found(client, where("message", "CONTAINS_TOKEN", "A\u0323")) == {id}
    client.delete(f"/contacts/{id}")


def test_the_records_own_fields_have_hubspots_names_too(client: Client) -> None:
    id, other = client.make(), client.make()
    shown = client.get(f"/contacts/{id}").get_json()
    day = shown["createdAt"][:10]
    for name in ("id", "hs_object_id"):
        assert found(client, where(name, "EQ", str(id))) == {id}
        assert found(client, where(name, "NEQ", id)) == {other}
        low, high = sorted((id, other))
        for operator, ids in {"GT": {high}, "GTE": {high}, "LT": {low}, "LTE": {low}}.items():
            assert found(client, where(name, operator, f"{low}.5")) == ids, operator
    for name in ("createdAt", "createdate", "updatedAt", "lastmodifieddate"):
        assert found(client, where(name, "LTE", f"{day} 00:00")) >= {id}
        assert found(client, where(name, "GT", "9999-12-31")) == set()
        assert found(client, where(name, "NOT_HAS_PROPERTY")) == set()


def test_an_id_of_sixteen_digits_is_a_number_too(client: Client) -> None:
    id = client.make()
    for value in (2**53 - 1, str(2**53 - 1), "9" * 4000):
        assert found(client, where("id", "EQ", value)) == set()
        assert found(client, where("id", "LT", value)) == {id}


# --- what is refused -------------------------------------------------------------------------


def test_an_unknown_operator_is_400_naming_all_of_them(client: Client) -> None:
    for operator in ("eq", "Eq", "LIKE", "", "BETWEEN", "EQ ", None, 1):
        filter = {"propertyName": "city", "operator": operator, "value": "x"}
        message = refusal(client, filter, 400)
        assert "filters[0].operator" in message
    assert all(each in refusal(client, where("city", "eq", "x"), 400) for each in OPERATORS)


def test_value_and_values_have_their_operators(client: Client) -> None:
    for operator in OPERATORS:
        if operator.endswith("HAS_PROPERTY"):
            assert "filters[0].value" in refusal(client, where("city", operator, "x"), 400)
            assert "filters[0].values" in refusal(client, where("city", operator, None, []), 400)
            continue
        one, many = where("city", operator, "x"), where("city", operator, None, ["x"])
        wrong = one if operator.endswith("IN") else many
        assert "filters[0].value" in refusal(client, wrong, 400)
        assert "filters[0].value" in refusal(client, {**one, **many}, 400)
        assert "filters[0].value" in refusal(client, where("city", operator), 400)


def test_an_empty_value_is_400_and_names_the_operator_that_was_meant(client: Client) -> None:
    for filter in (
        where("city", "EQ", ""),
        where("city", "CONTAINS_TOKEN", ""),
        where("city", "IN", values=[]),
        where("city", "IN", values=["x", ""]),
        where("city", "NOT_IN", values=[None]),
    ):
        assert "filters[0].value" in refusal(client, filter, 400)
    assert "NOT_HAS_PROPERTY" in refusal(client, where("city", "EQ", ""), 400)


def test_each_value_of_a_list_that_is_no_number_or_day_is_named(client: Client) -> None:
    define(client, "contacts", "score", "number")
    for name, good, bad in (("score", "1", "x"), ("createdAt", "2026-01-31", "31.1.2026")):
        filter = where(name, "NOT_IN", values=[good, bad, good, bad + bad])
        message = refusal(client, filter, 422)
        assert re.findall(r"filters\[0\]\.values\[(\d)\]: ", message) == ["1", "3"]


def test_more_than_the_bounds_is_400(client: Client) -> None:
    too_many = [where("city", "NEQ", "x")] * 51
    assert "50" in refused(client.post("/contacts/search", {"filters": too_many}), 400)
    assert "500" in refusal(client, where("city", "IN", values=["x"] * 501), 400)
    assert "4000" in refusal(client, where("city", "EQ", "x" * 4001), 400)
    assert "4000" in refusal(client, where("city", "IN", values=["x" * 4001]), 400)
    for operator in ("CONTAINS_TOKEN", "NOT_CONTAINS_TOKEN"):
        for name in ("city", "hubspotscore", "createdAt", "id"):
            words = "filters[0].value: 201 characters long; send at most 200"
            assert words in refusal(client, where(name, operator, "1" * 201), 400)


def test_an_unknown_property_is_422_naming_the_nearest(client: Client) -> None:
    message = refusal(client, where("frstname", "EQ", "x"), 422)
    assert "filters[0].propertyName" in message
    assert "firstname" in message
    for name in ("", "created_at", "properties.city", "City", "dealname", "x" * 1000, "ß"):
        assert "filters[0].propertyName" in refusal(client, where(name, "HAS_PROPERTY"), 422)


@pytest.mark.parametrize("operator", ["EQ", "NEQ", "GT", "GTE", "LT", "LTE", "IN", "NOT_IN"])
def test_a_value_that_is_no_number_or_date_is_422(client: Client, operator: str) -> None:
    wrong = {
        "hubspotscore": ["abc", "1,5", "0x10", "1e", "NaN", "Infinity", "１", " ", "1_0"],
        "id": ["abc", "1,5", "NaN"],
        "closedate": ["2026-02-30", "31.1.2026", "2026-1-1", "2026-01-31T00:00", "today"],
        "createdAt": ["2026-01-31 24:00", "2026-01-31 9:30", "2026-01-31 09:30:00", "20260131"],
    }
    for name, values in wrong.items():
        for value in values:
            many = operator in ("IN", "NOT_IN")
            filter = where(name, operator, **({"values": [value]} if many else {"value": value}))
            assert "filters[0].value" in refusal(client, filter, 422), filter


def test_every_filter_at_fault_is_named(client: Client) -> None:
    filters = [where("city", "EQ", "x"), where("nope", "EQ", "x"), where("closedate", "EQ", "x")]
    message = refused(client.post("/contacts/search", {"filters": filters}), 422)
    assert "filters[0]" not in message
    assert "filters[1].propertyName" in message
    assert "filters[2].value" in message


def test_a_part_of_a_number_or_date_need_not_be_one(client: Client) -> None:
    id = client.make(hubspotscore="1234.5", closedate="2026-01-31T10:00:00Z")
    for name, part in {"hubspotscore": "34.", "closedate": "-01-31t", "id": str(id)[1:4]}.items():
        assert found(client, where(name, "CONTAINS_TOKEN", part)) == {id}, name
        assert found(client, where(name, "NOT_CONTAINS_TOKEN", part)) == set(), name
