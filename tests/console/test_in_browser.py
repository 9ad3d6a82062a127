"""The console in a real browser: what a person does, from one page to the next."""

from __future__ import annotations

import re

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, expect

from crmhub.secrets import BASE36, token
from tests.console.conftest import Served
from tests.consoles import PASSWORD, new_user


def test_one_signs_in_opens_an_account_and_signs_out(
    context: BrowserContext, served: Served
) -> None:
    email, name = new_user(served.hub), f"Acme {token(30, BASE36)}"
    page = context.new_page()
    page.goto("/console/accounts/new")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill("not the right one")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("The email or the password is wrong.")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Open the account").click()
    key = page.get_by_label("API key").input_value()
    caller = served.hub.directory.by_any_key(key)
    assert caller is not None
    assert caller.account.name == name
    page.get_by_role("link", name="I have copied them").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("status")).to_have_text("You are signed out.")
    page.go_back()
    expect(page).to_have_url(re.compile("/console/sign-in"))


def test_the_browser_has_nothing_to_complain_of(page: Page) -> None:
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        complaints.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in ("/console/accounts", "/console/accounts/new"):
        page.goto(path)
    origin = page.url.partition("/console")[0]
    assert complaints == []
    assert [url for url in asked if not url.startswith((f"{origin}/", "data:"))] == []


def test_the_keyboard_alone_is_enough(page: Page) -> None:
    page.goto("/console/accounts")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_a_value_is_copied_by_its_button(page: Page, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/console/accounts/new")
    page.get_by_label("Name").fill(f"Copied {token(30, BASE36)}")
    page.keyboard.press("Enter")
    key = page.get_by_label("API key")
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == key.input_value()
