"""The first hour of a newcomer: from what `make run` prints to a lead in HubSpot."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Locator, expect

from tests.adapters.hubspot.hubspot_crm import OAUTH, HubSpotCrm
from tests.cli.conftest import CRMHUB, environment
from tests.consoles import PASSWORD
from tests.server.servers import serving

_MOST_CLICKS, _MOST_FIELDS = 5, 3


class _Newcomer:
    """Counts what a person does in the browser."""

    def __init__(self) -> None:
        self.clicks = self.fields = 0

    def click(self, place: Locator) -> None:
        self.clicks += 1
        place.click()

    def type(self, place: Locator, text: str) -> None:
        self.fields += 1
        place.fill(text)


def test_a_newcomer_connects_hubspot_and_sends_a_lead(
    browser: Browser, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    settings = {"egress_allow": "127.0.0.0/8"}
    began = time.monotonic()
    with HubSpotCrm() as crm, serving(tmp_path, "--workers", "1", **settings) as server:
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
        page, person = browser.new_page(), _Newcomer()
        page.goto(link[1])
        page.get_by_label("Email").fill("new@example.com")
        page.locator("#f-password").fill(PASSWORD)
        page.locator("#f-again").fill(PASSWORD)
        page.get_by_role("button", name="Create user and sign in").click()

        person.click(page.get_by_role("link", name="Demo").first)
        person.click(page.get_by_role("link", name="CRM", exact=True))
        page.get_by_label("CRM", exact=True).select_option("hubspot")
        # The address of the fake; with HubSpot itself nobody opens these settings.
        person.click(page.get_by_text("More settings"))
        person.type(page.get_by_label("API address"), crm.url)
        person.type(page.get_by_label("OAuth client id"), OAUTH["client_id"])
        person.type(page.get_by_label("OAuth client secret"), OAUTH["client_secret"])
        person.click(page.get_by_role("button", name="Connect HubSpot"))
        person.click(page.get_by_role("button", name="Connect app"))
        expect(page.get_by_role("status")).to_have_text("Connected to HubSpot.")

        [export] = re.findall(r"^export (.*)$", demo, re.MULTILINE)
        printed = dict(word.split("=", 1) for word in shlex.split(export))
        [line] = [one for one in demo.splitlines() if "createLead" in one]
        answer = subprocess.run(
            ["bash", "-c", line], env={**os.environ, **printed}, capture_output=True, text=True
        )
        assert json.loads(answer.stdout)["status"] == "created", answer.stdout
        assert len(crm.contacts()) == 1
        page.close()
    record_property("first hour", f"{time.monotonic() - began:.1f} s")
    assert person.clicks <= _MOST_CLICKS
    assert person.fields <= _MOST_FIELDS
