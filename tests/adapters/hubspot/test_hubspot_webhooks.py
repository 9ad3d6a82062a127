"""HubSpot's webhooks: the records that they name, and whose signature counts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from adapters.fakes.hubspot import FakeHubSpot, Options
from adapters.hubspot import HubSpotAdapter
from crmhub.adapter import Denied, Event, Kind, Rejected, Unsupported
from tests.adapters.hubspot.hubspot_crm import OAUTH, TOKEN, adapted, webhook
from tests.loops import for_each

SECRET = Options().client_secret


@pytest.fixture
def fake() -> Iterator[FakeHubSpot]:
    with FakeHubSpot() as started:
        yield started


@pytest.fixture
def adapter(fake: FakeHubSpot) -> HubSpotAdapter:
    return adapted(fake, {**TOKEN, "webhook_secret": SECRET})


@for_each(
    ("item", "named"),
    [
        ({"subscriptionType": "contact.creation", "objectId": 7}, [("contacts", "7")]),
        ({"subscriptionType": "company.deletion", "objectId": 7}, [("companies", "7")]),
        ({"subscriptionType": "contact.privacyDeletion", "objectId": 7}, [("contacts", "7")]),
        (
            {"subscriptionType": "object.restore", "objectTypeId": "0-3", "objectId": 7},
            [("deals", "7")],
        ),
        (
            {
                "subscriptionType": "ticket.merge",
                "objectId": 7,
                "primaryObjectId": 7,
                "mergedObjectIds": [8],
                "newObjectId": 9,
            },
            [("tickets", "7"), ("tickets", "8"), ("tickets", "9")],
        ),
        (
            {
                "subscriptionType": "contact.associationChange",
                "associationType": "CONTACT_TO_COMPANY",
                "fromObjectId": 7,
                "toObjectId": 8,
            },
            [("contacts", "7"), ("companies", "8")],
        ),
        (
            {
                "subscriptionType": "object.associationChange",
                "fromObjectTypeId": "0-3",
                "fromObjectId": 7,
                "toObjectTypeId": "0-46",
                "toObjectId": 8,
            },
            [("deals", "7")],
        ),
        ({"subscriptionType": "object.creation", "objectTypeId": "2-123", "objectId": 7}, []),
        ({"subscriptionType": "conversation.creation", "objectId": 7}, []),
        ({"objectId": 7}, []),
    ],
)
def test_a_webhook_names_the_records_of_each_change(
    item: dict[str, Any], named: list[tuple[Kind, str]], fake: FakeHubSpot, adapter: HubSpotAdapter
) -> None:
    assert adapter.events(webhook(fake, [item, item])) == [Event(*one) for one in named]


def test_a_webhook_must_be_signed_with_the_secret_within_five_minutes(
    fake: FakeHubSpot, adapter: HubSpotAdapter
) -> None:
    items, now = [{"subscriptionType": "deal.creation", "objectId": 7}], int(time.time() * 1000)
    sound = webhook(fake, items, at_ms=now - 240_000)
    assert adapter.events(sound) == [Event("deals", "7")]
    for forged in (
        webhook(fake, items, at_ms=now - 360_000),
        webhook(fake, items, at_ms=now + 360_000),
        replace(sound, url=f"{sound.url}&b=2"),
        replace(sound, method="PUT"),
        replace(sound, body=sound.body.replace(b"7", b"8")),
        replace(sound, headers={**sound.headers, "x-hubspot-signature-v3": "\u00e4"}),
        replace(sound, headers={**sound.headers, "x-hubspot-request-timestamp": "now"}),
    ):
        with pytest.raises(Denied):
            adapter.events(forged)
    with pytest.raises(Rejected):
        adapter.events(webhook(fake, b"["))


def test_the_secret_is_that_of_the_webhooks_or_of_the_oauth_app(fake: FakeHubSpot) -> None:
    sent = webhook(fake, [{"subscriptionType": "deal.creation", "objectId": 7}])
    assert adapted(fake, OAUTH).events(sent) == [Event("deals", "7")]
    with pytest.raises(Denied):
        adapted(fake, {**OAUTH, "webhook_secret": "another"}).events(sent)
    with pytest.raises(Unsupported, match="client secret"):
        adapted(fake).events(sent)
