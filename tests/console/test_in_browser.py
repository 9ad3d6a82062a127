"""The console in a real browser: what a person does, from one page to the next."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.teams import change_team
from crmhub.secrets import BASE36, token
from tests.adapters.hubspot.hubspot_crm import HubSpotCrm
from tests.clients import TESTS
from tests.console.conftest import Served, signed_in
from tests.console.screenshots import PAGES, TALLEST
from tests.consoles import PASSWORD, new_user

pytestmark = pytest.mark.databases("sqlite")


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
    expect(page.get_by_label("Password")).to_be_focused()
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create account").click()
    key = page.get_by_label("API key").input_value()
    caller = served.hub.directory.by_api_key(key)
    assert caller is not None
    assert caller.account.name == name
    page.get_by_role("link", name="Continue to account").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("status")).to_have_text("You are signed out.")
    page.go_back()
    expect(page).to_have_url(re.compile("/console/sign-in"))


def test_a_double_click_shows_the_one_key_it_makes(page: Page, served: Served) -> None:
    account, _ = open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)
    page.goto(f"/console/accounts/{account.client_id}/keys")
    page.get_by_label("Name").fill("Import job")
    page.get_by_role("button", name="Create key").dblclick()
    key = page.get_by_label("API key").input_value()
    assert served.hub.directory.by_api_key(key) is not None
    page.get_by_role("link", name="Continue to keys").click()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_no_page_is_too_tall_or_wider_than_a_phone_or_complained_of(
    page: Page, served: Served
) -> None:
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        # Its advice on forms with several passwords is none.
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    name = "Donaudampfschifffahrtsgesellschaftskapitänsmützenfabrik & Co. KG"
    account, _ = open_account(served.hub, name=name, by=TESTS)
    members = [f"{name} <ana@example.com>", "Ben <ben@example.com>"]
    change_team.set_team(served.hub, account.client_id, "Sales", members=members, by=TESTS)
    for shown, path in PAGES:
        page.set_viewport_size({"width": 1280, "height": 720})
        names = dict.fromkeys(("acme", "local", "copied"), account.client_id)
        page.goto(f"/console{path.format(**names)}")
        # How tall lists are follows from what other tests have left in them.
        if shown.startswith("account-"):
            assert page.evaluate("document.documentElement.scrollHeight") <= TALLEST, path
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        # Of this one the browser tells its status.
        assert complaints == [] or shown == "error"
    origin = page.url.partition("/console")[0]
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


def test_a_crm_is_chosen_refused_saved_and_left_again(page: Page, served: Served) -> None:
    account, _ = open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)
    with HubSpotCrm() as crm:
        page.goto(f"/console/accounts/{account.client_id}")
        page.get_by_role("link", name="CRM settings and connection test").click()
        page.get_by_label("CRM", exact=True).select_option("HubSpot")
        page.get_by_text("More settings").click()
        page.get_by_label("API address").fill(crm.url)
        page.get_by_label("Access token").fill("pat-wrong")
        page.get_by_role("button", name="Test connection").click()
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("HubSpot refuses the access token")
        # What was typed is still there.
        expect(page.get_by_label("Access token")).to_have_value("pat-wrong")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(alert).to_have_text("Not saved. Correct the marked fields.")
        expect(page.get_by_label("Access token")).to_have_value("")
        page.get_by_label("Access token").fill(crm.fake.token)
        page.get_by_role("button", name="Test connection").click()
        expect(page.get_by_role("status")).to_contain_text("Connection test passed.")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("status")).to_have_text("Saved. Connection test passed.")
        assert served.hub.load_account(account.client_id).connection.adapter == "hubspot"
        page.get_by_label("CRM", exact=True).select_option("local")
        expect(page.get_by_role("heading", name="local in place of HubSpot")).to_be_visible()
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("heading", level=2)).to_have_text("local")
        assert served.hub.load_account(account.client_id).connection.adapter == "local"


def test_a_connection_is_tested_without_javascript(browser: Browser, served: Served) -> None:
    account, _ = open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)
    context = browser.new_context(base_url=served.url, java_script_enabled=False)
    page = signed_in(context, served)
    page.goto(f"/console/accounts/{account.client_id}/crm?adapter=hubspot")
    page.get_by_text("More settings").click()
    page.get_by_label("API address").fill("http://127.0.0.1:9")
    page.get_by_label("Access token").fill("pat-wrong")
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_role("alert")).to_contain_text("Check the API address")
    expect(page.get_by_label("API address")).to_have_value("http://127.0.0.1:9")
    context.close()


def test_a_field_map_is_typed_refused_tried_and_saved(page: Page, served: Served) -> None:
    account, _ = open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)
    page.goto(f"/console/accounts/{account.client_id}")
    page.get_by_role("link", name="Field map").click()
    page.get_by_role("button", name="Add rule for deals").click()
    expect(page.get_by_label("Bot's property, deals, rule 1")).to_be_focused()
    page.keyboard.type("topic")
    page.get_by_label("crmhub property, deals, rule 1").fill("dealnam")
    page.get_by_label("Values, deals, rule 1").fill("a = b\nc = d")
    # Enter saves.
    page.get_by_label("crmhub property, deals, rule 1").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Nothing was saved. Correct 1 error:")
    wrong = page.get_by_label("crmhub property, deals, rule 1")
    expect(wrong).to_have_accessible_description(re.compile("did you mean dealname"))
    expect(page.get_by_label("Values, deals, rule 1")).to_have_value("a = b\nc = d")
    wrong.fill("dealname")
    page.get_by_role("button", name="Add rule for deals").click()
    page.get_by_label("Bot's property, deals, rule 2").fill("source")
    page.get_by_label("crmhub property, deals, rule 2").fill("description")
    page.get_by_label("Constant, deals, rule 2").fill("chatbot")
    page.get_by_label("When the constant is sent, deals, rule 2").select_option("if empty")
    page.get_by_text("Try it").click()
    page.get_by_label("Helper").select_option("createDeal")
    page.get_by_label("Properties of the call").fill("topic = c")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("row", name="dealname d topic c bot")).to_be_in_viewport()
    expect(page.get_by_role("row", name="description chatbot source")).to_be_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Saved, and checked against the CRM.")
    saved = served.hub.load_account(account.client_id).connection.field_map
    assert saved.plain()["deals"] == {
        "topic": {"to": "dealname", "values": {"a": "b", "c": "d"}},
        "source": {"to": "description", "constant": "chatbot", "set": "empty"},
    }


def test_a_rule_is_added_without_javascript(browser: Browser, served: Served) -> None:
    account, _ = open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)
    context = browser.new_context(base_url=served.url, java_script_enabled=False)
    page = signed_in(context, served)
    page.goto(f"/console/accounts/{account.client_id}/field-map")
    page.get_by_role("button", name="Add rule for contacts").click()
    expect(page.get_by_label("Bot's property, contacts, rule 1")).to_be_focused()
    page.keyboard.type("position")
    page.get_by_role("button", name="Add rule for contacts").click()
    page.get_by_label("crmhub property, contacts, rule 1").fill("jobtitle")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Saved, and checked against the CRM.")
    # The second rule was left empty.
    line = page.locator(".rule > summary")
    expect(line).to_have_text(re.compile(r"position\s+→\s+jobtitle\s+Job title"))
    context.close()


def test_a_long_name_pushes_nothing_out_of_the_list(page: Page, served: Served) -> None:
    account, _ = open_account(
        served.hub, name="Donaudampfschiff" * 12, client_id=f"l{token(300, BASE36)}", by=TESTS
    )
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(f"/console/accounts?q={account.client_id}")
        expect(page.get_by_role("link", name=account.name)).to_be_visible()
        wider = page.locator(".panel-table").evaluate("it => it.scrollWidth - it.clientWidth")
        assert wider == 0
