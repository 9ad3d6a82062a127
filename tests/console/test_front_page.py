"""The page at `/`: for people with links that work, for programs the JSON of an unknown path."""

from __future__ import annotations

import re

import pytest

from crmhub import __version__
from tests.api.refusals import refused
from tests.consoles import BROWSER, text_of

pytestmark = pytest.mark.databases("sqlite")


def test_a_browser_gets_a_page_whose_links_work(app):
    http = app.test_client()
    answer = http.get("/", headers=BROWSER)
    assert answer.status_code == 200
    assert "crmhub connects chatbots and integrations" in text_of(answer)
    assert __version__ in text_of(answer)
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "Accept" in answer.headers["Vary"]
    links = set(re.findall(r'(?:href|src)="(/[^"]*)"', answer.text))
    assert {"/console", "/docs", "/healthz", "/readyz", "/openapi.json"} <= links
    for link in links:
        with http.get(link, headers=BROWSER, follow_redirects=True) as followed:
            assert followed.status_code == 200, link


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
def test_a_program_gets_json(app, accept):
    answer = app.test_client().get("/", headers={"Accept": accept})
    assert (
        refused(answer, 404) == "There is nothing at this path; /openapi.json lists what there is."
    )


def test_the_page_takes_no_form(app):
    refused(app.test_client().post("/", headers=BROWSER), 405)
