"""The documents in a browser: their policy lets the search work, and everybody can use them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from crmhub.api import documents
from tests.console.conftest import Served

pytestmark = pytest.mark.databases("sqlite")
# Pages with code in each language, and in a link: in the dark, it is colours that differ.
_DARK = [
    "/docs/",
    "/docs/integrator/paging/",
    "/docs/integrator/python/",
    "/docs/builders/",
    "/docs/operator/backup/",
    "/docs/operator/proxy/",
    "/docs/adapters/",
]
_WIDE_TABLES = ["/docs/scaling/", "/docs/operator/metrics/"]
_DESKTOP, _PHONE = ViewportSize(width=1280, height=720), ViewportSize(width=390, height=844)
# What passes is told by one element, and sounds, of which there are none, are not fetched.
_ALL = {"resultTypes": ["violations"], "preload": False}
_COLOURS = {**_ALL, "runOnly": ["color-contrast", "link-in-text-block"]}
# Colours change bit by bit, and so may be faint while they do.
_RUN = """(options) => Promise.allSettled(document.getAnimations().map((one) => one.finished))
  .then(() => axe.run(options))
  .then(({ violations }) => violations)"""
# Each page would have a worker read all pages for the search, which takes as long as the page.
_NO_SEARCH = "window.Worker = class extends EventTarget { postMessage() {} terminate() {} }"


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
    for scheme, behind in (("dark", "rgb(20, 25, 31)"), ("light", "rgb(255, 255, 255)")):
        reader.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        expect(reader.locator("body")).to_have_css("background-color", behind)


def test_every_page_has_no_accessibility_finding_and_fits_a_phone(reader: Page, npm: Path) -> None:
    axe = _axe(npm)
    reader.add_init_script(_NO_SEARCH)
    for path in _pages():
        reader.set_viewport_size(_DESKTOP)
        reader.goto(path)
        reader.evaluate(axe)
        assert _findings(reader) == [], path
        reader.set_viewport_size(_PHONE)
        assert reader.evaluate("document.documentElement.scrollWidth") == 390, path
        if path in _WIDE_TABLES:
            # They scroll within the page, by keyboard, too.
            expect(reader.locator(".md-typeset__scrollwrap[tabindex]").first).to_be_attached()
            assert _findings(reader) == [], f"{path}, phone"


def test_no_page_is_faint_in_the_dark(reader: Page, npm: Path) -> None:
    axe = _axe(npm)
    reader.add_init_script(_NO_SEARCH)
    reader.emulate_media(color_scheme="dark")
    for path in _DARK:
        reader.goto(path)
        reader.evaluate(axe)
        assert _findings(reader, _COLOURS) == [], path


def test_a_link_to_a_builder_opens_its_tab(reader: Page) -> None:
    reader.goto("/docs/builders/#n8n")
    expect(reader.get_by_role("heading", name="n8n", exact=False)).to_be_in_viewport()
    expect(reader.locator("#manychat")).to_be_hidden()
    reader.locator(".md-nav--secondary").get_by_role("link", name="Manychat").click()
    expect(reader.locator("#manychat")).to_be_in_viewport()
    expect(reader.locator("#n8n")).to_be_hidden()


def test_without_javascript_all_builders_can_be_read(browser: Browser, served: Served) -> None:
    context = browser.new_context(java_script_enabled=False, base_url=served.url)
    page = context.new_page()
    page.goto("/docs/builders/")
    for name in ("manychat", "chatfuel", "botpress", "node-red"):
        expect(page.locator(f"#{name}")).to_be_visible()
    context.close()


def test_the_menu_of_the_reference_leads_to_a_sample_in_each_language(
    reader: Page, served: Served
) -> None:
    reader.goto("/docs/api/public/")
    menu = reader.get_by_role("navigation", name="Operations")
    menu.get_by_text("contacts", exact=True).click()
    menu.get_by_role("link", name="createContact", exact=True).click()
    expect(reader.locator("#operations-contacts-createContact")).to_be_in_viewport()
    sample = reader.locator(".samples")
    for language, words in (
        ("curl", "curl "),
        ("Python", "requests.post("),
        ("TypeScript", "await fetch("),
    ):
        sample.get_by_role("button", name=language).click()
        expect(sample.locator("pre")).to_contain_text(words)
        expect(sample.locator("pre")).to_contain_text(f"{served.url}/demo/api/v1/contacts")


@pytest.mark.parametrize(
    ("path", "tried"),
    [("/docs/api/public/", "getRandomInt Pick a random"), ("/docs/api/admin/", None)],
)
def test_everybody_can_use_a_reference_and_try_its_operations(
    reader: Page, npm: Path, path: str, tried: str | None
) -> None:
    # All in one visit: such a page takes seconds to build itself.
    reader.goto(path)
    reader.locator(".opblock-summary-control").nth(1).click()
    expect(reader.locator(".opblock-body .responses-table").first).to_be_visible()
    reader.evaluate(_axe(npm))
    assert _findings(reader) == []
    reader.set_viewport_size(_PHONE)
    assert reader.evaluate("document.documentElement.scrollWidth") == 390
    assert _findings(reader) == []
    reader.set_viewport_size(_DESKTOP)
    reader.emulate_media(color_scheme="dark")
    expect(reader.locator("html")).to_have_class("dark-mode")
    assert _findings(reader, _COLOURS) == []
    if tried:
        reader.get_by_label("Filter by tag or path").fill("functions")
        reader.get_by_role("button", name=re.compile(tried)).click()
        reader.get_by_role("button", name="Try it out").click()
        reader.get_by_role("button", name="Execute").click()
        status = reader.locator(".live-responses-table .response-col_status").last
        expect(status).to_contain_text("200")


def _pages() -> list[str]:
    """Return the paths of all pages that are built of docs/."""
    pages = sorted(documents.BUILT.rglob("index.html"))
    paths = [f"/docs/{page.parent.relative_to(documents.BUILT).as_posix()}/" for page in pages]
    return [path.replace("/./", "/") for path in paths]


def _axe(npm: Path) -> str:
    """Return the script that defines `axe`."""
    return (npm / "axe-core" / "axe.min.js").read_text()


def _findings(reader: Page, options: Mapping[str, Any] = _ALL) -> list[Any]:
    """Return what axe finds on the page that is open, where it has been loaded."""
    found = reader.evaluate(_RUN, options)
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]
