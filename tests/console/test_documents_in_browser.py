"""The documents in a browser: their policy lets the search work, and everybody can use them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from crmhub.api import documents

pytestmark = pytest.mark.databases("sqlite")
# Pages with code in each language, and in a link: in the dark, it is colours that differ.
_DARK = [
    "/docs/",
    "/docs/integrator/paging/",
    "/docs/integrator/python/",
    "/docs/builders/botpress/",
    "/docs/builders/n8n/",
    "/docs/operator/backup/",
    "/docs/operator/proxy/",
    "/docs/adapters/",
]
_WIDE_TABLES = ["/docs/bot-builder/", "/docs/scaling/", "/docs/operator/metrics/"]
_REFERENCE = ["/docs/api/public/", "/docs/api/admin/"]


@pytest.fixture
def reader(context: BrowserContext) -> Page:
    """A page of a browser that fails the test when something is wrong with what it loads."""
    page = context.new_page()
    page.on("console", lambda message: _fail(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: _fail(error.message))
    return page


def _fail(text: str) -> None:
    raise AssertionError(text)


def test_a_page_is_found_by_a_word(reader: Page) -> None:
    reader.goto("/docs/")
    search = reader.get_by_role("textbox", name="Search")
    search.click()
    search.press_sequentially("webhook secret")
    reader.locator(".md-search-result__link").first.click()
    expect(reader).to_have_url(re.compile(r"/docs/\S+"))
    expect(reader.get_by_role("heading", level=1)).to_be_visible()


def test_colours_follow_the_system(reader: Page) -> None:
    reader.goto("/docs/")
    for scheme, name in (("dark", "slate"), ("light", "default")):
        reader.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        reader.reload()
        expect(reader.locator("body")).to_have_attribute("data-md-color-scheme", name)
    reader.goto(_REFERENCE[0])
    reader.emulate_media(color_scheme="dark")
    expect(reader.locator("html")).to_have_class("dark-mode")


def test_an_operation_can_be_tried(reader: Page) -> None:
    reader.goto(_REFERENCE[0])
    reader.get_by_label("Filter by tag or path").fill("functions")
    reader.get_by_role("button", name=re.compile("getRandomInt Pick a random")).click()
    reader.get_by_role("button", name="Try it out").click()
    reader.get_by_role("button", name="Execute").click()
    expect(reader.locator(".live-responses-table .response-col_status").last).to_contain_text("200")


def test_no_page_has_an_accessibility_finding(reader: Page, npm: Path) -> None:
    axe = (npm / "axe-core" / "axe.min.js").read_text()
    for scheme, shown in (("light", [*_pages(), *_REFERENCE]), ("dark", [*_DARK, *_REFERENCE])):
        reader.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for path in shown:
            _open(reader, path)
            assert _findings(reader, axe) == [], f"{path}, {scheme}"


def test_a_phone_shows_every_page_without_scrolling_sideways(reader: Page, npm: Path) -> None:
    axe = (npm / "axe-core" / "axe.min.js").read_text()
    reader.set_viewport_size({"width": 390, "height": 844})
    for path in [*_pages(), *_REFERENCE]:
        _open(reader, path)
        assert reader.evaluate("document.documentElement.scrollWidth") == 390, path
        # Wide tables scroll within the page, by keyboard, too.
        if path in [*_WIDE_TABLES, *_REFERENCE]:
            assert _findings(reader, axe) == [], path


def _pages() -> list[str]:
    """Return the paths of all pages that are built of docs/."""
    pages = sorted(documents.BUILT.rglob("index.html"))
    paths = [f"/docs/{page.parent.relative_to(documents.BUILT).as_posix()}/" for page in pages]
    return [path.replace("/./", "/") for path in paths]


def _open(reader: Page, path: str) -> None:
    """Open a page; of the API reference, with an operation unfolded."""
    reader.goto(path)
    if path in _REFERENCE:
        reader.locator(".opblock-summary-control").nth(1).click()
        expect(reader.locator(".opblock-body .responses-table").first).to_be_visible()


def _findings(reader: Page, axe: str) -> list[Any]:
    """Return what axe finds on the page that is open."""
    reader.evaluate(axe)
    found = reader.evaluate("axe.run().then(({ violations }) => violations)")
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]
