"""What became of a lead, in a real browser: from the bot's call to its end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, expect

from crmhub.accounts.accounts import Account, IssuedIds
from crmhub.actions import operating
from crmhub.actions.opening import open_account
from crmhub.actions.operating import Crm
from crmhub.secrets import BASE36, token
from tests.adapters.hubspot_crm import TOKEN, HubSpotCrm
from tests.clients import TESTS
from tests.console.conftest import Served
from tests.console.past import HOUR, put

_PATIENCE_MS = 60_000


class Bot:
    """Calls the helpers of an account that uses the fake HubSpot."""

    def __init__(self, served: Served, crm: HubSpotCrm, account: Account, ids: IssuedIds) -> None:
        self.crm, self.account = crm, account
        self._url = f"{served.url}/chatbot/createLead/{ids.generated_id}"

    def lead(self, chat: str, **fields: str) -> Any:
        body = json.dumps({"contactToken": chat, **fields}).encode()
        sent = Request(self._url, body, {"Content-Type": "application/json"})
        with urlopen(sent, timeout=60) as answer:
            return json.loads(answer.read())


@pytest.fixture
def bot(served: Served) -> Iterator[Bot]:
    account, ids = open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)
    with HubSpotCrm() as crm:
        chosen = Crm("hubspot", {"base_url": crm.url}, TOKEN)
        account = operating.set_crm(served.hub, account.client_id, chosen, by=TESTS, ask=True)
        yield Bot(served, crm, account, ids)


def test_a_call_of_a_bot_is_followed_to_the_crm_and_to_its_person(page: Page, bot: Bot) -> None:
    contact_id = bot.lead("chat-1", name="Ann Lee", email="ann@example.com")["contactId"]
    page.goto(f"/console/accounts/{bot.account.client_id}")
    page.get_by_role("link", name="Activity").click()
    page.get_by_label("Account").fill(bot.account.client_id)
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("row").nth(1).get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("createLead done")
    expect(page.locator("main")).to_contain_text("ann@example.com")
    expect(page.get_by_text("firstname", exact=True)).to_be_visible()
    page.get_by_role("link", name=re.compile("Everything for")).click()
    expect(page.get_by_role("listitem").filter(has_text="createLead").first).to_contain_text("done")
    assert contact_id in page.content()


def test_a_lead_waits_for_a_crm_that_is_down_and_is_tried_again(page: Page, bot: Bot) -> None:
    down = bot.crm.fake.fail(503, times=None)
    assert bot.lead("chat-1", name="Ann Lee", email="ann@example.com")["status"] == "queued"
    page.goto(f"/console/activity?account={bot.account.client_id}&state=queued,running")
    page.get_by_role("row").nth(1).get_by_role("link").click()
    tries = page.locator(".tries > li")
    expect(tries.first).to_contain_text("503")
    assert not bot.crm.contacts()
    bot.crm.fake.faults.waiting.remove(down)
    page.get_by_role("button", name="Try again now").click()
    expect(page.get_by_role("status")).to_contain_text("This action will be tried again now.")
    heading = page.get_by_role("heading", level=1)
    for _ in range(_PATIENCE_MS // 500):
        if "done" in heading.inner_text():
            break
        page.wait_for_timeout(500)
        page.reload()
    expect(heading).to_contain_text("createLead done")
    assert [one["email"] for one in bot.crm.contacts().values()] == ["ann@example.com"]
    expect(tries.first).to_contain_text("created")
    expect(tries.last).to_contain_text("503")


def test_many_are_tried_again_by_the_keyboard_alone(page: Page, served: Served, bot: Bot) -> None:
    account = bot.account
    put(served.hub, account, *[(HOUR, HOUR // 2, "dead")] * 3, reason="no such stage")
    page.goto(f"/console/activity?account={account.client_id}&reason=stage")
    # The banner is as old as a few seconds.
    page.wait_for_timeout(3_500)
    page.reload()
    expect(page.locator(".banner")).to_contain_text("dead")
    page.get_by_role("link", name="Try again what is dead").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("3 actions can be tried again")
    page.get_by_role("button", name="Try all of them again now").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("3 actions will be tried again now.")


def test_pages_of_one_thing_fit_a_phone_and_please_the_browser(
    page: Page, served: Served, bot: Bot
) -> None:
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text))
    bot.lead("chat-1", name="x" * 250, email="ann@example.com", message="y" * 3000)
    (dead,) = put(served.hub, bot.account, (HOUR, 0, "dead"), reason="z" * 500)
    page.set_viewport_size({"width": 390, "height": 844})
    of = f"account={bot.account.client_id}"
    listed = f"/console/activity?{of}"
    page.goto(listed)
    first = page.get_by_role("row").nth(1).get_by_role("link").get_attribute("href")
    for path in (listed, first, f"/console/activity/{dead}", f"/console/activity/charts?{of}"):
        assert path
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    page.get_by_text("The same as a table").click()
    expect(page.get_by_role("table")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert complaints == []
