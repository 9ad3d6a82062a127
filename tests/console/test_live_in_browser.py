"""What pages show without being loaded again, and times as the reader's clock has them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from crmhub.accounts.accounts import Account
from crmhub.operators.accounts.open_account import open_account
from crmhub.secrets import BASE36, token
from tests.clients import TESTS
from tests.console.conftest import Served, signed_in
from tests.console.past import HOUR, put

pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def account(served: Served) -> Account:
    account, _ = open_account(served.hub, name=f"Live {token(30, BASE36)}", by=TESTS)
    return account


def rows(page: Page) -> Locator:
    return page.locator(".table-actions tbody tr")


def test_a_list_updates_itself_and_keeps_what_is_checked(
    page: Page, served: Served, account: Account
) -> None:
    put(served.hub, account, (HOUR, HOUR // 2, "dead"))
    page.goto(f"/console/activity?account={account.client_id}")
    box = rows(page).first.get_by_role("checkbox")
    box.check()
    page.get_by_role("heading", level=1).click()
    page.evaluate("document.activeElement.blur()")
    put(served.hub, account, (HOUR // 4, 0, "dead"))
    expect(rows(page)).to_have_count(2)
    expect(rows(page).last.get_by_role("checkbox")).to_be_checked()
    expect(rows(page).first.get_by_role("checkbox")).not_to_be_checked()


def test_updates_stop_when_they_are_paused(page: Page, served: Served, account: Account) -> None:
    put(served.hub, account, (HOUR, HOUR // 2, "dead"))
    page.clock.install()
    page.goto(f"/console/activity?account={account.client_id}")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    of_rows = "/activity/rows"
    page.get_by_role("button", name="Pause updates").click()
    page.clock.run_for(60_000)
    assert not [url for url in asked if of_rows in url]
    page.get_by_role("button", name="Resume updates").click()
    page.evaluate("document.activeElement.blur()")
    with page.expect_request(lambda request: of_rows in request.url):
        page.clock.run_for(10_000)


def test_all_of_a_page_are_selected_and_retried(
    page: Page, served: Served, account: Account
) -> None:
    put(served.hub, account, *[(HOUR, HOUR // 2, "dead")] * 3)
    page.goto(f"/console/activity?account={account.client_id}")
    page.get_by_label("Select all on this page").check()
    rows(page).last.get_by_role("checkbox").uncheck()
    page.get_by_role("button", name="Retry selected").click()
    expect(page.locator("main")).to_contain_text("2 actions: 2 failed")
    page.get_by_role("button", name="Retry all of them now").click()
    expect(page.get_by_role("status")).to_have_text("2 actions will be retried now.")


def test_times_are_relative_and_local_and_tell_utc(
    browser: Browser, served: Served, account: Account
) -> None:
    put(served.hub, account, (3 * HOUR, HOUR, "dead"))
    context = browser.new_context(base_url=served.url, timezone_id="Asia/Tokyo", locale="en-GB")
    page = signed_in(context, served)
    page.goto(f"/console/activity?account={account.client_id}")
    time = rows(page).first.locator("time").first
    expect(time).to_contain_text("3 hr. ago")
    at = time.get_attribute("datetime")
    here = page.evaluate("at => new Date(at).getHours()", at)
    expect(time.locator(".time-here")).to_contain_text(f"{here}:")
    assert (int(at[11:13]) + 9) % 24 == here
    assert time.get_attribute("title") == f"{at[:10]} {at[11:23]} UTC"
    context.close()


@pytest.mark.parametrize(
    ("locale", "ago", "pause", "select"),
    [
        ("es-MX", "hace 3 h", "Pausar actualizaciones", "Seleccionar todo en esta página"),
        ("pt-BR", "há 3 h", "Pausar atualizações", "Selecionar tudo nesta página"),
    ],
)
def test_the_script_speaks_the_language_of_the_page(
    browser: Browser,
    served: Served,
    account: Account,
    locale: str,
    ago: str,
    pause: str,
    select: str,
) -> None:
    put(served.hub, account, (3 * HOUR, HOUR, "dead"))
    context = browser.new_context(base_url=served.url, locale=locale)
    page = signed_in(context, served)
    page.goto(f"/console/activity?account={account.client_id}")
    expect(rows(page).first.locator("time").first).to_contain_text(ago)
    expect(page.get_by_role("button", name=pause)).to_be_visible()
    expect(page.get_by_label(select)).to_be_visible()
    context.close()


def test_a_test_call_is_answered_on_the_page(page: Page, account: Account) -> None:
    page.goto(f"/console/accounts/{account.client_id}/bots")
    button = page.get_by_role("button", name="Send test call")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#test-answer")).to_contain_text('"status": "created"')
    expect(button).to_be_focused()
    page.get_by_role("link", name="See what happened").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("createLead of Crmhub Test")
