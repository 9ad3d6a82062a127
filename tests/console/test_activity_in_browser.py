"""What became of a lead, in a real browser: from the bot's call to its end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, expect

from crmhub.accounts.accounts import Account
from crmhub.accounts.changes import IssuedIds
from crmhub.database.rows import set_where
from crmhub.database.tables import action
from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.actions.action_queries import Wanted
from crmhub.operators.actions.discard_action import discard
from crmhub.operators.crm import set_crm
from crmhub.operators.crm.set_crm import Crm
from crmhub.secrets import BASE36, token
from tests.adapters.hubspot.hubspot_crm import TOKEN, HubSpotCrm
from tests.clients import TESTS
from tests.console.conftest import Served
from tests.console.past import HOUR, put
from tests.queue.working import hurry

pytestmark = pytest.mark.databases("sqlite")

_PATIENCE_MS = 60_000


class Bot:
    """Calls the helpers of an account that uses the fake HubSpot."""

    def __init__(self, served: Served, crm: HubSpotCrm, account: Account, ids: IssuedIds) -> None:
        self.hub, self.crm, self.account = served.hub, crm, account
        self._lead = f"{served.url}/chatbot/createLead/{ids.generated_id}"
        self._deal = f"{served.url}/crm-api-interface/createDeal/{ids.portal_id}"

    def lead(self, chat: str, **fields: str) -> Any:
        return self._call(self._lead, {"contactToken": chat, **fields})

    def dead_deal(self, **properties: str) -> str:
        """Send a deal while the CRM is down that it will not take; return its action's id."""
        return self.dead_deals(properties)[0]

    def dead_deals(self, *deals: dict[str, str]) -> list[str]:
        contact_id = self.lead("chat-1", name="Ann Lee", email="ann@example.com")["contactId"]
        down = self.crm.fake.fail(503, times=None)
        sent = [
            self._call(self._deal, {"contactId": contact_id, "properties": properties})
            for properties in deals
        ]
        self.crm.fake.faults.waiting.remove(down)
        assert {one["status"] for one in sent} == {"queued"}
        hurry(self.hub, self)
        return [str(one["actionId"]) for one in sent]

    def _call(self, url: str, body: Any) -> Any:
        sent = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urlopen(sent, timeout=60) as answer:
            return json.loads(answer.read())


def reload_until(page: Page, selector: str, words: str) -> None:
    """Load a page again until a part of it says this."""
    found = page.locator(selector).filter(has_text=words)
    for _ in range(_PATIENCE_MS // 100):
        if found.count():
            return
        page.wait_for_timeout(100)
        page.reload()
    expect(page.locator(selector)).to_contain_text(words)


@pytest.fixture
def bot(served: Served) -> Iterator[Bot]:
    account, ids = open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)
    with HubSpotCrm() as crm:
        chosen = Crm("hubspot", {"base_url": crm.url}, TOKEN)
        account = set_crm.set_crm(served.hub, account.client_id, chosen, by=TESTS, test=True)
        yield Bot(served, crm, account, ids)


def choose_account(page: Page, client_id: str) -> None:
    """Choose an account, which is a select on a hub with few accounts."""
    field = page.get_by_label("Account")
    if field.evaluate("it => it.localName") == "select":
        field.select_option(client_id)
    else:
        field.fill(client_id)


def test_failed_deals_of_yesterday_are_found_in_two_clicks(page: Page, bot: Bot) -> None:
    """After they were looked for once, and the filter was saved."""
    ago = round((datetime.now(UTC) - _noon_of_yesterday()).total_seconds() * 1000)
    found, _ = put(bot.hub, bot.account, (ago, ago, "dead"), (ago, ago, "done"))
    rows = {"account_id": bot.account.id, "id": found}
    bot.hub.database.transact(lambda tx: set_where(tx, action, rows, kind="createDeal"))
    page.goto("/console/activity")
    choose_account(page, bot.account.client_id)
    page.get_by_label("Failed").check()
    page.get_by_label("Helper").select_option("createDeal")
    page.get_by_label("Accepted", exact=True).select_option("yesterday")
    page.get_by_role("button", name="Filter").click()
    page.locator("summary", has_text="Save this filter").click()
    name = f"Yesterday {token(10, BASE36)}"
    page.get_by_label("Name of the view").fill(name)
    page.get_by_role("button", name="Save view").click()
    page.goto("/console/")
    page.get_by_role("link", name="Activity", exact=True).click()
    page.get_by_role("link", name=name).click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator(f'tbody a[href$="{found}"]').first).to_be_visible()


def _noon_of_yesterday() -> datetime:
    return (datetime.now(UTC) - timedelta(days=1)).replace(hour=12)


def test_a_list_has_boxes_and_their_buttons_for_what_can_be_selected(page: Page, bot: Bot) -> None:
    button = page.get_by_role("button", name="Retry selected…")
    bot.lead("chat-1", name="Ann Lee", email="ann@example.com")
    page.goto(f"/console/activity?account={bot.account.client_id}")
    expect(page.get_by_role("columnheader").first).to_have_text("Person")
    expect(button).to_be_hidden()
    put(bot.hub, bot.account, (2 * HOUR, HOUR, "dead"))
    page.reload()
    expect(page.get_by_role("checkbox", name="Select all on this page")).to_be_visible()
    expect(button).to_be_visible()


