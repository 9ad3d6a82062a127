"""How Tryton is called: how many calls a lead, a deal and a ticket take, and in which language."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from crmhub.adapter import Adapter
from crmhub.adapter.matching import Lead
from crmhub.adapter.testing import Connection, FaultProxy
from crmhub.adapter.testing.faults import reset_after
from crmhub.adapter.upserts import upsert_contact
from tests.adapters.tryton.tryton_crm import TrytonCrm, connected

ANN = {"email": "ann@example.org", "firstname": "Ann", "lastname": "Lee"}
PHONE = {"phone": "+4915123456789"}


@pytest.fixture
def connection(tryton_crm: TrytonCrm) -> Iterator[Connection]:
    connection = connected(tryton_crm)
    yield connection
    connection.outgoing.close()


@pytest.fixture
def adapter(connection: Connection) -> Adapter:
    """An adapter that has logged in, and knows the fields and the projects."""
    adapter = connection.adapter()
    for kind in ("contacts", "deals", "tickets"):
        adapter.describe(kind)  # type: ignore[arg-type]
    adapter.pipelines("deals")
    adapter.pipelines("tickets")
    return adapter


@pytest.fixture
def calls(connection: Connection, adapter: Adapter) -> Callable[[Callable[[], object]], int]:
    def counted(work: Callable[[], object]) -> int:
        connection.outgoing.calls = 0
        work()
        return connection.outgoing.calls

    return counted


def _upsert(adapter: Adapter, **properties: str) -> Callable[[], object]:
    lead = Lead(
        properties,
        email=properties.get("email", ""),
        phone=properties.get("phone", ""),
        mark="crmhub-1",
    )
    return lambda: upsert_contact(adapter, lead)


def test_a_lead_takes_few_calls(
    adapter: Adapter, calls: Callable[[Callable[[], object]], int]
) -> None:
    first = {
        "a new one by email": calls(_upsert(adapter, **ANN)),
        "the same once more": calls(_upsert(adapter, **ANN)),
        "one with a new name": calls(_upsert(adapter, **ANN | {"lastname": "King"})),
        "one with a first phone": calls(
            _upsert(adapter, email=ANN["email"], phone="+493012345678")
        ),
        "a new one by email and phone": calls(
            _upsert(adapter, email="bob@example.org", lastname="Bo", **PHONE)
        ),
        "that one once more": calls(
            _upsert(adapter, email="bob@example.org", lastname="Bo", **PHONE)
        ),
    }
    assert first == {
        "a new one by email": 3,
        "the same once more": 1,
        "one with a new name": 3,
        "one with a first phone": 4,
        "a new one by email and phone": 4,
        "that one once more": 1,
    }


def test_a_deal_and_a_ticket_take_two_calls(
    adapter: Adapter, tryton_crm: TrytonCrm, calls: Callable[[Callable[[], object]], int]
) -> None:
    id = tryton_crm.add_contact(ANN)
    deal, ticket = {"dealname": "A deal"}, {"subject": "A ticket"}
    moved = deal | {"dealstage": "opportunity"}
    assert calls(lambda: adapter.create_for_contact("deals", id, deal, mark="crmhub-2")) == 2
    assert calls(lambda: adapter.create_for_contact("deals", id, moved, mark="crmhub-3")) == 3
    assert calls(lambda: adapter.create_for_contact("tickets", id, ticket, mark="crmhub-4")) == 2


def test_an_adapter_begins_with_few_calls(
    connection: Connection, calls: Callable[[Callable[[], object]], int]
) -> None:
    """A login and the user's preferences; all processes share the fields of a party."""
    connection.credentials = {**connection.credentials, "access_grant": ""}
    fresh = connection.adapter()
    assert calls(lambda: fresh.find_contact(email="nobody@example.org")) == 3


def test_a_login_whose_answer_is_lost_is_repeated_and_messages_are_english(
    tryton_crm: TrytonCrm,
) -> None:
    """A login writes nothing. Whatever the user's language, the adapter reads Tryton's messages."""
    with FaultProxy(tryton_crm.url) as proxy:
        connection = connected(tryton_crm, base_url=proxy.url)
        proxy.inject(reset_after)
        made = connection.adapter().create_contact(ANN)
        bodies = [json.loads(request.body) for request in proxy.requests]
        connection.outgoing.close()
    assert list(tryton_crm.contacts()) == [made.id]
    login, again, _, *calls = bodies
    assert (login["method"], again) == ("common.db.login", login)
    assert {call["params"][-1]["language"] for call in calls} == {"en"}
