"""Two contacts that share a phone, in a real browser: listed, merged, and two again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import flask
import pytest
from playwright.sync_api import Page, expect

from crmhub.app import create_app
from crmhub.operators.accounts.open_account import open_account
from crmhub.secrets import BASE36, token
from tests.api.helpers.helper_calls import CREATE_DEAL, known
from tests.clients import TESTS, Client
from tests.console.conftest import Served
from tests.duplicates import listed_pair

pytestmark = pytest.mark.databases("sqlite")

PHONE = "+12025550100"


@pytest.fixture
def bot(served: Served) -> Iterator[Client]:
    """A bot of an account whose CRM are the hub's own records, in the database of the service."""
    account, ids = open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)
    app: flask.Flask = create_app(served.hub.settings)
    yield Client(app, account, ids)
    app.extensions["crmhub"].close()


def test_a_pair_is_merged_and_unmerged_with_the_deal_of_the_other(
    page: Page, served: Served, bot: Client
) -> None:
    kept = known(bot, "a", name="Ann Lee", email="ann@example.com", phone=PHONE)
    other = known(bot, "b", name="Anne Lee", email="lee@example.com")
    call = {"contactId": other, "properties": {"dealname": "Cake"}}
    deal = bot.helper(CREATE_DEAL, call).get_json()["dealId"]
    listed_pair(served.hub, bot, kept, other)
    page.goto(f"/console/accounts/{bot.account.client_id}")
    page.get_by_role("link", name="Possible duplicates (1)").click()
    page.get_by_role("link", name=re.compile("Review")).click()
    # The older one is kept; nothing is changed by looking.
    expect(page.locator("main")).to_contain_text(f"Contact {kept} is kept")
    expect(page.get_by_label(f"Email of contact {kept}: ann@example.com")).to_be_checked()
    page.get_by_label(f"First name of contact {other}: Anne").check()
    page.get_by_role("button", name="Merge", exact=True).click()
    expect(page.get_by_role("status")).to_have_text(
        f"Contact {other} is merged into contact {kept}."
    )
    expect(page.get_by_role("link", name="Possible duplicates", exact=True).last).to_be_visible()
    page.get_by_role("link", name=f"Contact {kept}").click()
    expect(page.get_by_role("link", name=deal)).to_be_visible()
    expect(page.locator("main")).to_contain_text("Anne Lee")
    page.goto(f"/console/records/{bot.account.client_id}/contacts/{other}")
    expect(page.locator("main")).to_contain_text("there is no contact", ignore_case=True)
    page.goto(f"/console/accounts/{bot.account.client_id}/duplicates?state=merged")
    page.get_by_role("link", name=re.compile("Details")).click()
    page.get_by_role("button", name="Unmerge").click()
    expect(page.get_by_role("status")).to_contain_text("Both contacts exist again.")
    for contact, name in ((kept, "Ann Lee"), (other, "Anne Lee")):
        page.goto(f"/console/records/{bot.account.client_id}/contacts/{contact}")
        expect(page.get_by_role("heading", level=2).first).to_have_text(name)
    expect(page.get_by_role("link", name=deal)).to_be_visible()


def test_a_pair_is_dismissed_by_the_keyboard_alone(page: Page, served: Served, bot: Client) -> None:
    ids = [bot.make(firstname=name, phone=PHONE) for name in ("Ann", "Bob")]
    listed_pair(served.hub, bot, *ids)
    page.goto(f"/console/accounts/{bot.account.client_id}/duplicates")
    page.get_by_role("link", name=re.compile("Review")).focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Not the same person").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("different people")
    expect(page.locator("main")).to_contain_text("No possible duplicates")


def test_the_pages_fit_a_phone_and_please_the_browser(
    page: Page, served: Served, bot: Client
) -> None:
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text))
    long = {"firstname": "x" * 120, "address": "y" * 900, "phone": PHONE}
    ids = [bot.make(**long, email=f"{name * 50}@example.com") for name in ("a", "b")]
    listed_pair(served.hub, bot, *ids, "phone", "name")
    page.set_viewport_size({"width": 390, "height": 844})
    listed = f"/console/accounts/{bot.account.client_id}/duplicates"
    for path in (listed, f"{listed}/{ids[0]}/{ids[1]}"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    page.get_by_role("button", name="Merge", exact=True).click()
    expect(page.get_by_role("button", name="Unmerge")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.goto(f"{listed}?state=merged")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert complaints == []
