"""How many calls and tokens the helpers' work costs on Pipedrive, and what its limits do."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from adapters.fakes.pipedrive.catalogue import key_of
from crmhub.adapter import Adapter, Denied, LacksRight, Rejected, Throttled, Unavailable
from crmhub.adapter.http import QUOTA
from crmhub.adapter.matching import Lead
from crmhub.adapter.testing.base import either
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.leads import person
from tests.adapters.pipedrive.pipedrive_crm import OAUTH, PipedriveCrm, calls, connected
from tests.loops import for_each

ANN = {"email": "ann@x.org", "firstname": "Ann", "lastname": "Lee"}
PHONE = "+4915123456789"
SEARCH, LIST, READ = "GET v2/persons/search", "GET v2/persons", "GET v2/persons/1"
NEW, CHANGE = "POST v2/persons", "PATCH v2/persons/1"


@pytest.fixture
def adapter(crm: PipedriveCrm) -> Adapter:
    """An adapter that knows the fields already, as it does for an hour."""
    adapter = connected(crm.fake).adapter()
    adapter.describe("contacts")
    adapter.describe("tickets")
    adapter.pipelines("deals")
    adapter.describe("deals")
    calls(crm.fake)
    return adapter


def cost(crm: PipedriveCrm, adapter: Adapter, lead: Lead) -> tuple[str, list[str], int]:
    """Return the outcome of a lead, the calls that it made, and the tokens that these cost."""
    before = crm.spent
    saved = upsert_contact(adapter, lead)
    return saved.outcome, calls(crm.fake), crm.spent - before


def test_a_new_person_with_an_email(crm: PipedriveCrm, adapter: Adapter) -> None:
    # Under the lease of the email, only what has changed meanwhile is listed.
    made = [SEARCH, LIST, LIST, NEW]
    assert cost(crm, adapter, person(**ANN)) == ("created", made, 45)


def test_a_new_person_with_an_email_and_a_phone(crm: PipedriveCrm, adapter: Adapter) -> None:
    made = [SEARCH, LIST, SEARCH, SEARCH, LIST, LIST, NEW]
    assert cost(crm, adapter, person(**ANN, phone=PHONE)) == ("created", made, 95)


def test_a_known_person_with_one_new_value(crm: PipedriveCrm, adapter: Adapter) -> None:
    upsert_contact(adapter, person(**ANN))
    calls(crm.fake)
    lead = person(**{**ANN, "firstname": "Anna"}, email_id="1")
    assert cost(crm, adapter, lead) == ("updated", [READ, READ, CHANGE], 7)


@for_each(
    ("known", "read", "tokens"),
    [
        ({"email_id": "1", "phone_id": "1"}, [READ], 1),
        ({"contact_id": "1"}, [READ], 1),
        ({}, [SEARCH, READ], 21),
    ],
)
def test_a_person_with_nothing_new(
    crm: PipedriveCrm, adapter: Adapter, known: dict[str, str], read: list[str], tokens: int
) -> None:
    said = {**ANN, "phone": PHONE}
    upsert_contact(adapter, person(**said))
    calls(crm.fake)
    assert cost(crm, adapter, person(**said, **known)) == ("unchanged", read, tokens)


@pytest.mark.parametrize("kind", ["deals", "tickets"])
def test_a_deal_or_a_ticket(crm: PipedriveCrm, adapter: Adapter, kind: str) -> None:
    id = crm.add_contact(ANN)
    before = crm.spent
    title = {"deals": "dealname", "tickets": "subject"}[kind]
    adapter.create_for_contact(kind, id, {title: "T"}, mark="m")  # type: ignore[arg-type]
    assert (calls(crm.fake), crm.spent - before) == ([READ, "POST v2/deals"], 6)


def test_a_new_process_takes_fields_pipelines_and_currency_from_another(crm: PipedriveCrm) -> None:
    connection, id, fee = connected(crm.fake), crm.add_contact(ANN), key_of("deals", "Fee")
    for _ in range(2):
        calls(crm.fake)
        connection.adapter().create_for_contact("deals", id, {"dealname": "T", fee: "5"})
    assert calls(crm.fake) == [READ, "POST v2/deals"]


def test_a_deal_is_looked_up_in_one_call(crm: PipedriveCrm, adapter: Adapter) -> None:
    id, now_ms = crm.add_contact(ANN), int(time.time() * 1000)
    made = adapter.create_for_contact("deals", id, {"dealname": "T"}, mark="m")
    calls(crm.fake)
    found = adapter.find_marked("deals", id, "m", sent={"dealname": "T"}, since_ms=now_ms)
    assert found == made
    assert calls(crm.fake) == ["GET v2/deals"]


def test_an_old_search_is_repeated_under_the_lease(
    crm: PipedriveCrm, adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert adapter.find_contact(email=ANN["email"]) is None
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    adapter.create_contact(ANN)
    assert calls(crm.fake) == [SEARCH, LIST, SEARCH, LIST, NEW]


# Limits.


def refused(crm: PipedriveCrm, call: str = "GET", **fault: object) -> Exception:
    """Return the error of a write that meets a fault of this status and body."""
    adapter = connected(crm.fake).adapter()
    adapter.describe("contacts")
    crm.fake.fail(**fault, method=call)  # type: ignore[arg-type]
    error = either(Exception, lambda: adapter.create_contact({"lastname": "Lee"}))
    assert isinstance(error, Exception)
    return error


def test_a_day_without_tokens_pauses_the_quota_and_not_for_seconds() -> None:
    with PipedriveCrm(daily_tokens=20) as crm:
        connection = connected(crm.fake)
        adapter = connection.adapter()
        adapter.describe("contacts")
        error = either(Throttled, adapter.check)
        assert isinstance(error, Throttled)
        assert (error.scope, error.retry_after) == (QUOTA, 900.0)
        assert {*connection.budgets[QUOTA].paused} == {900.0}


def test_a_burst_is_over_when_pipedrive_says() -> None:
    with PipedriveCrm(limit="1/2s") as crm:
        connection = connected(crm.fake)
        with connection.within(1.0):
            error = either(Throttled, connection.adapter().check)
        assert isinstance(error, Throttled)
        assert error.scope == "burst"
        assert 2 <= error.retry_after <= 3


def test_the_limits_in_the_answers_are_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    with PipedriveCrm(limit="40/2s", search_limit="9/2s", daily_tokens=70_000) as crm:
        connection, followed = connected(crm.fake), {}
        for credentials, calls_in_2_s in (({}, 40), (OAUTH, 160)):
            connection = connected(crm.fake, credentials) if credentials else connection
            adapter = connection.adapter()
            for lane, budget in connection.budgets.items():
                monkeypatch.setattr(
                    budget, "follow", lambda n, s, lane=lane: followed.update({lane: (n, s)})
                )
            adapter.find_contact(email="nobody@x.org")
            limits = {"general": (calls_in_2_s, 2.0), "search": (9, 2.0), QUOTA: (70_000, 86_400.0)}
            assert followed == limits


@for_each("headers", [{"Server": "cloudflare"}, {"CF-RAY": "8f00"}])
def test_a_block_of_cloudflare_is_a_pause(headers: dict[str, str]) -> None:
    with PipedriveCrm() as crm:
        error = refused(
            crm, "POST", status=403, body="<html>", headers=headers, content_type="text/html"
        )
    assert isinstance(error, Throttled)


BODIES: Mapping[str, tuple[int, dict[str, object], type[Exception]]] = {
    "a closed company": (402, {"error": "Company account is not open"}, Denied),
    "a scope": (403, {"error": "Scope and URL mismatch", "errorCode": 403}, LacksRight),
    "a limit of the plan": (403, {"error": "x", "code": "feature_capping_deals_limit"}, Rejected),
    "a right": (403, {"error": "You do not have permission"}, LacksRight),
    "no success": (200, {"error": "x", "data": {"id": 7}}, Exception),
}


@for_each(("status", "body", "kind"), BODIES.values())
def test_an_error_of_pipedrive(
    crm: PipedriveCrm, status: int, body: dict[str, object], kind: type[Exception]
) -> None:
    error = refused(crm, "POST", status=status, body={"success": False, **body})
    assert isinstance(error, kind)
    assert not isinstance(error, Unavailable), "it was sent"


def test_a_write_that_breaks_pipedrive_is_uncertain(crm: PipedriveCrm) -> None:
    assert type(refused(crm, "POST", status=500)).__name__ == "Uncertain"
