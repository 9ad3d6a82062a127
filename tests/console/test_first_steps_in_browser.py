"""A newcomer follows the checklist alone: from the first user to a lead in the fake HubSpot."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

from playwright.sync_api import Browser, Page, expect

from tests.adapters.hubspot.hubspot_crm import TOKEN, HubSpotCrm
from tests.cli.conftest import CRMHUB, environment
from tests.consoles import PASSWORD
from tests.server.servers import serving


def _follow(page: Page, link: str, done: int) -> None:
    """Open the overview, which says how many steps are done, and follow the link of the next."""
    page.goto("/console")
    expect(page.get_by_role("heading", name=f"First steps: {done} of 5 done")).to_be_visible()
    page.locator(".steps a.btn-primary").get_by_text(link, exact=True).click()


def test_a_newcomer_follows_the_checklist_to_a_lead_in_hubspot(
    browser: Browser, tmp_path: Path
) -> None:
    settings = {"egress_allow": "127.0.0.0/8"}
    with HubSpotCrm() as crm:
        with serving(tmp_path, "--workers", "1", **settings) as server:
            demo = subprocess.run(
                [*CRMHUB, "demo", "--port", str(server.port)],
                cwd=tmp_path,
                env=environment(**settings),
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            link = re.search(r"^Console +(http\S+)$", demo, re.MULTILINE)
            assert link, demo
            page = browser.new_page(base_url=f"http://127.0.0.1:{server.port}")
            page.goto(link[1])
            page.get_by_label("Email").fill("new@example.com")
            page.locator("#f-password").fill(PASSWORD)
            page.locator("#f-again").fill(PASSWORD)
            page.get_by_role("button", name="Create user and sign in").click()

            _follow(page, "Connect a CRM", 1)
            page.get_by_label("CRM", exact=True).select_option("hubspot")
            page.get_by_text("More settings").click()
            page.get_by_label("API address").fill(crm.url)
            page.get_by_label("Access token", exact=True).fill(TOKEN["access_token"])
            page.locator(".buttons").get_by_role("button", name="Save", exact=True).click()
            expect(page.get_by_role("status").first).to_be_visible()

            _follow(page, "Send a test call", 2)
            page.get_by_role("button", name="Send test call").click()
            expect(page.locator("#test-answer")).to_contain_text("created")
            assert len(crm.contacts()) == 1

            _follow(page, "Webhook URLs", 3)
            lead = {
                "contactToken": "chat-1",
                "name": "Katherine Johnson",
                "email": "kj@example.com",
            }
            address = page.locator("#c-url-createLead").input_value()
            with urlopen(Request(address, json.dumps(lead).encode())) as answer:
                assert json.load(answer)["status"] == "created"
            assert len(crm.contacts()) == 2

            _follow(page, "Set up alerts", 4)
            page.get_by_role("main").get_by_role("link", name="Set up alerts").click()
            expect(page).to_have_url(re.compile("/docs/operator/alerts/"))
            expect(page.get_by_role("heading", level=1)).to_contain_text("Alerts")
            cookies = page.context.cookies()
            page.close()
        settings |= {"alert_url": "http://127.0.0.1:9/", "alert_secret": "whsec_" + "a" * 40}
        with serving(tmp_path, "--workers", "1", **settings) as server:
            page = browser.new_page(base_url=f"http://127.0.0.1:{server.port}")
            page.context.add_cookies(cookies)
            page.goto("/console")
            expect(page.get_by_role("heading", name="Overview")).to_be_visible()
            expect(page.get_by_role("heading", name="First steps")).to_have_count(0)
            expect(page.get_by_text("Nothing needs attention.")).to_be_visible()
            page.close()
