"""The public API of event subscriptions."""

from __future__ import annotations

from typing import Any

import flask
import pytest

from crmhub.accounts import keys
from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from crmhub.operators.events import event_subscriptions
from tests.clients import TESTS, Client
from tests.events.receivers import HOOK, receiving

PATH = "/events/subscriptions"
BODY = {"url": HOOK, "types": ["contact.created", "deal.stage_changed"]}


def made(client: Client, **more: Any) -> dict[str, Any]:
    answer = client.post(PATH, {**BODY, **more})
    assert answer.status_code == 201, answer.text
    shown: dict[str, Any] = answer.json
    return shown


def test_life_of_a_subscription(client: Client) -> None:
    new = made(client)
    secret = new.pop("secret")
    assert secret.startswith("whsec_")
    assert (new["url"], new["types"], new["state"]) == (HOOK, BODY["types"], "active")
    one = f"{PATH}/{new['id']}"
    assert client.get(one).json == new
    assert client.get(PATH).json == {
        "total": 1,
        "results": [new],
        "cursor": {"next": "", "nextLink": ""},
        "hasMore": False,
    }
    changed = client.patch(one, {"state": "disabled", "types": ["lead.failed"]}).json
    assert (changed["state"], changed["types"]) == ("disabled", ["lead.failed"])
    assert client.delete(one).status_code == 204
    assert client.get(one).status_code == client.delete(one).status_code == 404


def test_another_account_gets_the_same_404(client: Client, other: Client) -> None:
    id = made(client)["id"]
    mine, none = other.get(f"{PATH}/{id}"), other.get(f"{PATH}/sub_x")
    assert (mine.status_code, none.status_code) == (404, 404)
    assert mine.json["message"].replace(id, "") == none.json["message"].replace("sub_x", "")
    for answer in (
        other.patch(f"{PATH}/{id}", {}),
        other.delete(f"{PATH}/{id}"),
        other.post(f"{PATH}/{id}/test", None),
        other.post(f"{PATH}/{id}/replay", {"since": "2026-01-01"}),
    ):
        assert answer.status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({}, 400, "url"),
        ({**BODY, "secret": "x"}, 400, "secret"),
        ({**BODY, "types": "contact.created"}, 400, "types"),
        ({**BODY, "types": ["contact.renamed"]}, 400, "contact.renamed"),
        ({**BODY, "types": []}, 422, "types"),
        ({**BODY, "url": "http://192.168.0.1/"}, 422, "192.168.0.1"),
        ({**BODY, "url": "nonsense"}, 422, "url"),
    ],
    ids=["empty", "unknown", "text", "type", "none", "private", "nonsense"],
)
def test_faults_of_a_new_one(client: Client, body: Any, status: int, word: str) -> None:
    answer = client.post(PATH, body)
    assert answer.status_code == status, answer.text
    assert list(answer.json) == ["category", "message", "timestamp", "status"]
    assert word in answer.json["message"]


def with_scopes(hub: Hub, client: Client, *scopes: str) -> keys.IssuedKey:
    """Let the client use a new key with these scopes, and return the key."""
    issued = hub.database.transact(lambda tx: keys.create(tx, client.account.id, scopes=scopes))
    client.key = issued.api_key
    return issued


def test_types_need_the_scope_of_what_they_contain(hub: Hub, client: Client) -> None:
    full = client.key
    every = ("contacts", "deals", "companies", "tickets")
    needed = {
        "contact.merged": ("contacts",), "contact.*": ("contacts",), "lead.failed": ("contacts",),
        "lead.*": ("contacts",), "association.changed": ("contacts",), "deal.*": ("deals",),
        "deal.failed": ("deals",), "company.updated": ("companies",), "ticket.*": ("tickets",),
        "connection.*": (), "connection.failing": (), "*": every,
    }  # fmt: skip
    for type, resources in needed.items():
        body = {"url": HOOK, "types": [type, "connection.recovered"]}
        client.key = full
        others = made(client, types=["connection.failing"])["id"]
        for left_out in resources:
            with_scopes(hub, client, "events:write", *(f"{r}:read" for r in every if r != left_out))
            for answer in (
                client.post(PATH, body),
                client.patch(f"{PATH}/{others}", {"types": body["types"]}),
            ):
                assert (answer.status_code, answer.json["category"]) == (403, "ForbiddenError")
                assert f"{left_out}:read, which {type} needs" in answer.json["message"]
        with_scopes(hub, client, "events:write", *(f"{r}:read" for r in resources))
        new = client.post(PATH, body)
        assert new.status_code == 201, new.text
        assert type in new.json["types"]
        for each in (new.json["id"], others):
            assert client.delete(f"{PATH}/{each}").status_code == 204


