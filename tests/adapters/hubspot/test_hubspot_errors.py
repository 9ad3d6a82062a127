"""What HubSpot's errors become, whatever of their fields is there (its error guide: none is sure).

The bodies are those of its documentation, its published files and public issue threads.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from crmhub.adapter import (
    AdapterError,
    BadConfig,
    Conflict,
    Denied,
    LacksRight,
    NotFound,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
)
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.hubspot.hubspot_wire import record, wire
from tests.adapters.leads import person
from tests.clocks import in_no_time
from tests.loops import for_each

ID = "c3ee0a2f-3d7a-4a4e-8a0f-7f1e6e0f2b11"
LISTED = (
    "Property values were not valid: "
    '[{"isValid":false,"message":"Email address a@ is invalid","error":"INVALID_EMAIL",'
    '"name":"email","localizedErrorMessage":"Email address a@ is invalid","portalId":1},'
    '{"isValid":false,"message":"x was not one of the allowed options: []",'
    '"error":"INVALID_OPTION","name":"industry"}]'
)
TAKEN = (
    "Cannot set PropertyValueCoordinates{portalId=1, objectTypeId=0-1, propertyName=tax_id,"
    " value=5} on 7. 451 already has that value."
)


def refused(status: int, body: Any = None, **headers: str) -> AdapterError:
    """Return what a change of a contact raises when it is answered like this."""
    with wire() as it:
        for _ in range(3):
            it.give(status, body, **headers)
        with pytest.raises(AdapterError) as caught:
            it.adapter.update_contact("7", {"city": "Rome"})
        return caught.value


def named(body: Any) -> dict[str, str]:
    error = refused(400, body)
    assert isinstance(error, Rejected)
    return {one.name: one.reason for one in error.problems}


@for_each(
    "code",
    [
        "PROPERTY_DOESNT_EXIST",
        "INVALID_OPTION",
        "READ_ONLY_VALUE",
        "INVALID_EMAIL",
        "INVALID_INTEGER",
        "INVALID_DATE",
        "INVALID_LONG",
        "MISSING_REQUIRED_PROPERTY",
        "MISSING_CONDITIONAL_REQUIRED_PROPERTY",
    ],
)
def test_an_error_of_a_property_is_handed_on_under_its_name(code: str) -> None:
    listed = [{"message": "why", "code": code, "context": {"propertyName": ["industry", "zip"]}}]
    body = {"category": "VALIDATION_ERROR", "message": "bad", "errors": listed}
    assert named(body) == {"industry": "why", "zip": "why"}


def test_a_list_inside_the_message_is_read() -> None:
    assert named({"message": LISTED}) == {
        "email": "Email address a@ is invalid",
        "industry": "x was not one of the allowed options: []",
    }


def test_errors_go_before_the_list_inside_the_message() -> None:
    first = {"message": "first", "context": {"propertyName": ["email"]}}
    assert named({"message": LISTED, "errors": [first]})["email"] == "first"


def test_what_is_missing_is_named_by_the_context() -> None:
    message = "Error creating CONTACT. Some required properties were not set."
    context = {"properties": ["email", "lastname"]}
    assert named({"message": message, "context": context}) == {
        "email": message,
        "lastname": message,
    }


@for_each(
    "body",
    [
        {},
        {"message": None, "errors": None, "context": None, "category": 7},
        {"message": ["x"], "errors": {"a": 1}, "context": ["x"]},
        {"errors": [None, 3, "x", [], {}, {"context": {"propertyName": "email"}}]},
        {"message": "Property values were not valid: [{" + "[" * 3000},
        {"message": "[null, 1, {}]", "correlationId": {"a": 1}},
        {"errors": [{"context": {"propertyName": [None, {}, []]}}]},
    ],
)
def test_every_field_may_be_missing_or_something_else(body: Any) -> None:
    kinds: dict[int, Any] = {400: Rejected, 401: Denied, 403: LacksRight, 404: NotFound}
    kinds |= {409: Conflict | Rejected, 429: Throttled}
    for status, kind in kinds.items():
        error = refused(status, body)
        assert isinstance(error, kind), status
        assert error.message.strip(), status


@for_each("status", [400, 401, 403, 404, 409, 429, 477, 500, 502, 503, 504, 521, 524])
def test_a_body_of_another_kind_changes_no_meaning(status: int) -> None:
    usual: dict[int, type[AdapterError] | tuple[type[AdapterError], ...]] = {
        400: Rejected,
        401: Denied,
        403: Denied,
        404: (NotFound, Unavailable),
        409: (Conflict, Unavailable),
        429: Throttled,
        477: Unavailable,
    }
    for body in ("", "<html>no</html>", "[]", "null", "7", '{"message":'):
        assert isinstance(refused(status, body), usual.get(status, Uncertain)), body


@for_each("status", [500, 502, 503, 504, 521, 523, 524])
def test_an_overload_leaves_a_write_in_doubt_and_a_read_not(status: int) -> None:
    assert isinstance(refused(status), Uncertain)
    with wire() as it, pytest.raises(Unavailable):
        it.give(status).give(status).give(status).adapter.get_contact("7", [])


@for_each("where", ["body", "header"])
def test_the_correlation_id_is_handed_on(where: str) -> None:
    if where == "body":
        error = refused(400, {"message": "x", "correlationId": ID})
    else:
        error = refused(400, {"message": "x"}, x_hubspot_correlation_id=ID)
    assert error.correlation_id == ID


def test_a_correlation_id_that_cannot_be_printed_is_left_out() -> None:
    assert refused(400, {"message": "x", "correlationId": "a\nb"}).correlation_id == ""


@for_each("category", ["INVALID_AUTHENTICATION", "EXPIRED_AUTHENTICATION"])
def test_a_refused_token_is_denied_by_its_reason(category: str) -> None:
    error = refused(401, {"category": category, "message": "no"})
    assert isinstance(error, Denied)
    assert category in error.message


def test_missing_scopes_are_named() -> None:
    scopes = {"requiredGranularScopes": ["crm.objects.contacts.write"]}
    body = {"category": "MISSING_SCOPES", "errors": [{"message": "x", "context": scopes}]}
    error = refused(403, body)
    assert isinstance(error, Denied)
    assert "crm.objects.contacts.write" in error.message


@for_each("where", ["context", "errors"])
def test_a_link_to_nobody_is_a_contact_that_is_not_found(where: str) -> None:
    context = {"INVALID_OBJECT_IDS": ["9"], "objectId": ["9"], "objectType": ["CONTACT"]}
    body = {"message": "x", "context": context}
    if where == "errors":
        body = {"message": "x", "errors": [{"message": "y", "context": context}]}
    assert isinstance(refused(400, body), NotFound)


@for_each("how", ["create", "change"])
def test_a_409_names_whose_the_email_is(how: str) -> None:
    message = "Contact already exists. Existing ID: 12345"
    with wire() as it:
        it.give(409, {"category": "CONFLICT", "message": message, "correlationId": ID})
        change = partial(it.adapter.update_contact, "7")
        with pytest.raises(Conflict) as caught:
            (it.adapter.create_contact if how == "create" else change)({"email": "a@x.org"})
    assert (caught.value.existing_id, caught.value.name) == ("12345", "email")


@for_each("where", ["message", "errors"])
def test_a_unique_value_of_another_record_is_a_conflict(where: str) -> None:
    inside = {"isValid": False, "message": TAKEN, "error": "CONFLICTING_UNIQUE_VALUE"}
    body: dict[str, Any] = {
        "message": "Property values were not valid: " + json.dumps([inside | {"name": "tax_id"}])
    }
    if where == "errors":
        context = {"propertyName": ["tax_id"]}
        body |= {"errors": [{"message": TAKEN, "code": inside["error"], "context": context}]}
    error = refused(400, body)
    assert isinstance(error, Conflict)
    assert (error.existing_id, error.name) == ("451", "tax_id")


def test_a_409_full_of_digits_is_read_at_once() -> None:
    with in_no_time():
        error = refused(409, {"message": "1" * 200_000})
    assert isinstance(error, Conflict)
    assert not error.existing_id


def test_a_clash_that_names_nobody_is_solved_by_another_look() -> None:
    with wire() as it:
        it.give(404, {"message": "none"})
        it.give(409, {"message": "Contact already exists."})
        it.give(200, record("5", city="Rome")).give(200, record("5"))
        saved = upsert_contact(it.adapter, person(email="new@x.org", city="Oslo"))
        assert (saved.id, saved.outcome) == ("5", "updated")
        assert it.body(3) == {"properties": {"city": "Oslo"}}


def test_a_clash_with_nobody_to_be_found_is_told() -> None:
    with wire() as it:
        it.give(404, {"message": "none"})
        it.give(409, {"message": "Contact already exists."}).give(404, {"message": "none"})
        with pytest.raises(Conflict):
            upsert_contact(it.adapter, person(email="new@x.org", city="Oslo"))


def test_the_clash_of_a_lead_is_solved_by_the_id_it_names() -> None:
    with wire() as it:
        it.give(404, {"message": "none"})
        it.give(409, {"message": "Contact already exists. Existing ID: 5"})
        it.give(200, record("5", city="Rome")).give(200, record("5"))
        lead = person(email="second@x.org", city="Oslo")
        saved = upsert_contact(it.adapter, lead)
        assert (saved.id, saved.outcome) == ("5", "updated")
        assert it.body(3) == {"properties": {"city": "Oslo"}}


@for_each(
    ("body", "wait", "scope"),
    [
        ({"policyName": "TEN_SECONDLY_ROLLING"}, 10.0, "burst"),
        ({"policyName": "SECONDLY"}, 1.0, "search"),
        ({"message": "You have reached your secondly limit."}, 1.0, "search"),
        ({"message": "You have reached your ten_secondly_rolling limit."}, 10.0, "burst"),
        ({"policyName": "DAILY"}, 900.0, "daily"),
        ({}, 10.0, "burst"),
    ],
)
def test_a_call_too_many_says_how_long_to_wait(body: Any, wait: float, scope: str) -> None:
    error = refused(429, body)
    assert isinstance(error, Throttled)
    assert (error.retry_after, error.scope) == (wait, scope)


def test_retry_after_goes_before_what_is_usual() -> None:
    error = refused(429, {"policyName": "TEN_SECONDLY_ROLLING"}, Retry_After="33")
    assert isinstance(error, Throttled)
    assert error.retry_after == 33.0


@for_each("status", [423, 477])
def test_a_locked_or_moving_account_wrote_nothing_and_says_when_to_come_back(status: int) -> None:
    error = refused(status, {"message": "x"}, Retry_After="7200")
    assert isinstance(error, Throttled | Unavailable)
    assert error.retry_after == 7200.0
    assert not isinstance(error, Uncertain)


def test_a_locked_account_is_left_alone_for_two_seconds_at_least() -> None:
    error = refused(423, {"message": "locked"}, Retry_After="0")
    assert isinstance(error, Throttled)
    assert error.retry_after == 2.0


def test_a_redirect_is_followed_nowhere() -> None:
    assert isinstance(refused(302, "", Location="https://example.org/"), BadConfig)


@for_each("status", [404, 410])
def test_a_search_that_is_not_there_found_nobody_and_says_so(status: int) -> None:
    with wire() as it, pytest.raises(Unavailable):
        it.give(status, {"message": "x"}).adapter.find_contact(phone="+4915112345678")


def test_a_list_that_is_not_whole_is_none() -> None:
    with wire() as it, pytest.raises(Unavailable):
        it.give(207, {"results": [], "errors": [{}]}).adapter.owners()


@for_each("status", [404, 410])
def test_a_lead_waits_while_the_place_for_contacts_is_not_there(status: int) -> None:
    with wire() as it:
        for _ in range(2):
            it.give(status, {"message": "resource not found"}, x_hubspot_correlation_id=ID)
        with pytest.raises(Unavailable) as caught:
            upsert_contact(it.adapter, person(email="ann@x.org"))
    assert caught.value.correlation_id == ID


def test_what_is_refused_as_it_was_sent_is_not_sent_again() -> None:
    with wire() as it:
        it.give(400, {"message": LISTED})
        with pytest.raises(Rejected):
            it.adapter.create_contact({"email": "a@", "city": "Rome"})
        assert len(it.sent) == 1
