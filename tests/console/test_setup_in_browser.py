"""The first page and the one-time link in a real browser, up to the landing page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, expect

from crmhub.database.connection import now_ms
from crmhub.operators.users import setup_link
from tests.clients import TESTS
from tests.console.conftest import Served
from tests.console.contrast import faint_texts
from tests.consoles import PASSWORD, unused_email

pytestmark = pytest.mark.databases("sqlite")


def test_a_newcomer_creates_their_user_with_the_keyboard_and_lands_in_the_console(
    context: BrowserContext, served: Served
) -> None:
    link = setup_link.issue(served.hub, expires_at=now_ms() + 60_000, by=TESTS).path
    page, email = context.new_page(), unused_email()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    for path, heading in (("/", "This is crmhub"), (link, "Create your user")):
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(path)
            expect(page.get_by_role("heading", level=1)).to_have_text(heading)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert faint_texts(page) == []
    for text in (email, PASSWORD, PASSWORD):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=email)).to_be_visible()
    expect(page).to_have_url(re.compile("/console"))
    page.goto(link)
    expect(page.get_by_role("heading", level=1)).to_have_text("This link no longer works")
    # The browser reports the status of the last page.
    assert [text for text in complaints if "404" not in text] == []
