"""An account's page "Events": subscriptions, their deliveries, tests and replays."""

from __future__ import annotations

import html
import re

import pytest

from crmhub.events import subscriptions
from crmhub.events.event_types import CHOICES
from crmhub.hub import Hub
from crmhub.operators.events import event_subscriptions
from crmhub.secrets import parse_webhook_secret
from tests.api.helpers.helper_calls import known
from tests.clients import TESTS, Client
from tests.clocks import next_ms
from tests.console.test_roles import signed_in
from tests.consoles import Operator, fault_of, text_of, value_of
from tests.events.receivers import HOOK, receiving, subscribe

# The queries behind the pages are tested on each database.
pytestmark = pytest.mark.databases("sqlite")


def path(client: Client, *parts: str) -> str:
    return "/".join((f"/accounts/{client.account.client_id}/events", *parts))


def set_state(hub: Hub, client: Client, id: str, *states: str) -> None:
    for state in states:
        event_subscriptions.change(hub, client.account.client_id, id, state=state, by=TESTS)


def switch_off(hub: Hub, client: Client, id: str, reason: str = "It answered <503>.") -> None:
    hub.database.transact(
        lambda tx: subscriptions.end(tx, client.account.id, id, "switched_off", reason)
    )


def states(hub: Hub, client: Client, id: str) -> list[str]:
    of = (hub, client.account.client_id, id)
    return [each.state for each in event_subscriptions.list_deliveries(*of)]


def event_ids(answer) -> list[str]:
    return re.findall(r'name="id" value="(evt_\w+)"', answer.text)


def test_the_keys_page_says_which_subscriptions_end_with_a_key(
    client: Client, operator: Operator
) -> None:
    keys = f"/accounts/{client.account.client_id}/keys"
    assert "end with this key" not in text_of(operator.get(keys))
    made = client.post("/events/subscriptions", {"url": HOOK, "types": ["contact.*", "*"]}).json
    shown = text_of(operator.get(keys))
    assert f"Events to {HOOK} end with this key." in shown
    assert f"Its event subscriptions are disabled: {HOOK}." in shown
    operator.send(f"{keys}/{made['keyId']}/revoke", at=keys)
    page = text_of(operator.get(path(client, made["id"])))
    assert f"Its API key {made['keyId']} was revoked." in page
    assert "all types" in page
    assert "end with this key" not in text_of(operator.get(keys))


def test_a_subscription_is_added_and_its_secret_shown_once(
    hub: Hub, client: Client, operator: Operator
) -> None:
    assert "No subscriptions" in text_of(operator.get(path(client)))
    form = {"url": f" {HOOK} ", "type": ["contact.created", "lead.failed"]}
    made = operator.send(path(client), form, at=path(client))
    assert made.status_code == 201
    secret = value_of(made, "secret")
    parse_webhook_secret(secret)
    (stored,) = event_subscriptions.listed(hub, client.account.client_id)
    assert (stored.url, stored.types) == (HOOK, ("contact.created", "lead.failed"))
    listed, shown = operator.get(path(client)), operator.get(path(client, stored.id))
    assert secret not in listed.text + shown.text
    assert f"{HOOK} contact.created, lead.failed active" in text_of(listed)
    assert "No deliveries yet" in text_of(shown)


def test_every_type_can_be_ticked(hub: Hub, client: Client, operator: Operator) -> None:
    offered = re.findall(r'name="type" value="([\w.*]+)"', operator.get(path(client)).text)
    assert sorted(offered) == sorted(CHOICES)
    operator.send(path(client), {"url": HOOK, "type": ["*", "deal.created"]}, at=path(client))
    assert event_subscriptions.listed(hub, client.account.client_id)[0].types == ("*",)
    assert "all types" in text_of(operator.get(path(client)))


def test_a_pattern_stays_one(hub: Hub, client: Client, operator: Operator) -> None:
    form = {"url": HOOK, "type": ["contact.*", "lead.*", "deal.created"]}
    operator.send(path(client), form, at=path(client))
    (stored,) = event_subscriptions.listed(hub, client.account.client_id)
    assert stored.types == ("deal.created", "contact.*", "lead.*")
    at = path(client, stored.id, "change")
    ticked = re.findall(r'value="([\w.*]+)" id="[^"]+" checked', operator.get(at).text)
    assert sorted(ticked) == sorted(stored.types)
    operator.send(at, {"url": HOOK, "type": [*ticked, "ticket.*"]})
    found = event_subscriptions.find(hub, client.account.client_id, stored.id)
    assert found.types == ("deal.created", "contact.*", "ticket.*", "lead.*")
    operator.send(at, {"url": HOOK, "type": ["*"]})
    assert 'value="*" id="f-type-all" checked' in operator.get(at).text


