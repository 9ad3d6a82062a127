"""Why leads fail, in a real browser: what is found in two clicks, and mended in five."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.actions.action_queries import Wanted
from crmhub.operators.actions.discard_action import discard
from crmhub.operators.crm import set_crm
from crmhub.operators.crm.set_crm import Crm
from crmhub.secrets import BASE36, token
from tests.adapters.hubspot.hubspot_crm import TOKEN, HubSpotCrm
from tests.clients import TESTS
from tests.console.conftest import Served
from tests.console.test_activity_in_browser import Bot
from tests.queue.working import change, hurry, soon, states

pytestmark = pytest.mark.databases("sqlite")


class Clicks:
    """Clicks in a page, and counts."""

    def __init__(self, page: Page) -> None:
        self.page, self.count = page, 0

    def on(self, role: str, name: str) -> None:
        self.count += 1
        self.page.get_by_role(role, name=name).first.click()  # type: ignore[arg-type]


@pytest.fixture
def bots(served: Served) -> Iterator[list[Bot]]:
    """The bots of four accounts, of which 15 deals have failed for one wrong stage."""
    with HubSpotCrm() as crm:
        made = []
        for count in (4, 4, 4, 3):
            account, ids = open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)
            chosen = Crm("hubspot", {"base_url": crm.url}, TOKEN)
            account = set_crm.set_crm(served.hub, account.client_id, chosen, by=TESTS, test=True)
            bot = Bot(served, crm, account, ids)
            deals = [{"dealname": f"Deal {n}", "dealstage": "wrong"} for n in range(count)]
            bot.dead_deals(*deals)
            made.append(bot)
        for bot in made:
            soon(lambda bot=bot: _are_dead(bot))  # type: ignore[misc]
        yield made
        for bot in made:
            # No other test finds them.
            discard(served.hub.database, Wanted(account=bot.account), reason="-", by=TESTS)


def _are_dead(bot: Bot) -> bool:
    change(bot.hub, bot, "until = 1", "outage")  # type: ignore[arg-type]
    hurry(bot.hub, bot)  # type: ignore[arg-type]
    return set(states(bot.hub, bot)[1:]) == {"dead"}  # type: ignore[arg-type]


def test_deals_with_one_wrong_stage_in_four_accounts_are_mended_at_once(
    page: Page, bots: list[Bot]
) -> None:
    clicks = Clicks(page)
    page.goto("/console")
    clicks.on("link", "Why leads fail")
    clicks.on("link", "dealstage: the CRM has no such stage")
    expect(page.locator(".facts")).to_contain_text("15 failed")
    page.get_by_label("New value for all").select_option("closedwon")
    clicks.on("button", "Forecast")
    expect(page.get_by_role("status")).to_contain_text("Forecast: 15 of 15 will succeed.")
    # The forecast stands on the page, on which the choice has stayed.
    expect(page.get_by_label("New value for all")).to_have_value("closedwon")
    clicks.on("button", "Correct 15 and retry")
    expect(page.get_by_role("heading", level=1)).to_have_text("Corrected 15 of 15")
    # It is followed until all are stored, without a click.
    expect(page.locator("#fix")).to_contain_text("Stored in HubSpot15")
    assert clicks.count <= 5
    for bot in bots:
        assert set(states(bot.hub, bot)) == {"done"}  # type: ignore[arg-type]


def test_failed_deals_of_yesterday_are_found_in_two_clicks(page: Page, bots: list[Bot]) -> None:
    bot, day_ms = bots[0], 86_400_000
    set_back = f"finished_at = finished_at - {day_ms} where state = 'dead'"
    assert change(bot.hub, bot, set_back) == 4  # type: ignore[arg-type]
    clicks = Clicks(page)
    page.goto("/console")
    clicks.on("link", "Why leads fail")
    clicks.on("link", "Yesterday")
    row = page.get_by_role("row").filter(has_text="createDeal")
    expect(row).to_contain_text("dealstage: the CRM has no such stage")
    expect(row).to_contain_text("4 failed")
    assert clicks.count == 2


def test_a_cause_is_mended_with_the_keyboard(page: Page, bots: list[Bot]) -> None:
    page.goto("/console/activity/causes")
    link = page.get_by_role("link", name="dealstage: the CRM has no such stage")
    link.focus()
    page.keyboard.press("Enter")
    page.get_by_label("New value for all").focus()
    page.get_by_label("New value for all").select_option("closedwon")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Correct 15 and retry")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Corrected 15 of 15")
