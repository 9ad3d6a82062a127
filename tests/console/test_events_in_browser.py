"""Event subscriptions in a real browser, with a worker that delivers and a receiver."""

from __future__ import annotations

from collections.abc import Iterator

import flask
import pytest
from playwright.sync_api import Page, expect

from crmhub.app import create_app
from crmhub.operators.accounts.open_account import open_account
from crmhub.secrets import BASE36, token
from tests.clients import TESTS, Client
from tests.console.conftest import Served
from tests.events.receivers import receiving

pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def bot(served: Served) -> Iterator[Client]:
    """A caller of an account in the database of the service."""
    account, ids = open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)
    app: flask.Flask = create_app(served.hub.settings)
    yield Client(app, account, ids)
    app.extensions["crmhub"].close()


def test_a_subscription_is_added_tested_followed_and_replayed(
    page: Page, served: Served, bot: Client
) -> None:
    with receiving() as receiver:
        page.goto(f"/console/accounts/{bot.account.client_id}")
        page.get_by_role("link", name="Events").click()
        page.get_by_label("Address").fill(receiver.url)
        page.get_by_role("group", name="Contacts").get_by_label("created").check()
        page.get_by_role("button", name="Add subscription").click()
        secret = page.get_by_label("Secret").input_value()
        page.get_by_role("link", name="Continue to the subscription").click()
        expect(page.locator("main")).not_to_contain_text(secret)
        page.get_by_role("button", name="Send a test event").click()
        expect(page.get_by_role("status")).to_contain_text("Test event delivered. Status 204")
        bot.make(email="ada@example.com")
        page.get_by_role("link", name="All", exact=True).click()
        expect(page.locator(".table-deliveries")).to_contain_text("delivered")
        bot.make(email="bob@example.com")
        rows = page.locator(".table-deliveries tbody tr")
        # The list updates itself.
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("delivered")
        rows.first.get_by_role("checkbox").check()
        page.get_by_role("button", name="Replay selected").click()
        expect(page.get_by_role("status")).to_have_text("1 event will be delivered again.")
        expect(rows.first).to_contain_text("delivered")
    assert receiver.types == ["subscription.test", *["contact.created"] * 3]
    assert all(message.is_signed_with(secret) for message in receiver.received)
    _, _, second, again = receiver.received
    assert second.json == again.json
