"""An import in a real browser, through the server and its worker."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from crmhub.operators.accounts.open_account import open_account
from crmhub.properties.kinds import CONTACTS
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query
from crmhub.secrets import BASE36, token
from tests.clients import TESTS
from tests.console.conftest import Served, signed_in
from tests.console.contrast import faint_texts

pytestmark = pytest.mark.databases("sqlite")


def _file(rows: int, width: int) -> FilePayload:
    note = "x" * width
    lines = [f"p{n}@example.com,{note}" if n % 10 else f"bad,{note}" for n in range(rows)]
    content = "\n".join(["Email,Message", *lines])
    return {"name": "people.csv", "mimeType": "text/csv", "buffer": content.encode()}


def assert_readable(page: Page) -> None:
    """Text stands out by 4.5 to 1, and nothing is wider than a phone."""
    assert faint_texts(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1280, "height": 720})


def test_a_large_file_is_uploaded_tried_imported_and_told(page: Page, served: Served) -> None:
    account, _ = open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)
    page.goto(f"/console/accounts/{account.client_id}/imports")
    # Longer than any other body may be.
    page.get_by_label("File").set_input_files(_file(100, 30_000))
    page.get_by_role("button", name="Upload and check").click()
    expect(page.get_by_text("100 rows in utf-8, separated by comma")).to_be_visible()
    assert_readable(page)
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_text("dry run done")).to_be_visible()
    page.get_by_role("button", name="Import 100 rows").click()
    expect(page.get_by_text("done, with rejected rows")).to_be_visible()
    assert_readable(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the rejected rows").click()
    assert download.value.suggested_filename == "people.refused.csv"
    assert served.hub.records.page(account, CONTACTS, PageRequest(Query())).total == 90


def test_an_import_needs_no_javascript(browser: Browser, served: Served) -> None:
    account, _ = open_account(served.hub, name=f"Acme {token(30, BASE36)}", by=TESTS)
    context = browser.new_context(base_url=served.url, java_script_enabled=False)
    page = signed_in(context, served)
    page.goto(f"/console/accounts/{account.client_id}/imports")
    page.get_by_label("File").set_input_files(_file(2, 3))
    page.get_by_role("button", name="Upload and check").click()
    page.get_by_label("Existing records").select_option("email")
    # A click returns before the next page is there, which would have no links yet.
    with page.expect_navigation():
        page.get_by_role("button", name="Import 2 rows").click()
    while page.get_by_role("link", name="Refresh").count():
        with page.expect_navigation():
            page.get_by_role("link", name="Refresh").click()
    expect(page.get_by_text("done, with rejected rows")).to_be_visible()
    context.close()