def test_a_key_without_the_scope_moves_activates_and_replays_no_subscription(
    hub: Hub, client: Client
) -> None:
    one = f"{PATH}/{made(client)['id']}"
    with_scopes(hub, client, "events:write", "contacts:read")
    for answer in (
        client.patch(one, {"url": f"{HOOK}other"}),
        client.patch(one, {"state": "active"}),
        client.post(f"{one}/replay", {"since": "2026-01-01"}),
    ):
        assert answer.status_code == 403
        assert "deals:read" in answer.json["message"]
    assert client.patch(one, {"state": "disabled"}).json["state"] == "disabled"


def test_a_subscription_ends_with_the_key_that_made_it(hub: Hub, client: Client) -> None:
    first = with_scopes(hub, client)
    ended, kept = made(client), made(client)
    assert ended["keyId"] == first.key_id
    second = with_scopes(hub, client)
    client.make()
    moved = client.patch(f"{PATH}/{kept['id']}", {"state": "active"}).json
    assert moved["keyId"] == second.key_id
    of = (hub, client.account.client_id)
    change_account.revoke_key(*of, first.key_id, by=TESTS)
    shown = {each["id"]: each for each in client.get(PATH).json["results"]}
    assert shown[kept["id"]]["state"] == "active"
    assert shown[ended["id"]]["state"] == "disabled"
    assert f"{first.key_id} was revoked" in shown[ended["id"]]["reason"]
    (queued,) = event_subscriptions.list_deliveries(*of, ended["id"])
    assert (queued.state, queued.next_attempt_at) == ("failed", None)
    again = event_subscriptions.change(*of, ended["id"], state="active", by=TESTS)
    assert (again.state, again.key_id) == ("active", None)


def test_a_repeated_key_makes_one_subscription_and_shows_no_secret(client: Client) -> None:
    sent = {"headers": {"Idempotency-Key": "one"}}
    first, again = (client.post(PATH, BODY, **sent) for _ in range(2))
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json == {**first.json, "secret": ""}
    assert client.get(PATH).json["total"] == 1


def test_test_and_replay(client: Client) -> None:
    with receiving() as receiver:
        id = made(client, url=receiver.url)["id"]
        answer = client.post(f"{PATH}/{id}/test", None)
        assert answer.status_code == 200, answer.text
        shown = answer.json
        assert shown.pop("durationMs") >= 0
        assert shown == {
            "eventId": receiver.received[0].json["id"],
            "delivered": True,
            "status": 204,
            "message": "",
        }
    assert client.post(f"{PATH}/{id}/test", None).json["delivered"] is False
    client.make()
    for body, status in (
        ({"since": "2026-01-01T00:00:00Z"}, 200),
        ({"since": "2026-01-01", "until": "2025-01-01"}, 422),
        ({"since": "yesterday"}, 400),
        ({}, 422),
        ({"since": "2026-01-01", "eventIds": ["evt_x"]}, 422),
        ({"eventIds": ["evt_x"]}, 404),
    ):
        answer = client.post(f"{PATH}/{id}/replay", body)
        assert answer.status_code == status, answer.text
    client.patch(f"{PATH}/{id}", {"state": "disabled"})
    assert client.post(f"{PATH}/{id}/replay", {"since": "2026-01-01"}).status_code == 422
    client.patch(f"{PATH}/{id}", {"state": "active"})
    assert client.post(f"{PATH}/{id}/replay", {"since": "2026-01-01"}).json == {"events": 1}


def test_the_document_describes_each_operation(app: flask.Flask) -> None:
    paths = app.test_client().get("/openapi.json").json["paths"]
    operations = [
        operation
        for path, item in paths.items()
        if "/events/subscriptions" in path
        for method, operation in item.items()
        if method in ("get", "post", "patch", "delete")
    ]
    assert len(operations) == 7
    assert all(operation["summary"] for operation in operations)