def test_a_call_of_a_bot_is_followed_to_the_crm_and_to_its_person(page: Page, bot: Bot) -> None:
    contact_id = bot.lead("chat-1", name="Ann Lee", email="ann@example.com")["contactId"]
    page.goto(f"/console/accounts/{bot.account.client_id}")
    page.get_by_role("link", name="Activity").click()
    choose_account(page, bot.account.client_id)
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("row").nth(1).get_by_role("link", name="createLead").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("createLead of Ann Lee done")
    expect(page.locator("main")).to_contain_text("ann@example.com")
    expect(page.get_by_text("firstname", exact=True)).to_be_visible()
    page.get_by_role("link", name=re.compile("All actions of")).click()
    expect(page.get_by_role("listitem").filter(has_text="createLead").first).to_contain_text("done")
    assert contact_id in page.content()


def test_a_lead_waits_for_a_crm_that_is_down_and_is_tried_again(page: Page, bot: Bot) -> None:
    down = bot.crm.fake.fail(503, times=None)
    assert bot.lead("chat-1", name="Ann Lee", email="ann@example.com")["status"] == "queued"
    page.goto(f"/console/activity?account={bot.account.client_id}&state=queued,running")
    page.get_by_role("row").nth(1).get_by_role("link", name="createLead").click()
    tries = page.locator(".tries > li")
    expect(tries.first).to_contain_text("503")
    assert not bot.crm.contacts()
    bot.crm.fake.faults.waiting.remove(down)
    page.get_by_role("button", name="Retry now").click()
    expect(page.get_by_role("status")).to_contain_text("This action will be retried now.")
    reload_until(page, "h1", "createLead of Ann Lee done")
    assert [one["email"] for one in bot.crm.contacts().values()] == ["ann@example.com"]
    expect(tries.first).to_contain_text("created")
    expect(tries.last).to_contain_text("503")


def test_a_deal_with_a_wrong_stage_is_corrected_and_retried(page: Page, bot: Bot) -> None:
    id = bot.dead_deal(dealname="Big", dealstage="nowhere")
    page.goto(f"/console/activity/{id}")
    reload_until(page, "h1", "createDeal of Ann Lee failed")
    expect(page.locator("main")).to_contain_text(
        "Failed permanently. Fix the cause and retry, or discard it."
    )
    page.get_by_label("dealstage").fill("closedwon")
    page.get_by_role("button", name="Correct and retry").click()
    expect(page.get_by_role("status")).to_have_text("Corrected: this action will be retried now.")
    reload_until(page, "h1", "createDeal of Ann Lee done")
    assert [one["dealstage"] for one in bot.crm.fake.records("deals").values()] == ["closedwon"]
    former = page.locator("details").filter(has_text="corrected it")
    former.locator("summary").click()
    expect(former).to_contain_text("nowhere")


def test_what_nobody_needs_is_discarded_and_the_banner_goes(
    page: Page, served: Served, bot: Bot
) -> None:
    # What other tests have left stands in the banner, too.
    discard(served.hub.database, Wanted(), reason="of other tests", by=TESTS)
    id = bot.dead_deal(dealname="Big", dealstage="nowhere")
    page.goto(f"/console/activity/{id}")
    reload_until(page, ".banner", bot.account.name)
    page.locator(".banner").get_by_role("link", name=bot.account.name).click()
    page.get_by_role("row").nth(1).get_by_role("link", name="createDeal").click()
    page.locator("summary").get_by_text("Discard").click()
    page.get_by_label("Reason").fill("sent by mistake")
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_role("status")).to_have_text("This action was discarded.")
    expect(page.get_by_role("heading", level=1)).to_contain_text("createDeal of Ann Lee discarded")
    expect(page.locator("main")).to_contain_text("sent by mistake")
    expect(page.get_by_text("need attention")).to_have_count(0)
    assert bot.crm.fake.records("deals") == {}


def test_many_are_tried_again_by_the_keyboard_alone(page: Page, served: Served, bot: Bot) -> None:
    account = bot.account
    put(served.hub, account, *[(HOUR, HOUR // 2, "dead")] * 3, reason="no such stage")
    page.goto(f"/console/activity?account={account.client_id}&reason=stage")
    reload_until(page, ".banner", "failed")
    page.get_by_role("link", name="Retry failed").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("3 actions: 3 failed")
    page.get_by_role("button", name="Retry all of them now").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("3 actions will be retried now.")


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
    first = page.get_by_role("row").nth(1).get_by_role("link").first.get_attribute("href")
    for path in (listed, first, f"/console/activity/{dead}", f"/console/activity/charts?{of}"):
        assert path
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    expect(page.get_by_role("table")).to_be_visible()
    assert complaints == []