def test_a_refused_form_keeps_what_was_typed(hub: Hub, client: Client, operator: Operator) -> None:
    url, name = "http://10.0.0.1/<x>", "deal.updated"
    answer = operator.send(path(client), {"url": url, "type": [name]}, at=path(client))
    assert answer.status_code == 422
    assert "10.0.0.1" in text_of(answer)
    assert f'value="{html.escape(url)}"' in answer.text
    assert f'value="{name}" id="f-{name}" checked' in answer.text
    assert event_subscriptions.listed(hub, client.account.client_id) == []


def test_a_subscription_is_changed(hub: Hub, client: Client, operator: Operator) -> None:
    id = subscribe(hub, client, "contact.created").subscription.id
    form = operator.get(path(client, id, "change")).text
    assert 'id="f-contact.created" checked' in form
    assert f'value="{HOOK}"' in form
    new = {"url": f"{HOOK}2", "type": ["ticket.created"]}
    answer = operator.send(path(client, id, "change"), new)
    assert answer.location == f"/console{path(client, id)}"
    found = event_subscriptions.find(hub, client.account.client_id, id)
    assert (found.url, found.types) == (f"{HOOK}2", ("ticket.created",))
    refused = operator.send(path(client, id, "change"), {"url": HOOK, "type": []})
    assert (refused.status_code, "Name at least one type" in fault_of(refused, "type")) == (
        422,
        True,
    )


def test_a_subscription_is_disabled_activated_and_removed(
    hub: Hub, client: Client, operator: Operator
) -> None:
    id = subscribe(hub, client, "contact.created").subscription.id
    at = path(client, id)
    operator.send(f"{at}/state", {"state": "disabled"}, at=at)
    disabled = text_of(operator.get(at))
    assert "disabled" in disabled
    assert "Replay" not in disabled
    assert operator.send(f"{at}/state", {"state": "ended"}, at=at).status_code == 400
    operator.send(f"{at}/state", {"state": "active"}, at=at)
    assert "The subscription is active." in text_of(operator.get(at))
    assert operator.send(f"{at}/remove", at=at).location == f"/console{path(client)}"
    assert "The subscription is removed." in text_of(operator.get(path(client)))
    assert operator.get(at).status_code == 404


def test_a_test_shows_the_answer_and_how_long_it_took(
    hub: Hub, client: Client, operator: Operator
) -> None:
    with receiving() as receiver:
        id = subscribe(hub, client, "contact.created", url=receiver.url).subscription.id
        at = path(client, id)
        sent = text_of(operator.send(f"{at}/test", at=at))
        assert re.search(r"Test event delivered\. Status 204, after [\d.]+ m?s\.", sent)
        receiver.answer = lambda received: 500
        assert "not delivered. Status 500, after" in text_of(operator.send(f"{at}/test", at=at))
    assert receiver.types == ["subscription.test"] * 2
    assert "not delivered. No answer, after" in text_of(operator.send(f"{at}/test", at=at))


