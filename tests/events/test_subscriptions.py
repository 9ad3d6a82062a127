"""Event subscriptions: who may be called, what is shown, and what is written down."""

from __future__ import annotations

import pytest

from crmhub import audit
from crmhub.audit import Wanted
from crmhub.errors import NotFound, Semantic
from crmhub.events.event_types import TYPES
from crmhub.events.subscriptions import MAX_SUBSCRIPTIONS
from crmhub.hub import Hub
from crmhub.operators.events import event_subscriptions
from crmhub.secrets import parse_webhook_secret
from tests.clients import TESTS, Client
from tests.events.receivers import HOOK, subscribe


def test_secret_is_shown_once_and_stored_sealed(hub: Hub, client: Client) -> None:
    made = subscribe(hub, client, "contact.created")
    assert parse_webhook_secret(made.secret)
    with hub.database.reading() as db:
        stored = db.scalar(
            "select secret from event_subscription where account_id = :account",
            {"account": client.account.id},
        )
    assert stored.startswith(hub.vault.prefix)
    assert made.secret not in repr(made)


def test_listed_by_age_and_found_by_its_account_alone(
    hub: Hub, client: Client, other: Client
) -> None:
    made = [subscribe(hub, client, name).subscription for name in TYPES[:3]]
    # Two of one millisecond have the order of their random ids.
    by_age = sorted(made, key=lambda one: (one.created_at, one.id))
    assert event_subscriptions.listed(hub, client.account.client_id) == by_age
    with pytest.raises(NotFound):
        event_subscriptions.find(hub, other.account.client_id, made[0].id)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://10.0.0.1/x", "10.0.0.1"),
        ("https://169.254.169.254/latest", "169.254.169.254"),
        ("ftp://example.com", "url:"),
        ("https://user:word@example.com/", "url:"),
        (HOOK + "x" * 3000, "longer"),
    ],
    ids=["private", "metadata", "scheme", "password", "long"],
)
def test_address_goes_through_the_guard(hub: Hub, client: Client, url: str, reason: str) -> None:
    with pytest.raises(Semantic, match=reason):
        event_subscriptions.add(
            hub, client.account.client_id, url=url, types=["contact.created"], by=TESTS
        )


@pytest.mark.parametrize("types", [[], ["contact.deleted"], ["contact.created", "x"]])
def test_unknown_types_are_refused(hub: Hub, client: Client, types: list[str]) -> None:
    with pytest.raises(Semantic, match="types:"):
        event_subscriptions.add(hub, client.account.client_id, url=HOOK, types=types, by=TESTS)


def test_account_has_a_limit(hub: Hub, client: Client) -> None:
    for _ in range(MAX_SUBSCRIPTIONS):
        subscribe(hub, client, "contact.created")
    with pytest.raises(Semantic, match="at most 20"):
        subscribe(hub, client, "contact.created")


def test_each_change_is_in_the_audit_log_without_the_path(hub: Hub, client: Client) -> None:
    id = subscribe(hub, client, "contact.created").subscription.id
    of = (hub, client.account.client_id, id)
    event_subscriptions.change(*of, types=["deal.created"], by=TESTS)
    event_subscriptions.change(*of, url=f"{HOOK}another", by=TESTS)
    event_subscriptions.change(*of, state="disabled", by=TESTS)
    event_subscriptions.change(*of, state="disabled", by=TESTS)
    event_subscriptions.remove(*of, by=TESTS)
    with hub.database.reading() as db:
        wanted = Wanted(account_id=client.account.id, object="eventSubscription")
        entries = audit.listed(db, wanted, limit=10)[::-1]
    assert [entry.verb for entry in entries] == ["create", *["change"] * 3, "remove"]
    assert {entry.object_id for entry in entries} == {id}
    assert "secret-path" not in str(entries)
    assert "another path" in entries[2].after["url"]
    assert event_subscriptions.listed(*of[:2]) == []
