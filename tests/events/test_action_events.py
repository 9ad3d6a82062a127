"""The events of helpers' calls, and of connections that fail and recover."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.events.event_types import TYPES
from crmhub.hub import Hub
from crmhub.queue.models import Entry, New, Outcome
from tests.clients import Client
from tests.events.receivers import events_of, subscribe

LEAD = {"contactToken": "a visitor", "name": "Ada L", "email": "ada@example.org", "phone": ""}
HELPERS = (
    *("lead.accepted", "lead.stored", "lead.failed", "deal.failed", "ticket.failed"),
    *("connection.failing", "connection.recovered"),
)
AWAY = Outcome("queued", "Denied", away="The CRM refuses the credentials.")


def told(hub: Hub, client: Client) -> list[tuple[str, Any]]:
    return [(each.type, json.loads(each.data)) for each in events_of(hub, client)]


def loaded(hub: Hub, client: Client) -> Account:
    with hub.database.reading() as db:
        return accounts.load_by_id(db, client.account.id, hub.plans)


def accepted(hub: Hub, client: Client, kind: str, **request: Any) -> Entry:
    new = New(kind=kind, person="p", hub_id="hub-1", request=request)
    account = loaded(hub, client)
    entry = hub.journal.accept(account, lambda _: new, lease_s=60, now=True).entry
    assert entry is not None
    return entry


def test_a_lead_is_accepted_and_stored(hub: Hub, client: Client) -> None:
    subscribe(hub, client, *HELPERS, "contact.created")
    answer = client.helper("/chatbot/createLead/{generated}", LEAD).json
    found = dict(told(hub, client))
    first, last = found["lead.accepted"], found["lead.stored"]
    assert set(found) == {"lead.accepted", "lead.stored", "contact.created"}
    assert first["id"].startswith("hub-")
    assert (last["id"], last["contactId"]) == (answer["contactId"], first["id"])
    assert first["properties"] == {"name": "Ada L", "email": "ada@example.org"}
    assert first["actionId"] == last["actionId"] == answer["actionId"]
    order = [type for type, data in told(hub, client) if "actionId" in data]
    assert order == ["lead.accepted", "lead.stored"]


@pytest.mark.parametrize("state", ["dead", "refused"])
@pytest.mark.parametrize(
    ("kind", "type"),
    [
        ("createLead", "lead.failed"),
        ("createDeal", "deal.failed"),
        ("createTicket", "ticket.failed"),
    ],
)
def test_failures(hub: Hub, client: Client, kind: str, type: str, state: Any) -> None:
    subscribe(hub, client, *TYPES)
    entry = accepted(hub, client, kind, properties={"dealname": "x"})
    outcome = Outcome(state, "Rejected", "Not that value.")
    hub.journal.finish(entry, outcome, lambda _: None, loaded(hub, client))
    [data] = [data for name, data in told(hub, client) if name == type]
    assert (data["actionId"], data["error"], data["reason"]) == (
        entry.id,
        "Rejected",
        "Not that value.",
    )


def test_a_retry_is_no_failure(hub: Hub, client: Client) -> None:
    subscribe(hub, client, *HELPERS)
    entry = accepted(hub, client, "createDeal")
    outcome = Outcome("queued", "Uncertain", "no answer", counts=True)
    hub.journal.finish(entry, outcome, lambda _: None, loaded(hub, client))
    assert told(hub, client) == []


def test_a_connection_fails_once_and_recovers(hub: Hub, client: Client) -> None:
    subscribe(hub, client, *HELPERS)
    account = loaded(hub, client)
    hub.journal.open_circuit(account, "The CRM is away.")
    hub.journal.open_circuit(account, "The CRM is away.")
    entry = accepted_during_outage(hub, client)
    hub.journal.finish(entry, Outcome("done", "ok", result={}), lambda _: None, account)
    assert [(type, data["id"]) for type, data in told(hub, client)] == [
        ("connection.failing", account.connection.id),
        ("connection.recovered", account.connection.id),
    ]
    [(_, failing), _] = told(hub, client)
    assert failing["properties"] == {
        "adapter": "local",
        "cause": "away",
        "reason": "The CRM is away.",
    }


def accepted_during_outage(hub: Hub, client: Client) -> Entry:
    """Return the probe of an unavailable CRM."""
    account = loaded(hub, client)
    new = New(kind="createDeal", person="p", hub_id="hub-1", request={})
    hub.journal.accept(account, lambda _: new, lease_s=60, now=False)
    of = {"account_id": account.id}
    hub.database.transact(
        lambda tx: tx.run("update outage set until = 1 where account_id = :account_id", of)
    )
    [entry] = hub.journal.claim(account.id, account.connection.id, most=1, lease_s=60)
    assert entry.probing
    return entry


def test_refused_credentials_are_named_as_the_cause(hub: Hub, client: Client) -> None:
    subscribe(hub, client, *HELPERS)
    entry = accepted(hub, client, "createDeal")
    hub.journal.finish(entry, AWAY, lambda _: None, loaded(hub, client))
    [(type, data)] = told(hub, client)
    assert (type, data["properties"]["cause"]) == ("connection.failing", "credentials")
