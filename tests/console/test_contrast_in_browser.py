"""Every text, button and link of the console can be read, light and dark, desktop and phone.

No page has two main buttons.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.console.contrast import faint_in_any_look, faint_texts
from tests.console.screenshots import Camera, photograph, sampled
from tests.depth import thorough

pytestmark = [pytest.mark.databases("sqlite"), pytest.mark.browser]

PAGE = """<style>body {{ background: #fff; color: #1f2733 }} .panel {{ background: #eee }}
{style}</style><div class="panel"><p>Read me</p><a href="#">Next</a>
<button>Connect</button></div>"""


def test_an_invisible_button_or_link_is_found(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(PAGE.format(style=""))
    assert faint_texts(page) == []
    for style, count in (
        ("button { color: #fff; background: transparent; }", 1),
        ("button { opacity: 0.1; }", 1),
        ("a { color: #999; }", 1),
        ("a { color: #eee; } p { color: #ddd; }", 2),
        # Large text may be fainter.
        ("a { color: #777; font-size: 24px; }", 0),
    ):
        page.set_content(PAGE.format(style=style))
        assert len(faint_texts(page)) == count, style
    page.close()


@thorough
def test_no_page_has_an_invisible_button_or_link_or_two_main_buttons(
    browser: Browser, tmp_path: Path
) -> None:
    found: list[str] = []

    def measure(name: str, camera: Camera) -> None:
        found.extend(f"{name}: {faint}" for faint in faint_in_any_look(camera.page))
        main_buttons = camera.page.locator(".btn-primary:visible").all_inner_texts()
        if len(main_buttons) > 1:
            found.append(f"{name}: {main_buttons}")

    with sampled() as (url, names):
        context = browser.new_context(base_url=url, color_scheme="light")
        camera = Camera(context.new_page(), tmp_path, "test", look=measure)
        photograph(camera, names)
        context.close()
    assert found == []
