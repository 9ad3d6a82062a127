"""/admin/v1/accounts/{clientId}/events: subscriptions and deliveries, operated by program."""

from __future__ import annotations

import re
from typing import Any

import pytest

from crmhub import audit
from crmhub.audit import Wanted
from crmhub.hub import Hub
from crmhub.operators.events import event_subscriptions
from crmhub.secrets import parse_webhook_secret
from tests.admin import Admin, ok
from tests.api.refusals import refused
from tests.clients import TESTS, Client
from tests.events.receivers import HOOK, receiving, subscribe

Json = Any
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z")


def of(client: Client, *parts: str) -> str:
    return "/".join((f"/accounts/{client.account.client_id}/events/subscriptions", *parts))


def failed_events(hub: Hub, client: Client, count: int) -> str:
    """Return a subscription of the client's account with this number of failed deliveries."""
    id = subscribe(hub, client, "contact.created").subscription.id
    for n in range(count):
        client.make(email=f"ada{n}@example.com")
    for state in ("disabled", "active"):
        event_subscriptions.change(hub, client.account.client_id, id, state=state, by=TESTS)
    return id


def test_a_new_subscription_is_shown_with_its_secret_this_once(
    hub: Hub, admin: Admin, client: Client
) -> None:
    made = ok(admin.post(of(client), {"url": HOOK, "types": ["deal.updated"]}), 201)
    parse_webhook_secret(made.pop("secret"))
    (listed,) = ok(admin.get(of(client)))["results"]
    assert listed == made == ok(admin.get(of(client, made["id"])))
    assert _MOMENT.fullmatch(listed.pop("createdAt"))
    assert _MOMENT.fullmatch(listed.pop("updatedAt"))
    assert listed == {
        "id": made["id"],
        "url": HOOK,
        "types": ["deal.updated"],
        "state": "active",
        "reason": "",
        "failures": 0,
        "failingSince": None,
        "keyId": None,
    }


def test_a_subscription_is_changed_disabled_and_removed_by_the_token(
    hub: Hub, admin: Admin, client: Client
) -> None:
    id = subscribe(hub, client, "contact.created").subscription.id
    changed = ok(admin.patch(of(client, id), {"types": ["lead.failed"], "url": f"{HOOK}2"}))
    assert (changed["types"], changed["url"]) == (["lead.failed"], f"{HOOK}2")
    disabled = ok(admin.patch(of(client, id), {"state": "disabled"}))
    assert (disabled["state"], disabled["types"]) == ("disabled", ["lead.failed"])
    assert ok(admin.patch(of(client, id), {"state": "active"}))["state"] == "active"
    assert admin.delete(of(client, id)).status_code == 204
    refused(admin.get(of(client, id)), 404)
    with hub.database.reading() as db:
        wanted = Wanted(account_id=client.account.id, object="eventSubscription")
        entries = audit.listed(db, wanted, limit=10)
    assert {entry.by.kind for entry in entries[:-1]} == {"token"}
    assert [entry.verb for entry in entries] == ["remove", "change", "change", "change", "create"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"types": ["deal.updated"]}, 400, "url: is missing"),
        ({"url": HOOK, "types": []}, 422, "name at least one type"),
        ({"url": HOOK, "types": ["deal.lost"]}, 400, "types: does not know 'deal.lost'"),
        ({"url": "http://10.0.0.1/x", "types": ["deal.updated"]}, 422, "10.0.0.1"),
        ({"url": HOOK, "types": ["deal.updated"], "secret": "x"}, 400, "secret"),
    ],
    ids=["url", "no-types", "type", "private", "unknown"],
)
def test_what_cannot_be_subscribed_is_refused(
    admin: Admin, client: Client, body: Json, status: int, words: str
) -> None:
    assert words in refused(admin.post(of(client), body), status)
    assert ok(admin.get(of(client)))["results"] == []


def test_a_test_shows_status_and_duration(hub: Hub, admin: Admin, client: Client) -> None:
    with receiving(lambda received: 500) as receiver:
        id = subscribe(hub, client, "contact.created", url=receiver.url).subscription.id
        shown = ok(admin.post(of(client, id, "test")))
    assert shown.pop("durationMs") >= 0
    assert shown.pop("eventId").startswith("evt_")
    assert shown == {"delivered": False, "status": 500, "message": "It answered 500."}
    assert ok(admin.get(of(client, id)))["failures"] == 0


def test_deliveries_are_paged_and_filtered_without_personal_data(
    hub: Hub, admin: Admin, client: Client
) -> None:
    id = failed_events(hub, client, 3)
    client.make(email="late@example.com")
    first = ok(admin.get(of(client, id, "deliveries") + "?limit=3"))
    second = ok(admin.get(of(client, id, "deliveries") + first["cursor"]["nextLink"]))
    shown = first["results"] + second["results"]
    assert [one["state"] for one in shown] == ["queued", "failed", "failed", "failed"]
    assert second["hasMore"] is False
    assert len({one["eventId"] for one in shown}) == 4
    assert "example.com" not in str(shown)
    assert shown[1]["nextAttemptAt"] is None
    assert shown[1]["reason"] == "The subscription was disabled."
    (queued,) = ok(admin.get(of(client, id, "deliveries") + "?state=queued"))["results"]
    assert queued["eventId"] == shown[0]["eventId"]
    refused(admin.get(of(client, id, "deliveries") + "?state=lost"), 400)


def test_events_are_replayed_by_time_and_one_by_one(hub: Hub, admin: Admin, client: Client) -> None:
    id = failed_events(hub, client, 3)
    replay = of(client, id, "replay")
    one = ok(admin.get(of(client, id, "deliveries")))["results"][1]
    assert ok(admin.post(replay, {"eventIds": [one["eventId"]]})) == {"events": 1}
    assert ok(admin.post(replay, {"since": "2031-01-01", "until": "2031-01-02"})) == {"events": 0}
    assert ok(admin.post(replay, {"since": one["createdAt"][:10]})) == {"events": 2}
    assert ok(admin.get(of(client, id, "deliveries") + "?state=failed"))["results"] == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"until": "2031-01-01"}, 422),
        ({"since": "2031-01-01", "eventIds": ["evt_1"]}, 422),
        ({"since": "2031-01-02", "until": "2031-01-01"}, 422),
        ({"eventIds": []}, 422),
        ({"since": "yesterday"}, 400),
    ],
    ids=["nothing", "until", "both", "backwards", "no-ids", "word"],
)
def test_a_replay_of_nothing_is_refused(
    hub: Hub, admin: Admin, client: Client, body: Json, status: int
) -> None:
    id = subscribe(hub, client, "contact.created").subscription.id
    refused(admin.post(of(client, id, "replay"), body), status)


def test_replay_needs_an_active_subscription_and_a_known_event(
    hub: Hub, admin: Admin, client: Client
) -> None:
    id = subscribe(hub, client, "contact.created").subscription.id
    refused(admin.post(of(client, id, "replay"), {"eventIds": ["evt_1"]}), 404)
    ok(admin.patch(of(client, id), {"state": "disabled"}))
    refused(admin.post(of(client, id, "replay"), {"since": "2026-01-01"}), 422)


def test_another_account_finds_nothing(
    hub: Hub, admin: Admin, client: Client, other: Client
) -> None:
    id = subscribe(hub, client, "contact.created").subscription.id
    for answer in (
        admin.get(of(other, id)),
        admin.get(of(other, id, "deliveries")),
        admin.delete(of(other, id)),
        admin.post(of(other, id, "test")),
    ):
        refused(answer, 404)