def test_deliveries_are_shown_filtered_and_paged(
    hub: Hub, client: Client, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crmhub.console.events._PAGE_SIZE", 2)
    id = subscribe(hub, client, "contact.created").subscription.id
    made = []
    for n in range(3):
        made.append(client.make(firstname="<b>Ada</b>", email=f"ada{n}@example.com"))
        # The newest stand first; within a millisecond, in any order.
        next_ms()
    set_state(hub, client, id, "disabled", "active")
    late = client.make(email="late@example.com")
    first = operator.get(path(client, id))
    words = text_of(first)
    assert f"contacts:{late}" in words
    assert "queued" in words
    assert "The subscription was disabled." in words
    assert "<b>Ada" not in first.text
    assert "ada2@example.com" in words
    assert len(event_ids(first)) == 1
    link = re.search(r'href="/console([^"]*)" rel="next"', first.text)
    assert link is not None
    second = operator.get(html.unescape(link[1]))
    assert [f"contacts:{id}" in text_of(second) for id in made] == [True, True, False]
    assert 'rel="next"' not in second.text
    failed = operator.get(path(client, id) + "?state=failed")
    assert f"contacts:{late}" not in text_of(failed)
    assert "No delivered deliveries" in text_of(operator.get(path(client, id) + "?state=delivered"))
    assert operator.get(path(client, id) + "?state=lost&after=x&event=%00").status_code == 200


def test_events_are_replayed_one_by_one_and_by_time(
    hub: Hub, client: Client, operator: Operator
) -> None:
    id = subscribe(hub, client, "contact.created").subscription.id
    for n in range(3):
        client.make(email=f"ada{n}@example.com")
        next_ms()
    set_state(hub, client, id, "disabled", "active")
    at = path(client, id)
    chosen = event_ids(operator.get(at))
    assert len(chosen) == 3
    assert "Days and times are in UTC" in text_of(operator.get(at))
    none = operator.send(f"{at}/replay-events", at=at)
    assert (none.status_code, "Select at least one event." in text_of(none)) == (400, True)
    operator.send(f"{at}/replay-events", {"id": chosen[1]}, at=at)
    assert "1 event will be delivered again." in text_of(operator.get(at))
    assert states(hub, client, id) == ["failed", "queued", "failed"]
    for period in ({"since": "soon", "until": "2031-01-01"}, {"since": "2026-01-01"}):
        refused = operator.send(f"{at}/replay", period, at=at)
        assert refused.status_code == 400
        assert f'value="{period["since"]}"' in refused.text
    operator.send(f"{at}/replay", {"since": "2026-01-01", "until": "2031-01-01"}, at=at)
    assert "2 events will be delivered again." in text_of(operator.get(at))
    assert states(hub, client, id) == ["queued"] * 3


def test_a_subscription_that_was_switched_off_needs_attention(
    app, hub: Hub, client: Client, operator: Operator, other: Client, monkeypatch
) -> None:
    monkeypatch.setattr("crmhub.console.banner._CACHE_S", 0.0)
    monkeypatch.setattr("crmhub.console.banner._PAUSE_FACTOR", 0.0)
    app.extensions["crmhub.console.banner"].forget()
    id = subscribe(hub, client, "contact.created").subscription.id
    reader = signed_in(app, "reader", other)
    limited = signed_in(app, "operator", client)
    assert "was switched off" not in text_of(limited.get(""))
    switch_off(hub, client, id)
    for page in (operator.get(path(client)), operator.get(path(client, id))):
        assert "switched off" in text_of(page).lower()
        assert "It answered <503>." in text_of(page)
    overview = limited.get("")
    assert "1 event subscription was switched off since" in text_of(overview)
    assert f'href="/console{path(client)}"' in overview.text
    banner = limited.get(f"/accounts/{client.account.client_id}")
    assert "1 event subscription switched off:" in text_of(banner)
    assert client.account.client_id not in reader.get("").text
    operator.send(path(client, id, "state"), {"state": "active"}, at=path(client, id))
    assert "was switched off" not in text_of(limited.get(""))


def test_a_failing_subscription_is_no_active_one(
    hub: Hub, client: Client, operator: Operator
) -> None:
    id = subscribe(hub, client, "contact.created").subscription.id
    hub.database.transact(
        lambda tx: tx.run(
            "update event_subscription set failures = 7, failing_since = 1700000000000,"
            " reason = 'It answered 503.' where account_id = :account and id = :id",
            {"account": client.account.id, "id": id},
        )
    )
    listed, shown = text_of(operator.get(path(client))), text_of(operator.get(path(client, id)))
    assert "failing since 2023-11-14 22:13 UTC It answered 503." in listed
    assert "since 2023-11-14 22:13 UTC , 7 calls: It answered 503." in shown


def test_an_event_of_calls_leads_to_the_calls(
    app, hub: Hub, client: Client, operator: Operator
) -> None:
    id = subscribe(hub, client, "lead.accepted").subscription.id
    known(client, "chat-1", email="zoe@example.com")
    page = operator.get(path(client, id))
    address = re.search(r'<a href="([^"]*)">calls for ', page.text)[1]
    assert "zoe@example.com" in operator.get(html.unescape(address).removeprefix("/console")).text
    assert "calls for" not in signed_in(app, "support").get(path(client, id)).text


def test_support_replays_and_changes_nothing(app, hub: Hub, client: Client) -> None:
    id = subscribe(hub, client, "contact.created").subscription.id
    client.make(email="zebedee@example.com")
    set_state(hub, client, id, "disabled", "active")
    at, support = path(client, id), signed_in(app, "support")
    page = support.get(at)
    assert "zebedee" not in page.text
    assert "secret-path" not in page.text
    (event_id,) = event_ids(page)
    support.send(f"{at}/replay-events", {"id": event_id}, at=at)
    assert states(hub, client, id) == ["queued"]
    assert support.send(f"{at}/remove", at=at).status_code == 403
    assert "Replay" not in text_of(signed_in(app, "reader", client).get(at))
