"""Both themes: one file names every colour, each of them in light and in dark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import crmhub.console

pytestmark = pytest.mark.databases("sqlite")

STATIC = Path(crmhub.console.__file__).parent / "static"
COLOUR = re.compile(r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl)a?\(|:\s*(?:white|black)\b", re.IGNORECASE)


def test_only_the_theme_names_colours():
    """A colour elsewhere would stay as it is in the dark."""
    for sheet in STATIC.glob("*.css"):
        if sheet.name != "theme.css":
            text = re.sub(r"/\*.*?\*/", "", sheet.read_text(), flags=re.DOTALL)
            assert COLOUR.findall(text) == [], sheet.name


def test_each_colour_is_named_for_the_dark_too():
    light, _, dark = (STATIC / "theme.css").read_text().partition("@media screen")
    names = [set(re.findall(r"^\s+(--[\w-]+):", part, re.MULTILINE)) for part in (light, dark)]
    assert names[0] - names[1] == {"--on-accent"}, "white on the accent in both"
    used = set(re.findall(r"var\((--[\w-]+)\)", (STATIC / "console.css").read_text()))
    assert used - names[0] == {"--is"}


def test_a_page_says_that_it_has_both_themes_before_its_styles_load(operator):
    text = operator.get("/accounts").text
    assert text.index('<meta name="color-scheme" content="light dark">') < text.index("theme.css")
