"""The fake's batches: what succeeds alone and what fails as a whole."""

from __future__ import annotations

from typing import Any

from tests.adapters.fakes.hubspot.calls import Api


def _new(email: str, trace: str | None = None) -> dict[str, Any]:
    traced = {"objectWriteTraceId": trace} if trace else {}
    return {"properties": {"email": email}, "associations": [], **traced}


def _read(ids: list[str], **more: Any) -> dict[str, Any]:
    inputs = [{"id": id_} for id_ in ids]
    return {"inputs": inputs, "properties": ["email"], "propertiesWithHistory": [], **more}


def test_a_batch_without_traces_is_made_whole_or_not_at_all(api: Api) -> None:
    known = api.fake.add_contact(email="b@example.com")
    inputs = [_new("a@example.com"), _new("b@example.com")]
    answer = api.post("contacts/batch/create", {"inputs": inputs})
    assert answer.status_code == 409
    assert f"Existing ID: {known}" in answer.json()["message"]
    assert list(api.fake.contacts) == [known]
    assert api.create("contacts", email="a@example.com").status_code == 201


def test_a_batch_with_traces_tells_of_each(api: Api) -> None:
    api.fake.add_contact(email="b@example.com")
    inputs = [_new("a@example.com", "t1"), _new("b@example.com", "t2")]
    answer = api.post("contacts/batch/create", {"inputs": inputs})
    assert answer.status_code == 207
    assert [one["objectWriteTraceId"] for one in answer.json()["results"]] == ["t1"]
    assert answer.json()["errors"][0]["context"]["objectWriteTraceId"] == ["t2"]


def test_a_batch_read_names_what_is_not_there(api: Api) -> None:
    id_ = api.fake.add_contact(email="ada@example.com")
    answer = api.post("contacts/batch/read", _read([id_, id_, "999"]))
    assert answer.status_code == 207
    assert [one["id"] for one in answer.json()["results"]] == [id_]
    assert answer.json()["errors"][0]["context"]["ids"] == ["999"]


def test_a_wrong_value_undoes_a_batch_update(api: Api) -> None:
    ids = [api.fake.add_contact(firstname=name) for name in "ab"]
    values = ({"city": "London"}, {"lifecyclestage": "Lead"})
    inputs = [{"id": id_, "properties": one} for id_, one in zip(ids, values, strict=True)]
    answer = api.post("contacts/batch/update", {"inputs": inputs})
    assert answer.status_code == 400
    assert "city" not in api.fake.contacts[ids[0]]


def test_a_batch_update_refuses_the_record_id_as_property(api: Api) -> None:
    id_ = api.fake.add_contact(firstname="A")
    one = {"id": id_, "idProperty": "hs_object_id", "properties": {"city": "London"}}
    assert api.post("contacts/batch/update", {"inputs": [one]}).status_code == 400


def test_the_same_id_twice_is_refused(api: Api) -> None:
    api.fake.add_contact(email="a@example.com")
    inputs = [
        {"id": email, "idProperty": "email", "properties": {"email": "a@example.com"}}
        for email in ("a@example.com", "A@example.com")
    ]
    answer = api.post("contacts/batch/update", {"inputs": inputs})
    assert answer.status_code == 400
    assert answer.json()["message"] == "Duplicate IDs found in batch input"


def test_a_batch_holds_a_hundred(api: Api) -> None:
    inputs = [_new(f"{number}@example.com") for number in range(101)]
    assert api.post("contacts/batch/create", {"inputs": inputs[:100]}).status_code == 201
    assert api.post("contacts/batch/create", {"inputs": inputs}).status_code == 400
    history = _read(["1"], propertiesWithHistory=["email"])
    assert api.post("contacts/batch/read", history).status_code == 400, "the fake keeps none"
