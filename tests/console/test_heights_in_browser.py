"""Pages in the middle of a task are at most 1,500 px tall at 1280 px, below two alerts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import FilePayload, Page, expect

from crmhub.accounts.accounts import Account
from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.crm import field_map_reading, map_fields, set_crm
from crmhub.operators.crm.set_crm import Crm
from crmhub.secrets import BASE36, token
from tests.adapters.hubspot.hubspot_crm import TOKEN, HubSpotCrm
from tests.clients import TESTS
from tests.console import screenshots
from tests.console.conftest import Served
from tests.console.past import HOUR, put

pytestmark = pytest.mark.databases("sqlite")

_TWO_ALERTS = 90
_HEIGHT = """() => document.documentElement.scrollHeight
  - (document.querySelector(".banner")?.getBoundingClientRect().height ?? 0)"""


@pytest.fixture
def crm() -> Iterator[HubSpotCrm]:
    with HubSpotCrm() as crm:
        yield crm


@pytest.fixture
def account(served: Served, crm: HubSpotCrm) -> Account:
    """An account on HubSpot, with rules in its field map."""
    hub = served.hub
    account, _ = open_account(hub, name=f"Tall {token(30, BASE36)}", by=TESTS)
    connection = Crm("hubspot", {"base_url": crm.url}, TOKEN)
    set_crm.set_crm(hub, account.client_id, connection, by=TESTS, test=True)
    rules = field_map_reading.read(screenshots.RULES)
    map_fields.set_field_map(hub, account.client_id, rules, by=TESTS, test=False)
    return hub.load_account(account.client_id)


def check_height(page: Page) -> None:
    """Fail if the page is too tall; how many alerts the shared hub has does not matter."""
    assert page.evaluate(_HEIGHT) + _TWO_ALERTS <= screenshots.TALLEST, page.url


@pytest.fixture
def wide(page: Page) -> Page:
    page.set_viewport_size({"width": 1280, "height": 800})
    return page


def test_the_list_of_actions_with_open_filters(
    wide: Page, served: Served, account: Account
) -> None:
    past = [(2 * HOUR, HOUR, "dead")] * 16
    put(served.hub, account, *past, reason="dealstage: there is no such stage")
    wide.goto(f"/console/activity?account={account.client_id}&reason=stage&olderThan=1h")
    wide.get_by_label("Reason contains").wait_for(state="visible")
    assert wide.locator("tbody tr").count() == 15
    check_height(wide)


def test_a_failed_action(wide: Page, served: Served, account: Account) -> None:
    names = screenshots.stuck(served.hub, account)
    wide.goto(f"/console/activity/{names['dead']}")
    wide.get_by_role("button", name="Retry now").wait_for()
    check_height(wide)


def test_the_form_of_a_crm_and_a_refused_connection(
    wide: Page, served: Served, crm: HubSpotCrm, account: Account
) -> None:
    wide.goto(f"/console/accounts/{account.client_id}/crm")
    check_height(wide)
    local, _ = open_account(served.hub, name=f"Refused {token(30, BASE36)}", by=TESTS)
    screenshots.refused_crm(wide, local.client_id, crm.url)
    check_height(wide)


def test_the_copy_of_a_crm_before_it_begins_and_then(
    wide: Page, served: Served, account: Account
) -> None:
    wide.goto(f"/console/accounts/{account.client_id}/crm")
    wide.get_by_role("link", name="Copy HubSpot into the hub").click()
    uncheck = wide.get_by_role("button", name="Uncheck all").first
    uncheck.wait_for()
    check_height(wide)
    uncheck.click()
    expect(wide.get_by_label("Job Title")).not_to_be_checked()
    wide.get_by_role("button", name="Copy HubSpot into the hub").click()
    wide.get_by_text("A worker loads the copy of HubSpot.").wait_for()
    expect(wide.get_by_label("Access token").first).to_be_hidden()
    check_height(wide)
    chosen = served.hub.load_account(account.client_id).switches.copied_properties
    assert "email" in chosen
    assert "jobtitle" not in chosen
    wide.locator("summary", has_text="Switch off the copy").click()
    wide.get_by_role("button", name="Delete the copy").click()
    wide.get_by_text("A worker deletes the copy.").wait_for()


def test_a_field_map_that_is_refused_or_previewed(wide: Page, account: Account) -> None:
    screenshots.refused_field_map(wide, account.client_id)
    check_height(wide)
    screenshots.previewed_field_map(wide, account.client_id)
    check_height(wide)


def test_an_import_of_eight_columns(wide: Page, account: Account) -> None:
    content = screenshots.EXPORT.encode()
    file: FilePayload = {"name": "hubspot.csv", "mimeType": "text/csv", "buffer": content}
    wide.goto(f"/console/accounts/{account.client_id}/imports")
    wide.get_by_label("File").set_input_files(file)
    wide.get_by_role("button", name="Upload and check").click()
    wide.get_by_role("button", name="Dry run").wait_for()
    check_height(wide)
