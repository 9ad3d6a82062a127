"""Connecting an account in a real browser: by an operator, and by a customer with a link."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from crmhub.accounts.accounts import Account
from crmhub.operators.accounts.open_account import open_account
from crmhub.secrets import BASE36, token
from tests.adapters.hubspot.hubspot_crm import HubSpotCrm
from tests.clients import TESTS
from tests.console.conftest import Served, signed_in
from tests.console.contrast import faint_in_any_look
from tests.console.screenshots import fill_in_app

pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def crm() -> Iterator[HubSpotCrm]:
    with HubSpotCrm() as crm:
        yield crm


@pytest.fixture
def account(served: Served) -> Account:
    return open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)[0]


def adapter_of(served: Served, account: Account) -> str:
    return served.hub.load_account(account.client_id).connection.adapter


def fill_in(page: Page, crm: HubSpotCrm) -> None:
    """Choose HubSpot, and type what Connect needs: three fields."""
    page.get_by_label("CRM", exact=True).select_option("hubspot")
    fill_in_app(page, crm.url)


def test_an_operator_connects_hubspot(
    page: Page, served: Served, account: Account, crm: HubSpotCrm
) -> None:
    page.goto(f"/console/accounts/{account.client_id}/crm")
    expect(page.get_by_role("button", name="Show fields")).to_be_hidden()
    fill_in(page, crm)
    expect(page.get_by_role("heading", name="HubSpot in place of local")).to_be_visible()
    page.get_by_role("button", name="Connect HubSpot").click()
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("alert")).to_contain_text("not approved in HubSpot")
    assert adapter_of(served, account) == "local"
    # What was typed is still there; secrets are kept, but not shown.
    page.get_by_role("link", name="Back to the CRM settings").click()
    expect(page.get_by_label("API address")).to_have_value(crm.url)
    expect(page.get_by_label("OAuth client secret")).to_have_attribute("placeholder", "entered")
    page.get_by_role("button", name="Connect HubSpot").click()
    page.get_by_role("button", name="Connect app").click()
    expect(page.get_by_role("status")).to_have_text("Connected to HubSpot.")
    assert adapter_of(served, account) == "hubspot"
    # The code in the browser's history serves nobody.
    page.go_back()
    page.wait_for_load_state()
    assert adapter_of(served, account) == "hubspot"


def test_a_customer_connects_by_a_link(
    page: Page, served: Served, account: Account, crm: HubSpotCrm, browser: Browser
) -> None:
    page.goto(f"/console/accounts/{account.client_id}/crm")
    fill_in(page, crm)
    page.get_by_role("button", name="Create a link for a customer").click()
    link = page.get_by_label("Link", exact=True).input_value()
    customer = browser.new_context().new_page()
    customer.goto(link)
    expect(customer.get_by_role("navigation")).to_have_count(0)
    expect(customer.get_by_text(account.name)).to_be_visible()
    press(customer, "button", "Connect HubSpot")
    customer.get_by_role("button", name="Deny").click()
    expect(customer.get_by_role("heading", name="Not connected")).to_be_visible()
    expect(customer.get_by_role("alert")).to_contain_text("not approved in HubSpot")
    assert adapter_of(served, account) == "local"
    press(customer, "link", "Try again")
    press(customer, "button", "Connect HubSpot")
    customer.get_by_role("button", name="Connect app").click()
    expect(customer.get_by_role("heading", name="Connected")).to_be_visible()
    done = f"Leads for {account.name} now go to your HubSpot account {crm.fake.options.portal_id}."
    expect(customer.locator("main")).to_contain_text(done)
    expect(customer.get_by_text("You can close this page.")).to_be_visible()
    assert adapter_of(served, account) == "hubspot"
    customer.goto(link)
    expect(customer.get_by_role("alert")).to_contain_text("used already")
    customer.context.close()


def press(page: Page, role: Literal["button", "link"], name: str) -> None:
    """Click what a person sees: it is visible, large enough, and can be read in each look."""
    control = page.get_by_role(role, name=name, exact=True)
    assert faint_in_any_look(page) == []
    expect(control).to_be_in_viewport(ratio=1)
    box = control.bounding_box()
    assert box is not None
    assert box["height"] >= 24
    control.click()


def test_a_failed_test_marks_the_field_and_keeps_what_was_typed(
    page: Page, account: Account
) -> None:
    page.goto(f"/console/accounts/{account.client_id}/crm")
    page.get_by_label("CRM", exact=True).select_option("hubspot")
    page.get_by_text("More settings").click()
    address = page.get_by_label("API address")
    address.fill("http://127.0.0.1:9")
    page.get_by_text("More settings").click()
    page.get_by_label("Access token", exact=True).fill("pat-1")
    button = page.get_by_role("button", name="Test connection")
    button.focus()
    page.keyboard.press("Enter")
    expect(address).to_be_visible()
    # The keyboard goes on where it was.
    expect(button).to_be_focused()
    expect(address).to_have_attribute("aria-invalid", "true")
    expect(address).to_have_accessible_description(re.compile("Check the API address"))
    expect(page.get_by_label("Access token", exact=True)).to_have_value("pat-1")


def test_without_scripts_a_button_shows_the_fields(
    browser: Browser, served: Served, account: Account
) -> None:
    context = browser.new_context(base_url=served.url, java_script_enabled=False)
    page = signed_in(context, served)
    page.goto(f"/console/accounts/{account.client_id}/crm")
    page.get_by_label("CRM", exact=True).select_option("hubspot")
    page.get_by_role("button", name="Show fields").click()
    expect(page.get_by_role("heading", name="HubSpot in place of local")).to_be_visible()
    page.get_by_label("CRM", exact=True).select_option("local")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Fill in the fields of local first")
    page.get_by_label("CRM", exact=True).select_option("local")
    page.get_by_role("button", name="Show fields").click()
    expect(page.get_by_role("heading", name="local")).to_be_visible()
    context.close()
